//! Plays every story of a pool, with the controller killed after each write and with each write
//! disturbed. The result equals the one of the undisturbed run.
//!
//! Each write of each story has its own pool, and all pools run in parallel. After its write, the
//! proxy makes no more writes for the pool. When all pools have reached that point, the test kills
//! the controller.

pub mod stage;
pub mod story;

use std::time::Instant;

use crate::fault_cluster::{Controllers, FaultCluster, cluster};
use mosb_tests::{ApiFault, Write};
use stage::{Stage, UndisturbedRun, undisturbed_runs};

/// Every write of every story.
fn each(cluster: &FaultCluster) -> impl Iterator<Item = (&'static UndisturbedRun, Write)> {
    let of = |undisturbed| move |at: &Write| (undisturbed, at.clone());
    let all = undisturbed_runs(cluster).iter();
    all.flat_map(move |undisturbed| undisturbed.writes.iter().map(of(undisturbed)))
}

/// A few writes depend on timing. At most one in fifty may be missed by all pools.
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
    let mut controllers = Controllers::one(cluster);
    each.for_each(|(undisturbed, at)| stage.enter(cluster, undisturbed, vec![(at, ApiFault::Die)]));
    let writes = stage.runs.len();
    println!("{writes} writes after {:?}", started.elapsed());
    stage.play(cluster, &mut controllers);
    println!("{} to die after {:?}", stage.runs.len(), started.elapsed());
    nearly_all_were_hit(&stage, writes);
    assert_eq!(stage.runs.len() + stage.missed.len(), writes);
    drop(controllers);
    for run in &mut stage.runs {
        run.died = true;
    }
    cluster.proxy.open();
    controllers = Controllers::one(cluster);
    stage.play(cluster, &mut controllers);
    println!("all after {:?}", started.elapsed());
}

#[test]
fn disturbed_at_every_write_a_story_ends_the_same() {
    let cluster = &*cluster();
    let started = Instant::now();
    let mut stage = Stage::default();
    let each = each(cluster);
    let mut controllers = Controllers::one(cluster);
    for (undisturbed, at) in each {
        let faults = [
            ApiFault::Refuse(409),
            ApiFault::Refuse(500),
            ApiFault::EndWatch,
            ApiFault::LoseAnswer,
        ];
        let faults = faults.map(|fault| (at.clone(), fault));
        stage.enter(cluster, undisturbed, faults.into());
    }
    let writes = stage.runs.len();
    stage.play(cluster, &mut controllers);
    nearly_all_were_hit(&stage, writes);
    // The controller reacts to the proxy's 410 as it does to one of the API server.
    assert!(controllers.log().contains("the watch restarts"));
    println!("all after {:?}", started.elapsed());
}
