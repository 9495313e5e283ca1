//! `make bench`: how long things take, as ratios, written into `docs/performance.md`.
//!
//! `cargo bench --bench bench -- [rehearse] [small] [big] [tree] [mounts] [copies] [many] [image] [containerfile] [merging] [cluster] [pools]`: only these,
//! and on a small base if rehearsed; then nothing is written. `base.rs` makes the bases, `race.rs` measures, `report.rs` writes; the
//! others are the jobs.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on stops where it stands")]

use std::cell::LazyCell;
use std::time::Duration;

#[path = "../cluster/cluster_world.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod cluster_world;

mod bare;
mod base;
mod base_tree;
mod build;
mod cluster;
mod config;
mod containerfile;
mod content;
mod counted;
mod elsewhere;
mod image_push;
mod many;
mod merging;
mod one_config;
mod peers;
mod pools;
mod race;
mod report;
mod world;

use one_config::Rounds;
use report::Report;
use world::World;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let rehearse = words.iter().any(|word| word == "rehearse");
    let chosen: Vec<&String> = words.iter().filter(|word| *word != "rehearse").collect();
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|word| *word == name);
    let world = World::new();
    let mut report = Report::default();
    let small = LazyCell::new(|| world.base(base::SMALL));
    let big = LazyCell::new(|| world.base(if rehearse { base::REHEARSAL } else { base::BIG }));
    let quick = Rounds { quick: 15, warm: 4, empty: 3 };
    if wanted("small") {
        one_config::measure(&world, &small, quick, "small", &mut report);
    }
    if wanted("big") {
        // Each round of buildah's writes gigabytes.
        let rounds = Rounds { empty: 1, ..quick };
        one_config::measure(&world, &big, rounds, "big", &mut report);
    }
    if wanted("tree") {
        base_tree::measure(&world, &big, 3, &mut report);
    }
    if wanted("mounts") {
        elsewhere::mounts(&world, &big, 15, &mut report);
    }
    if wanted("copies") {
        elsewhere::copies(&world, &big, &small, 3, &mut report);
    }
    if wanted("many") {
        many::measure(&world, &big, 600, &mut report);
    }
    if wanted("image") {
        image_push::measure(&world, &big, 3, &mut report);
    }
    if wanted("containerfile") {
        // With vfs each layer of the big one would be a copy of all below it.
        let base = world.base(base::REHEARSAL);
        containerfile::measure(&world, &base, if rehearse { 1 } else { 3 }, &mut report);
    }
    if wanted("merging") {
        merging::measure(&world, &mut report);
    }
    if wanted("cluster") {
        let (direct, with_buildah) = if rehearse { (2, 1) } else { (12, 2) };
        cluster::measure(&world, direct, with_buildah, &mut report);
    }
    if wanted("pools") {
        let (counts, minute) = match rehearse {
            true => ([5, 10, 20], Duration::from_secs(15)),
            false => ([10, 100, 1000], Duration::from_secs(60)),
        };
        pools::measure(&world, counts, minute, &mut report);
    }
    if !rehearse && chosen.is_empty() {
        let path = mosb_tests::repository().join("docs/performance.md");
        report.write(&path);
    }
}
