//! Controllers that are started again if they lost the Lease, as a kubelet does. On a busy machine
//! it may expire before it is renewed.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::FaultCluster;
use mosb_tests::Daemon;

/// The last words of a controller that lost its Lease.
const LOST_LEASE: &str = "mosb stops writing, exits and is restarted";
/// The most time until they are read.
const LAST_WORDS: Duration = Duration::from_secs(120);
/// A fault that costs the Lease does so each time; a machine is not busy for ever.
const LIMIT: Duration = Duration::from_secs(1200);

/// Whether a controller ended because it lost its Lease. It must not end for another reason.
#[track_caller]
pub fn has_lost_lease(controller: &Daemon) -> bool {
    if !controller.has_ended() {
        return false;
    }
    let end = Instant::now() + LAST_WORDS;
    while !controller.log().contains(LOST_LEASE) {
        assert!(Instant::now() < end, "the controller ended: {}", controller.log());
        sleep(Duration::from_millis(50));
    }
    true
}

/// The controllers of a test: the first one has the Lease, another one waits for it.
pub struct Controllers<'c> {
    start: Box<dyn Fn() -> Vec<Daemon> + 'c>,
    running: Vec<Daemon>,
    /// The logs of those that lost the Lease.
    ended: String,
    restarts: usize,
}

impl<'c> Controllers<'c> {
    /// Starts controllers, and the same ones again if one of them lost the Lease.
    pub fn start(start: impl Fn() -> Vec<Daemon> + 'c) -> Self {
        Self::of(start(), start)
    }

    /// One controller with the cluster's proxy.
    pub fn one(cluster: &'c FaultCluster) -> Self {
        Self::start(|| vec![cluster.controller()])
    }

    /// Controllers that run already, and how they are started again.
    pub fn of(running: Vec<Daemon>, start: impl Fn() -> Vec<Daemon> + 'c) -> Self {
        Self { start: Box::new(start), running, ended: String::new(), restarts: 0 }
    }

    /// Those that run now.
    pub fn running(&self) -> &[Daemon] {
        &self.running
    }

    /// Those that run now, which are not started again any more.
    pub fn into_running(self) -> Vec<Daemon> {
        self.running
    }

    /// All logs, of those that lost the Lease too.
    pub fn log(&self) -> String {
        let logs: String = self.running.iter().map(Daemon::log).collect();
        format!("{}{logs}", self.ended)
    }

    /// Starts all of them again if one lost the Lease. Returns whether it did.
    #[track_caller]
    pub fn restart_if_lost(&mut self) -> bool {
        if !self.running.iter().any(has_lost_lease) {
            return false;
        }
        println!("a controller lost its Lease");
        self.ended = self.log();
        // The drop kills the others.
        self.running.clear();
        self.running = (self.start)();
        self.restarts += 1;
        true
    }

    /// Acts once more if the Lease was lost meanwhile.
    #[track_caller]
    pub fn while_leased<T>(&mut self, mut act: impl FnMut(&mut Self) -> T) -> T {
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            let before = self.restarts;
            let done = act(self);
            self.restart_if_lost();
            if self.restarts == before {
                return done;
            }
        }
        panic!("the Lease was lost each time: {}", self.log());
    }
}
