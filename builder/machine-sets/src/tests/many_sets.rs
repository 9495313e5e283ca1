//! How the time of a decision grows with the number of sets.

use super::fake_cluster::{FakeCluster, NEW, OLD};
use mosb_cluster::cluster_cache::BootImageKind::ClusterApiMachineSet;

/// The processor time of this thread, which other work does not change.
fn cpu_nanoseconds() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    text.split(' ').next().unwrap().parse().unwrap()
}

/// The least processor time of decisions about so many sets, of which every other one must change.
fn decision_time(sets: usize) -> u64 {
    let mut cluster = FakeCluster::new(NEW);
    for n in 0..sets {
        let image = if n % 2 == 0 { OLD } else { NEW };
        cluster.set(ClusterApiMachineSet, &format!("s{n:05}"), image);
    }
    let snapshot = cluster.snapshot();
    let times = (0..3).map(|_| {
        let began = cpu_nanoseconds();
        // A tick of the kernel's clock is little against this.
        for _ in 0..(12_000 / sets) {
            let plan = crate::decide::decide(&snapshot, jiff::Timestamp::UNIX_EPOCH);
            assert_eq!(plan.sets.len(), sets);
        }
        cpu_nanoseconds() - began
    });
    // Both cases decide about 12,000 sets.
    times.min().unwrap()
}

/// A pass that compares each set with each other one takes longer for a set if there are more.
#[test]
fn the_time_for_a_set_does_not_grow_with_the_number_of_sets() {
    let (few, many) = (decision_time(100), decision_time(12_000));
    // Comparing all with all is 120 times as much; caches of a busy machine are not three times as slow.
    assert!(many < 3 * few, "{few} ns for 120 times 100 sets, {many} ns for once 12,000");
}
