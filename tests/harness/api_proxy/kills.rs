//! A controller that is killed after each of its writes.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{ApiFault, ApiProxy};

/// All writes.
const ALL: &str = "";
const LIMIT: Duration = Duration::from_secs(1200);
const PAUSE: Duration = Duration::from_millis(50);

impl ApiProxy {
    /// Does something, and kills the controller after each write that follows until all is over; then
    /// a controller runs that nobody kills. Returns the number of kills.
    ///
    /// Each process makes one write, which is not answered. So each write is the last one before a
    /// kill and the first one after another.
    #[track_caller]
    pub fn kill_after_each_write(
        &self,
        (kill, start): (impl Fn(), impl Fn()),
        begin: impl FnOnce(),
        is_over: impl Fn() -> bool,
    ) -> usize {
        self.follow(ALL, &[]);
        self.disturb(ALL, ApiFault::Die);
        begin();
        let mut kills = 0;
        let end = Instant::now() + LIMIT;
        while !is_over() {
            assert!(Instant::now() < end, "after {kills} kills: {:#?}", self.written(ALL));
            if !self.is_hit(ALL) {
                sleep(PAUSE);
                continue;
            }
            kills += 1;
            kill();
            self.disturb(ALL, ApiFault::Die);
            self.open();
            start();
        }
        println!("{kills} kills: {:#?}", self.written(ALL));
        kill();
        self.forget_faults(ALL);
        start();
        kills
    }
}
