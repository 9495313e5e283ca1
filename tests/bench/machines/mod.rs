//! A pool of many machines that gets an image: time, writes and reads for each machine, memory and
//! CPU time of the controller, its idle load, and the growth of these with the number of machines.

mod fleet;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::pools::audit_log::{AuditLog, Request};
use crate::pools::finish;
use crate::pools::process::Controller;
use crate::pools::site::{RINGS, Site, ours, send, until};
use crate::report::{Report, Table, seconds};
use fleet::{Fleet, HEARTBEAT_PARTS, ROLLOUT_NAMESPACE};
use mosb_tests::COUNTED;

/// The label of the pools.
const MARK: &str = "machines";
/// Size in bytes and number of the pool's config.
const CONFIG: (usize, u32) = (10_000, 1);
/// How often a part of the machines reports its status.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// How the machines get the image.
#[derive(Clone, Copy)]
pub enum Order {
    AnyMachine,
    /// One ring after the other.
    Rings,
}

impl Order {
    /// The names of the two tables.
    fn tables(self) -> [&'static str; 2] {
        match self {
            Self::AnyMachine => ["machines", "machines-idle"],
            Self::Rings => ["rings", "rings-idle"],
        }
    }

    fn many(self, machines: usize) -> String {
        match self {
            Self::AnyMachine => format!("{machines} machines"),
            Self::Rings => format!("{machines} machines in 20 rings"),
        }
    }
}

/// The results for one number of machines.
struct Stage {
    machines: usize,
    staged: Duration,
    rolled: Duration,
    writes: usize,
    refused: usize,
    reads: usize,
    processor: f64,
    pool_writes: usize,
    peak: f64,
}

impl Stage {
    fn all(&self) -> Duration {
        self.staged + self.rolled
    }

    fn per_machine(&self, count: usize) -> f64 {
        count as f64 / self.machines as f64
    }
}

pub fn measure(
    fixture: &Fixture,
    order: Order,
    counts: [usize; 2],
    minute: Duration,
    report: &mut Report,
) {
    let site = Site::new(fixture);
    prepare(&site);
    let mut audit_log = AuditLog::of(&site.node);
    let mut stages = Vec::new();
    for (at, count) in counts.into_iter().enumerate() {
        let names = [format!("fleet-{count}")];
        let pool = &*names[0];
        site.pools(&names, MARK);
        let most = json!({ "spec": { "maxUnavailable": "10%" } });
        change(&site, "machineconfigpools", pool, &most);
        site.rendered(&names, CONFIG.1, CONFIG.0);
        let image = format!("mosb.test/mosb@sha256:{:064}", 0);
        let controller =
            Controller::start(&site, COUNTED, &["--rollout", "--builder-image", &image]);
        if let Order::Rings = order {
            annotate(&site, pool, "mosb.dev/rollout-policy", RINGS);
        }
        site.change(&names, CONFIG.1);
        finish(&site, &mut audit_log, 1);
        let fleet = Fleet::start(&site, count, &format!("sha256:{:064}", 1));
        audit_log.quiet();
        stages.push(roll_out(&site, &mut audit_log, &controller, &fleet, pool));
        if at + 1 == counts.len() {
            idle(&mut audit_log, &controller, &fleet, order, minute, report);
        }
        drop(controller);
        audit_log.quiet();
        fleet.clear();
        let free = json!({ "metadata": { "finalizers": null } });
        change(&site, "machineosconfigs", pool, &free);
        site.clear(MARK);
    }
    report_stages(&stages, order, report);
}

/// Creates what the controllers of a cluster would: the accounts of pods.
fn prepare(site: &Site) {
    let namespace = json!({ "kind": "Namespace", "metadata": { "name": ROLLOUT_NAMESPACE } });
    site.create(vec![("/api/v1/namespaces".to_owned(), namespace)]);
    let account = json!({ "kind": "ServiceAccount", "metadata": { "name": "default" } });
    let accounts = ["default", ROLLOUT_NAMESPACE].map(|namespace| {
        (format!("/api/v1/namespaces/{namespace}/serviceaccounts"), account.clone())
    });
    site.create(accounts.to_vec());
}

fn change(site: &Site, kind: &str, name: &str, change: &Value) {
    let (target, body) = (ours(kind, name), change.to_string().into_bytes());
    site.runtime.block_on(send(&site.client, "PATCH", &target, body)).unwrap();
}

fn annotate(site: &Site, pool: &str, annotation: &str, value: &str) {
    let annotations = json!({ annotation: value });
    change(site, "machineosconfigs", pool, &json!({ "metadata": { "annotations": annotations } }));
}

/// Stages the image on all machines, then reboots them into it.
fn roll_out(
    site: &Site,
    audit_log: &mut AuditLog,
    controller: &Controller,
    fleet: &Fleet<'_>,
    pool: &str,
) -> Stage {
    let machines = fleet.machines();
    let processor = controller.seconds();
    let (start, clock) = (Timestamp::now(), Instant::now());
    annotate(site, pool, "mosb.dev/rollout", "stage");
    until("all machines to stage the image", || fleet.staged(&site.image) == machines);
    until("the Jobs to be deleted", || fleet.jobs() == 0);
    let staged = clock.elapsed();
    eprintln!(
        "  {:9.3} s  staged, {:.1} s of processors, {:.0} MiB",
        staged.as_secs_f64(),
        controller.seconds() - processor,
        controller.peak()
    );
    let clock = Instant::now();
    annotate(site, pool, "mosb.dev/rollout", "automatic");
    until("all machines to run the image", || fleet.rebooted(&site.image) == machines);
    until("the Jobs to be deleted", || fleet.jobs() == 0);
    let rolled = clock.elapsed();
    audit_log.quiet();
    let processor = controller.seconds() - processor;
    let since = audit_log.since(start);
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for one in &since {
        *kinds.entry(format!("{} {}", one.verb, one.kind())).or_default() += 1;
    }
    let count = |is: fn(&Request) -> bool| since.iter().filter(|one| is(one)).count();
    let stage = Stage {
        machines,
        staged,
        rolled,
        writes: count(|one| one.is_write() && !one.is_refused()),
        refused: count(|one| one.is_write() && one.is_refused()),
        reads: count(Request::is_read),
        processor,
        pool_writes: count(|one| one.is_write() && one.kind() == "machineconfigpools"),
        peak: controller.peak(),
    };
    eprintln!(
        "  {:9.3} s  {machines} machines: {} writes, {} refused, {} reads, {:.1} s of processors, {} changes of the pool, {:.0} MiB; {} warnings\n  {kinds:?}",
        stage.all().as_secs_f64(),
        stage.writes,
        stage.refused,
        stage.reads,
        stage.processor,
        stage.pool_writes,
        stage.peak,
        controller.count_in_log("WARN"),
    );
    stage
}

/// Measures a controller whose machines only report that they are still there.
fn idle(
    audit_log: &mut AuditLog,
    controller: &Controller,
    fleet: &Fleet<'_>,
    order: Order,
    minute: Duration,
    report: &mut Report,
) {
    audit_log.quiet();
    let (processor, start, clock) = (controller.seconds(), Timestamp::now(), Instant::now());
    let mut part = 0;
    while clock.elapsed() < minute {
        fleet.heartbeat(part % HEARTBEAT_PARTS);
        part += 1;
        thread::sleep(HEARTBEAT);
    }
    audit_log.read();
    let processor = controller.seconds() - processor;
    let since = audit_log.since(start);
    // A watch starts with a list, which the API server rejects if the cluster lacks the kind.
    let mut requests = since;
    requests.retain(|one| !(one.target.contains("dryRun") || one.is_refused() && one.is_read()));
    for one in &requests {
        eprintln!("  idle: {} {}", one.verb, one.target);
    }
    let mut table = Table::new(["", "value"]);
    for (what, found) in [
        ("requests other than watches and the Lease", requests.len().to_string()),
        ("CPU seconds", format!("{processor:.2}")),
        ("resident memory", format!("{:.0} MiB", controller.resident())),
    ] {
        table.row([what.to_owned(), found]);
    }
    report.table(order.tables()[1], table);
    let what = format!("requests in an idle minute, {}", order.many(fleet.machines()));
    report.at_most(what, requests.len() as f64, 0.0, "");
}

fn report_stages(stages: &[Stage], order: Order, report: &mut Report) {
    let mut table = Table::new([
        "machines",
        "all staged",
        "all rebooted",
        "writes per machine",
        "reads per machine",
        "status of the pool written",
        "CPU s",
        "CPU ms per machine",
        "peak memory",
    ]);
    for stage in stages {
        table.row([
            stage.machines.to_string(),
            seconds(stage.staged),
            seconds(stage.rolled),
            format!("{:.1}", stage.per_machine(stage.writes)),
            format!("{:.1}", stage.per_machine(stage.reads)),
            stage.pool_writes.to_string(),
            format!("{:.1}", stage.processor),
            format!("{:.1}", stage.processor * 1e3 / stage.machines as f64),
            format!("{:.0} MiB", stage.peak),
        ]);
    }
    report.table(order.tables()[0], table);
    let [some, many] = stages else { unreachable!("one for each count") };
    let what = format!("resident memory of the controller, {}", order.many(many.machines));
    report.at_most(what, many.peak, 160.0, "MiB");
    let more = many.machines as f64 / some.machines as f64;
    for (of, growth) in [
        ("time", many.all().as_secs_f64() / some.all().as_secs_f64()),
        ("writes", many.writes as f64 / some.writes as f64),
        ("processor time", many.processor / some.processor),
    ] {
        let many = order.many(many.machines);
        let what = format!("growth from {} to {many}, {of}", some.machines);
        report.at_most(what, growth / more, 1.2, "× linear");
    }
}
