//! Plays every story of a pool, with the controller killed after each write and with each write
//! disturbed. The result equals the one of the undisturbed run.
//!
//! Each write has its own pool, and many pools run in parallel. After its write, the proxy makes no
//! more writes for the pool. When all pools have reached that point, the test kills the controller.
//!
//! `make test` takes one write of each kind, in turn from different stories; `make test-all` takes
//! every write of every story.

pub mod stage;
pub mod story;

use std::time::Instant;

use crate::fault_cluster::{Controllers, FaultCluster, cluster};
use mosb_tests::ApiFault;
use stage::{Moment, Stage, one_of_each_kind, undisturbed_runs};

/// The most pools at once. More of them keep the controller of a busy machine from its Lease.
const POOLS: usize = 60;

/// One write of each kind, of builds that are Jobs and of builds that are Pods.
fn each_kind(cluster: &FaultCluster) -> Vec<Moment> {
    let of = |alone| one_of_each_kind(cluster, move |run| run.alone == alone);
    [false, true].into_iter().flat_map(of).collect()
}

/// Every write of every story.
fn each_write(cluster: &FaultCluster) -> Vec<Moment> {
    let runs = undisturbed_runs(cluster).iter();
    runs.flat_map(|run| run.writes.iter().map(move |at| (run, at.clone()))).collect()
}

/// A few writes depend on timing. At most one in fifty may be missed by all pools.
#[track_caller]
fn nearly_all_were_hit(stage: &Stage, moments: &[Moment]) {
    let (missed, all) = (stage.missed.len(), moments.len());
    println!("{missed} of {all} were not disturbed: {:#?}", stage.missed);
    assert!(all > 0 && stage.hit + missed == all, "{} and {missed} of {all}", stage.hit);
    assert!(missed * 50 <= all, "{missed} of {all}: {:#?}", stage.missed);
}

#[test]
fn killed_after_each_kind_of_write() {
    let cluster = &*cluster();
    killed_after(cluster, each_kind(cluster));
}

#[test]
#[ignore = "make test-all: every write of every story"]
fn killed_after_each_write_of_each_story() {
    let cluster = &*cluster();
    killed_after(cluster, each_write(cluster));
}

#[track_caller]
fn killed_after(cluster: &FaultCluster, moments: Vec<Moment>) {
    let started = Instant::now();
    let mut stage = Stage::default();
    for part in moments.chunks(POOLS) {
        let mut controllers = Controllers::one(cluster);
        for (run, at) in part {
            stage.enter(cluster, run, vec![(at.clone(), ApiFault::Die)]);
        }
        stage.play(cluster, &mut controllers);
        println!("{} to die after {:?}", stage.runs.len(), started.elapsed());
        drop(controllers);
        for run in &mut stage.runs {
            run.died = true;
        }
        cluster.proxy.open();
        stage.play(cluster, &mut Controllers::one(cluster));
    }
    nearly_all_were_hit(&stage, &moments);
    println!("all {} after {:?}", moments.len(), started.elapsed());
}

#[test]
fn disturbed_at_each_kind_of_write() {
    let cluster = &*cluster();
    disturbed_at(cluster, each_kind(cluster));
}

#[test]
#[ignore = "make test-all: every write of every story"]
fn disturbed_at_each_write_of_each_story() {
    let cluster = &*cluster();
    disturbed_at(cluster, each_write(cluster));
}

#[track_caller]
fn disturbed_at(cluster: &FaultCluster, moments: Vec<Moment>) {
    let started = Instant::now();
    let mut stage = Stage::default();
    let mut controllers = Controllers::one(cluster);
    for part in moments.chunks(POOLS) {
        for (run, at) in part {
            let faults = [
                ApiFault::Refuse(409),
                ApiFault::Refuse(500),
                ApiFault::EndWatch,
                ApiFault::LoseAnswer,
            ];
            stage.enter(cluster, run, faults.map(|fault| (at.clone(), fault)).into());
        }
        stage.play(cluster, &mut controllers);
    }
    nearly_all_were_hit(&stage, &moments);
    // The controller reacts to the proxy's 410 as it does to one of the API server.
    assert!(controllers.log().contains("the watch restarts"));
    println!("all {} after {:?}", moments.len(), started.elapsed());
}
