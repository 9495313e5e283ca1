//! The controller killed after each of its writes.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::cluster::RolloutCluster;
use crate::api_proxy::ApiFault;

/// All writes.
const ALL: &str = "";
const LIMIT: Duration = Duration::from_secs(1200);
const PAUSE: Duration = Duration::from_millis(50);

impl RolloutCluster {
    /// Does something, and kills the controller after each write that follows until all is over; then
    /// a controller runs that nobody kills. Returns the number of kills.
    ///
    /// Each process makes one write, which is not answered. So each write is the last one before a
    /// kill and the first one after another.
    #[track_caller]
    pub fn kill_after_each_write(&self, begin: impl FnOnce(), is_over: impl Fn() -> bool) -> usize {
        let proxy = self.proxy();
        proxy.follow(ALL, &[]);
        proxy.disturb(ALL, ApiFault::Die);
        begin();
        let mut kills = 0;
        let end = Instant::now() + LIMIT;
        while !is_over() {
            assert!(Instant::now() < end, "after {kills} kills: {:#?}", proxy.written(ALL));
            if !proxy.is_hit(ALL) {
                sleep(PAUSE);
                continue;
            }
            kills += 1;
            self.kill_controllers();
            proxy.disturb(ALL, ApiFault::Die);
            proxy.open();
            self.start_controller("first");
        }
        println!("{kills} kills: {:#?}", proxy.written(ALL));
        self.kill_controllers();
        proxy.forget_faults(ALL);
        self.start_controller("first");
        kills
    }
}
