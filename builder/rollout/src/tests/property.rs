//! Any events in any order, in two pools with control-plane machines, and the controller killed after
//! any write: the limits hold, a paused pool gets no slot, and it ends once all machines are healthy.
//! What is checked of each write is in `server`.

use proptest::prelude::*;

use super::fleet::*;
use super::machine::FakeNode;
use crate::*;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mosb_api::labels;
use std::time::Duration;

/// What a user, the cluster or chance does; to this pool, or to its machines.
#[derive(Debug, Clone)]
enum Deed {
    Serve(u32),
    /// An image, and the kernel arguments and keys of a config of it.
    ServePart(u32, u32, u32),
    /// A build whose image comes live from that of another one.
    ServeLive(u32, u32),
    Mode(&'static str),
    SoftReboot(&'static str),
    Pin(Option<u32>),
    Pause(bool),
    MaxUnavailable(IntOrString),
    Registry(bool),
    Hold(usize, bool),
    CutPower(usize),
    Lose(usize, bool),
    NotBootable(usize, u32),
    FallsBack(usize, u32),
    Cordon(usize, bool),
    DeleteJob(prop::sample::Index),
    Join,
    Leave(usize),
    RunJobs,
    EndPods,
    Boot,
    Wait(u16),
    /// A pass of which this many actions are applied.
    Pass(u8),
    /// A delayed decision from some deeds ago.
    Late,
    Settle,
}

/// The pools, and how many machines they begin with.
const POOLS: [(&str, usize); 2] = [("worker", 4), ("infra", 3)];
const MOST_NODES: usize = 4;
const MOST_UNAVAILABLE: [&str; 5] = ["0%", "34%", "50%", "75%", "100%"];

/// A machine by its number.
fn name(pool: &str, number: usize) -> String {
    format!("{}{number}", &pool[..1])
}

fn pool() -> impl Strategy<Value = &'static str> {
    prop_oneof![2 => Just(POOLS[0].0), 1 => Just(POOLS[1].0)]
}

fn most_unavailable() -> impl Strategy<Value = IntOrString> {
    let percent = prop::sample::select(&MOST_UNAVAILABLE[..]);
    prop_oneof![
        (1i32..4).prop_map(IntOrString::Int),
        percent.prop_map(|percent| IntOrString::String(percent.to_owned())),
    ]
}

fn deed() -> impl Strategy<Value = Deed> {
    use Deed::*;
    let node = || 0..MOST_NODES;
    prop_oneof![
        2 => (1u32..4).prop_map(Serve),
        2 => (1u32..4, 0u32..3, 0u32..3).prop_map(|(of, arguments, keys)| ServePart(of, arguments, keys)),
        2 => (1u32..4, 1u32..4).prop_map(|(number, from)| ServeLive(number, from)),
        1 => prop::sample::select(&["none", "stage", "automatic", "automatic"][..]).prop_map(Mode),
        1 => prop::sample::select(&["auto", "off"][..]).prop_map(SoftReboot),
        1 => prop::option::of(0u32..4).prop_map(Pin),
        1 => any::<bool>().prop_map(Pause),
        1 => most_unavailable().prop_map(MaxUnavailable),
        1 => any::<bool>().prop_map(Registry),
        1 => (node(), any::<bool>()).prop_map(|(at, is)| Hold(at, is)),
        2 => node().prop_map(CutPower),
        1 => (node(), any::<bool>()).prop_map(|(at, is)| Lose(at, is)),
        1 => (node(), 1u32..4).prop_map(|(at, number)| NotBootable(at, number)),
        1 => (node(), 1u32..4).prop_map(|(at, number)| FallsBack(at, number)),
        1 => (node(), any::<bool>()).prop_map(|(at, is)| Cordon(at, is)),
        1 => any::<prop::sample::Index>().prop_map(DeleteJob),
        1 => Just(Join),
        1 => node().prop_map(Leave),
        8 => Just(RunJobs),
        6 => Just(EndPods),
        6 => Just(Boot),
        2 => (0u16..3000).prop_map(Wait),
        14 => (0u8..8).prop_map(Pass),
        2 => Just(Late),
        2 => Just(Settle),
    ]
}

/// `late` is the newest decision: one worker decides about all pools.
fn happen(fleet: &mut Fleet, pool: &str, deed: &Deed, late: &mut RolloutDecision) {
    match deed {
        Deed::Serve(number) => fleet.serve(pool, *number),
        Deed::ServePart(of, arguments, keys) => {
            // A config has one part.
            let number = 100 + 10 * of + 3 * arguments + keys;
            fleet.serve_part(pool, number, *of, part(*arguments, *keys));
        }
        Deed::ServeLive(number, from) => {
            // A build is compared with one image.
            fleet.serve_live(pool, 200 + 10 * number + from, *from);
        }
        Deed::Mode(mode) => fleet.annotate_of(pool, labels::ROLLOUT, mode),
        Deed::SoftReboot(mode) => fleet.annotate_of(pool, labels::SOFT_REBOOT, mode),
        Deed::Pin(number) => {
            let pin = number.map(|number| pin(number).to_string()).unwrap_or_default();
            fleet.annotate_of(pool, labels::ROLLOUT_BUILD, &pin);
        }
        Deed::Pause(is) => {
            fleet.pool_of(pool).spec.paused = *is;
            // A decision about the pool as it was is rejected only for writes of the pool itself.
            *late = fleet.decide(pool);
        }
        Deed::MaxUnavailable(most) => {
            fleet.pool_of(pool).spec.max_unavailable = Some(most.clone());
            *late = fleet.decide(pool);
        }
        Deed::Registry(is_down) => fleet.is_registry_down = *is_down,
        Deed::Join => {
            let name = name(pool, fleet.nodes.len() + 10);
            if fleet.nodes.len() < 10 && !fleet.nodes.contains_key(&name) {
                fleet.add_node(&name, pool, 1);
                *late = fleet.decide(pool);
            }
        }
        Deed::RunJobs => fleet.run_jobs(),
        Deed::EndPods => fleet.end_pods(),
        Deed::Boot => fleet.boot_all(),
        Deed::Wait(seconds) => fleet.wait(Duration::from_secs(u64::from(*seconds))),
        Deed::Pass(most) => *late = fleet.pass(pool, usize::from(*most)),
        Deed::Late => {
            for action in &std::mem::take(&mut late.actions) {
                // Evictions of a node that lost its slot are the API server's to refuse.
                if matches!(action, Action::Effect(RolloutEffect::Evict(_)))
                    || fleet.apply(action).is_none()
                {
                    break;
                }
            }
        }
        Deed::Settle => {
            fleet.settle();
            *late = fleet.decide(pool);
        }
        Deed::DeleteJob(at) => {
            let names: Vec<String> = fleet.jobs.keys().cloned().collect();
            if !names.is_empty() {
                fleet.jobs.remove(at.get(&names));
            }
        }
        Deed::Hold(at, _)
        | Deed::CutPower(at)
        | Deed::Lose(at, _)
        | Deed::NotBootable(at, _)
        | Deed::FallsBack(at, _)
        | Deed::Cordon(at, _)
        | Deed::Leave(at) => {
            let name = name(pool, *at);
            if fleet.nodes.contains_key(&name) {
                happen_to(fleet, deed, &name);
                *late = fleet.decide(pool);
            }
        }
    }
}

fn happen_to(fleet: &mut Fleet, deed: &Deed, name: &str) {
    let version = fleet.next_version();
    let node = fleet.node(name);
    node.machine.metadata.resource_version = Some(version);
    match deed {
        Deed::Hold(_, true) => _ = node.held.insert("db".to_owned()),
        Deed::Hold(_, false) => node.held.clear(),
        Deed::CutPower(_) => node.cut_power(),
        Deed::Lose(_, is) => node.is_lost = *is,
        Deed::NotBootable(_, number) => _ = node.not_bootable.insert(image(*number).digest()),
        Deed::FallsBack(_, number) => _ = node.falls_back.insert(image(*number).digest()),
        Deed::Cordon(_, is) if node.slot().is_none() => {
            node.machine.unschedulable = *is;
            node.is_cordoned_by_hand = *is;
        }
        Deed::Leave(_) => _ = fleet.nodes.remove(name),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_ends_with_the_newest_image_from_everywhere(
        deeds in prop::collection::vec((pool(), deed()), 0..80),
        control_plane in prop::collection::btree_set((pool(), 0..MOST_NODES), 0..4),
    ) {
        let mut fleet = Fleet::new(0);
        fleet.add_pool("infra");
        for (pool, machines) in POOLS {
            fleet.annotate_of(pool, labels::ROLLOUT, "automatic");
            for number in 0..machines {
                fleet.add_node(&name(pool, number), pool, 1);
            }
        }
        for (pool, number) in control_plane {
            if fleet.nodes.contains_key(&name(pool, number)) {
                fleet.make_control_plane(&name(pool, number));
            }
        }
        let mut late = fleet.decide("worker");
        for (pool, deed) in &deeds {
            happen(&mut fleet, pool, deed, &mut late);
        }
        // Then a corrected image comes into service, and all machines are healthy.
        for (pool, _) in POOLS {
            fleet.annotate_of(pool, labels::ROLLOUT, "automatic");
            fleet.annotate_of(pool, labels::ROLLOUT_BUILD, "");
            fleet.pool_of(pool).spec.paused = false;
        }
        fleet.is_registry_down = false;
        for node in fleet.nodes.values_mut() {
            node.held.clear();
            node.is_lost = false;
            if node.is_cordoned_by_hand {
                node.is_cordoned_by_hand = false;
                node.machine.unschedulable = false;
            }
        }
        let end = |fleet: &mut Fleet| for _ in 0..12 {
            fleet.settle();
            fleet.wait(Duration::from_secs(601));
        };
        let serve_part = |fleet: &mut Fleet, number, part| for (pool, _) in POOLS {
            fleet.serve_part(pool, number, 5, part);
        };
        let status = |fleet: &Fleet| {
            fleet.pools.values().map(|pool| pool.status.clone()).collect::<Vec<_>>()
        };
        let has = |fleet: &Fleet, part| members(fleet).all(|node| {
            (node.part, node.arguments) == (Some(part), arguments_of(part))
        });
        let has_files = |fleet: &Fleet, number| {
            members(fleet).all(|node| node.files == image(number).digest())
        };
        serve_part(&mut fleet, 5, part(2, 7));
        end(&mut fleet);
        prop_assert!(has(&fleet, part(2, 7)), "{:#?}", status(&fleet));
        // Keys alone reboot nothing.
        let reboots = fleet.reboots.len();
        serve_part(&mut fleet, 6, part(2, 8));
        end(&mut fleet);
        prop_assert!(has(&fleet, part(2, 8)), "{:#?}", status(&fleet));
        prop_assert_eq!(fleet.reboots.len(), reboots);
        prop_assert!(has_files(&fleet, 5));
        // Files that come live and go back as well.
        for (pool, _) in POOLS {
            fleet.serve_live(pool, 7, 5);
        }
        end(&mut fleet);
        prop_assert!(has_files(&fleet, 7), "{:#?}", status(&fleet));
        serve_part(&mut fleet, 6, part(2, 8));
        end(&mut fleet);
        prop_assert!(has_files(&fleet, 5), "{:#?}", status(&fleet));
        prop_assert_eq!(fleet.reboots.len(), reboots);
        let newest = image(5).digest();
        prop_assert!(members(&fleet).all(|node| node.booted == newest), "{:#?}", status(&fleet));
        prop_assert!(fleet.nodes.values().all(|node| node.slot().is_none() && !node.machine.unschedulable));
        prop_assert!(members(&fleet).all(|node| node.staged.is_none()));
        prop_assert!(fleet.jobs.values().all(|job| !fleet.nodes.contains_key(&job.node)));
        fleet.asked.clear();
        for (pool, _) in POOLS {
            let idle = fleet.decide(pool);
            prop_assert!(idle.actions.is_empty() && idle.requeue_after.is_none(), "{idle:?}");
        }
        prop_assert!(fleet.asked.is_empty(), "{:?}", fleet.asked);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// One machine falls back from the target each time; others go away whatever they do, without a
    /// slot, and come back.
    #[test]
    fn bad_machines_cost_the_others_nothing(
        fallen in 0usize..8,
        away in prop::collection::btree_map(0usize..8, 0usize..12, 0..6),
        is_new in any::<bool>(),
    ) {
        let mut fleet = Fleet::new(8);
        fleet.annotate(labels::ROLLOUT, "automatic");
        fleet.max_unavailable(IntOrString::String("100%".to_owned()));
        if !is_new {
            fleet.settle();
        }
        fleet.serve("worker", 2);
        let (digest, fallen) = (image(2).digest(), format!("w{fallen}"));
        fleet.node(&fallen).falls_back.insert(digest);
        for step in 0..12 {
            fleet.pass("worker", usize::MAX);
            for (number, _) in away.iter().filter(|(_, at)| **at == step) {
                let node = fleet.node(&format!("w{number}"));
                if node.slot().is_none() {
                    node.go_away();
                }
            }
            fleet.run_jobs();
            fleet.end_pods();
            fleet.boot_all();
        }
        for _ in 0..12 {
            fleet.settle();
            fleet.wait(Duration::from_secs(1801));
        }
        let status = fleet.pools["worker"].status.clone();
        let is_well = |node: &&FakeNode| {
            node.pool == "worker" && !node.is_lost && node.machine.metadata.name != fallen
        };
        prop_assert!(fleet.nodes.values().filter(is_well).all(|node| node.booted == digest), "{status:#?}");
        fleet.nodes.values_mut().for_each(|node| node.is_lost = false);
        for _ in 0..6 {
            fleet.settle();
            fleet.wait(Duration::from_secs(1801));
        }
        prop_assert!(fleet.nodes.values().filter(is_well).all(|node| node.booted == digest));
        let node = &fleet.nodes[&fallen];
        let uid = node.machine.metadata.uid();
        let reboots = fleet.reboots.keys().filter(|key| key.starts_with(&format!("{uid} "))).count();
        prop_assert_eq!((node.state(), reboots), ("Degraded", 1));
        prop_assert!(node.slot().is_none() && !node.machine.unschedulable);
    }
}

/// The machines of the pools.
fn members(fleet: &Fleet) -> impl Iterator<Item = &FakeNode> {
    fleet.nodes.values().filter(|node| fleet.pools.contains_key(&node.pool))
}
