//! Runs many pools in parallel, each with its own story and its own faults.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::story::{self, STORIES, Seen, Story};
use crate::fault_cluster::{ALONE, Controllers, FaultCluster, text};
use mosb_tests::{ApiFault, Write, wait};

/// The timeout for all pools of one test, on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(1200);
/// A pool that writes nothing for so long has ended otherwise than undisturbed, or never ends: no
/// back-off is as long.
const QUIET: Duration = Duration::from_secs(300);
/// The minimum time between two turns.
const PAUSE: Duration = Duration::from_millis(100);
/// The minimum time between two comparisons, which cost more than a turn.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// When nothing was written for this long, a story has ended.
const STILL: Duration = Duration::from_secs(3);
/// The most pools for one set of faults. Timing decides whether the controller sees two changes
/// together or one by one. If a story had no such write, another pool plays it.
const TRIES: usize = 12;

/// The faults of a pool, in order.
pub type Faults = Vec<(Write, ApiFault)>;

/// A pool that plays a story.
pub struct Run {
    pub pool: String,
    pub undisturbed: &'static UndisturbedRun,
    faults: Faults,
    /// The number of pools that have tried these faults, with this one.
    tries: usize,
    /// The number of the current stage, from 1.
    stage: usize,
    /// The number of writes before the story's first own stage.
    before: usize,
    /// Whether the pool waits for its controller to be killed: the proxy makes no more writes for
    /// it.
    waits: bool,
    /// Whether that controller was killed.
    pub died: bool,
}

/// The result of a story that ran without faults.
pub struct UndisturbedRun {
    pub story: &'static Story,
    /// Whether its builds run as Pods without Jobs.
    pub alone: bool,
    /// The writes at which the tests disturb it.
    pub writes: Vec<Write>,
    /// The final state, as [`story::end`] describes it.
    end: String,
}

/// A story, and a write of it.
pub type Moment = (&'static UndisturbedRun, Write);

/// All running pools, and the state of the kubelet.
#[derive(Default)]
pub struct Stage {
    pub runs: Vec<Run>,
    ended: BTreeSet<String>,
    /// Faults that no pool reached in [`TRIES`] attempts.
    pub missed: Vec<(&'static str, Faults)>,
    /// The number of faults, or of sets of them, that a pool reached.
    pub hit: usize,
    /// Whether a write may arrive after its story has ended.
    pub late: bool,
}

impl Stage {
    pub fn enter(
        &mut self,
        cluster: &FaultCluster,
        undisturbed: &'static UndisturbedRun,
        faults: Faults,
    ) {
        self.try_to_enter(cluster, undisturbed, faults, 1);
    }

    fn try_to_enter(
        &mut self,
        cluster: &FaultCluster,
        undisturbed: &'static UndisturbedRun,
        faults: Faults,
        tries: usize,
    ) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let kind = if undisturbed.alone { ALONE } else { "pool" };
        let pool = format!("{kind}-{number:04}");
        cluster.proxy.follow(&pool, &faults);
        cluster.other.follow(&pool, &[]);
        (undisturbed.story.stages[0].act)(cluster, &pool);
        self.runs.push(Run {
            pool,
            undisturbed,
            faults,
            tries,
            stage: 1,
            before: 0,
            waits: false,
            died: false,
        });
    }

    /// Plays one step of the users and the kubelet for every pool, and of the kubelet for the
    /// controllers.
    fn turn(&mut self, cluster: &FaultCluster, controllers: &mut Controllers<'_>) {
        // A write of one that ended may arrive later.
        self.late |= controllers.restart_if_lost();
        let mut seen = Seen::of(cluster);
        cluster.kubelet(&seen.runners, &mut self.ended);
        for run in &mut self.runs {
            let dies = matches!(*run.faults, [(_, ApiFault::Die)]);
            run.waits = dies && !run.died && cluster.proxy.is_hit(&run.pool);
            let pool = seen.pool(&run.pool);
            let story = run.undisturbed.story;
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

    /// Runs until every pool has the state of its undisturbed run and is removed, or waits for its
    /// controller to be killed.
    #[track_caller]
    pub fn play(&mut self, cluster: &FaultCluster, controllers: &mut Controllers<'_>) {
        let mut polled = Instant::now();
        let mut moved = (0, Instant::now());
        loop {
            let turn = Instant::now();
            self.turn(cluster, controllers);
            let written: usize =
                self.runs.iter().map(|run| cluster.proxy.written(&run.pool).len()).sum();
            if moved.0 != written {
                moved = (written, turn);
            }
            // Polling many pools must not slow the pools down.
            let pause = PAUSE.max(turn.elapsed() * 3);
            if self.runs.iter().all(|run| run.waits) {
                return;
            }
            thread::sleep(pause);
            let is_over = |run: &Run| !run.waits && run.is_over();
            if !self.runs.iter().any(is_over) || polled.elapsed() < POLL_INTERVAL {
                assert!(moved.1.elapsed() < QUIET, "{}", self.late(cluster, controllers));
                continue;
            }
            polled = Instant::now();
            let all = story::all(cluster);
            let (over, going) = self.runs.drain(..).partition(is_over);
            self.runs = going;
            let is_there = |run: &Run| story::end(cluster, &all, &run.pool) == run.undisturbed.end;
            let (there, wait): (Vec<_>, Vec<_>) = Vec::into_iter(over).partition(is_there);
            self.runs.extend(wait);
            for run in there {
                once(cluster, &run, self.late);
                self.again_unless_hit(cluster, run);
            }
            assert!(moved.1.elapsed() < QUIET, "{}", self.late(cluster, controllers));
        }
    }

    fn again_unless_hit(&mut self, cluster: &FaultCluster, run: Run) {
        if cluster.proxy.is_hit(&run.pool) {
            self.hit += 1;
        } else if run.tries < TRIES {
            self.try_to_enter(cluster, run.undisturbed, run.faults, run.tries + 1)
        } else {
            self.missed.push((run.undisturbed.story.name, run.faults))
        }
    }

    /// Describes the first pool that has not reached its final state.
    fn late(&self, cluster: &FaultCluster, controllers: &Controllers<'_>) -> String {
        let Some(run) = self.runs.iter().find(|run| !run.waits) else {
            return String::new();
        };
        format!(
            "{} of {} are late; {} ({}, {:?}) in stage {} after {:#?}\nfound:\n{}\nwanted:\n{}\n{}",
            self.runs.iter().filter(|run| !run.waits).count(),
            self.runs.len(),
            run.pool,
            run.undisturbed.story.name,
            run.faults,
            run.stage,
            cluster.proxy.written(&run.pool),
            story::end(cluster, &story::all(cluster), &run.pool),
            run.undisturbed.end,
            lines_of(&controllers.log(), &run.pool),
        )
    }

    /// Waits for a condition while the kubelet and the users continue.
    #[track_caller]
    pub fn until(
        &mut self,
        cluster: &FaultCluster,
        controllers: &mut Controllers<'_>,
        what: &str,
        mut is_so: impl FnMut(&Self) -> bool,
    ) {
        wait(what, LIMIT, || {
            self.turn(cluster, controllers);
            is_so(self).then_some(())
        });
    }
}

impl Run {
    pub fn is_over(&self) -> bool {
        self.stage > self.undisturbed.story.stages.len()
    }
}

fn lines_of(log: &str, pool: &str) -> String {
    let lines = log.lines().filter(|line| line.contains(pool));
    let lines: Vec<_> = lines.collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

/// Asserts that no attempt of a build ran twice, and that there were as many builds and runners as
/// expected. If `late` is set, more of them may have been created, but not started.
#[track_caller]
fn once(cluster: &FaultCluster, run: &Run, late: bool) {
    let kind = if run.undisturbed.alone { "pods" } else { "jobs" };
    let runners = cluster.created(&run.pool, kind);
    let attempt = |runner: &Value| {
        let metadata = &runner["metadata"];
        let owner = text(&metadata["ownerReferences"][0]["uid"]).to_owned();
        (owner, metadata["annotations"]["mosb.dev/attempt"].to_string())
    };
    let attempts: BTreeSet<_> = runners.iter().map(attempt).collect();
    let story = run.undisturbed.story;
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

/// Every story without faults, first with Jobs and then with Pods. All tests share the result.
pub fn undisturbed_runs(cluster: &FaultCluster) -> &'static [UndisturbedRun] {
    static UNDISTURBED_RUNS: OnceLock<Vec<UndisturbedRun>> = OnceLock::new();
    UNDISTURBED_RUNS.get_or_init(|| {
        let mut controllers = Controllers::one(cluster);
        controllers.while_leased(|controllers| play_undisturbed(cluster, controllers))
    })
}

fn play_undisturbed(
    cluster: &FaultCluster,
    controllers: &mut Controllers<'_>,
) -> Vec<UndisturbedRun> {
    let mut stage = Stage::default();
    let jobs = STORIES.iter().map(|story| (story, false));
    let pods = STORIES.iter().filter(|story| story.alone).map(|story| (story, true));
    for (story, alone) in jobs.chain(pods) {
        let unknown = UndisturbedRun { story, alone, writes: Vec::new(), end: String::new() };
        // The process leaks only a few of these.
        stage.enter(cluster, Box::leak(Box::new(unknown)), Vec::new());
    }
    let is_over = |stage: &Stage| stage.runs.iter().all(Run::is_over);
    stage.until(cluster, controllers, "the end of every story", is_over);
    // No write may follow the end.
    let written = |stage: &Stage| -> usize {
        stage.runs.iter().map(|run| cluster.proxy.written(&run.pool).len()).sum()
    };
    let mut last = (written(&stage), Instant::now());
    stage.until(cluster, controllers, "the last write", |stage| {
        if last.0 != written(stage) {
            last = (written(stage), Instant::now());
        }
        last.1.elapsed() > STILL
    });
    let all = story::all(cluster);
    let ended = stage.runs.iter().map(|run| {
        once(cluster, run, stage.late);
        UndisturbedRun {
            story: run.undisturbed.story,
            alone: run.undisturbed.alone,
            writes: disturbed(&cluster.proxy.write_kinds(&run.pool), run.before),
            end: story::end(cluster, &all, &run.pool),
        }
    });
    ended.collect()
}

/// Selects one write of each kind that the stories make, in turn from different stories.
pub fn one_of_each_kind(
    cluster: &FaultCluster,
    is_meant: impl Fn(&UndisturbedRun) -> bool,
) -> Vec<Moment> {
    let mut kinds: Vec<(&str, Vec<Moment>)> = Vec::new();
    for run in undisturbed_runs(cluster).iter().filter(|run| is_meant(run)) {
        for at in &run.writes {
            let Write::Nth(write_kind, _) = at else { continue };
            let moment = (run, at.clone());
            match kinds.iter_mut().find(|(kind, _)| kind == write_kind) {
                Some((_, all)) => all.push(moment),
                None => kinds.push((write_kind, vec![moment])),
            }
        }
    }
    let by_turns = kinds.into_iter().enumerate();
    by_turns.map(|(turn, (_, mut all))| all.swap_remove(turn % all.len())).collect()
}

/// The writes that only this story has. The objects that a Job needs are created in parallel in any
/// order, so only the first and the last of them are tested.
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
