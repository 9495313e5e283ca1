//! Random events for as long as one likes: what users do, what becomes of Jobs, an API server that disturbs, a controller that
//! is killed. When they end, every pool comes to what was wanted of it last, nothing is left over, and no attempt of a build
//! ever ran twice.
//!
//! `make soak` is the same for longer. The seed makes the same events in the same order; how they meet is chance.

mod events;
mod kubelet;
mod left;
mod memory;
mod wish;

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use crate::fault_stories::story::Seen;
use crate::fault_world::{World, world};
use events::{Events, Random};
use kubelet::Kubelet;
use memory::Memory;
use mosb_tests::Daemon;
use wish::Wish;

const POOLS: usize = 12;
/// Without `MOSB_SOAK_SECONDS` and `MOSB_SOAK_SEED`, as one test among the others.
const SECONDS: u64 = 40;
const SEED: u64 = 1;
/// Until everything is as it was wanted: a Job that was lost often has waited minutes for its successor.
const LIMIT: Duration = Duration::from_secs(900);
const PAUSE: Duration = Duration::from_millis(150);
/// Nothing more is done after it is as it was wanted.
const STILL: Duration = Duration::from_secs(3);

struct Soak<'w> {
    world: &'w World,
    /// None for a moment: between two lives.
    controller: Option<Daemon>,
    wishes: Vec<Wish>,
    kubelet: Kubelet,
    memory: Memory,
}

#[test]
fn whatever_happens_every_pool_comes_to_what_is_wanted() {
    let number = |name: &str, otherwise| match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|why| panic!("{name}={text}: {why}")),
        Err(_) => otherwise,
    };
    let (seconds, seed) = (number("MOSB_SOAK_SECONDS", SECONDS), number("MOSB_SOAK_SEED", SEED));
    println!("{seconds} s with MOSB_SOAK_SEED={seed}");
    let world = &*world();
    let mut soak = Soak {
        world,
        controller: Some(world.controller()),
        wishes: (0..POOLS).map(|number| Wish::begin(world, number)).collect(),
        kubelet: Kubelet::new(Random::new(seed + 1)),
        memory: Memory::default(),
    };
    let mut events = Events::new(Random::new(seed));
    soak.go_on(Duration::from_secs(seconds), &mut events);
    println!("{events}");
    soak.settles();
    soak.end(&events);
}

impl Soak<'_> {
    /// One event after the other.
    fn go_on(&mut self, time: Duration, events: &mut Events) {
        let begun = Instant::now();
        let mut next = begun;
        while begun.elapsed() < time {
            self.turn();
            while next <= Instant::now() {
                next += events.pause();
                // The last life is long enough to see whether it grows.
                if begun.elapsed() < time * 3 / 5 && events.kills() {
                    self.kill();
                }
                events.one(self.world, &mut self.wishes);
            }
            thread::sleep(PAUSE);
        }
    }

    fn turn(&mut self) -> Seen {
        let seen = Seen::of(self.world);
        self.kubelet.turn(self.world, &seen.runners);
        if let Some(controller) = &self.controller {
            self.memory.look(controller.pid);
        }
        seen
    }

    fn kill(&mut self) {
        self.said();
        // That kills it.
        drop(self.controller.take());
        self.controller = Some(self.world.controller());
        self.memory = Memory::default();
    }

    /// It never says that it broke.
    fn said(&self) -> String {
        let said = self.controller.as_ref().map(Daemon::said).unwrap_or_default();
        assert!(!said.contains("panicked"), "{said}");
        said
    }

    /// Until all is as it was wanted, and stays so.
    fn settles(&mut self) {
        let end = Instant::now() + LIMIT;
        let mut since = Instant::now();
        let mut writes = 0;
        while since.elapsed() < STILL {
            let mut seen = self.turn();
            let of =
                |wish: &Wish, seen: &mut Seen| wish.missing(self.world, &seen.pool(&wish.pool));
            let mut missing: Vec<String> =
                self.wishes.iter().filter_map(|wish| of(wish, &mut seen)).collect();
            missing.extend(left::over(self.world));
            let now =
                self.wishes.iter().map(|wish| self.world.proxy.written(&wish.pool).len()).sum();
            if !missing.is_empty() || now != writes {
                since = Instant::now();
                writes = now;
            }
            if Instant::now() > end {
                panic!("{}\n{}", missing.join("\n"), self.late(&missing));
            }
            thread::sleep(PAUSE);
        }
    }

    /// What is known of the first pool that is late.
    fn late(&self, missing: &[String]) -> String {
        let is_late = |wish: &&Wish| missing.iter().any(|line| line.contains(&wish.pool));
        let Some(wish) = self.wishes.iter().find(is_late) else {
            return format!("it writes on and on\n{}", self.said());
        };
        let said = self.said();
        let lines: Vec<_> = said.lines().filter(|line| line.contains(&wish.pool)).collect();
        let pool = Seen::of(self.world).pool(&wish.pool);
        let written = self.world.proxy.written(&wish.pool);
        format!(
            "{pool:#?}\n{:#?}\n{}",
            &written[written.len().saturating_sub(40)..],
            lines[lines.len().saturating_sub(100)..].join("\n")
        )
    }

    fn end(mut self, events: &Events) {
        let pools = self.wishes.iter().map(|wish| &wish.pool);
        let runners =
            pools.map(|pool| left::no_attempt_ran_twice(self.world, pool, &events.deleted));
        println!("{} Jobs and Pods", runners.sum::<usize>());
        self.said();
        println!("{}", self.memory);
        self.memory.is_flat();
        // The pools are in nobody's way.
        drop(self.controller.take());
        self.wishes.iter().for_each(|wish| wish.end(self.world));
    }
}
