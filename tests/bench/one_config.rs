//! One config onto a base whose tree is cached: against the bare registry calls, and against other programs.

use std::time::Duration;

use mosb::registry::Client;
use serde_json::Value;

use crate::bare;
use crate::build::Moved;
use crate::peers::{self, Store};
use crate::race::{Contender, race, run, timed};
use crate::report::{Report, Table, megabytes};
use crate::world::{Base, World};

/// What a build may move beside its layer: manifests, configs.
const ALLOWED: u64 = 64 << 10;

/// How often each runs.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    pub quick: usize,
    pub warm: usize,
    pub empty: usize,
}

pub fn measure(
    world: &World,
    base: &Base,
    rounds: Rounds,
    name: &'static str,
    report: &mut Report,
) {
    let layout = world.fresh("layout");
    let fetched = peers::fetch_layout(world, base, &layout);
    let warm = Store::empty(world);
    warm.pull(world, base);
    let program_cache = world.shared("program-trees");
    let mut moved = Vec::new();
    let mut contenders = vec![
        Contender::new("bare calls", rounds.quick, || bare_calls(world, base)),
        Contender::new("mosb, the library", rounds.quick, || {
            let (once, took) = timed(|| world.build(&world.client(), base, base.repository()));
            moved.push(once);
            took
        }),
        Contender::new("mosb, the program", rounds.quick, || {
            let target = world.registry.repository(base.repository());
            program(world, base, &target, &program_cache)
        }),
        Contender::new("crane append", rounds.quick, || peers::crane(world, base)),
        Contender::new("umoci + skopeo, base in a layout", rounds.quick, || {
            peers::umoci_and_skopeo(world, base, &layout)
        }),
        Contender::new("buildah, base in its store", rounds.warm, || {
            peers::buildah(world, base, &warm)
        }),
    ];
    contenders.push(Contender::new("buildah, empty store", rounds.empty, || {
        let store = Store::empty(world);
        peers::buildah(world, base, &store)
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
        format!("library against the bare calls, {base_name} base"),
        times[1].to(&times[0]),
        1.25,
        "×",
    );
    if base_name != crate::base::SMALL.name {
        let faster = times[6].median().as_secs_f64() / times[2].median().as_secs_f64();
        report.at_least(
            "buildah with an empty store against the program",
            faster,
            300.0,
            "×",
        );
    }
    let most = moved
        .iter()
        .map(|moved: &Moved| moved.all - moved.layer)
        .max();
    let kib = most.expect("it was built") as f64 / 1024.0;
    let what = format!(
        "bytes moved beside the layer of {}, {base_name} base",
        megabytes(moved[0].layer)
    );
    report.at_most(what, kib, (ALLOWED >> 10) as f64, "KiB");
}

fn bare_calls(world: &World, base: &Base) -> Duration {
    let image = world.image(base, base.repository());
    let calls = || {
        bare::calls(
            world.registry.address(),
            base.repository(),
            crate::base::TAG,
            &image,
        )
    };
    timed(calls).1
}

/// `mosb build` of the next config.
fn program(world: &World, base: &Base, target: &str, cache: &std::path::Path) -> Duration {
    let config = world.config_file(world.number());
    let mut command = world.mosb(cache);
    command
        .arg("build")
        .arg(config)
        .args(["--base", &world.registry.repository(&base.image())])
        .args(["--output", target, "-o", "json"]);
    let (stdout, took) = run(&mut command);
    let result: Value = serde_json::from_slice(&stdout).unwrap();
    assert_eq!(result["method"], "direct", "{result}");
    took
}

/// Many configs onto one base in one process.
pub mod many {
    use futures_util::{StreamExt as _, stream};

    use super::{Base, Client, Report, Table, World, bare, timed};
    use crate::build::{self, Image};
    use crate::config;

    /// Builds on their way at once, and connections of the bare calls.
    const PARALLEL: usize = 8;

    pub fn measure(world: &World, base: &Base, images: usize, report: &mut Report) {
        let prepared: Vec<Image> = (0..images)
            .map(|_| world.image(base, base.repository()))
            .collect();
        let ((), bare) = timed(|| bare_calls(world, base, &prepared));
        drop(prepared);
        let configs: Vec<_> = (0..images)
            .map(|_| config::rendered(world.number()))
            .collect();
        let client: Client = world.client();
        let (cache, source, target) = (
            world.cache(),
            base.source(world),
            world.target(base.repository()),
        );
        let one = |config| {
            let (client, cache, source, target) = (
                client.clone(),
                cache.clone(),
                source.clone(),
                target.clone(),
            );
            async move {
                let build =
                    async move { build::build(&client, &cache, &source, config, &target).await };
                tokio::spawn(build).await.unwrap()
            }
        };
        let all = stream::iter(configs)
            .map(one)
            .buffer_unordered(PARALLEL)
            .count();
        let (count, took) = timed(|| world.runtime.block_on(all));
        assert_eq!(count, images);
        let rate = |time: std::time::Duration| format!("{:.0}", images as f64 / time.as_secs_f64());
        let ratio = took.as_secs_f64() / bare.as_secs_f64();
        let mut table = Table::new(["", "images a second", "× time of the bare calls"]);
        table.row([
            format!("bare calls, {PARALLEL} connections"),
            rate(bare),
            "1.00".to_owned(),
        ]);
        table.row([
            format!("mosb, {PARALLEL} builds at once"),
            rate(took),
            format!("{ratio:.2}"),
        ]);
        report.table("many", table);
    }

    fn bare_calls(world: &World, base: &Base, images: &[Image]) {
        let next = std::sync::atomic::AtomicUsize::new(0);
        let work = || {
            while let Some(image) =
                images.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
            {
                bare::calls(
                    world.registry.address(),
                    base.repository(),
                    crate::base::TAG,
                    image,
                );
            }
        };
        std::thread::scope(|scope| (0..PARALLEL).for_each(|_| drop(scope.spawn(work))));
    }
}
