//! What must not be before a machine is drained: alerts that fire, and pods on the machine. Pure.
//!
//! What is not known counts as if it were.

use super::health::pods;
use crate::decide::Pass;
use crate::lookup::RolloutLookup;
use crate::slots::SlotCandidate;
use mosb_api::cluster_settings::AlertBlock;
use mosb_cluster::name_list::name_list;
use mosb_reconcile::waits::POLICY_CHECK;

/// How many alerts or pods a reason names.
const MAX_NAMES: usize = 5;
/// How many machines are asked about at once if the first ones are held.
const MORE_MACHINES: usize = 50;

impl Pass<'_> {
    /// Records which of the machines that are next must not be drained. `names`: those that would get a
    /// slot.
    pub fn hold_blocked(&mut self, names: &[String], candidates: &[SlotCandidate<'_>]) {
        let Some(block_on) = self.ctx.policy().map(|policy| &policy.block_on) else {
            return;
        };
        if names.is_empty() {
            return;
        }
        if let Some(alerts) = &block_on.alerts {
            let Some(why) = self.alerts(alerts) else {
                return;
            };
            if !why.is_empty() {
                let staged = candidates.iter().filter(|one| one.is_staged);
                self.held.extend(staged.map(|one| (one.name.to_owned(), why.clone())));
                return;
            }
        }
        if block_on.pods.is_empty() {
            return;
        }
        for name in names {
            self.hold_for_pods(name);
        }
        // Those that follow are asked about together, so that many held machines need few rounds.
        if !self.held.is_empty() && !self.lookups.is_empty() {
            let others = candidates.iter().filter(|one| one.is_staged && !one.has_slot);
            for one in others.take(MORE_MACHINES) {
                self.hold_for_pods(one.name);
            }
        }
    }

    /// Why no machine is drained because of alerts; empty if there is no reason, none while that is looked
    /// up.
    fn alerts(&mut self, alerts: &AlertBlock) -> Option<String> {
        let lookup = RolloutLookup::Alerts(alerts.clone());
        let results = &self.ctx.snapshot.lookup_results;
        let why = match results.alerts.get(alerts) {
            None if results.awaits(&lookup) => {
                format!("{} has not answered yet which alerts fire", alerts.prometheus)
            }
            None => {
                self.lookups.push(lookup);
                return None;
            }
            Some(Ok(firing)) if firing.is_empty() => String::new(),
            Some(Ok(firing)) => {
                let firing: Vec<&String> = firing.iter().collect();
                format!("alerts fire: {}", name_list(&firing, MAX_NAMES))
            }
            Some(Err(problem)) => format!("it is not known which alerts fire: {}", problem.message),
        };
        // No event shows that an alert ends. Until the next answer, this one counts.
        self.again(Some(POLICY_CHECK / 2).filter(|_| !why.is_empty()));
        Some(why)
    }

    /// Records whether a machine has pods that must end first.
    fn hold_for_pods(&mut self, node: &str) {
        let ctx = self.ctx;
        for check in ctx.policy().iter().flat_map(|policy| &policy.block_on.pods) {
            let (found, left) = match pods(ctx, node, check) {
                Ok(found) => found,
                Err(lookup) => {
                    if !self.lookups.contains(&lookup) {
                        self.lookups.push(lookup);
                    }
                    continue;
                }
            };
            let why = match found {
                Ok(pods) => {
                    let pods = pods.iter().filter(|pod| !pod.has_ended);
                    let pods: Vec<&str> = pods.map(|pod| &*pod.name).collect();
                    if pods.is_empty() {
                        continue;
                    }
                    format!("it waits for pods to end: {}", name_list(&pods, MAX_NAMES))
                }
                Err(problem) => format!("its pods are not known: {}", problem.message),
            };
            self.held.insert(node.to_owned(), why);
            self.again(Some(left));
        }
    }
}
