//! Builds whose base is in another repository than the target, or in another registry.

use std::process::Command;
use std::time::Duration;

use crate::base::TAG;
use crate::fixture::{Base, Fixture, registry};
use crate::one_config::library;
use crate::race::{Contender, race, run, run_watched};
use crate::report::{Report, Table, megabytes};
use mosb_tests::parts::CRANE;

/// The base is in another repository of the same registry.
pub fn mounts(fixture: &Fixture, base: &Base, rounds: usize, report: &mut Report) {
    let times = race(vec![
        Contender::new("same repository", rounds, || build(fixture, base, base.repository())),
        Contender::new("another repository, never pushed to", rounds, || {
            build(fixture, base, &format!("mounted-{}", fixture.number()))
        }),
    ]);
    report.table("mounts", Table::of_race(&times, "same repository"));
    let what = format!("base of {} layers in another repository vs. the same", base.layers.len());
    report.at_most(what, times[1].to(&times[0]), 1.5, "×");
}

fn build(fixture: &Fixture, base: &Base, repository: &str) -> Duration {
    library(fixture, base, repository).1
}

/// The base is in another registry.
pub fn copies(fixture: &Fixture, base: &Base, small: &Base, rounds: usize, report: &mut Report) {
    // This caches the tree of the base.
    to_another_registry(fixture, base, &mut 0);
    let mut peaks = [0; 2];
    let [small_peak, peak] = &mut peaks;
    let times = race(vec![
        Contender::new("crane copy", rounds, || {
            let other = registry();
            let mut command = Command::new(CRANE.program());
            let from = fixture.registry.repository(&base.image());
            run(command.args(["copy", &from, &other.repository(&format!("copied:{TAG}"))])).1
        }),
        Contender::new("mosb build", rounds, || to_another_registry(fixture, base, peak)),
    ]);
    to_another_registry(fixture, small, small_peak);
    report.table("copies", Table::of_race(&times, "crane copy"));
    let what = format!("{} into another registry vs. crane copy", megabytes(base.stored));
    report.at_most(what, times[1].to(&times[0]), 1.2, "×");
    let [small_peak, peak] = peaks.map(|peak| peak as f64 / f64::from(1 << 20));
    let what = format!(
        "resident memory during that copy ({small_peak:.0} MiB for {})",
        megabytes(small.stored)
    );
    report.at_most(what, peak, 64.0, "MiB");
}

fn to_another_registry(fixture: &Fixture, base: &Base, peak: &mut u64) -> Duration {
    let other = registry();
    let config = fixture.config_file(fixture.number());
    let mut command = fixture.mosb(&fixture.shared("program-trees"));
    command
        .arg("build")
        .arg(config)
        .args(["--base", &fixture.registry.repository(&base.image())])
        .args(["--output", &other.repository("copied"), "-q"]);
    let (took, most) = run_watched(&mut command);
    *peak = most.max(*peak);
    took
}
