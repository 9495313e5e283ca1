//! Containerfile builds with an empty store, as in a pod: each storage driver, and the push
//! compared with buildah's.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use mosb_build::buildah::{self, BaseSource, ContainerBuild, Options};
use mosb_registry::Source;
use mosb_registry::cache::{DEFAULT_LIMIT, TreeCache};

use crate::base::TAG;
use crate::build::{self, Job};
use crate::config;
use crate::counted::Counted;
use crate::fixture::{Base, Fixture};
use crate::peers::Store;
use crate::race::{Contender, Times, race, run, timed};
use crate::report::{Report, Table, megabytes, seconds};

/// Arguments that hide buildah's cache of blob locations, as on another machine, so that `buildah
/// push` does not know the source of the base.
const FORGETFUL: [&str; 5] = [
    "unshare",
    "--mount",
    "sh",
    "-euc",
    "mkdir -p /var/lib/containers/cache; mount -t tmpfs none /var/lib/containers/cache; exec \"$0\" \"$@\"",
];

pub fn measure(fixture: &Fixture, base: &Base, rounds: usize, report: &mut Report) {
    drivers(fixture, base, rounds, report);
    pushes(fixture, base, rounds.max(2), report);
}

fn drivers(fixture: &Fixture, base: &Base, rounds: usize, report: &mut Report) {
    let disk = RefCell::new([0; 2]);
    let contender = |at: usize, driver: &'static str| {
        let disk = &disk;
        Contender::new(format!("storage driver {driver}"), rounds, move || {
            let (store, out) = (fixture.fresh("store"), fixture.fresh("image"));
            for folder in [&store, &out] {
                fs::create_dir_all(folder).unwrap();
            }
            let host = fixture.registry.address();
            let took = timed(|| leave(fixture, base, host, driver, &store, &out)).1;
            disk.borrow_mut()[at] = used(&store);
            for folder in [&store, &out] {
                // The fixture's directory removes the rest at the end.
                fs::remove_dir_all(folder).ok();
            }
            took
        })
    };
    let times = race(vec![contender(0, "overlay"), contender(1, "vfs")]);
    let mut table = Table::new(["", "median", "× overlay", "disk of the store", "rounds"]);
    for (times_of, disk) in times.iter().zip(disk.into_inner()) {
        table.row([
            times_of.name.clone(),
            seconds(times_of.median()),
            format!("{:.2}", times_of.to(&times[0])),
            megabytes(disk),
            times_of.rounds.len().to_string(),
        ]);
    }
    report.table("drivers", table);
}

fn pushes(fixture: &Fixture, base: &Base, rounds: usize, report: &mut Report) {
    let way = Counted::to(fixture.registry.address());
    let host = &way.address;
    let store = Store::at(fixture, host);
    store.pull(base);
    let ours = fixture.fresh("store");
    fs::create_dir_all(&ours).unwrap();
    let bytes = RefCell::new(vec![Vec::new(); 3]);
    let repository = || format!("pushed-{}", fixture.number());
    let theirs = |at: usize, through: &'static [&'static str]| {
        let (bytes, way, store) = (&bytes, &way, &store);
        move || {
            let (name, _) = store.build(fixture, base);
            way.sent();
            let took = store.push_through(through, &repository(), &name);
            bytes.borrow_mut()[at].push(way.sent());
            took
        }
    };
    let times = race(vec![
        Contender::new("`buildah push`, with a record of the base's pull", rounds, theirs(0, &[])),
        Contender::new("`buildah push`, without that record", rounds, theirs(1, &FORGETFUL)),
        Contender::new("mosb: export new content, check it, push it", rounds, || {
            let out = fixture.fresh("image");
            fs::create_dir_all(&out).unwrap();
            let built = leave(fixture, base, host, "overlay", &ours, &out);
            way.sent();
            take(fixture, &built, &out, &repository());
            let took = built.at.elapsed();
            bytes.borrow_mut()[2].push(way.sent());
            fs::remove_dir_all(out).ok();
            took
        }),
    ]);
    let bytes = bytes.into_inner();
    report.table("containerfile-push", table(&times, &bytes));
    fs::remove_dir_all(ours).ok();
}

fn table(times: &[Times], bytes: &[Vec<u64>]) -> Table {
    let mut table = Table::new(["", "median", "× the first", "bytes sent", "rounds"]);
    for (times_of, bytes) in times.iter().zip(bytes) {
        let most = bytes.iter().max().expect("it was pushed");
        table.row([
            times_of.name.clone(),
            seconds(times_of.median()),
            format!("{:.2}", times_of.to(&times[0])),
            megabytes(*most),
            times_of.rounds.len().to_string(),
        ]);
    }
    table
}

/// A build whose image is in a folder.
struct Left {
    build: ContainerBuild,
    base: mosb_registry::Resolved,
    /// The time when buildah had completed the image in its store.
    at: Instant,
    host: String,
}

/// The last lines of buildah's output for a build.
const BUILT: [&str; 2] = ["Writing manifest to image destination", "Storing signatures"];

/// Builds into a folder, like the container `image-build`.
fn leave(
    fixture: &Fixture,
    base: &Base,
    host: &str,
    driver: &str,
    store: &Path,
    out: &Path,
) -> Left {
    let options = Options {
        cache_dir: store.to_owned(),
        storage_driver: Some(driver.to_owned()),
        isolation: None,
        volumes: Vec::new(),
        context: None,
        authfile: None,
        cert_dir: None,
        tls_verify: false,
        registries_conf: None,
        signature_policy: None,
        limit: Duration::from_secs(1800),
    };
    let job = Job {
        cache: TreeCache::new(fixture.shared("library-trees"), DEFAULT_LIMIT),
        base: Source::Registry(format!("{host}/{}:{TAG}", base.repository()).parse().unwrap()),
        config: config::rendered(fixture.number()),
        target: format!("{host}/planned").parse().unwrap(),
    };
    fixture.runtime.block_on(async {
        let (plan, resolved) = build::containerfile_plan(&fixture.client(), job).await;
        let from = resolved.pinned().expect("it is in a registry");
        let mut containerfile = format!("FROM {from}\nCOPY . /usr/share/site/\n");
        for (label, value) in &plan.labels {
            containerfile += &format!("LABEL {label}={value:?}\n");
        }
        let build = ContainerBuild::of_plan(&plan, containerfile).unwrap();
        let source = BaseSource::of(&resolved);
        let mut at = Instant::now();
        let on_line = |_, line: &str| {
            if BUILT.contains(&line) {
                at = Instant::now();
            }
        };
        buildah::leave(&build, &source, &options, out, on_line).await.unwrap();
        Left { build, base: resolved, at, host: host.to_owned() }
    })
}

/// Pushes from the folder, like the container `image-push`.
fn take(fixture: &Fixture, left: &Left, out: &Path, repository: &str) {
    let target = format!("{}/{repository}", left.host).parse().unwrap();
    let client = fixture.client();
    fixture.runtime.block_on(async {
        let made = buildah::take(&left.build, out).await.unwrap();
        let push = buildah::push_plan(&left.build, &made, &left.base);
        client.push(&target, &push).await.unwrap();
    });
}

/// The disk usage of a folder in bytes.
fn used(folder: &Path) -> u64 {
    let (text, _) = run(Command::new("du").args(["--summarize", "--block-size=1"]).arg(folder));
    let text = String::from_utf8(text).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}
