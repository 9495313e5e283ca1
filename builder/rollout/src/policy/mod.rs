//! The policy of a pool: which machines get an image before which others, when, and what must be healthy
//! before it goes on. Pure.
//!
//! Input: the policy that the MachineOSConfig names, and what is recorded of its machines. Output: what
//! holds a machine back, and what is recorded next. Invariant: a machine of a ring gets no slot, and is not
//! changed without one, before each machine of all rings before has its target confirmed; none gets a slot
//! outside the windows; none gets a target that failed. Without a policy, nothing is held back, and a
//! machine is confirmed once it runs the target and is Ready.
//!
//! | file | does |
//! | --- | --- |
//! | `rings`, `windows` | who is before whom, and when |
//! | `gates` | what holds a machine back |
//! | `block_on` | alerts and pods that hold it back |
//! | `health` | the checks of one machine |
//! | `soak` | what is recorded of a machine that runs the target: soaking, confirmed or failed |
//! | `failed_target` | what failed on too many machines, and machines that are brought back |

mod block_on;
mod failed_target;
mod gates;
mod health;
mod rings;
mod soak;
mod windows;

pub(super) use failed_target::{back_to, bring_back_jobs};
pub(super) use gates::Gates;
pub use health::{CheckedPod, CheckedPods};
pub(super) use rings::Rings;
pub(super) use soak::{SoakPlan, SoakStep};

use super::context::Context;
use super::machine_state::MachineState;
use super::slots::MAX_FAILED;
use mosb_api::cluster_settings::{RingMembers, RolloutPolicy};
use mosb_api::{ClusterSettings, Metadata, labels};

/// How many names of policies a message has.
const MAX_NAMES: usize = 10;

/// The policy of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum PoolPolicy {
    #[default]
    None,
    Named {
        name: String,
        policy: Box<RolloutPolicy>,
    },
    /// Why there is none although the MachineOSConfig names one: no machine begins.
    Invalid(String),
}

impl PoolPolicy {
    /// The one that a MachineOSConfig names. `settings`: or why they can't be read.
    pub fn of(config: &Metadata, settings: Result<&ClusterSettings, &str>) -> Self {
        let Some(name) = config.annotation(labels::ROLLOUT_POLICY) else {
            return Self::None;
        };
        let policies = match settings {
            Ok(settings) => &settings.rollout_policies,
            Err(problem) => return Self::Invalid(problem.to_owned()),
        };
        if let Some(policy) = policies.get(name) {
            return Self::Named { name: name.to_owned(), policy: Box::new(policy.clone()) };
        }
        let name: String = name.chars().take(100).collect();
        let names: Vec<&String> = policies.keys().collect();
        let remedy = if names.is_empty() {
            "add it there".to_owned()
        } else {
            let names = mosb_cluster::name_list::name_list(&names, MAX_NAMES);
            format!("add it there, or name one of {names}")
        };
        Self::Invalid(format!(
            "annotation {} of machineosconfig {}: {name:?} is not in rolloutPolicies of ConfigMap mosb-config; {remedy}",
            labels::ROLLOUT_POLICY,
            config.name
        ))
    }
}

impl<'a> Context<'a> {
    /// The policy of the pool, if it has a valid one.
    pub fn policy(&self) -> Option<&'a RolloutPolicy> {
        match &self.snapshot.policy {
            PoolPolicy::Named { policy, .. } => Some(policy),
            PoolPolicy::None | PoolPolicy::Invalid(_) => None,
        }
    }

    pub(in crate::policy) fn policy_name(&self) -> &'a str {
        match &self.snapshot.policy {
            PoolPolicy::Named { name, .. } => name,
            PoolPolicy::None | PoolPolicy::Invalid(_) => "",
        }
    }

    /// Why no machine begins, because of the policy.
    pub fn policy_error(&self) -> Option<String> {
        let policy = match &self.snapshot.policy {
            PoolPolicy::None => return None,
            PoolPolicy::Invalid(message) => return Some(message.clone()),
            PoolPolicy::Named { policy, .. } => policy,
        };
        // The next ring would begin at once, although nothing was tried.
        let is_empty = |(number, members): (usize, &usize)| {
            let ring = policy.rings.get(number)?;
            (*members == 0 && matches!(ring.members, RingMembers::Selected(_))).then_some(number)
        };
        let ring = self.rings.members().iter().enumerate().find_map(is_empty)? + 1;
        Some(format!(
            "ring {ring} of policy {} selects no machine that is in no earlier ring; correct its selector or the labels of the nodes, or remove the ring",
            self.policy_name()
        ))
    }

    /// The ring of a machine, from 0; 0 without a policy.
    pub fn ring_of(&self, state: &MachineState<'_>) -> usize {
        self.rings.of(state.name())
    }

    /// How many machines may have failed until no other one begins.
    pub fn max_failed(&self) -> usize {
        self.policy().map_or(MAX_FAILED, |policy| usize::from(policy.max_failures.get()) - 1)
    }

    /// Whether a machine does not get the target now, or never, because it failed there before.
    pub fn is_kept_from_target(&self, state: &MachineState<'_>) -> bool {
        self.is_held_back(state) || self.soak_failure(state).is_some()
    }
}
