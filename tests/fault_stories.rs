//! The stories of a pool, each with its controller killed after every write, and with every write disturbed: they end as
//! they do undisturbed.
//!
//! A pool for each write of each story, all at once: after that write nothing more is done to it, and once there is no other
//! pool the controller is killed.

pub mod story;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fault_world::{World, text, world};
use crate::harness::{ApiFault, Daemon, wait};
use story::{STORIES, Seen, Story};

/// For all pools of a round, on a busy machine.
const LIMIT: Duration = Duration::from_secs(400);
const PAUSE: Duration = Duration::from_millis(200);
/// Comparing costs more than looking.
const BETWEEN_LOOKS: Duration = Duration::from_millis(700);

/// A pool in its story.
struct Run {
    pool: String,
    story: &'static Story,
    faults: Vec<(usize, ApiFault)>,
    /// The stage that is waited for, from 1.
    stage: usize,
    /// The writes before the first stage that no other story has.
    before: usize,
    /// Whether nothing is done to it until its controller is killed.
    waits: bool,
    /// Whether it was.
    died: bool,
    /// Where it ended undisturbed.
    wanted: String,
}

/// A story undisturbed.
struct Calm {
    story: &'static Story,
    /// The numbers of the writes at which it is disturbed.
    writes: Vec<usize>,
    /// Where it ended.
    end: String,
}

/// All runs, and what the kubelet has done.
#[derive(Default)]
struct Stage {
    runs: Vec<Run>,
    ended: BTreeSet<String>,
}

impl Stage {
    fn enter(&mut self, world: &World, calm: &Calm, faults: &[(usize, ApiFault)]) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let pool = format!("pool-{:04}", NUMBER.fetch_add(1, Ordering::Relaxed));
        world.proxy.follow(&pool, faults);
        (calm.story.stages[0].act)(world, &pool);
        self.runs.push(Run {
            pool,
            story: calm.story,
            faults: faults.to_vec(),
            stage: 1,
            before: 0,
            waits: false,
            died: false,
            wanted: calm.end.clone(),
        });
    }

    /// What users and the kubelet do next.
    fn turn(&mut self, world: &World) {
        let mut seen = Seen::of(world);
        world.kubelet(&seen.jobs, &mut self.ended);
        for run in &mut self.runs {
            let dies = matches!(*run.faults, [(_, ApiFault::Die)]);
            run.waits = dies && !run.died && world.proxy.is_hit(&run.pool);
            let pool = seen.pool(&run.pool);
            if run.is_over() || !(run.story.stages[run.stage - 1].done)(&pool) {
                continue;
            }
            if let Some(next) = run.story.stages.get(run.stage) {
                if run.stage == run.story.own {
                    run.before = world.proxy.written(&run.pool).len();
                }
                (next.act)(world, &run.pool);
            }
            run.stage += 1;
        }
    }

    /// Until every pool is where it was undisturbed, and so forgotten, or waits for its controller's death.
    #[track_caller]
    fn play(&mut self, world: &World, controller: &Daemon) {
        let limit = Instant::now() + LIMIT;
        let mut looked = Instant::now();
        loop {
            let turn = Instant::now();
            self.turn(world);
            // Looking at many pools must not take their time.
            let pause = PAUSE.max(turn.elapsed() * 2);
            if self.runs.iter().all(|run| run.waits) {
                return;
            }
            thread::sleep(pause);
            let is_over = |run: &Run| !run.waits && run.is_over();
            if !self.runs.iter().any(is_over) || looked.elapsed() < BETWEEN_LOOKS {
                assert!(Instant::now() < limit, "{}", self.late(world, controller));
                continue;
            }
            looked = Instant::now();
            let all = story::all(world);
            let (over, going) = self.runs.drain(..).partition(is_over);
            self.runs = going;
            let is_there = |run: &Run| story::end(world, &all, &run.pool) == run.wanted;
            let (there, wait): (Vec<_>, Vec<_>) = Vec::into_iter(over).partition(is_there);
            there.iter().for_each(|run| once(world, run));
            self.runs.extend(wait);
            assert!(Instant::now() < limit, "{}", self.late(world, controller));
        }
    }

    /// What the first of those that are not there has come to.
    fn late(&self, world: &World, controller: &Daemon) -> String {
        let Some(run) = self.runs.iter().find(|run| !run.waits) else {
            return String::new();
        };
        format!(
            "{} of {} are late; {} ({}, {:?}) in stage {} after {:#?}\nfound:\n{}\nwanted:\n{}\n{}",
            self.runs.iter().filter(|run| !run.waits).count(),
            self.runs.len(),
            run.pool,
            run.story.name,
            run.faults,
            run.stage,
            world.proxy.written(&run.pool),
            story::end(world, &story::all(world), &run.pool),
            run.wanted,
            lines_of(&controller.said(), &run.pool),
        )
    }
}

impl Run {
    fn is_over(&self) -> bool {
        self.stage > self.story.stages.len()
    }
}

fn lines_of(log: &str, pool: &str) -> String {
    let lines = log.lines().filter(|line| line.contains(pool));
    let lines: Vec<_> = lines.collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

/// No attempt of a build had two Jobs, and there were as many builds and Jobs as undisturbed.
#[track_caller]
fn once(world: &World, run: &Run) {
    let jobs = world.proxy.created(&run.pool, "jobs");
    let attempt = |job: &Value| {
        let metadata = &job["metadata"];
        let owner = text(&metadata["ownerReferences"][0]["uid"]).to_owned();
        (
            owner,
            metadata["annotations"]["mosb.dev/attempt"].to_string(),
        )
    };
    let attempts: BTreeSet<_> = jobs.iter().map(attempt).collect();
    let what = (&run.pool, run.story.name, &run.faults);
    let written = world.proxy.written(&run.pool);
    assert_eq!(attempts.len(), jobs.len(), "{what:?} {written:#?}");
    assert_eq!(jobs.len(), run.story.jobs, "{what:?} {written:#?}");
    let builds = world.proxy.created(&run.pool, "machineosbuilds");
    assert_eq!(builds.len(), run.story.builds, "{what:?} {written:#?}");
}

/// Every story without a fault.
fn undisturbed(world: &World) -> Vec<Calm> {
    let controller = world.controller();
    let mut stage = Stage::default();
    for story in STORIES {
        let calm = Calm {
            story,
            writes: Vec::new(),
            end: String::new(),
        };
        stage.enter(world, &calm, &[]);
    }
    wait("the end of every story", LIMIT, || {
        stage.turn(world);
        stage.runs.iter().all(Run::is_over).then_some(())
    });
    // Nothing comes after it.
    thread::sleep(Duration::from_secs(2));
    let all = story::all(world);
    let ended = stage.runs.iter().map(|run| {
        once(world, run);
        Calm {
            story: run.story,
            writes: disturbed(&world.proxy.written(&run.pool), run.before),
            end: story::end(world, &all, &run.pool),
        }
    });
    let ended = ended.collect();
    drop(controller);
    ended
}

/// The writes that a story has for itself. What a Job needs is made all at once, in any order: the first and the last of it
/// stand for the rest.
fn disturbed(written: &[String], before: usize) -> Vec<usize> {
    const NEEDED: [&str; 5] = [
        "configmaps",
        "secrets",
        "serviceaccounts",
        "roles",
        "rolebindings",
    ];
    let is_needed = |number: usize| {
        let created = |write: &String| NEEDED.iter().any(|kind| *write == format!("POST {kind}"));
        written.get(number.wrapping_sub(1)).is_some_and(created)
    };
    let is_among = |number: usize| (number - 1..=number + 1).all(is_needed);
    let own = before.max(1)..=written.len();
    own.filter(|number| !is_among(*number)).collect()
}

/// Every write of every story.
fn each(calm: &[Calm]) -> impl Iterator<Item = (&Calm, usize)> {
    let of = |calm| move |at: &usize| (calm, *at);
    calm.iter()
        .flat_map(move |calm| calm.writes.iter().map(of(calm)))
}

#[test]
fn killed_after_every_write_a_story_ends_the_same() {
    let world = &*world();
    let begun = Instant::now();
    let calm = undisturbed(world);
    let mut controller = world.controller();
    let mut stage = Stage::default();
    for (calm, at) in each(&calm) {
        stage.enter(world, calm, &[(at, ApiFault::Die)]);
    }
    let writes = stage.runs.len();
    stage.play(world, &controller);
    println!(
        "{} of {writes} to die after {:?}",
        stage.runs.len(),
        begun.elapsed()
    );
    drop(controller);
    for run in &mut stage.runs {
        run.died = true;
    }
    world.proxy.open();
    controller = world.controller();
    stage.play(world, &controller);
    println!("all after {:?}", begun.elapsed());
}

#[test]
fn disturbed_at_every_write_a_story_ends_the_same() {
    let world = &*world();
    let begun = Instant::now();
    let calm = undisturbed(world);
    let controller = world.controller();
    let mut stage = Stage::default();
    for (calm, at) in each(&calm) {
        let faults = [
            (at, ApiFault::Refuse(409)),
            (at, ApiFault::Refuse(500)),
            (at, ApiFault::LoseAnswer),
            (at + 1, ApiFault::EndWatch),
        ];
        stage.enter(world, calm, &faults);
    }
    stage.play(world, &controller);
    println!("all after {:?}", begun.elapsed());
}
