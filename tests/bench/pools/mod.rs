//! Many pools that change together: the controller's writes compared with the same writes by a bare
//! client, its memory, its idle load, and the growth of all these with the number of pools.

pub mod audit_log;
pub mod process;
mod raw;
pub mod site;

use std::thread;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::fixture::Fixture;
use crate::report::{Report, Table, seconds};
use audit_log::AuditLog;
use mosb_tests::{COUNTED, RECORDED};
use process::Controller;
use raw::Recorded;
use site::{Site, until};

/// Sizes in bytes of the first config of each pool and of the one that all get together.
const SMALL: usize = 10_000;
const BIG: usize = 500_000;
/// The numbers of these configs.
const FIRST: u32 = 1;
const SECOND: u32 = 2;

/// The results for one number of pools.
struct Stage {
    pools: usize,
    created: Duration,
    all: Duration,
    writes: usize,
    refused: usize,
    configs_read: usize,
    reads: usize,
    processor: f64,
    peak: f64,
    settled: f64,
}

impl Stage {
    fn rate(&self) -> f64 {
        self.writes as f64 / self.all.as_secs_f64()
    }
}

pub fn measure(fixture: &Fixture, counts: [usize; 3], minute: Duration, report: &mut Report) {
    let site = Site::new(fixture);
    let mut audit_log = AuditLog::of(&site.node);
    let recorded = record(&site, &mut audit_log);
    eprintln!("a pool's {} writes: {}", recorded.len(), recorded.kinds());

    // The bare client makes as many writes as the controller, half of them before it and half after
    // it.
    let half = counts[2].div_ceil(2);
    let mut raw = play(&site, &recorded, "q", half);
    site.clear("raw");
    let mut stages = Vec::new();
    for (at, count) in counts.into_iter().enumerate() {
        let names = names(["x", "y", "z"][at], count);
        site.pools(&names, "stage");
        site.rendered(&names, FIRST, SMALL);
        site.rendered(&names, SECOND, BIG);
        let controller = Controller::start(&site, COUNTED, &[]);
        site.change(&names, FIRST);
        finish(&site, &mut audit_log, count);
        let stage = changed(&site, &mut audit_log, &controller, &names);
        if at + 1 == counts.len() {
            idle(&mut audit_log, &controller, count, minute, report);
        }
        stages.push(stage);
        drop(controller);
        audit_log.quiet();
        site.clear("stage");
    }
    raw += play(&site, &recorded, "r", half);
    let raw = (2 * half * recorded.len()) as f64 / raw.as_secs_f64();
    report_stages(&stages, raw, report);
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number:04}")).collect()
}

/// Records the writes of the controller for one pool that changes.
fn record(site: &Site, audit_log: &mut AuditLog) -> Recorded {
    let names = names("recorded", 1);
    site.pools(&names, "recorded");
    site.rendered(&names, FIRST, SMALL);
    site.rendered(&names, SECOND, BIG);
    let controller = Controller::start(site, RECORDED, &[]);
    site.change(&names, FIRST);
    finish(site, audit_log, 1);
    audit_log.quiet();
    let start = Timestamp::now();
    site.change(&names, SECOND);
    until("the Job", || site.running() == 1);
    audit_log.quiet();
    let recorded = Recorded::new(site, &names[0], &audit_log.since(start));
    finish(site, audit_log, 1);
    drop(controller);
    site.clear("recorded");
    recorded
}

/// Completes the builds of all pools.
pub fn finish(site: &Site, audit_log: &mut AuditLog, count: usize) {
    until("all Jobs to run", || site.running() == count);
    audit_log.quiet();
    site.kubelet();
    until("all Jobs to be gone", || site.jobs() == 0);
    audit_log.quiet();
    site.collect_garbage();
}

fn play(site: &Site, recorded: &Recorded, prefix: &str, count: usize) -> Duration {
    let names = names(prefix, count);
    site.pools(&names, "raw");
    let took = recorded.play(site, &names, SECOND);
    eprintln!("  {:9.3} s  raw, {count} pools", took.as_secs_f64());
    took
}

/// Gives all pools another config and measures the reaction.
fn changed(
    site: &Site,
    audit_log: &mut AuditLog,
    controller: &Controller,
    names: &[String],
) -> Stage {
    audit_log.quiet();
    let processor = controller.seconds();
    let start = Timestamp::now();
    site.change(names, SECOND);
    until("all Jobs to run", || site.running() == names.len());
    audit_log.quiet();
    let processor = controller.seconds() - processor;
    let peak = controller.peak();
    let since = audit_log.since(start);
    let done: Vec<_> = since.iter().filter(|one| one.is_write() && !one.is_refused()).collect();
    let span = |at: Option<Timestamp>| {
        let at = at.expect("there were writes");
        Duration::try_from(at.duration_since(start)).unwrap_or_default()
    };
    let jobs = done.iter().filter(|one| one.kind() == "jobs" && one.verb == "create");
    let stage = Stage {
        pools: names.len(),
        created: span(jobs.map(|one| one.answered).max()),
        all: span(done.iter().map(|one| one.answered).max()),
        writes: done.len(),
        refused: since.iter().filter(|one| one.is_write() && one.is_refused()).count(),
        configs_read: since
            .iter()
            .filter(|one| one.is_read() && one.kind() == "machineconfigs")
            .count(),
        reads: since.iter().filter(|one| one.is_read()).count(),
        processor,
        peak,
        settled: controller.resident(),
    };
    finish(site, audit_log, names.len());
    eprintln!(
        "  {:9.3} s  {} pools: {:.0} writes a second, {} refused, {} reads, {:.1} s of processors, {peak:.0} MiB, {:.0} after; said {} warnings",
        stage.all.as_secs_f64(),
        stage.pools,
        stage.rate(),
        stage.refused,
        stage.reads,
        stage.processor,
        controller.resident(),
        controller.count_in_log("WARN"),
    );
    stage
}

/// Measures a controller without changes.
fn idle(
    audit_log: &mut AuditLog,
    controller: &Controller,
    count: usize,
    minute: Duration,
    report: &mut Report,
) {
    audit_log.quiet();
    let (processor, start) = (controller.seconds(), Timestamp::now());
    thread::sleep(minute);
    audit_log.read();
    let processor = controller.seconds() - processor;
    let leases = audit_log.leases.iter().filter(|one| one.at >= start);
    let (renewed, read): (Vec<_>, Vec<_>) = leases.partition(|one| one.is_write());
    let since = audit_log.since(start);
    // A watch starts with a list, which the API server rejects if the cluster lacks the kind.
    let (unknown, mut since): (Vec<_>, Vec<_>) =
        since.into_iter().partition(|one| one.is_refused() && one.is_read());
    // The API server has no service accounts, so it rejects every pod, also in a dry run.
    since.retain(|one| !one.target.contains("dryRun"));
    for one in &since {
        eprintln!("  idle: {} {}", one.verb, one.target);
    }
    let reads = since.iter().filter(|one| one.is_read()).count() + read.len();
    let mut table = Table::new(["", "value"]);
    for (what, found) in [
        ("reads other than watches", reads.to_string()),
        ("watches of kinds that the cluster lacks, retried", unknown.len().to_string()),
        ("writes", (since.len() + read.len() - reads).to_string()),
        ("renewals of the Lease", renewed.len().to_string()),
        ("CPU seconds", format!("{processor:.2}")),
        ("resident memory", format!("{:.0} MiB", controller.resident())),
    ] {
        table.row([what.to_owned(), found]);
    }
    report.table("pools-idle", table);
    let what = format!("reads in an idle minute, {count} pools");
    report.at_most(what, reads as f64, 0.0, "");
}

fn report_stages(stages: &[Stage], raw: f64, report: &mut Report) {
    let mut table = Table::new([
        "pools",
        "all Jobs created",
        "all Jobs run",
        "per pool",
        "writes",
        "writes/s",
        "× raw",
        "reads",
        "CPU s",
        "peak memory",
        "after",
    ]);
    for stage in stages {
        table.row([
            stage.pools.to_string(),
            seconds(stage.created),
            seconds(stage.all),
            seconds(stage.all / u32::try_from(stage.pools).expect("few")),
            stage.writes.to_string(),
            format!("{:.0}", stage.rate()),
            format!("{:.2}", stage.rate() / raw),
            stage.reads.to_string(),
            format!("{:.1}", stage.processor),
            format!("{:.0} MiB", stage.peak),
            format!("{:.0} MiB", stage.settled),
        ]);
    }
    report.table("pools", table);
    eprintln!("raw: {raw:.0} writes a second");
    let [few, some, many] = stages else { unreachable!("one for each count") };
    let what = format!("writes a second vs. a bare client, {} pools at once", many.pools);
    report.at_least(what, many.rate() / raw * 100.0, 80.0, "%");
    let what = format!("resident memory of the controller, {} pools at once", many.pools);
    report.at_most(what, many.peak, 128.0, "MiB");
    let what = format!("reads of rendered configs for each of {} pools", many.pools);
    report.at_most(what, many.configs_read as f64 / many.pools as f64, 1.0, "");
    let growth = |of: fn(&Stage) -> f64| {
        let pools = |stage: &Stage| stage.pools as f64;
        (of(many) - of(few)) / (of(some) - of(few)) * (pools(some) - pools(few))
            / (pools(many) - pools(few))
    };
    let what = format!("growth from {} to {} to {} pools", few.pools, some.pools, many.pools);
    let time = growth(|stage| stage.all.as_secs_f64());
    report.at_most(format!("{what}, time"), time, 1.2, "× linear");
    let time = growth(|stage| stage.processor);
    report.at_most(format!("{what}, processor time"), time, 1.2, "× linear");
}
