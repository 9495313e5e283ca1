//! Which refused evictions are remembered from one pass to the next. Pure.

use std::collections::BTreeMap;

use super::snapshot::{Machine, Refusal};
use mosb_plan::api::labels;

/// Refused evictions by node.
pub type Refusals = BTreeMap<String, Vec<Refusal>>;

/// What is remembered after a pass. `pass` has each node on which pods were evicted, with those
/// that were refused; for the others the pass ended too early, so that what was refused before
/// still holds while they have a slot.
pub(super) fn after_pass(mut earlier: Refusals, pass: Refusals, machines: &[Machine]) -> Refusals {
    earlier.retain(|node, _| {
        let machine = machines.iter().find(|machine| machine.name() == node);
        machine.is_some_and(|one| one.metadata.annotation(labels::NODE_SLOT).is_some())
    });
    earlier.extend(pass);
    earlier.retain(|_, refused| !refused.is_empty());
    earlier
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_remembered_until_the_next_eviction_or_the_end_of_the_slot() {
        let machine = |name: &str, has_slot: bool| {
            let mut machine = Machine::default();
            machine.metadata.name = name.to_owned();
            if has_slot {
                machine.metadata.annotations.insert(labels::NODE_SLOT.to_owned(), "{}".to_owned());
            }
            machine
        };
        let refused = |pods: &[&str]| -> Vec<Refusal> {
            let refusal = |pod: &&str| Refusal {
                namespace: "n".to_owned(),
                pod: (*pod).to_owned(),
                message: "budget".to_owned(),
            };
            pods.iter().map(refusal).collect()
        };
        let of = |list: &[(&str, &[&str])]| -> Refusals {
            list.iter().map(|(node, pods)| ((*node).to_owned(), refused(pods))).collect()
        };
        let machines = [machine("a", true), machine("b", true), machine("c", false)];
        let earlier = of(&[("a", &["x"]), ("b", &["x"]), ("c", &["x"]), ("deleted", &["x"])]);
        for (what, pass, want) in [
            ("it ended before any eviction", of(&[]), of(&[("a", &["x"]), ("b", &["x"])])),
            ("another pod is held", of(&[("a", &["y"])]), of(&[("a", &["y"]), ("b", &["x"])])),
            ("nothing is held", of(&[("a", &[]), ("b", &[])]), of(&[])),
        ] {
            assert_eq!(after_pass(earlier.clone(), pass, &machines), want, "{what}");
        }
    }
}
