//! Reading the tree of a base that is not cached, compared with other programs that read the same
//! blobs.

use std::process::Command;
use std::time::Duration;

use crate::fixture::{Base, Fixture};
use crate::race::{Contender, race, run, run_watched};
use crate::report::{Report, Table, megabytes};
use mosb_tests::parts::CRANE;

pub fn measure(fixture: &Fixture, base: &Base, rounds: usize, report: &mut Report) {
    let mut peaks = Vec::new();
    let times = race(vec![
        Contender::new("crane blob … \\| zcat, one after the other", rounds, || {
            crane_and_zcat(fixture, base, 1)
        }),
        Contender::new("crane blob … \\| zcat, two at once", rounds, || {
            crane_and_zcat(fixture, base, 2)
        }),
        Contender::new("mosb plan, nothing cached", rounds, || {
            let config = fixture.config_file(fixture.number());
            let mut command = fixture.mosb(&fixture.fresh("cache"));
            command
                .args(["plan", "-q"])
                .arg(config)
                .args(["--base", &fixture.registry.repository(&base.image())]);
            let (took, peak) = run_watched(&mut command);
            peaks.push(peak);
            took
        }),
    ]);
    report.table("tree", Table::of_race(&times, "crane and zcat"));
    let stored = megabytes(base.stored);
    report.at_most(
        format!("tree of {stored} in {} layers vs. crane and zcat", base.layers.len()),
        times[2].to(&times[0]),
        1.2,
        "×",
    );
    let peak = peaks.iter().max().expect("it ran");
    report.at_most(
        "resident memory while reading that tree",
        *peak as f64 / f64::from(1 << 20),
        64.0,
        "MiB",
    );
}

/// Reads the layers of an image with other programs.
pub fn crane_and_zcat(fixture: &Fixture, base: &Base, parallel: usize) -> Duration {
    let repository = fixture.registry.repository(base.repository());
    let mut command = Command::new("sh");
    // The shell inserts only the digests, which are hexadecimal.
    let script = r#"printf '%s\n' $3 | xargs -P $4 -I {} sh -c 'set -e; "$1" blob "$2@$3" | zcat > /dev/null' sh "$1" "$2" {}"#;
    command
        .args(["-c", script, "sh"])
        .arg(CRANE.program())
        .arg(repository)
        .arg(base.layers.join(" "))
        .arg(parallel.to_string());
    run(&mut command).1
}
