//! Random events for a configurable time: changes by users, results of Jobs, faults of the API
//! server, and kills of the controller. Afterwards every pool reaches its desired state, no objects
//! are left over, and no attempt of a build has run twice.
//!
//! `make soak` runs the same test for longer. The seed determines the events and their order; their
//! timing relative to the controller is random.

mod desired_pool;
mod events;
mod kubelet;
mod left;
mod memory;

use std::time::{Duration, Instant};
use std::{env, thread};

use crate::fault_cluster::{FaultCluster, cluster, has_lost_lease};
use crate::fault_stories::story::Seen;
use desired_pool::DesiredPool;
use events::{Events, Random};
use kubelet::Kubelet;
use memory::Memory;
use mosb_tests::Daemon;

const POOLS: usize = 12;
/// The defaults of `MOSB_SOAK_SECONDS` and `MOSB_SOAK_SEED`, for an ordinary test run.
const SECONDS: u64 = 40;
const SEED: u64 = 1;
/// The timeout until all pools reach their desired state. A Job that was lost several times waits
/// for minutes before the next attempt.
const LIMIT: Duration = Duration::from_secs(900);
const PAUSE: Duration = Duration::from_millis(150);
/// For this long nothing may change after the pools have reached their desired state.
const STILL: Duration = Duration::from_secs(3);

struct Soak<'w> {
    cluster: &'w FaultCluster,
    /// `None` only while one controller is replaced by the next.
    controller: Option<Daemon>,
    desired_pools: Vec<DesiredPool>,
    kubelet: Kubelet,
    memory: Memory,
}

#[test]
fn every_pool_reaches_its_desired_state() {
    let number = |name: &str, otherwise| match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|why| panic!("{name}={text}: {why}")),
        Err(_) => otherwise,
    };
    let (seconds, seed) = (number("MOSB_SOAK_SECONDS", SECONDS), number("MOSB_SOAK_SEED", SEED));
    println!("{seconds} s with MOSB_SOAK_SEED={seed}");
    let cluster = &*cluster();
    let mut soak = Soak {
        cluster,
        controller: Some(cluster.controller()),
        desired_pools: (0..POOLS).map(|number| DesiredPool::begin(cluster, number)).collect(),
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
    /// Applies random events for this time.
    fn go_on(&mut self, time: Duration, events: &mut Events) {
        let started = Instant::now();
        let mut next = started;
        while started.elapsed() < time {
            self.turn();
            while next <= Instant::now() {
                next += events.pause();
                // The last controller runs long enough to show whether its memory grows.
                if started.elapsed() < time * 3 / 5 && events.kills() {
                    self.kill();
                }
                events.one(self.cluster, &mut self.desired_pools);
            }
            thread::sleep(PAUSE);
        }
    }

    fn turn(&mut self) -> Seen {
        let seen = Seen::of(self.cluster);
        self.kubelet.turn(self.cluster, &seen.runners);
        if let Some(controller) = &self.controller
            && !self.memory.sample(controller.pid)
            && has_lost_lease(controller)
        {
            // As a kubelet does. On a busy machine its Lease may expire before it is renewed.
            println!("the controller lost its Lease");
            self.kill();
        }
        seen
    }

    fn kill(&mut self) {
        self.log();
        // The drop kills the process.
        drop(self.controller.take());
        self.controller = Some(self.cluster.controller());
        self.memory = Memory::default();
    }

    /// Returns the log, and asserts that the controller did not panic.
    fn log(&self) -> String {
        let log = self.controller.as_ref().map(Daemon::log).unwrap_or_default();
        assert!(!log.contains("panicked"), "{log}");
        log
    }

    /// Waits until all pools have their desired state and nothing changes any more.
    fn settles(&mut self) {
        let end = Instant::now() + LIMIT;
        let mut since = Instant::now();
        let mut writes = 0;
        while since.elapsed() < STILL {
            let mut seen = self.turn();
            let of = |desired: &DesiredPool, seen: &mut Seen| {
                desired.missing(self.cluster, &seen.pool(&desired.pool))
            };
            let mut missing: Vec<String> =
                self.desired_pools.iter().filter_map(|desired| of(desired, &mut seen)).collect();
            missing.extend(left::over(self.cluster));
            let now = self
                .desired_pools
                .iter()
                .map(|desired| self.cluster.proxy.written(&desired.pool).len())
                .sum();
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

    /// Describes the first pool that has not reached its desired state.
    fn late(&self, missing: &[String]) -> String {
        let is_late =
            |desired: &&DesiredPool| missing.iter().any(|line| line.contains(&desired.pool));
        let Some(desired) = self.desired_pools.iter().find(is_late) else {
            return format!("it writes on and on\n{}", self.log());
        };
        let log = self.log();
        let lines: Vec<_> = log.lines().filter(|line| line.contains(&desired.pool)).collect();
        let pool = Seen::of(self.cluster).pool(&desired.pool);
        let written = self.cluster.proxy.written(&desired.pool);
        format!(
            "{pool:#?}\n{:#?}\n{}",
            &written[written.len().saturating_sub(40)..],
            lines[lines.len().saturating_sub(100)..].join("\n")
        )
    }

    fn end(mut self, events: &Events) {
        let pools = self.desired_pools.iter().map(|desired| &desired.pool);
        let runners =
            pools.map(|pool| left::no_attempt_ran_twice(self.cluster, pool, &events.deleted));
        println!("{} Jobs and Pods", runners.sum::<usize>());
        self.log();
        println!("{}", self.memory);
        self.memory.is_flat();
        // The pools must not affect later tests.
        drop(self.controller.take());
        self.desired_pools.iter().for_each(|desired| desired.end(self.cluster));
    }
}
