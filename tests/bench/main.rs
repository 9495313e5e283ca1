//! `make bench` measures durations as ratios and writes them to `docs/performance.md`.
//!
//! `cargo bench --bench bench -- [rehearse] [program] [small] [big] [tree] [diff] [mounts] [copies] [many] [image]
//! [containerfile] [prepared] [base-update] [signatures] [corpus] [merging] [cluster] [pools] [machines]
//! [rings]` runs only the named measurements, and `rehearse` uses a small base. Such a run writes no
//! file: its stdout is the Markdown of the measured sections, to be pasted into the page. `base.rs` makes the bases,
//! `race.rs` measures, `report.rs` writes the page; the other modules contain one measurement each.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on stops where it stands")]

use std::cell::LazyCell;
use std::time::Duration;

#[path = "../cluster/test_cluster/mod.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod test_cluster;

#[path = "../oracle/fidelity/cases/mod.rs"]
mod fidelity_cases;
#[path = "../oracle/fidelity/generated.rs"]
mod fidelity_generated;

mod bare;
mod base;
mod base_tree;
mod base_update;
mod build;
mod cluster;
mod config;
mod containerfile;
mod content;
mod corpus;
mod counted;
mod debian_base;
mod elsewhere;
mod fixture;
mod image_push;
mod machines;
mod many;
mod merging;
mod one_config;
mod peers;
mod pools;
mod prepared;
mod race;
mod report;
mod signatures;
mod whole_program;

use fixture::Fixture;
use machines::Order;
use one_config::Rounds;
use report::Report;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let rehearse = words.iter().any(|word| word == "rehearse");
    let chosen: Vec<&String> = words.iter().filter(|word| *word != "rehearse").collect();
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|word| *word == name);
    let fixture = Fixture::new();
    let mut report = Report::default();
    let small = LazyCell::new(|| fixture.base(base::SMALL));
    let big = LazyCell::new(|| fixture.base(if rehearse { base::REHEARSAL } else { base::BIG }));
    let quick = Rounds { quick: 15, warm: 4, empty: 3 };
    if wanted("program") {
        whole_program::measure(&fixture, [&small, &big], quick.quick, &mut report);
    }
    if wanted("small") {
        one_config::measure(&fixture, &small, quick, "small", &mut report);
    }
    if wanted("big") {
        // Each round with buildah writes gigabytes.
        let rounds = Rounds { empty: 1, ..quick };
        one_config::measure(&fixture, &big, rounds, "big", &mut report);
    }
    if wanted("tree") {
        base_tree::measure(&fixture, &big, 3, &mut report);
    }
    if wanted("diff") {
        base_tree::diff(&fixture, &big, 15, &mut report);
    }
    if wanted("mounts") {
        elsewhere::mounts(&fixture, &big, 15, &mut report);
    }
    if wanted("copies") {
        elsewhere::copies(&fixture, &big, &small, 3, &mut report);
    }
    if wanted("many") {
        many::measure(&fixture, &big, 600, &mut report);
    }
    if wanted("image") {
        image_push::measure(&fixture, &big, 3, &mut report);
    }
    if wanted("containerfile") {
        // With vfs each layer of the big base would contain a copy of all layers below it.
        let base = fixture.base(base::REHEARSAL);
        containerfile::measure(&fixture, &base, if rehearse { 1 } else { 3 }, &mut report);
    }
    if wanted("prepared") {
        let (name, shape, warm) = if rehearse {
            ("rehearsal-debian", base::REHEARSAL, 1)
        } else {
            ("big-debian", base::BIG, 3)
        };
        let base = fixture.debian_base(name, shape);
        let rounds = prepared::Rounds { quick: 15, warm, empty: 1, tree: 9 };
        prepared::measure(&fixture, &base, rounds, &mut report);
    }
    if wanted("base-update") {
        let (name, shape, updates) = if rehearse {
            ("rehearsal-update", base::REHEARSAL, 1)
        } else {
            ("big-update", base::BIG, 3)
        };
        let base = fixture.debian_base(name, shape);
        base_update::measure(&fixture, &base, 15, updates, &mut report);
    }
    if wanted("signatures") {
        signatures::measure(&fixture, &small, 15, &mut report);
    }
    if wanted("corpus") {
        corpus::measure(&fixture, &mut report);
    }
    if wanted("merging") {
        merging::measure(&fixture, &mut report);
    }
    if wanted("cluster") {
        let (direct, with_buildah) = if rehearse { (2, 1) } else { (12, 2) };
        cluster::measure(&fixture, direct, with_buildah, &mut report);
    }
    if wanted("pools") {
        let (counts, minute) = if rehearse {
            ([5, 10, 20], Duration::from_secs(15))
        } else {
            ([10, 100, 1000], Duration::from_secs(60))
        };
        pools::measure(&fixture, counts, minute, &mut report);
    }
    let (machines, minute) = if rehearse {
        ([10, 20], Duration::from_secs(15))
    } else {
        ([100, 1000], Duration::from_secs(60))
    };
    for (name, order) in [("machines", Order::AnyMachine), ("rings", Order::Rings)] {
        if wanted(name) {
            machines::measure(&fixture, order, machines, minute, &mut report);
        }
    }
    if !rehearse && chosen.is_empty() {
        let path = mosb_tests::repository().join("docs/performance.md");
        report.write(&path);
    } else {
        report.print();
    }
    report.check_required();
}
