//! Stories that share a cluster and its controller, each with a pool of its own.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Instant;

use super::cluster::RolloutCluster;

/// A name, and what happens.
pub type RolloutStory = (&'static str, fn(&RolloutCluster));

impl RolloutCluster {
    /// Runs all stories at once, and prints how long each took. If one fails, the others go on, and
    /// the cluster is printed before it fails.
    pub fn run_stories(&self, stories: &[RolloutStory]) {
        let results: Vec<_> = thread::scope(|scope| {
            let run = |&(name, story): &RolloutStory| {
                let began = Instant::now();
                let result = catch_unwind(AssertUnwindSafe(|| story(self)));
                let end = if result.is_ok() { "ok" } else { "FAILED" };
                println!("story {name}: {end} after {:.0} s", began.elapsed().as_secs_f64());
                result
            };
            let running: Vec<_> =
                stories.iter().map(|story| scope.spawn(move || run(story))).collect();
            running.into_iter().map(|one| one.join().expect("it catches panics")).collect()
        });
        if let Some(failed) = results.into_iter().find_map(Result::err) {
            self.print();
            resume_unwind(failed);
        }
    }
}
