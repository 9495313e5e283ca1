//! The build of one config on a base whose tree is cached, compared with the bare registry requests
//! and with other programs.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::bare::{self, Order};
use crate::build::{self, TransferStats};
use crate::fixture::{Base, Fixture};
use crate::peers::{self, Store};
use crate::race::{Contender, race, run, timed};
use crate::report::{Report, Table, megabytes};

/// The bytes that a build may transfer besides its layer: manifests and configs.
const ALLOWED: u64 = 64 << 10;

/// The number of rounds of each contender.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    pub quick: usize,
    pub warm: usize,
    pub empty: usize,
}

pub fn measure(
    fixture: &Fixture,
    base: &Base,
    rounds: Rounds,
    name: &'static str,
    report: &mut Report,
) {
    let layout = fixture.fresh("layout");
    let fetched = peers::fetch_layout(fixture, base, &layout);
    let warm = Store::empty(fixture);
    warm.pull(base);
    let program_cache = fixture.shared("program-trees");
    let mut moved = Vec::new();
    let mut contenders = vec![
        Contender::new("bare calls, at once", rounds.quick, || {
            bare_calls(fixture, base, Order::AtOnce)
        }),
        Contender::new("bare calls, one after the other", rounds.quick, || {
            bare_calls(fixture, base, Order::Loop)
        }),
        Contender::new("mosb, the library", rounds.quick, || {
            let (once, took) = library(fixture, base, base.repository());
            moved.push(once);
            took
        }),
        Contender::new("mosb, the program", rounds.quick, || {
            program(fixture, base, &program_cache)
        }),
        Contender::new("crane append", rounds.quick, || {
            run(&mut peers::crane(fixture, base, fixture.registry.address())).1
        }),
        Contender::new("umoci + skopeo, base in a layout", rounds.quick, || {
            peers::umoci_and_skopeo(fixture, base, &layout)
        }),
        Contender::new("buildah, base in its store", rounds.warm, || {
            peers::buildah(fixture, base, &warm)
        }),
    ];
    contenders.push(Contender::new("buildah, empty store", rounds.empty, || {
        let store = Store::empty(fixture);
        peers::buildah(fixture, base, &store)
    }));
    let times = race(contenders);
    let mut table = Table::of_race(&times, "bare calls");
    table.row([
        "skopeo, only fetching the base".to_owned(),
        crate::report::seconds(fetched),
        String::new(),
        "1".to_owned(),
    ]);
    report.table(name, table);
    let base_name = base.shape.name;
    report.at_most(
        format!("library vs. bare calls, {base_name} base"),
        times[2].to(&times[0]),
        1.25,
        "×",
    );
    if base_name != crate::base::SMALL.name {
        let faster = times[7].median().as_secs_f64() / times[3].median().as_secs_f64();
        report.at_least("buildah with an empty store vs. the program", faster, 300.0, "×");
    }
    let most = moved.iter().map(|moved: &TransferStats| moved.all - moved.layer).max();
    let kib = most.expect("it was built") as f64 / 1024.0;
    let what = format!(
        "bytes transferred besides the layer of {}, {base_name} base",
        megabytes(moved[0].layer)
    );
    report.at_most(what, kib, (ALLOWED >> 10) as f64, "KiB");
}

/// A build by the library, with a client without open connections.
pub fn library(fixture: &Fixture, base: &Base, repository: &str) -> (TransferStats, Duration) {
    let job = fixture.job(base, repository);
    timed(|| {
        let client = fixture.client();
        fixture.runtime.block_on(build::build(&client, job))
    })
}

pub fn bare_calls(fixture: &Fixture, base: &Base, order: Order) -> Duration {
    let image = fixture.image(base, base.repository());
    let calls = || {
        bare::calls(fixture.registry.address(), base.repository(), crate::base::TAG, &image, order)
    };
    timed(calls).1
}

/// `mosb build` of the next config.
fn program(fixture: &Fixture, base: &Base, cache: &Path) -> Duration {
    let mut command = build_command(fixture, base, fixture.registry.address(), cache);
    let (stdout, took) = run(&mut command);
    let result: Value = serde_json::from_slice(&stdout).unwrap();
    assert_eq!(result["method"], "direct", "{result}");
    took
}

/// The same as a command, in the registry at this address.
pub fn build_command(fixture: &Fixture, base: &Base, host: &str, cache: &Path) -> Command {
    let config = fixture.config_file(fixture.number());
    build_of(fixture, &config, base, host, cache)
}

/// The same for the config in a file.
pub fn build_of(
    fixture: &Fixture,
    config: &Path,
    base: &Base,
    host: &str,
    cache: &Path,
) -> Command {
    let mut command = fixture.mosb(cache);
    command.arg("build").arg(config).args(["--base", &format!("{host}/{}", base.image())]).args([
        "--output",
        &format!("{host}/{}", base.repository()),
        "-o",
        "json",
        "-q",
    ]);
    command
}
