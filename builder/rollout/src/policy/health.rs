//! The health checks of one machine. Pure.

use std::time::Duration;

use jiff::Timestamp;

use crate::context::Context;
use crate::elapsed::elapsed;
use crate::lookup::RolloutLookup;
use crate::machine_state::MachineState;
use mosb_api::cluster_settings::{PodsCheck, RolloutPolicy};
use mosb_cluster::name_list::name_list;
use mosb_reconcile::Problem;
use mosb_reconcile::waits::POLICY_CHECK;

/// How many pods or checks a text names.
const MAX_NAMES: usize = 3;

/// A pod on a machine that a check selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedPod {
    /// `namespace/name`
    pub name: String,
    pub is_ready: bool,
    /// Its phase is `Succeeded` or `Failed`.
    pub has_ended: bool,
}

/// The pods that a check selects on a machine, and when they were listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedPods {
    pub at: Timestamp,
    pub found: Result<Vec<CheckedPod>, Problem>,
}

/// The result of all checks of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::policy) enum Health {
    Holds,
    Fails(String),
    /// It is not known whether they hold.
    Unknown(String),
    LookUp(Vec<RolloutLookup>),
}

/// Whether the checks of a policy hold on a machine, and when that is asked again.
pub(in crate::policy) fn health(
    ctx: &Context<'_>,
    state: &MachineState<'_>,
    policy: &RolloutPolicy,
) -> (Health, Option<Duration>) {
    if let Some(watch) = &ctx.snapshot.cluster.broken_watch {
        return (Health::Unknown(format!("the watch failed: {watch}")), None);
    }
    let node = &state.machine.node;
    if !node.ready {
        return (Health::Fails("it is not Ready".to_owned()), None);
    }
    let conditions = policy.health.node_conditions.iter().filter_map(|(kind, want)| {
        let found = node.conditions.get(kind).map(String::as_str);
        let what = found.unwrap_or("missing");
        (found != Some(want.as_str())).then(|| format!("its condition {kind} is {what}"))
    });
    let mut failures: Vec<String> = conditions.collect();
    let (mut unknown, mut lookups, mut again) = (None, Vec::new(), None::<Duration>);
    for check in &policy.health.pods {
        match pods(ctx, state.name(), check) {
            Err(lookup) => lookups.push(lookup),
            Ok((found, left)) => {
                again = again.into_iter().chain([left]).min();
                match found {
                    Ok(pods) => failures.extend(not_ready(pods, check)),
                    Err(problem) => unknown = Some(problem.message.clone()),
                }
            }
        }
    }
    let health = if !lookups.is_empty() {
        Health::LookUp(lookups)
    } else if !failures.is_empty() {
        Health::Fails(name_list(&failures, MAX_NAMES))
    } else {
        unknown.map_or(Health::Holds, Health::Unknown)
    };
    (health, again)
}

/// The pods that a check selects on a machine, and for how long they need not be listed again; or the
/// lookup that lists them.
pub(in crate::policy) fn pods<'a>(
    ctx: &Context<'a>,
    node: &str,
    check: &PodsCheck,
) -> Result<(Result<&'a [CheckedPod], &'a Problem>, Duration), RolloutLookup> {
    let key = (node.to_owned(), check.clone());
    let known = ctx.snapshot.lookup_results.checked_pods.get(&key);
    // A time that is yet to come is from before the clock was set.
    let fresh = known.filter(|known| known.at <= ctx.now).and_then(|known| {
        let left = POLICY_CHECK.checked_sub(elapsed(known.at, ctx.now))?;
        (!left.is_zero()).then_some((known.found.as_deref(), left))
    });
    fresh.ok_or(RolloutLookup::CheckedPods { node: key.0, check: key.1 })
}

fn not_ready(pods: &[CheckedPod], check: &PodsCheck) -> Option<String> {
    let names = pods.iter().filter(|pod| !pod.is_ready && !pod.has_ended);
    let names: Vec<&str> = names.map(|pod| &*pod.name).collect();
    if !names.is_empty() {
        return Some(format!("not Ready: {}", name_list(&names, MAX_NAMES)));
    }
    (!pods.iter().any(|pod| pod.is_ready)).then(|| format!("no pod {check} is on it"))
}
