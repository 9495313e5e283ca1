//! Another base under the config of a pool that must run something, against another config on the
//! same base.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::base::TAG;
use crate::fixture::{Base, Fixture};
use crate::prepared::Pool;
use crate::race::{Contender, race, run};
use crate::report::{Report, Table};
use mosb_tests::parts::CRANE;

/// `updates`: how often each row with another base is measured.
pub fn measure(
    fixture: &Fixture,
    base: &Base,
    configs: usize,
    updates: usize,
    report: &mut Report,
) {
    let pool = Pool::new(fixture, base);
    pool.build(&pool.cache, &[], "prepared");
    let anew = |cache: &Path| {
        let next = pool.on(next_base(fixture, base));
        let (result, took) = next.build(cache, &[], "prepared");
        assert_eq!(result["prepared"]["reused"], false, "{result:#}");
        took
    };
    let empty = |update: &dyn Fn(&Path) -> Duration| {
        let cache = fixture.fresh("cache");
        let took = update(&cache);
        // The fixture's directory removes the rest at the end.
        fs::remove_dir_all(cache).ok();
        took
    };
    let times = race(vec![
        Contender::new("another config, on the prepared base", configs, || {
            let (result, took) = pool.build(&pool.cache, &[], "prepared");
            assert_eq!(result["prepared"]["reused"], true, "{result:#}");
            took
        }),
        Contender::new("another base, a pool that runs nothing, nothing cached", updates, || {
            empty(&|cache: &Path| pool.on(next_base(fixture, base)).uncustomised(cache, "build"))
        }),
        Contender::new("another base, its layers in buildah's store", updates, || {
            anew(&pool.cache)
        }),
        Contender::new("another base, nothing cached, empty store", updates, || empty(&anew)),
    ]);
    report.table("base-update", Table::of_race(&times, "another config"));
}

/// The base with another digest. Its layers are the same, so what is cached of them stays usable.
fn next_base(fixture: &Fixture, base: &Base) -> String {
    let tag = format!("next-{}", fixture.number());
    let image = fixture.registry.repository(&format!("{}:{tag}", base.repository()));
    let mut mutate = Command::new(CRANE.program());
    let before = fixture.registry.repository(&format!("{}:{TAG}", base.repository()));
    mutate.args(["mutate", &before, "--label", &format!("version={tag}"), "--tag", &image]);
    run(&mut mutate);
    image
}
