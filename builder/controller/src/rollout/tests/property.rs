//! Any events in any order, and the controller killed after any write: the limits hold, a paused
//! pool gets no slot, and it ends once all machines are healthy.

use proptest::prelude::*;

use super::fleet::*;
use super::stories::running;
use crate::rollout::*;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mosb_plan::api::labels;
use std::time::Duration;

/// What a user, the cluster or chance does.
#[derive(Debug, Clone)]
enum Deed {
    Serve(u32),
    /// An image, and the kernel arguments and keys of a config of it.
    ServePart(u32, u32, u32),
    /// A build whose image comes live from that of another one.
    ServeLive(u32, u32),
    Mode(&'static str),
    Pin(Option<u32>),
    Pause(bool),
    MaxUnavailable(i32),
    Registry(bool),
    Hold(usize, bool),
    CutPower(usize),
    Lose(usize, bool),
    NotBootable(usize, u32),
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

const NODES: usize = 4;

fn deed() -> impl Strategy<Value = Deed> {
    use Deed::*;
    let node = || 0..NODES;
    prop_oneof![
        2 => (1u32..4).prop_map(Serve),
        2 => (1u32..4, 0u32..3, 0u32..3).prop_map(|(of, arguments, keys)| ServePart(of, arguments, keys)),
        2 => (1u32..4, 1u32..4).prop_map(|(number, from)| ServeLive(number, from)),
        1 => prop::sample::select(&["none", "stage", "automatic", "automatic"][..]).prop_map(Mode),
        1 => prop::option::of(0u32..4).prop_map(Pin),
        1 => any::<bool>().prop_map(Pause),
        1 => (1i32..4).prop_map(MaxUnavailable),
        1 => any::<bool>().prop_map(Registry),
        1 => (node(), any::<bool>()).prop_map(|(at, is)| Hold(at, is)),
        2 => node().prop_map(CutPower),
        1 => (node(), any::<bool>()).prop_map(|(at, is)| Lose(at, is)),
        1 => (node(), 1u32..4).prop_map(|(at, number)| NotBootable(at, number)),
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

fn happen(fleet: &mut Fleet, deed: &Deed, late: &mut RolloutDecision) {
    let name = |at: &usize| format!("w{at}");
    match deed {
        Deed::Serve(number) => fleet.serve("worker", *number),
        Deed::ServePart(of, arguments, keys) => {
            // A config has one part.
            let number = 100 + 10 * of + 3 * arguments + keys;
            fleet.serve_part("worker", number, *of, part(*arguments, *keys));
        }
        Deed::ServeLive(number, from) => {
            // A build is compared with one image.
            fleet.serve_live("worker", 200 + 10 * number + from, *from);
        }
        Deed::Mode(mode) => fleet.annotate(labels::ROLLOUT, mode),
        Deed::Pin(number) => {
            let pin = number.map(|number| pin(number).to_string()).unwrap_or_default();
            fleet.annotate(labels::ROLLOUT_BUILD, &pin);
        }
        Deed::Pause(is) => {
            fleet.pool().spec.paused = *is;
            // A decision about the pool as it was is rejected only for writes of the pool itself.
            *late = fleet.decide("worker");
        }
        Deed::MaxUnavailable(most) => {
            fleet.max_unavailable(IntOrString::Int(*most));
            *late = fleet.decide("worker");
        }
        Deed::Registry(is_down) => fleet.is_registry_down = *is_down,
        Deed::Join => {
            let name = format!("w{}", fleet.nodes.len() + 10);
            if fleet.nodes.len() < 7 && !fleet.nodes.contains_key(&name) {
                fleet.add_node(&name, "worker", 1);
                *late = fleet.decide("worker");
            }
        }
        Deed::RunJobs => fleet.run_jobs(),
        Deed::EndPods => fleet.end_pods(),
        Deed::Boot => fleet.boot_all(),
        Deed::Wait(seconds) => fleet.wait(Duration::from_secs(u64::from(*seconds))),
        Deed::Pass(most) => *late = fleet.pass("worker", usize::from(*most)),
        Deed::Late => {
            for action in &std::mem::take(&mut late.actions) {
                // Evictions of a node that lost its slot are the API server's to refuse.
                if matches!(action, crate::Action::Evict { .. }) || fleet.apply(action).is_none() {
                    break;
                }
            }
        }
        Deed::Settle => _ = fleet.settle(),
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
        | Deed::Cordon(at, _)
        | Deed::Leave(at) => {
            let name = name(at);
            if fleet.nodes.contains_key(&name) {
                happen_to(fleet, deed, &name);
                *late = fleet.decide("worker");
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
        Deed::Cordon(_, is) if node.slot().is_none() => {
            node.machine.unschedulable = *is;
            node.is_cordoned_by_hand = *is;
        }
        Deed::Leave(_) => _ = fleet.nodes.remove(name),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_ends_with_the_newest_image_from_everywhere(
        deeds in prop::collection::vec(deed(), 0..60),
    ) {
        let mut fleet = Fleet::new(NODES);
        fleet.annotate(labels::ROLLOUT, "automatic");
        let mut late = fleet.decide("worker");
        for deed in &deeds {
            happen(&mut fleet, deed, &mut late);
        }
        // Then a corrected image comes into service, and all machines are healthy.
        fleet.annotate(labels::ROLLOUT, "automatic");
        fleet.annotate(labels::ROLLOUT_BUILD, "");
        fleet.pool().spec.paused = false;
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
        let has = |fleet: &Fleet, part| fleet.nodes.values().filter(|node| node.pool == "worker").all(|node| {
            (node.part, node.arguments) == (Some(part), arguments_of(part))
        });
        fleet.serve_part("worker", 5, 5, part(2, 7));
        end(&mut fleet);
        prop_assert!(has(&fleet, part(2, 7)), "{:#?}", fleet.pools["worker"].status);
        // Keys alone reboot nothing.
        let reboots = fleet.reboots.len();
        fleet.serve_part("worker", 6, 5, part(2, 8));
        end(&mut fleet);
        prop_assert!(has(&fleet, part(2, 8)), "{:#?}", fleet.pools["worker"].status);
        prop_assert_eq!(fleet.reboots.len(), reboots);
        let has_files = |fleet: &Fleet, number| fleet.nodes.values().all(|node| {
            node.pool != "worker" || node.files == image(number).digest()
        });
        prop_assert!(has_files(&fleet, 5));
        // Files that come live and go back as well.
        fleet.serve_live("worker", 7, 5);
        end(&mut fleet);
        prop_assert!(has_files(&fleet, 7), "{:#?}", fleet.pools["worker"].status);
        fleet.serve_part("worker", 6, 5, part(2, 8));
        end(&mut fleet);
        prop_assert!(has_files(&fleet, 5), "{:#?}", fleet.pools["worker"].status);
        prop_assert_eq!(fleet.reboots.len(), reboots);
        let machines = fleet.nodes.values().filter(|node| node.pool == "worker").count();
        prop_assert_eq!(running(&fleet, 5), machines, "{:#?}", fleet.pools["worker"].status);
        prop_assert!(fleet.nodes.values().all(|node| node.slot().is_none() && !node.machine.unschedulable));
        prop_assert!(fleet.nodes.values().all(|node| node.pool != "worker" || node.staged.is_none()));
        prop_assert!(fleet.jobs.values().all(|job| !fleet.nodes.contains_key(&job.node)));
        fleet.asked.clear();
        let idle = fleet.decide("worker");
        prop_assert!(idle.actions.is_empty() && idle.requeue_after.is_none(), "{idle:?}");
        prop_assert!(fleet.asked.is_empty(), "{:?}", fleet.asked);
    }
}
