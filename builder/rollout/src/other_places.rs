//! Where the controller can run while its own node is away. Pure.
//!
//! Input: all nodes. Output: the other nodes that take the controller's pod, and why it can't run on
//! some of them now. A node that never takes such a pod does not count.

use std::collections::BTreeMap;

use mosb_api::labels;
use mosb_cluster::cluster_cache::SeenMachine;
use mosb_cluster::node_pool::has_control_plane_label;

/// Taints of control-plane nodes, which the controller tolerates if it runs on one.
const ROLE_TAINTS: &str = "node-role.kubernetes.io/";

/// The other nodes on which the controller could run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherPlaces {
    /// How many of them it can run on now.
    pub usable: usize,
    /// The others, with what is in the way.
    pub unusable: BTreeMap<String, String>,
}

impl OtherPlaces {
    /// A controller on a control-plane node needs another one, as `deploy/rollout` pins it; any other
    /// one runs on every node without a taint.
    pub fn of<'a>(own: Option<&str>, nodes: impl Iterator<Item = &'a SeenMachine> + Clone) -> Self {
        let is_own = |seen: &SeenMachine| own == Some(&*seen.metadata.name);
        let is_pinned = nodes
            .clone()
            .any(|seen| is_own(seen) && has_control_plane_label(&seen.metadata.labels));
        let takes_it = |seen: &SeenMachine| {
            let is_tolerated = |taint: &String| is_pinned && taint.starts_with(ROLE_TAINTS);
            (!is_pinned || has_control_plane_label(&seen.metadata.labels))
                && seen.taints.iter().all(is_tolerated)
                && !seen.metadata.is_being_deleted()
        };
        let mut places = Self::default();
        for seen in nodes.filter(|seen| !is_own(seen) && takes_it(seen)) {
            let has_slot = seen.metadata.annotation(labels::NODE_SLOT).is_some();
            let obstacle = seen.obstacle().map(|(what, _)| what);
            match obstacle {
                None => places.usable += 1,
                Some(what) => {
                    let what = if has_slot { "is being updated" } else { what };
                    places.unusable.insert(seen.metadata.name.clone(), what.to_owned());
                }
            }
        }
        places
    }

    /// Whether no other node takes the controller, whatever is done about it.
    pub fn is_none(&self) -> bool {
        self.usable == 0 && self.unusable.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, roles: &[&str], taints: &[&str]) -> SeenMachine {
        let mut seen = SeenMachine { ready: true, ..SeenMachine::default() };
        seen.metadata.name = name.to_owned();
        let labels = roles.iter().map(|role| (format!("{ROLE_TAINTS}{role}"), String::new()));
        seen.metadata.labels = labels.collect();
        seen.taints = taints.iter().map(|taint| (*taint).to_owned()).collect();
        seen
    }

    #[test]
    fn a_place_is_another_node_that_is_ready_and_takes_the_pod() {
        let control_plane = || node("b", &["control-plane"], &["node-role.kubernetes.io/etcd"]);
        let worker = || node("b", &[], &[]);
        let not_ready = |seen| SeenMachine { ready: false, ..seen };
        let cordoned = |seen| SeenMachine { unschedulable: true, ..seen };
        let with_slot = |mut seen: SeenMachine| {
            seen.metadata.annotations.insert(labels::NODE_SLOT.to_owned(), "{}".to_owned());
            seen
        };
        for (what, roles, other, want) in [
            ("a worker", &[][..], worker(), "usable"),
            ("a worker that is not Ready", &[], not_ready(worker()), "is not Ready"),
            ("a cordoned worker", &[], cordoned(worker()), "is cordoned, and not by mosb"),
            ("one that is updated", &[], with_slot(cordoned(worker())), "is being updated"),
            ("a tainted worker", &[], node("b", &[], &["example.com/gpu"]), "none"),
            ("a control-plane node for a worker's pod", &[], control_plane(), "none"),
            ("a control-plane node", &["master"], control_plane(), "usable"),
            ("a worker for a pinned pod", &["master"], worker(), "none"),
            ("a node of etcd alone", &["master"], node("b", &["etcd"], &[]), "none"),
        ] {
            let nodes = [node("a", roles, &[]), other];
            let found = OtherPlaces::of(Some("a"), nodes.iter());
            let text = match (found.usable, found.unusable.get("b")) {
                (1, None) => "usable",
                (0, Some(text)) => text,
                (0, None) => "none",
                _ => panic!("{what}: {found:?}"),
            };
            assert_eq!(text, want, "{what}");
            assert_eq!(found.is_none(), want == "none", "{what}");
        }
    }
}
