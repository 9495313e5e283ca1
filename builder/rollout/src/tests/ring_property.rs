//! A pool with a policy, after any sequence of waits, failures and kills: each slot and each reboot is
//! checked against the rules, which are written down here a second time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;

use super::fleet::*;
use super::rings::policy;
use super::stories::rolling;
use mosb_api::labels;
use mosb_api::rollout::ConfirmedTarget;
use mosb_image::PinnedRef;

const MACHINES: usize = 6;
/// The ring of each.
const RINGS: [usize; MACHINES] = [0, 1, 1, 2, 2, 2];
const POLICY: &str = "{rings: [{count: 1, soak: 40m}, {percent: 40}], soak: 10m,
    windows: [{from: '01:00', to: '05:00'}, {from: '23:00', to: '00:30'}],
    health: {nodeConditions: {Good: 'True'}, failAfter: 5m}}";

#[derive(Debug, Clone)]
enum Deed {
    Wait(u64),
    Good(usize, bool),
    Ready(usize, bool),
    Cordon(usize, bool),
    Serve,
    /// The controller is killed after so many writes.
    Kill(usize),
    Settle,
}

fn deed() -> impl Strategy<Value = Deed> {
    let machine = || 0..MACHINES;
    prop_oneof![
        6 => (1u64..90).prop_map(Deed::Wait),
        2 => (machine(), any::<bool>()).prop_map(|(at, is)| Deed::Good(at, is)),
        1 => (machine(), any::<bool>()).prop_map(|(at, is)| Deed::Ready(at, is)),
        1 => (machine(), any::<bool>()).prop_map(|(at, is)| Deed::Cordon(at, is)),
        1 => Just(Deed::Serve),
        3 => (0usize..6).prop_map(Deed::Kill),
        4 => Just(Deed::Settle),
    ]
}

fn name(at: usize) -> String {
    format!("w{at}")
}

/// What the rules were checked against.
struct Watched {
    fleet: Fleet,
    served: u32,
    /// Slots by UID of the machine and image, apart from those that brought it back.
    brought_back: BTreeMap<(String, PinnedRef), usize>,
}

impl Watched {
    fn has_confirmed(&self, at: usize, wanted: &PinnedRef) -> bool {
        let text = self.fleet.nodes[&name(at)].machine.metadata.annotation(labels::NODE_CONFIRMED);
        text.is_some_and(|text| {
            serde_json::from_str::<ConfirmedTarget>(text).unwrap().target.image == *wanted
        })
    }

    fn slots(&self) -> BTreeSet<usize> {
        let has_slot = |at: &usize| self.fleet.nodes[&name(*at)].slot().is_some();
        (0..MACHINES).filter(has_slot).collect()
    }

    /// A pass that is killed after so many writes, and then what machines do.
    fn pass(&mut self, most: usize) {
        let before = self.slots();
        let had: BTreeMap<usize, Vec<bool>> = (0..MACHINES)
            .map(|at| {
                let wanted = image(self.served);
                (at, (0..MACHINES).map(|other| self.has_confirmed(other, &wanted)).collect())
            })
            .collect();
        self.fleet.pass("worker", most);
        let time = self.fleet.now.to_zoned(TimeZone::UTC).time();
        let (hour, minute) = (time.hour(), time.minute());
        let is_open = (1..5).contains(&hour) || hour == 23 || hour == 0 && minute < 30;
        for at in self.slots().difference(&before) {
            let node = &self.fleet.nodes[&name(*at)];
            let target = node.slot().unwrap().target.image;
            assert!(is_open, "a slot outside the windows at {}", self.fleet.now);
            if target == image(self.served) {
                let earlier = (0..MACHINES).filter(|other| RINGS[*other] < RINGS[*at]);
                for other in earlier {
                    assert!(had[at][other], "w{at} before w{other} is confirmed");
                }
            } else {
                let key = (node.machine.metadata.uid().to_owned(), target);
                *self.brought_back.entry(key).or_default() += 1;
            }
        }
        self.fleet.run_jobs();
        self.fleet.end_pods();
        self.fleet.boot_all();
        let mut reboots: BTreeMap<(String, PinnedRef), usize> = BTreeMap::new();
        for key in self.fleet.reboots.keys() {
            let (uid, rest) = key.split_once(' ').unwrap();
            let target = serde_json::Deserializer::from_str(rest)
                .into_iter::<mosb_api::rollout::NodeTarget>()
                .next();
            *reboots.entry((uid.to_owned(), target.unwrap().unwrap().image)).or_default() += 1;
        }
        for (key, count) in reboots {
            let most = 1 + self.brought_back.get(&key).copied().unwrap_or_default();
            assert!(count <= most, "{count} reboots into {}", key.1);
        }
    }

    fn settle(&mut self, passes: usize) {
        for _ in 0..passes {
            self.pass(usize::MAX);
            self.fleet.wait(Duration::from_secs(10));
        }
    }

    fn happen(&mut self, deed: &Deed) {
        match deed {
            Deed::Wait(minutes) => self.fleet.wait(Duration::from_secs(minutes * 60)),
            Deed::Good(at, is) => {
                let status = if *is { "True" } else { "False" };
                let node = self.fleet.node(&name(*at));
                node.machine.conditions.insert("Good".to_owned(), status.to_owned());
            }
            Deed::Ready(at, is) => {
                let node = self.fleet.node(&name(*at));
                node.machine.ready = *is && !node.is_down;
            }
            Deed::Cordon(at, is) => {
                let node = self.fleet.node(&name(*at));
                if node.slot().is_none() {
                    (node.machine.unschedulable, node.is_cordoned_by_hand) = (*is, *is);
                }
            }
            Deed::Serve => {
                self.served += 1;
                self.fleet.serve("worker", self.served);
            }
            Deed::Kill(writes) => {
                self.pass(*writes);
                self.fleet.drains.clear();
                self.fleet.checked_pods.clear();
            }
            Deed::Settle => self.settle(8),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_ring_window_or_image_is_passed_over(
        deeds in prop::collection::vec(deed(), 0..25),
        max in 1i32..4,
    ) {
        let mut fleet = rolling(MACHINES, "automatic");
        fleet.max_unavailable(IntOrString::Int(max));
        fleet.policies.insert("worker".to_owned(), policy(POLICY));
        let mut watched = Watched { fleet, served: 2, brought_back: BTreeMap::new() };
        for at in 0..MACHINES {
            watched.happen(&Deed::Good(at, true));
        }
        for deed in &deeds {
            watched.happen(deed);
        }
        // Then a corrected image comes into service, and all machines are healthy.
        for at in 0..MACHINES {
            for deed in [Deed::Good(at, true), Deed::Ready(at, true), Deed::Cordon(at, false)] {
                watched.happen(&deed);
            }
        }
        watched.happen(&Deed::Serve);
        // A window has time for a machine or two an hour.
        for _ in 0..72 {
            watched.settle(6);
            watched.happen(&Deed::Wait(60));
        }
        let newest = image(watched.served);
        let status = &watched.fleet.pools["worker"].status;
        prop_assert!((0..MACHINES).all(|at| watched.has_confirmed(at, &newest)), "{status:#?}");
        prop_assert!(watched.slots().is_empty());
        watched.fleet.asked.clear();
        let idle = watched.fleet.decide("worker");
        prop_assert!(idle.actions.is_empty() && watched.fleet.asked.is_empty(), "{idle:?}");
    }
}
