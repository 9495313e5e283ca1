//! Builds of many configs on one base in one process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};

use crate::bare::{self, Order};
use crate::base::TAG;
use crate::build::{self, Image, Job};
use crate::fixture::{Base, Fixture};
use crate::race::timed;
use crate::report::{Report, Table};

/// The number of parallel builds, and of connections for the bare requests.
const PARALLEL: usize = 8;

pub fn measure(fixture: &Fixture, base: &Base, images: usize, report: &mut Report) {
    let jobs =
        || -> Vec<Job> { (0..images).map(|_| fixture.job(base, base.repository())).collect() };
    let client = fixture.client();
    let prepared = each(fixture, jobs(), |job| {
        let client = client.clone();
        async move { build::make(&client, job).await }
    });
    let ((), bare) = timed(|| bare_calls(fixture.registry.address(), base.repository(), &prepared));
    drop(prepared);
    let jobs = jobs();
    let client = fixture.client();
    let (_, took) = timed(|| {
        each(fixture, jobs, |job| {
            let client = client.clone();
            async move { build::build(&client, job).await }
        })
    });
    let rate = |time: Duration| format!("{:.0}", images as f64 / time.as_secs_f64());
    let ratio = took.as_secs_f64() / bare.as_secs_f64();
    let mut table = Table::new(["", "images a second", "× time of the bare calls"]);
    table.row([format!("bare calls, {PARALLEL} connections"), rate(bare), "1.00".to_owned()]);
    table.row([format!("mosb, {PARALLEL} builds at once"), rate(took), format!("{ratio:.2}")]);
    report.table("many", table);
}

/// Runs the jobs as tasks, a limited number of them in parallel.
fn each<F>(fixture: &Fixture, jobs: Vec<Job>, run: impl Fn(Job) -> F) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let tasks = stream::iter(jobs)
        .map(|job| {
            let task = run(job);
            async move { tokio::spawn(task).await.unwrap() }
        })
        .buffer_unordered(PARALLEL);
    fixture.runtime.block_on(tasks.collect())
}

fn bare_calls(host: &str, repository: &str, images: &[Image]) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..PARALLEL {
            scope.spawn(|| {
                while let Some(image) = images.get(next.fetch_add(1, Ordering::Relaxed)) {
                    bare::calls(host, repository, TAG, image, Order::Loop);
                }
            });
        }
    });
}
