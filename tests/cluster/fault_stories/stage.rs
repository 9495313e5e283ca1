//! Many pools at once, each in a story of its own, with a disturbance of its own.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::story::{self, STORIES, Seen, Story};
use crate::fault_cluster::{ALONE, FaultCluster, text};
use mosb_tests::{ApiFault, Daemon, Write, wait};

/// For all pools of a round, on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(1200);
/// Between two turns.
const PAUSE: Duration = Duration::from_millis(100);
/// Comparing costs more than looking.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Whether two changes are seen one by one or at once is chance: a pool whose story had no such
/// write is replaced by another.
const TRIES: usize = 12;

/// What happens to a pool.
pub type Faults = Vec<(Write, ApiFault)>;

/// A pool in its story.
pub struct Run {
    pub pool: String,
    pub calm: &'static Calm,
    faults: Faults,
    /// Which pool it is to which this is done.
    tries: usize,
    /// The stage that is waited for, from 1.
    stage: usize,
    /// The writes before the first stage that no other story has.
    before: usize,
    /// Whether nothing is done to it until its controller is killed.
    waits: bool,
    /// Whether it was.
    pub died: bool,
}

/// A story undisturbed.
pub struct Calm {
    pub story: &'static Story,
    /// Whether its builds are Pods without Jobs.
    pub alone: bool,
    /// The writes at which it is disturbed.
    pub writes: Vec<Write>,
    /// Where it ended.
    end: String,
}

/// All runs, and what the kubelet has done.
#[derive(Default)]
pub struct Stage {
    pub runs: Vec<Run>,
    ended: BTreeSet<String>,
    /// What was never done to a pool, however often it was tried.
    pub missed: Vec<(&'static str, Faults)>,
    /// Whether a write may arrive when all is over.
    pub late: bool,
}

impl Stage {
    pub fn enter(&mut self, cluster: &FaultCluster, calm: &'static Calm, faults: Faults) {
        self.try_to_enter(cluster, calm, faults, 1);
    }

    fn try_to_enter(
        &mut self,
        cluster: &FaultCluster,
        calm: &'static Calm,
        faults: Faults,
        tries: usize,
    ) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let kind = if calm.alone { ALONE } else { "pool" };
        let pool = format!("{kind}-{number:04}");
        cluster.proxy.follow(&pool, &faults);
        cluster.other.follow(&pool, &[]);
        (calm.story.stages[0].act)(cluster, &pool);
        self.runs.push(Run {
            pool,
            calm,
            faults,
            tries,
            stage: 1,
            before: 0,
            waits: false,
            died: false,
        });
    }

    /// What users and the kubelet do next.
    pub fn turn(&mut self, cluster: &FaultCluster) {
        let mut seen = Seen::of(cluster);
        cluster.kubelet(&seen.runners, &mut self.ended);
        for run in &mut self.runs {
            let dies = matches!(*run.faults, [(_, ApiFault::Die)]);
            run.waits = dies && !run.died && cluster.proxy.is_hit(&run.pool);
            let pool = seen.pool(&run.pool);
            let story = run.calm.story;
            if run.is_over() || !(story.stages[run.stage - 1].done)(&pool) {
                continue;
            }
            if let Some(next) = story.stages.get(run.stage) {
                if run.stage == story.own {
                    run.before = cluster.proxy.written(&run.pool).len();
                }
                (next.act)(cluster, &run.pool);
            }
            run.stage += 1;
        }
    }

    /// Until every pool is where it was undisturbed, and so forgotten, or waits for its
    /// controller's death.
    #[track_caller]
    pub fn play(&mut self, cluster: &FaultCluster, controllers: &[&Daemon]) {
        let limit = Instant::now() + LIMIT;
        let mut polled = Instant::now();
        loop {
            let turn = Instant::now();
            self.turn(cluster);
            // Looking at many pools must not take their time.
            let pause = PAUSE.max(turn.elapsed() * 3);
            if self.runs.iter().all(|run| run.waits) {
                return;
            }
            thread::sleep(pause);
            let is_over = |run: &Run| !run.waits && run.is_over();
            if !self.runs.iter().any(is_over) || polled.elapsed() < POLL_INTERVAL {
                assert!(Instant::now() < limit, "{}", self.late(cluster, controllers));
                continue;
            }
            polled = Instant::now();
            let all = story::all(cluster);
            let (over, going) = self.runs.drain(..).partition(is_over);
            self.runs = going;
            let is_there = |run: &Run| story::end(cluster, &all, &run.pool) == run.calm.end;
            let (there, wait): (Vec<_>, Vec<_>) = Vec::into_iter(over).partition(is_there);
            self.runs.extend(wait);
            for run in there {
                once(cluster, &run, self.late);
                self.again_unless_hit(cluster, run);
            }
            assert!(Instant::now() < limit, "{}", self.late(cluster, controllers));
        }
    }

    fn again_unless_hit(&mut self, cluster: &FaultCluster, run: Run) {
        if cluster.proxy.is_hit(&run.pool) {
            return;
        }
        if run.tries < TRIES {
            self.try_to_enter(cluster, run.calm, run.faults, run.tries + 1)
        } else {
            self.missed.push((run.calm.story.name, run.faults))
        }
    }

    /// What the first of those that are not there has come to.
    fn late(&self, cluster: &FaultCluster, controllers: &[&Daemon]) -> String {
        let Some(run) = self.runs.iter().find(|run| !run.waits) else {
            return String::new();
        };
        let logs = controllers.iter().map(|one| lines_of(&one.log(), &run.pool));
        format!(
            "{} of {} are late; {} ({}, {:?}) in stage {} after {:#?}\nfound:\n{}\nwanted:\n{}\n{}",
            self.runs.iter().filter(|run| !run.waits).count(),
            self.runs.len(),
            run.pool,
            run.calm.story.name,
            run.faults,
            run.stage,
            cluster.proxy.written(&run.pool),
            story::end(cluster, &story::all(cluster), &run.pool),
            run.calm.end,
            logs.collect::<Vec<_>>().join("\n---\n"),
        )
    }

    /// Waits until this is so, while the kubelet and users go on.
    #[track_caller]
    pub fn until(&mut self, cluster: &FaultCluster, what: &str, is_so: impl Fn(&Self) -> bool) {
        wait(what, LIMIT, || {
            self.turn(cluster);
            is_so(self).then_some(())
        });
    }
}

impl Run {
    pub fn is_over(&self) -> bool {
        self.stage > self.calm.story.stages.len()
    }
}

fn lines_of(log: &str, pool: &str) -> String {
    let lines = log.lines().filter(|line| line.contains(pool));
    let lines: Vec<_> = lines.collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

/// No attempt of a build ran twice, and there were as many builds and runners as undisturbed. One
/// that was made too late never begins.
#[track_caller]
fn once(cluster: &FaultCluster, run: &Run, late: bool) {
    let kind = if run.calm.alone { "pods" } else { "jobs" };
    let runners = cluster.created(&run.pool, kind);
    let attempt = |runner: &Value| {
        let metadata = &runner["metadata"];
        let owner = text(&metadata["ownerReferences"][0]["uid"]).to_owned();
        (owner, metadata["annotations"]["mosb.dev/attempt"].to_string())
    };
    let attempts: BTreeSet<_> = runners.iter().map(attempt).collect();
    let story = run.calm.story;
    let write_kinds = [&cluster.proxy, &cluster.other].map(|proxy| proxy.write_kinds(&run.pool));
    let what = format!("{} {} {:?} {write_kinds:#?}", run.pool, story.name, run.faults);
    let begins = format!("PATCH {kind}");
    let started = write_kinds.iter().flatten().filter(|write_kind| **write_kind == begins);
    assert_eq!(started.count(), story.runners, "{what}");
    assert_eq!(attempts.len(), story.runners, "{what}");
    let builds = cluster.created(&run.pool, "machineosbuilds");
    if !late {
        assert_eq!(runners.len(), story.runners, "{what}");
        assert_eq!(builds.len(), story.builds, "{what}");
    }
}

/// Every story without a fault, with Jobs and then with Pods, played once for all tests.
pub fn calm(cluster: &FaultCluster) -> &'static [Calm] {
    static CALM: OnceLock<Vec<Calm>> = OnceLock::new();
    CALM.get_or_init(|| undisturbed(cluster))
}

fn undisturbed(cluster: &FaultCluster) -> Vec<Calm> {
    let controller = cluster.controller();
    let mut stage = Stage::default();
    let each = [false, true].map(|alone| STORIES.iter().map(move |story| (story, alone)));
    for (story, alone) in each.into_iter().flatten() {
        let unknown = Calm { story, alone, writes: Vec::new(), end: String::new() };
        // A few for the whole run.
        stage.enter(cluster, Box::leak(Box::new(unknown)), Vec::new());
    }
    stage.until(cluster, "the end of every story", |stage| stage.runs.iter().all(Run::is_over));
    // Nothing comes after it.
    thread::sleep(Duration::from_secs(2));
    let all = story::all(cluster);
    let ended = stage.runs.iter().map(|run| {
        once(cluster, run, false);
        Calm {
            story: run.calm.story,
            alone: run.calm.alone,
            writes: disturbed(&cluster.proxy.write_kinds(&run.pool), run.before),
            end: story::end(cluster, &all, &run.pool),
        }
    });
    let ended = ended.collect();
    drop(controller);
    ended
}

/// The writes that a story has for itself. What a Job needs is made all at once, in any order: the
/// first and the last of it stand for the rest.
fn disturbed(write_kinds: &[String], before: usize) -> Vec<Write> {
    const NEEDED: [&str; 5] = ["configmaps", "secrets", "serviceaccounts", "roles", "rolebindings"];
    let is_needed = |number: usize| {
        let created = |write: &String| NEEDED.iter().any(|kind| *write == format!("POST {kind}"));
        write_kinds.get(number.wrapping_sub(1)).is_some_and(created)
    };
    let is_among = |number: usize| (number - 1..=number + 1).all(is_needed);
    let write = |number: usize| {
        let write_kind = &write_kinds[number - 1];
        let same = write_kinds[..number].iter().filter(|one| *one == write_kind).count();
        Write::Nth(write_kind.clone(), same)
    };
    let own = before.max(1)..=write_kinds.len();
    own.filter(|number| !is_among(*number)).map(write).collect()
}
