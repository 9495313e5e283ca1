//! The time from a pool's change to the image in its status, on a real node. The controller runs
//! outside the cluster.

mod customised;
mod journal;
mod phases;

use std::cell::RefCell;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::config;
use crate::fixture::Fixture;
use crate::race::{Contender, Times, race, run};
use crate::report::{Report, Table, seconds};
use crate::test_cluster::Cluster;
use crate::test_cluster::build_pod::assert_direct;
use customised::Customised;
use journal::Journal;
pub use journal::client;
use mosb_tests::{BUSYBOX_IMAGE, condition};
use phases::{POINTS, Phases};

/// An instruction that needs no program in the image.
const CONTAINERFILE: &str = "FROM configs AS final\nLABEL site=bench\n";

/// Makes no check of an image.
const UNCHECKED: &str = "mosb.dev/checks=base-layers=off,architecture=off,size=off,packages-held=off,bootable=off,release=off,kubelet-skew=off,signature=off";

pub fn measure(fixture: &Fixture, rounds: usize, slow: usize, report: &mut Report) {
    let mut cluster = Cluster::new("bench");
    let node = cluster.node;
    let site = Site {
        journal: Journal::begin(node, &cluster.namespace.name),
        // Debian with Ignition. A Containerfile build runs Ignition.
        base: node.registry().repository("story-base:12"),
        fixture,
    };
    cluster.wants(&site.config(&cluster, &cluster.pool));
    cluster.start();
    cluster.opt_in(None);
    // This build reads the tree of the base and records it.
    cluster.image_after("");
    cluster.wait_for_pool_condition("BuildSuccess");
    let customised = Customised::create(&site, &cluster);

    let cache = fixture.shared("cluster-trees");
    let built = RefCell::new(Vec::new());
    let started = RefCell::new(Vec::new());
    let times = race(vec![
        Contender::new("in the cluster, from the pool's change to its status", rounds, || {
            let phases = site.round(&cluster, &cluster.pool);
            assert_direct(&phases.pod);
            let total = phases.total();
            built.borrow_mut().push(phases);
            total
        }),
        Contender::new("the same on a customised pool, on its prepared base", rounds, || {
            customised.round(&site).total()
        }),
        Contender::new("`mosb build` by hand, total", rounds, || site.by_hand(&cluster, &cache)),
        Contender::new("a plain Job of `true`, from creation to end", rounds, || {
            let (took, pod_started) = site.bare_job(&cluster);
            started.borrow_mut().push(pod_started);
            took
        }),
        Contender::new("in the cluster, without checks", rounds, || {
            let annotate = |annotation: &str| {
                let words = ["annotate", "machineosconfig", &cluster.pool, annotation];
                node.kubectl(&words).ok();
            };
            annotate(UNCHECKED);
            let total = site.round(&cluster, &cluster.pool).total();
            annotate("mosb.dev/checks-");
            total
        }),
    ]);
    // The rest is measured without it.
    drop(customised);
    // This removes the warm-up round of the race.
    let warm = |len: usize| len - times[0].rounds.len();
    let built = built.into_inner();
    let built = &built[warm(built.len())..];
    let started = started.into_inner();
    let started = median(started[warm(started.len())..].iter().copied());

    report.table("cluster-phases", steps(built));
    let mut table = Table::of_race(&times, "in the cluster");
    table.row(against(&times[0], "of the plain Job: until its process runs", started, rounds));
    report.table("cluster", table);
    let [direct, on_prepared, by_hand, _, unchecked] = &times[..] else {
        unreachable!("five contenders")
    };
    goals(built, report);
    report.at_most(
        "config of a customised pool vs. that of one that runs nothing, in a cluster",
        on_prepared.to(direct),
        1.2,
        "×",
    );
    report.at_most(
        "checks, on a direct build's way to service",
        direct.median().as_secs_f64() - unchecked.median().as_secs_f64(),
        0.3,
        "s",
    );
    eprintln!("cluster against by hand: {:.1}", direct.to(by_hand));

    cluster.opt_in(Some(CONTAINERFILE));
    let before = cluster.config()["status"]["currentImagePullSpec"].clone();
    cluster.image_after(before.as_str().unwrap());
    let with_buildah: Vec<Phases> =
        (0..slow).map(|_| site.round(&cluster, &cluster.pool)).collect();
    let mut table = Table::new(["", "median", "× in the cluster", "rounds"]);
    let all = median(with_buildah.iter().map(Phases::total));
    table.row(against(&times[0], "the same config by the Containerfile method", all, slow));
    report.table("cluster-containerfile", table);
}

/// A row for a measurement that was not part of the race.
fn against(first: &Times, what: &str, took: Duration, rounds: usize) -> [String; 4] {
    let ratio = took.as_secs_f64() / first.median().as_secs_f64();
    let ratio = format!("{ratio:.2}");
    [what.to_owned(), seconds(took), ratio, rounds.to_string()]
}

fn goals(built: &[Phases], report: &mut Report) {
    let ours = median(built.iter().map(Phases::ours));
    report.at_most(
        "pool change to status, without pod start and registry",
        ours.as_secs_f64(),
        1.0,
        "s",
    );
    let most = built.iter().map(Phases::ours).max().expect("it was built");
    report.at_most("the same, in the slowest round", most.as_secs_f64(), 1.0, "s");
}

/// The median and the maximum duration of each step.
fn steps(rounds: &[Phases]) -> Table {
    let mut table = Table::new(["until", "median", "slowest"]);
    let mut row = |what: String, took: &dyn Fn(&Phases) -> Duration| {
        let most = rounds.iter().map(took).max().expect("it was built");
        table.row([what, seconds(median(rounds.iter().map(took))), seconds(most)]);
    };
    for (point, what) in POINTS.iter().enumerate().skip(1) {
        row((*what).to_owned(), &|phases| phases.step(point));
    }
    row("**total**".to_owned(), &Phases::total);
    row("of that: pod start".to_owned(), &Phases::pod_start);
    row("of that: the pod's requests to the registry".to_owned(), &Phases::registry);
    row("of that: the rest, **mosb**".to_owned(), &Phases::ours);
    let millis =
        |count: fn(&Phases) -> u64| move |phases: &Phases| Duration::from_millis(count(phases));
    row("in the pod: querying the base".to_owned(), &millis(|it| it.build.resolve));
    row("in the pod: the base's tree, planning".to_owned(), &millis(|it| it.build.tree));
    row("in the pod: making the layer".to_owned(), &millis(|it| it.build.build));
    row("in the pod: pushing".to_owned(), &millis(|it| it.build.push));
    row("in the pod: the program in total".to_owned(), &millis(|it| it.build.total));
    row("afterwards: Job deleted".to_owned(), &|phases| phases.cleared);
    table
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let rounds = times.collect();
    Times { name: String::new(), rounds }.median()
}

struct Site<'w> {
    fixture: &'w Fixture,
    journal: Journal,
    base: String,
}

impl Site<'_> {
    /// Creates the next rendered config without assigning it to the pool.
    fn config(&self, cluster: &Cluster, pool: &str) -> String {
        let number = self.fixture.number();
        let mut object = config::object(number);
        let name = format!("rendered-{pool}-{number:032x}");
        object["metadata"]["name"] = json!(name);
        object["metadata"]["annotations"] = json!({
            "machineconfiguration.openshift.io/generated-by-controller-version": "bench",
            "machineconfiguration.openshift.io/release-image-version": "4.20.0" });
        object["spec"]["osImageURL"] = json!(self.base);
        cluster.node.apply(&object.to_string());
        name
    }

    /// Gives the pool another config and measures the phases of its build.
    fn round(&self, cluster: &Cluster, pool: &str) -> Phases {
        let rendered = self.config(cluster, pool);
        let before = Timestamp::now();
        cluster.pool_wants(pool, &rendered);
        let phases = Phases::read(&self.journal, before, pool, &rendered);
        let steps = (1..POINTS.len()).map(|point| phases.step(point).as_millis());
        eprintln!("  steps {:?}, {:?}", steps.collect::<Vec<_>>(), phases.build);
        phases
    }

    /// `mosb build` by hand, outside the cluster.
    fn by_hand(&self, cluster: &Cluster, cache: &std::path::Path) -> Duration {
        let registry = cluster.node.registry();
        let config = self.fixture.config_file(self.fixture.number());
        let mut command: Command = self.fixture.mosb(cache);
        command.arg("build").arg(config);
        command.args(["--base", &self.base, "--output", &cluster.push, "-o", "json", "-q"]);
        command.arg("--authfile").arg(registry.authfile());
        command.arg("--cert-dir").arg(registry.certificates());
        run(&mut command).1
    }

    /// Measures Kubernetes alone: the time until the end of a pod that does nothing is observed,
    /// and the time until its process starts.
    fn bare_job(&self, cluster: &Cluster) -> (Duration, Duration) {
        let name = format!("bare-{}", self.fixture.number());
        let job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name },
            "spec": { "backoffLimit": 0, "template": { "spec": { "restartPolicy": "Never",
                "containers": [{ "name": "true", "image": BUSYBOX_IMAGE, "command": ["/bin/true"] }] } } } });
        let before = Timestamp::now();
        cluster.namespace.apply(&job.to_string());
        let named = |object: &serde_json::Value| object["metadata"]["name"] == name.as_str();
        let first = |what: &str, fits: &dyn Fn(&journal::Seen) -> bool| {
            self.journal.first(what, before, fits)
        };
        let made = first("the Job", &|seen| seen.kind == "Job" && named(&seen.object));
        let done = first("the Job's end", &|seen| {
            seen.kind == "Job" && named(&seen.object) && condition(&seen.object, "Complete")
        });
        let pod_started = self.journal.starts(made.at, done.at, 2)[1];
        cluster.namespace.kubectl(&["delete", "job", &name, "--wait=false"]).ok();
        let since =
            |at: Timestamp| Duration::try_from(at.duration_since(made.at)).unwrap_or_default();
        (since(done.at), since(pod_started))
    }
}
