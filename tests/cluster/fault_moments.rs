//! Faults of the whole installation while every pool is held at a different write: a dependency
//! restarts, the clock changes, or the controller is stopped or killed and another one takes over.
//! Every story ends like its undisturbed run.

use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::fault_cluster::{Controllers, FaultCluster, cluster, lease, ours, text};
use crate::fault_stories::stage::{LIMIT, Moment, Run, Stage, one_of_each_kind, undisturbed_runs};
use mosb_tests::{ApiFault, Daemon, Write, run, wait};

/// For this long a dependency is stopped. A restart of a machine takes longer, and a Lease lasts
/// longer.
const AWAY: Duration = Duration::from_secs(5);
const STORIES: &[&str] = &["first build", "superseding"];
const ACTS: &str = "the lease is held; reconciling";

/// One write of each kind that the stories make with Jobs or with Pods. There are no more than the
/// controller handles in parallel, so no held write times out.
fn kinds_of_writes(cluster: &FaultCluster, alone: bool) -> Vec<Moment> {
    one_of_each_kind(cluster, |run| run.alone == alone && STORIES.contains(&run.story.name))
}

/// Starts pools that are each held at a different write of their story by the running controllers.
#[track_caller]
fn in_the_middle(
    cluster: &FaultCluster,
    controllers: &mut Controllers<'_>,
    writes: &[Moment],
) -> Stage {
    let stage = controllers.while_leased(|controllers| {
        cluster.proxy.release();
        let mut stage = Stage::default();
        // The controller gives up on a write that is held too long and repeats it before the held
        // one arrives.
        stage.late = true;
        for (undisturbed, at) in writes {
            stage.enter(cluster, undisturbed, vec![(at.clone(), ApiFault::Hold)]);
        }
        let is_held = |run: &Run| cluster.proxy.is_hit(&run.pool) || run.is_over();
        stage.until(cluster, controllers, "every pool to be held at its write", |stage| {
            stage.runs.iter().all(is_held)
        });
        stage
    });
    let pools = stage.runs.len();
    assert!(pools > 8, "{pools}");
    let held = cluster.proxy.held();
    println!("{held} of {pools} are held at their write");
    assert!(held * 10 > pools * 8, "{held} of {pools}");
    stage
}

#[test]
fn restarts_of_what_it_needs_are_survived() {
    let cluster = &*cluster();
    let started = Instant::now();
    undisturbed_runs(cluster);
    let mut controllers = Controllers::one(cluster);
    for (component, alone) in [("api-server", false), ("etcd", true), ("registry", false)] {
        controllers.while_leased(|controllers| {
            let mut stage = in_the_middle(cluster, controllers, &kinds_of_writes(cluster, alone));
            cluster.node.kill(component);
            cluster.proxy.release();
            thread::sleep(AWAY);
            cluster.node.revive(component);
            stage.play(cluster, controllers);
        });
        println!("{component} after {:?}", started.elapsed());
    }
    let log = controllers.log();
    assert!(!log.contains("panicked"), "{log}");
}

/// The clock of a machine is corrected forward, then backward.
#[test]
#[ignore = "make test-all: two more rounds of all kinds of writes"]
fn its_clock_is_set_forth_and_back() {
    let cluster = &*cluster();
    let started = Instant::now();
    undisturbed_runs(cluster);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("offset");
    let next = folder.path().join("next");
    let set = |hours: u32| {
        // A controller must not read an empty file.
        fs::write(&next, format!("+{}", hours * 3600)).unwrap();
        fs::rename(&next, &file).unwrap();
    };
    // The time must not be before the registry's certificates are valid.
    let mut hours_before = 2;
    set(hours_before);
    let wrong = [
        ("LD_PRELOAD", "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"),
        ("FAKETIME_TIMESTAMP_FILE", file.to_str().unwrap()),
        ("FAKETIME_NO_CACHE", "1"),
        // Only the wall clock changes; timeouts use the monotonic clock.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("NO_FAKE_STAT", "1"),
    ];
    let mut controllers = Controllers::start(|| {
        cluster.forget_lease();
        let controller = cluster.another_controller(&cluster.proxy, &wrong);
        wait("it to act", LIMIT, || logs(&controller, ACTS));
        vec![controller, cluster.another_controller(&cluster.other, &[])]
    });
    // This write is between the end of a Job and the pause before the next one.
    let mut all = undisturbed_runs(cluster).iter();
    let lost = all.find(|undisturbed| undisturbed.story.name == "a lost pod");
    let paused = (lost.unwrap(), Write::Nth("DELETE jobs".to_owned(), 1));
    for (hours, alone) in [(3, false), (1, true)] {
        let mut writes = kinds_of_writes(cluster, alone);
        writes.push(paused.clone());
        // The Lease is renewed in time, whatever wall-clock time it contains.
        let pools = controllers.while_leased(|controllers| {
            set(hours_before);
            let mut stage = in_the_middle(cluster, controllers, &writes);
            let pools: Vec<_> = stage.runs.iter().map(|run| run.pool.clone()).collect();
            set(hours);
            cluster.proxy.release();
            stage.play(cluster, controllers);
            pools
        });
        hours_before = hours;
        for build in cluster.all(&ours("machineosbuilds", "")) {
            let name = text(&build["metadata"]["name"]);
            let (start, end) = (&build["status"]["buildStart"], &build["status"]["buildEnd"]);
            if pools.iter().any(|pool| name.starts_with(pool)) && end.is_string() {
                // Both times are rounded to whole seconds.
                assert!(text(start) < text(end), "{name}: {start} {end}");
            }
        }
        println!("{hours} hours ahead after {:?}", started.elapsed());
    }
    let other = &controllers.running()[1];
    assert!(logs(other, ACTS).is_none(), "{}", other.log());
    let lease = cluster.proxy.api().ask("GET", &lease(), None).1;
    assert_eq!(lease["spec"]["leaseTransitions"].as_i64().unwrap_or(0), 0);
}

fn logs(controller: &Daemon, what: &str) -> Option<()> {
    controller.log().contains(what).then_some(())
}

/// `hinder` stops the first of two controllers during its writes. The other one takes over and
/// completes all stories. Then the writes arrive that the first one had started.
fn takes_over(alone: bool, hinder: impl FnOnce(Daemon) -> Option<Daemon>) {
    let cluster = &*cluster();
    let started = Instant::now();
    undisturbed_runs(cluster);
    let mut both = Controllers::start(|| {
        let first = cluster.controller();
        wait("the first to act", LIMIT, || logs(&first, ACTS));
        let second = cluster.another_controller(&cluster.other, &[]);
        wait("the second to wait", LIMIT, || logs(&second, "; waiting"));
        vec![first, second]
    });
    let mut stage = in_the_middle(cluster, &mut both, &kinds_of_writes(cluster, alone));
    let mut running = both.into_running();
    let stopped = hinder(running.remove(0));
    wait("the second to act", LIMIT, || logs(&running[0], ACTS));
    let mut second = Controllers::of(running, || {
        cluster.forget_lease();
        vec![cluster.another_controller(&cluster.other, &[])]
    });
    println!("the second acts after {:?}", started.elapsed());
    let is_over = |stage: &Stage| stage.runs.iter().all(Run::is_over);
    stage.until(cluster, &mut second, "the end of every story", is_over);
    let before = |run: &Run| (run.pool.clone(), cluster.proxy.written(&run.pool).len());
    let before: Vec<_> = stage.runs.iter().map(before).collect();
    if let Some(first) = &stopped {
        run("kill", ["-CONT", &first.pid.to_string()]);
    }
    cluster.proxy.release();
    if let Some(first) = &stopped {
        wait("the first to step down", LIMIT, || logs(first, ": lost,"));
        let stat = || fs::read_to_string(format!("/proc/{}/stat", first.pid));
        let is_over = || stat().map_or(true, |stat| stat.contains(") Z"));
        wait("its end", LIMIT, || is_over().then_some(()));
    }
    stage.play(cluster, &mut second);
    for (pool, count) in before {
        let written = cluster.proxy.written(&pool);
        assert!(written.len() <= count + 1, "{pool}: {:?}", &written[count..]);
    }
    println!("all after {:?}", started.elapsed());
}

#[test]
#[ignore = "make test-all: one that is stopped is replaced, too"]
fn a_killed_controller_is_replaced() {
    takes_over(true, |first| {
        // This kills the process without a chance to release the Lease.
        drop(first);
        None
    });
}

#[test]
fn a_controller_stopped_for_too_long_is_harmless() {
    takes_over(false, |first| {
        run("kill", ["-STOP", &first.pid.to_string()]);
        Some(first)
    });
}

/// Of writes with Jobs the request is dropped, of writes with Pods it is done; neither is answered.
#[test]
fn a_write_without_an_answer_is_given_up() {
    hang(|alone| vec![alone]);
}

#[test]
#[ignore = "make test-all: each of them dropped, then done"]
fn writes_that_are_never_answered_are_given_up() {
    hang(|_| vec![false, true]);
}

/// Hangs at each kind of write, as often as `done` says for writes with Jobs or with Pods.
fn hang(done: fn(bool) -> Vec<bool>) {
    let cluster = &*cluster();
    let started = Instant::now();
    let mut stage = Stage::default();
    undisturbed_runs(cluster);
    let mut controllers = Controllers::one(cluster);
    for alone in [false, true] {
        for (undisturbed, at) in kinds_of_writes(cluster, alone) {
            let faults = done(alone).into_iter();
            let faults = faults.map(|done| (at.clone(), ApiFault::Hang { done }));
            stage.enter(cluster, undisturbed, faults.collect());
        }
    }
    stage.play(cluster, &mut controllers);
    assert!(stage.missed.is_empty(), "{:#?}", stage.missed);
    println!("all after {:?}", started.elapsed());
}
