//! Which machines get an image before which others. Pure.
//!
//! Invariant: a machine is in exactly one ring, which depends on no order of reports; others that join the
//! pool never move it into a later one, because those that join are the newest.

use std::collections::BTreeMap;

use mosb_api::Metadata;
use mosb_api::cluster_settings::{Ring, RingMembers};

/// The rings of a pool, from 0. The last one has the machines of no other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rings<'a> {
    /// By name of the machine.
    of: BTreeMap<&'a str, usize>,
    members: Vec<usize>,
}

impl<'a> Rings<'a> {
    pub fn new(rings: &[Ring], nodes: impl Iterator<Item = &'a Metadata>) -> Self {
        let mut left: Vec<&Metadata> = nodes.collect();
        let all = left.len();
        left.sort_by_key(|node| {
            let created = node.creation_timestamp.as_ref().map(|time| time.0);
            (created.is_none(), created, &*node.name)
        });
        let mut of = BTreeMap::new();
        let mut members = Vec::new();
        for (number, ring) in rings.iter().enumerate() {
            let mut places = match &ring.members {
                RingMembers::Selected(_) => all,
                RingMembers::Count(count) => usize::from(count.get()),
                RingMembers::Percent(percent) => (all * usize::from(*percent) / 100).max(1),
            };
            let is_member = |node: &&Metadata| {
                let takes = match &ring.members {
                    RingMembers::Selected(selector) => selector.matches(&node.labels),
                    RingMembers::Count(_) | RingMembers::Percent(_) => places > 0,
                };
                places -= usize::from(takes);
                takes
            };
            let (found, others): (Vec<&Metadata>, _) = left.into_iter().partition(is_member);
            members.push(found.len());
            of.extend(found.into_iter().map(|node| (&*node.name, number)));
            left = others;
        }
        members.push(left.len());
        of.extend(left.into_iter().map(|node| (&*node.name, rings.len())));
        Self { of, members }
    }

    /// The ring of the machine of this name.
    pub fn of(&self, name: &str) -> usize {
        self.of.get(name).copied().unwrap_or_default()
    }

    /// How many machines each ring has.
    pub fn members(&self) -> &[usize] {
        &self.members
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use mosb_api::ClusterSettings;
    use proptest::prelude::*;

    use super::*;

    fn node(name: &str, created: i64, label: &str) -> Metadata {
        Metadata {
            name: name.to_owned(),
            labels: BTreeMap::from([("ring".to_owned(), label.to_owned())]),
            creation_timestamp: Some(Time(Timestamp::from_second(created).unwrap())),
            ..Metadata::default()
        }
    }

    fn rings(text: &str) -> Vec<Ring> {
        let text = format!("rolloutPolicies: {{p: {{rings: [{text}]}}}}");
        ClusterSettings::parse(&text).unwrap().rollout_policies["p"].rings.clone()
    }

    /// The ring of each node, and how many each ring has.
    fn of(rings: &[Ring], nodes: &[Metadata]) -> (Vec<usize>, Vec<usize>) {
        let found = Rings::new(rings, nodes.iter());
        let of = nodes.iter().map(|node| found.of(&node.name));
        (of.collect(), found.members().to_vec())
    }

    #[test]
    fn machines_are_in_the_first_ring_that_takes_them() {
        let nodes: Vec<Metadata> = [("d", 9, "x"), ("a", 9, ""), ("b", 8, ""), ("c", 7, "x")]
            .map(|(name, created, label)| node(name, created, label))
            .into();
        let canary = "{selector: {matchLabels: {ring: x}}}";
        // The rings of d, a, b and c.
        for (what, text, want) in [
            ("no rings", String::new(), [0, 0, 0, 0]),
            ("a label", canary.to_owned(), [0, 1, 1, 0]),
            ("the oldest, then by name", "{count: 3}".to_owned(), [1, 0, 0, 0]),
            ("percent, rounded down", "{percent: 74}".to_owned(), [1, 1, 0, 0]),
            ("at least one", "{percent: 1}, {percent: 1}".to_owned(), [2, 2, 1, 0]),
            (
                "percent of all, not of those left",
                format!("{canary}, {{percent: 50}}"),
                [0, 1, 1, 0],
            ),
            ("more than there are", "{count: 9}, {count: 1}".to_owned(), [0, 0, 0, 0]),
        ] {
            assert_eq!(of(&rings(&text), &nodes).0, want, "{what}");
        }
        assert_eq!(of(&rings(canary), &nodes).1, [2, 2]);
    }

    proptest! {
        #[test]
        fn machines_that_join_move_none_to_later_rings(
            labels in prop::collection::vec("[xy]", 0..30),
            joined in prop::collection::vec("[xy]", 0..30),
        ) {
            let rings = rings("{count: 1}, {selector: {matchLabels: {ring: x}}}, {percent: 20}, {count: 3}");
            let nodes = |labels: &[String], first: usize| -> Vec<Metadata> {
                let nodes = labels.iter().enumerate();
                // Names say nothing about ages.
                nodes.map(|(at, label)| node(&format!("{}", 99 - at - first), i64::try_from(at + first).unwrap(), label)).collect()
            };
            let mut all = nodes(&labels, 0);
            let (before, _) = of(&rings, &all);
            all.extend(nodes(&joined, labels.len()));
            let (mut after, _) = of(&rings, &all);
            prop_assert!(before.iter().zip(&after).all(|(before, after)| after <= before));
            // Whatever order the cache has.
            all.reverse();
            after.reverse();
            prop_assert_eq!(of(&rings, &all).0, after);
        }
    }
}
