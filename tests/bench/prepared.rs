//! A change of the config of a pool that must run something, with a prepared base and without, and
//! reading the tree of a prepared base.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::base::Shape;
use crate::base_tree::crane_and_zcat;
use crate::fixture::{Base, Fixture};
use crate::race::{Contender, race, run};
use crate::report::{Report, Table, megabytes};
use mosb_tests::run as run_to_end;

/// What is run: 20 MB in 500 files, as a package or two.
pub const CONTAINERFILE: &str = "FROM base
RUN mkdir /usr/lib/own && cd /usr/lib/own && \
    head --bytes=20000000 /dev/urandom | split --bytes=40000 --suffix-length=4
";

/// The number of rounds of each contender.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    pub quick: usize,
    pub warm: usize,
    pub empty: usize,
    pub tree: usize,
}

pub fn measure(fixture: &Fixture, base: &Base, rounds: Rounds, report: &mut Report) {
    let pool = Pool::new(fixture, base);
    let (_, first) = pool.build(&pool.cache, &[], "prepared");
    let times = race(vec![
        Contender::new("a pool that runs nothing", rounds.quick, || {
            pool.uncustomised(&pool.cache, "build")
        }),
        Contender::new("the customised pool, on its prepared base", rounds.quick, || {
            let (result, took) = pool.build(&pool.cache, &[], "prepared");
            assert_eq!(result["prepared"]["reused"], true, "{result:#}");
            took
        }),
        Contender::new("the same, all run again, base in buildah's store", rounds.warm, || {
            pool.build(&pool.cache, &["--method", "containerfile"], "containerfile").1
        }),
        Contender::new("the same, all run again, empty store", rounds.empty, || {
            let cache = fixture.fresh("cache");
            let (_, took) = pool.build(&cache, &["--method", "containerfile"], "containerfile");
            // The fixture's directory removes the rest at the end.
            fs::remove_dir_all(cache).ok();
            took
        }),
    ]);
    let mut table = Table::of_race(&times, "a pool that runs nothing");
    let ratio = first.as_secs_f64() / times[0].median().as_secs_f64();
    let what = "the first build, which makes the prepared base, empty store";
    table.row([
        what.to_owned(),
        crate::report::seconds(first),
        format!("{ratio:.2}"),
        "1".to_owned(),
    ]);
    report.table("prepared", table);
    report.at_most(
        "config of a customised pool vs. that of one that runs nothing",
        times[1].to(&times[0]),
        1.1,
        "×",
    );
    let base = megabytes(base.stored);
    report.at_least(
        format!("all run again on {base}, empty store, vs. a layer on the prepared base"),
        times[3].to(&times[1]),
        100.0,
        "×",
    );
    report.at_least(
        "the same with the base in buildah's store",
        times[2].to(&times[1]),
        100.0,
        "×",
    );
    trees(&pool, rounds, report);
}

fn trees(pool: &Pool<'_>, rounds: Rounds, report: &mut Report) {
    let fixture = pool.fixture;
    let (result, _) = pool.build(&pool.cache, &[], "prepared");
    let image = result["prepared"]["image"].as_str().unwrap().to_owned();
    let own = pool.own_layers(&image);
    let (only_base, both) = (fixture.fresh("cache"), fixture.fresh("cache"));
    pool.uncustomised(&only_base, "plan");
    run_to_end("cp", ["-r".as_ref(), only_base.as_os_str(), both.as_os_str()]);
    pool.plan_on(&both, &image);
    let times = race(vec![
        Contender::new("crane blob … \\| zcat, its own layers", rounds.tree, || {
            crane_and_zcat(fixture, &own, 1)
        }),
        Contender::new("mosb plan, both trees cached", rounds.tree, || pool.plan_on(&both, &image)),
        Contender::new("mosb plan, only the tree of the OS base cached", rounds.tree, || {
            let cache = fixture.fresh("cache");
            run_to_end("cp", ["-r".as_ref(), only_base.as_os_str(), cache.as_os_str()]);
            pool.plan_on(&cache, &image)
        }),
        Contender::new("mosb plan, nothing cached", rounds.empty, || {
            pool.plan_on(&fixture.fresh("cache"), &image)
        }),
    ]);
    report.table("prepared-tree", Table::of_race(&times, "crane and zcat"));
    let reading = times[2].median().saturating_sub(times[1].median());
    report.at_most(
        format!(
            "tree of a prepared base with {} of its own vs. crane and zcat",
            megabytes(own.stored)
        ),
        reading.as_secs_f64() / times[0].median().as_secs_f64(),
        1.2,
        "×",
    );
}

/// A pool whose images are built by hand, with instructions that need no config.
///
/// They are pushed to the repository of the base: elsewhere, an image on the prepared base would have
/// the advantage that its lower layers are in the repository.
#[derive(Clone)]
pub struct Pool<'a> {
    fixture: &'a Fixture,
    base: &'a Base,
    /// The reference of the base.
    image: String,
    containerfile: PathBuf,
    pub cache: PathBuf,
}

impl<'a> Pool<'a> {
    pub fn new(fixture: &'a Fixture, base: &'a Base) -> Self {
        let containerfile = fixture.fresh("Containerfile");
        fs::write(&containerfile, CONTAINERFILE).unwrap();
        let image = fixture.registry.repository(&base.image());
        Self { fixture, base, image, containerfile, cache: fixture.fresh("cache") }
    }

    /// The same pool on another base of the same repository.
    pub fn on(&self, image: String) -> Self {
        Self { image, ..self.clone() }
    }

    /// A command for the next config.
    fn command(&self, command: &str, cache: &Path) -> Command {
        let config = self.fixture.config_file(self.fixture.number());
        let mut mosb = self.fixture.mosb(cache);
        let registry = &self.fixture.registry;
        let output = registry.repository(self.base.repository());
        mosb.arg(command).arg(config).args(["--base", &self.image, "--output", &output]);
        mosb.args(["-o", "json", "-q"]);
        mosb
    }

    /// The same pool without its instructions.
    pub fn uncustomised(&self, cache: &Path, command: &str) -> Duration {
        let (stdout, took) = run(&mut self.command(command, cache));
        let result: Value = serde_json::from_slice(&stdout).unwrap();
        assert_eq!(result["method"], "direct", "{result:#}");
        took
    }

    pub fn build(&self, cache: &Path, more: &[&str], method: &str) -> (Value, Duration) {
        let mut command = self.command("build", cache);
        let (stdout, took) =
            run(command.arg("--containerfile").arg(&self.containerfile).args(more));
        let result: Value = serde_json::from_slice(&stdout).unwrap();
        assert_eq!(result["method"], method, "{result:#}");
        (result, took)
    }

    fn plan_on(&self, cache: &Path, prepared: &str) -> Duration {
        let mut command = self.command("plan", cache);
        command.arg("--containerfile").arg(&self.containerfile).args(["--prepared", prepared]);
        let (stdout, took) = run(&mut command);
        let result: Value = serde_json::from_slice(&stdout).unwrap();
        assert_eq!(result["prepared"]["reused"], true, "{result:#}");
        took
    }

    /// The layers that a prepared base adds to the base.
    fn own_layers(&self, image: &str) -> Base {
        let read = |digest: &str| -> Value {
            let blob = self.fixture.registry.blob_path(digest);
            serde_json::from_slice(&fs::read(blob).unwrap()).unwrap()
        };
        let (_, digest) = image.split_once('@').unwrap();
        let prepared = read(digest);
        let base = prepared["annotations"]["org.opencontainers.image.base.digest"].as_str();
        let below = read(base.unwrap())["layers"].as_array().unwrap().len();
        let own = &prepared["layers"].as_array().unwrap()[below..];
        let layers = own.iter().map(|layer| layer["digest"].as_str().unwrap().to_owned());
        Base {
            shape: Shape { layers: own.len(), ..self.base.shape },
            layers: layers.collect(),
            stored: own.iter().filter_map(|layer| layer["size"].as_u64()).sum(),
        }
    }
}
