//! When each step of a slot was seen, and the table of what took how long.
//!
//! In: the node and the pods of the roll-out at a moment; the machine's journal afterwards. Out:
//! consecutive parts, whose sum is the time from the slot to its end.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use mosb_tests::{Lab, Machine};

use crate::rollout_cluster::mark;

/// The parts of a slot, in order.
const PARTS: [&str; 8] =
    ["drain", "pod", "shutdown", "boot", "kubelet", "next pod", "report", "end"];

/// The parts that are mosb's own: the others are of the pods that are drained, and of the machine.
const OWN: [bool; PARTS.len()] = [false, true, false, false, false, true, true, true];
/// What the own parts may take, in seconds, on a machine that shuts down and boots in three seconds:
/// five times what they take. A busy machine takes longer for all parts.
const MOST_OWN: f64 = 30.0;
const MOST_OWN_PER_REBOOT: f64 = 10.0;

/// The steps of one slot, in seconds since 1970.
#[derive(Debug, Default)]
pub struct SlotTimes {
    node: String,
    boot_before: String,
    /// Pods that were there before the reboot.
    pods_before: BTreeSet<String>,
    /// The slot was given.
    slot: Option<f64>,
    /// The pod of the `apply` Job was created.
    pod: Option<f64>,
    /// PID 1 has ended, or another one runs.
    is_off: bool,
    /// The node is Ready in another boot.
    ready: Option<f64>,
    /// The pod that reports that boot was created.
    next_pod: Option<f64>,
    /// It ended well.
    report: Option<f64>,
    /// The slot is free.
    end: Option<f64>,
}

impl SlotTimes {
    /// What was seen of the node now. `running`: the boot that runs, if the machine is on.
    pub fn observe(&mut self, now: f64, node: &Value, pods: &[Value], running: Option<&str>) {
        let boot = node["status"]["nodeInfo"]["bootID"].as_str().unwrap_or_default();
        let has_slot = !mark(node, "mosb.dev/slot").is_empty();
        if self.slot.is_none() {
            if has_slot {
                self.slot = Some(now);
                self.node = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                self.boot_before = boot.to_owned();
            }
            return;
        }
        self.is_off |= running != Some(&self.boot_before);
        let seen = |moment: &mut Option<f64>, is: bool| {
            if is {
                moment.get_or_insert(now);
            }
        };
        let is_ready = boot != self.boot_before && mosb_tests::condition(node, "Ready");
        seen(&mut self.ready, is_ready);
        let own = pods.iter().filter(|pod| pod["spec"]["nodeName"] == self.node);
        for pod in own {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            if !self.is_off {
                self.pods_before.insert(name.to_owned());
                if pod["metadata"]["labels"]["mosb.dev/node-job"] == "apply" {
                    self.pod.get_or_insert(now);
                }
            } else if !self.pods_before.contains(name) {
                self.next_pod.get_or_insert(now);
                seen(&mut self.report, pod["status"]["phase"] == "Succeeded");
            }
        }
        seen(&mut self.end, !has_slot);
    }

    pub fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Seconds of each part. A step that was not seen, because it was short, came with the next. The
    /// machine is in the boot that ended the slot.
    fn parts(&self, machine: &Machine) -> [f64; PARTS.len()] {
        let end = self.end.unwrap_or_default();
        let later = |moment: Option<f64>, next: f64| moment.unwrap_or(next).min(next);
        let report = later(self.report, end);
        let next_pod = later(self.next_pod, report);
        let ready = later(self.ready, next_pod);
        let kubelet = later(journal(machine, "--boot=0 --unit=kubelet.service"), ready);
        let boot = later(modified(&machine.boot_id_file()), kubelet);
        let order = later(journal(machine, "--boot=-1 --unit=mosb-reboot.service"), boot);
        let pod = later(self.pod, order);
        let slot = later(self.slot, pod);
        let moments = [slot, pod, order, boot, kubelet, ready, next_pod, report, end];
        std::array::from_fn(|index| moments[index + 1] - moments[index])
    }
}

pub fn unix_time() -> f64 {
    seconds(SystemTime::now())
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// The firmware writes the file when it begins a boot.
fn modified(file: &Path) -> Option<f64> {
    Some(seconds(std::fs::metadata(file).ok()?.modified().ok()?))
}

/// Prints what took how long in each slot, and on average. Fails if mosb itself took too long in each
/// of them: one may have waited for the repair of its machine. The journals are those of the last
/// boots.
pub fn check(lab: &Lab, slots: &[SlotTimes]) {
    let head: Vec<String> = PARTS.iter().map(|part| format!("{part:>9}")).collect();
    println!("{:12}{}{:>9}  (seconds from the slot)", "machine", head.concat(), "all");
    let mut sums = [0.0; PARTS.len()];
    let mut is_quick = false;
    for slot in slots {
        let machine = lab.machines().iter().find(|machine| machine.name() == slot.node);
        let parts = slot.parts(machine.unwrap());
        let whole = slot.end.unwrap_or_default() - slot.slot.unwrap_or_default();
        let sum: f64 = parts.iter().sum();
        assert!((sum - whole).abs() < 0.001, "{}: {parts:?} in {whole} s", slot.node);
        assert!(parts.iter().all(|part| *part >= 0.0), "{}: {parts:?}", slot.node);
        sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        print_row(&slot.node, &parts);
        is_quick |= is_own_part_short(&parts);
    }
    print_row("on average", &sums.map(|sum| sum / slots.len() as f64));
    if !is_quick && is_busy() {
        println!("mosb took long in each slot, and so does all on this machine now");
        return;
    }
    // The controller of a lone machine reboots with it.
    assert!(is_quick || lab.machines().len() == 1, "mosb took too long in each slot, see above");
}

/// Whether more than four processes wait for each processor: then times say nothing of mosb.
fn is_busy() -> bool {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    let load: f64 = load.split(' ').next().unwrap().parse().unwrap();
    load > 4.0 * thread::available_parallelism().unwrap().get() as f64
}

/// Whether mosb added little to what drain and reboot take.
fn is_own_part_short(parts: &[f64; PARTS.len()]) -> bool {
    let own: f64 = parts.iter().zip(OWN).filter(|(_, is_own)| *is_own).map(|(part, _)| part).sum();
    let reboot: f64 = parts[2..5].iter().sum();
    own < MOST_OWN.max(MOST_OWN_PER_REBOOT * reboot)
}

/// Rounded parts and their sum.
fn print_row(name: &str, parts: &[f64]) {
    let parts: Vec<f64> = parts.iter().map(|part| (part * 10.0).round() / 10.0).collect();
    let cells: Vec<String> = parts.iter().map(|part| format!("{part:9.1}")).collect();
    let all: f64 = parts.iter().sum();
    println!("{name:12}{}{all:9.1}", cells.concat());
}

/// The time of the first line, if there is one.
fn journal(machine: &Machine, which: &str) -> Option<f64> {
    let line = format!("journalctl --quiet --output=short-unix {which} | head -n 1 || true");
    machine.run(&line).text().split_whitespace().next()?.parse().ok()
}

#[test]
fn a_slot_that_takes_too_long_is_found() {
    let quiet = [0.3, 1.3, 1.2, 0.7, 0.6, 0.2, 2.8, 1.2];
    let with = |index: usize, seconds: f64| {
        let mut parts = quiet;
        parts[index] += seconds;
        is_own_part_short(&parts)
    };
    for (index, part) in PARTS.iter().enumerate() {
        assert_eq!(with(index, 60.0), !OWN[index], "{part}");
        assert!(with(index, 5.0), "{part}");
    }
    assert!(is_own_part_short(&quiet.map(|part| part * 20.0)), "a busy machine");
}
