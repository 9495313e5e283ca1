//! What is counted and limited.

use super::*;
use crate::layer::{MAX_PATH_BYTES, MAX_UNPACKED_SIZE};
use crate::tree::retained;
use mosb_types::Diagnostic as _;

/// A link target of maximum length that goes up and down before `to`.
fn long_way(to: &str) -> String {
    format!("/{}{to}", "d/../".repeat((4000 - to.len()) / 5))
}

#[test]
fn path_is_resolved_once_a_directory() {
    let (first, last) = (long_way("link"), long_way("d"));
    let mut layer = vec!["d d".to_owned(), format!("l link {last}"), format!("l way {first}")];
    layer.extend((0..1000).flat_map(|n| [format!("f way/a{n}"), format!("h b{n} way/a{n}")]));
    let mut builder = Builder::default();
    builder.apply(&delta(&layer)).unwrap();
    // Steps for the entries and the targets of hard links, and a few for each other path.
    let once = (first.split('/').count() + last.split('/').count()) as u64;
    let steps = builder.steps.get();
    assert!((2 * once..2 * once + 5000).contains(&steps), "{steps} for {once}");
}

/// Links that lead to `end`, each by a long way to the one before: the number of the last one, and the
/// steps to the end of all of them.
fn chain(end: &str) -> (Vec<String>, usize, u64) {
    let target = |n: usize| match n {
        0 => long_way(end),
        n => long_way(&format!("a{}", n - 1)),
    };
    let links = (0..39).map(|n| format!("l a{n} {}", target(n)));
    let steps = (0..39).map(|n| target(n).split('/').count() as u64).sum();
    (["d d".to_owned()].into_iter().chain(links).collect(), 38, steps)
}

#[test]
fn link_is_followed_once_for_all_paths() {
    const UNITS: &str = "usr/lib/systemd/system";
    let (mut layer, last, once) = chain("d");
    for n in 0..2000 {
        // Each in another directory.
        layer.push(format!("f a{last}/{n}/x"));
        layer.push(format!("h a{last}/{n}/y a{last}/{n}/x"));
        layer.push(format!("w a{last}/{n}/z"));
        layer.push(format!("l {UNITS}/{n}.service /a{last}/{n}/x"));
    }
    let mut builder = Builder::default();
    builder.apply(&delta(&layer)).unwrap();
    assert_eq!(builder.missing_contents().len(), 2000);
    // Once for what is made, hidden and found, and a few for each entry.
    let steps = builder.steps.get();
    assert!((3 * once..3 * once + 50_000).contains(&steps), "{steps} for {once}");
}

#[test]
fn links_that_are_followed_without_end_are_error() {
    let (mut layer, last, once) = chain("d");
    // What a path may lead through is replaced each time.
    layer.extend((0..10).flat_map(|n| [format!("l other {n}"), format!("f a{last}/{n}/x")]));
    let mut builder = Builder::default();
    builder.steps.set(MAX_PATH_STEPS - 3 * once);
    let error = builder.apply(&delta(&layer)).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.code(), "layer-entry", "{text}");
    assert!(text.contains("a38/") && text.contains("no more than 8388608 are read"), "{text}");
}

#[test]
fn dangling_links_on_lookups_are_counted() {
    let (mut layer, last, once) = chain("gone");
    let unit = "usr/lib/systemd/system";
    layer.extend((0..10).map(|n| format!("l {unit}/{n}.service /a{last}/{n}")));
    let mut builder = Builder::default();
    builder.apply(&delta(&layer)).unwrap();
    builder.steps.set(MAX_PATH_STEPS - 3 * once);
    assert_eq!(builder.missing_contents(), []);
    let error = builder.finish().unwrap_err();
    assert_eq!(error.code(), "layer-limit", "{error}");
}

#[test]
fn each_limit_is_four_times_the_largest_base() {
    // The shape `BIG` of tests/bench/base.rs: 40 layers of 125 directories, with a link and nine
    // files each; a file is an object of the ostree repository and a hard link to it. 4.27 GB
    // unpacked, with a header and padding for each entry.
    let mut builder = Builder::default();
    let (mut entries, mut path_bytes) = (0, 0);
    for layer in 0..40 {
        let mut lines: Vec<String> = Vec::new();
        if layer == 0 {
            let skeleton = |n| format!("d {}/{n:02x}", retained::OSTREE_OBJECTS);
            lines.extend((0..256).map(skeleton));
            lines.extend((0..300).map(|n| format!("f usr/lib/systemd/system/unit-{n:03}.service")));
        }
        for place in 0..125 {
            let top = ["usr/lib", "usr/share", "usr/libexec"][place % 3];
            let path = format!("{top}/package-{layer:02}-{place:04}");
            lines.push(format!("d {path}"));
            lines.push(format!("l {path}/current file-0"));
            for file in 0..9 {
                let hash = Digest::of(format!("{layer} {place} {file}").as_bytes());
                let hash = &hash.hex()[..62];
                let object = format!("{}/{}/{hash}.file", retained::OSTREE_OBJECTS, &hash[..2]);
                lines.push(format!("f {object}"));
                lines.push(format!("h {path}/file-{file} {object}"));
            }
        }
        entries += lines.len() as u64;
        path_bytes += lines.iter().map(|line| line.len() as u64 - 2).sum::<u64>();
        builder.apply(&delta(&lines)).unwrap();
    }
    for (what, found, limit) in [
        ("layers", 40, MAX_LAYERS as u64),
        ("entries", entries, MAX_ENTRIES),
        ("nodes", builder.nodes.len() as u64, MAX_PATHS),
        ("path bytes", path_bytes, MAX_PATH_BYTES),
        ("unpacked", 4_270_000_000 + 1024 * entries, MAX_UNPACKED_SIZE),
        ("steps", builder.steps.get(), MAX_PATH_STEPS),
    ] {
        assert!(found > 0 && 4 * found <= limit, "{what}: {found} of {limit}");
    }
    assert!((100_000..101_000).contains(&entries), "{entries}");
}
