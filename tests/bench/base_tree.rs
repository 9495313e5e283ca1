//! Reading the tree of a base that is not cached, compared with other programs that read the same
//! blobs.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::fixture::{Base, Fixture};
use crate::race::{Contender, race, run, run_to, run_watched};
use crate::report::{Report, Table, megabytes};
use mosb_tests::Tree;
use mosb_tests::parts::CRANE;

/// The exit code of `mosb diff` for images that differ.
const DIFFERENT: i32 = 1;

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

/// What differs between two images whose trees are known, and what another program needs only to list
/// their paths.
pub fn diff(fixture: &Fixture, base: &Base, rounds: usize, report: &mut Report) {
    let first = fixture.registry.repository(&base.image());
    let second = fixture.registry.repository(&format!("{}:second", base.repository()));
    let layer = fixture.fresh("layer.tar");
    let change = Tree::new().file("usr/lib/os-release", 0o644, "VERSION=2\n").tar();
    fs::write(&layer, change).unwrap();
    let mut append = Command::new(CRANE.program());
    append.args(["append", "--insecure", "-b", &first, "-t", &second, "-f"]).arg(&layer);
    run(&mut append);
    let cache = fixture.shared("diff-cache");
    let compare = || {
        let mut command = fixture.mosb(&cache);
        command.args(["diff", "-q", &first, &second]);
        command
    };
    // Reads both trees once.
    run_to(&mut compare(), DIFFERENT);
    let mut peaks = Vec::new();
    let times = race(vec![
        Contender::new("crane export … \\| tar --list, both, and diff", 3, || {
            let script = r#"for image in "$2" "$3"; do "$1" export --insecure "$image" - | tar --list --verbose | sort > "$4"; done"#;
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]).arg(CRANE.program()).args([&first, &second]);
            run(command.arg(fixture.fresh("paths"))).1
        }),
        Contender::new("mosb diff, both trees cached", rounds, || {
            let (took, peak) = run_to(&mut compare(), DIFFERENT);
            peaks.push(peak);
            took
        }),
    ]);
    report.table("diff", Table::of_race(&times, "crane export"));
    report.at_most(
        "diff of two images with known trees",
        times[1].median().as_secs_f64(),
        0.3,
        "s",
    );
    let peak = peaks.iter().max().expect("it ran");
    let what = "resident memory of that diff";
    report.at_most(what, *peak as f64 / f64::from(1 << 20), 64.0, "MiB");
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
