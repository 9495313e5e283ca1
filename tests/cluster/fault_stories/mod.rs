//! The stories of a pool, each with its controller killed after every write, and with every write
//! disturbed: they end as they do undisturbed.
//!
//! A pool for each write of each story, all at once: after that write nothing more is done to it,
//! and once there is no other pool the controller is killed.

pub mod stage;
pub mod story;

use std::time::Instant;

use crate::fault_cluster::{FaultCluster, cluster};
use mosb_tests::{ApiFault, Write};
use stage::{Calm, Stage, calm};

/// Every write of every story.
fn each(cluster: &FaultCluster) -> impl Iterator<Item = (&'static Calm, Write)> {
    let of = |calm| move |at: &Write| (calm, at.clone());
    let all = calm(cluster).iter();
    all.flat_map(move |calm| calm.writes.iter().map(of(calm)))
}

/// Hardly any write comes only by such a chance that no pool has it.
#[track_caller]
fn nearly_all_were_hit(stage: &Stage, pools: usize) {
    let missed = stage.missed.len();
    println!("{missed} of {pools} were not disturbed: {:#?}", stage.missed);
    assert!(missed * 50 <= pools, "{missed} of {pools}: {:#?}", stage.missed);
}

#[test]
fn killed_after_every_write_a_story_ends_the_same() {
    let cluster = &*cluster();
    let started = Instant::now();
    let mut stage = Stage::default();
    let each = each(cluster);
    let mut controller = cluster.controller();
    each.for_each(|(calm, at)| stage.enter(cluster, calm, vec![(at, ApiFault::Die)]));
    let writes = stage.runs.len();
    println!("{writes} writes after {:?}", started.elapsed());
    stage.play(cluster, &[&controller]);
    println!("{} to die after {:?}", stage.runs.len(), started.elapsed());
    nearly_all_were_hit(&stage, writes);
    assert_eq!(stage.runs.len() + stage.missed.len(), writes);
    drop(controller);
    for run in &mut stage.runs {
        run.died = true;
    }
    cluster.proxy.open();
    controller = cluster.controller();
    stage.play(cluster, &[&controller]);
    println!("all after {:?}", started.elapsed());
}

#[test]
fn disturbed_at_every_write_a_story_ends_the_same() {
    let cluster = &*cluster();
    let started = Instant::now();
    let mut stage = Stage::default();
    let each = each(cluster);
    let controller = cluster.controller();
    for (calm, at) in each {
        let faults = [
            ApiFault::Refuse(409),
            ApiFault::Refuse(500),
            ApiFault::EndWatch,
            ApiFault::LoseAnswer,
        ];
        let faults = faults.map(|fault| (at.clone(), fault));
        stage.enter(cluster, calm, faults.into());
    }
    let writes = stage.runs.len();
    stage.play(cluster, &[&controller]);
    nearly_all_were_hit(&stage, writes);
    // As of a real 410.
    assert!(controller.log().contains("the watch restarts"));
    println!("all after {:?}", started.elapsed());
}
