//! Why a roll-out begins nothing new, on all of its machines or on some. Pure.

use super::context::Context;
use super::desired_target::Desired;
use super::snapshot::{RefusedWrites, RolloutSnapshot};

const WRITE_REFUSED: &str = "WriteRefused";
const SHARED_NODES: &str = "SharedNodes";
/// The reasons that cost some machines only: the others go on.
pub(super) const OF_SOME_MACHINES: [&str; 2] = [WRITE_REFUSED, SHARED_NODES];
/// How many machines a message names.
const NAMED: usize = 3;

/// Why nothing new is begun: reason and message of the condition `RolloutDegraded`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blocked {
    /// One word for programs.
    pub reason: &'static str,
    pub message: String,
}

impl Blocked {
    /// What is known before any machine is considered.
    pub fn of(ctx: &Context<'_>) -> Option<Self> {
        let by_target = match ctx.desired {
            Desired::Invalid(error) => {
                Some(Self { reason: error.reason, message: error.message.clone() })
            }
            Desired::Unknown(problem) => {
                Some(Self { reason: "LookupFailed", message: problem.message.clone() })
            }
            Desired::Nothing | Desired::LookUp(_) | Desired::Pending | Desired::Target(_) => None,
        };
        by_target.or_else(|| unpinned_controller(ctx))
    }

    /// Nodes of two custom pools, which get nothing.
    pub fn by_shared_nodes(snapshot: &RolloutSnapshot) -> Option<Self> {
        let (node, pools) = snapshot.shared_nodes.iter().next()?;
        let more = snapshot.shared_nodes.len() - 1;
        let others = if more > 0 { format!(" and {more} others") } else { String::new() };
        let message = format!(
            "the other machines go on; node {node}{others}: selected by the pools {}, so it is of none of them; change the labels so that one is left",
            pools.join(", ")
        );
        Some(Self { reason: SHARED_NODES, message })
    }

    /// Writes that the API server refused in the last pass.
    pub fn by_refused(refused: &RefusedWrites) -> Option<Self> {
        let reason = WRITE_REFUSED;
        if let Some(text) = &refused.pool {
            return Some(Self { reason, message: text.clone() });
        }
        let texts = refused.of_machines();
        let texts: Vec<String> =
            texts.iter().map(|(machine, text)| format!("{machine}: {text}")).collect();
        let more = texts.len().saturating_sub(NAMED);
        let named = texts.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
        let more = if more > 0 { format!("; and {more} more machines") } else { String::new() };
        let message = format!("the other machines go on; {named}{more}");
        (!texts.is_empty()).then_some(Self { reason, message })
    }
}

/// Jobs on machines run the controller's own image, and are admitted by digest only.
fn unpinned_controller(ctx: &Context<'_>) -> Option<Blocked> {
    if ctx.is_off() || ctx.may_create_jobs() {
        return None;
    }
    let cause = match &*ctx.snapshot.cluster.own_image {
        "" => "the image of the controller is not known".to_owned(),
        image => format!("{image}: the digest of the controller's image is not known"),
    };
    let message = format!(
        "{cause}, so no Job on a machine would be admitted; name the image of the controller's Deployment by digest, or set MOSB_BUILDER_IMAGE there"
    );
    Some(Blocked { reason: "NoControllerDigest", message })
}
