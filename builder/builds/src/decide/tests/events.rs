//! Events of a pool's images, in order, each emitted once.

use std::fmt::Write as _;
use std::path::Path;

use expect_test::expect_file;

use super::fake_cluster::*;
use mosb_api::*;
use mosb_types::ErrorClass;

/// Appends the events since the last call, below what happened.
fn add(text: &mut String, happened: &str, fake: &mut FakeCluster) {
    writeln!(text, "# {happened}").unwrap();
    for event in fake.events.drain(..) {
        let kind = event.kind.as_str();
        writeln!(text, "{kind} {}: {}", event.reason, short(&event.note)).unwrap();
    }
}

/// Removes digests and hashes in names, which depend on the image format. Rendered configs keep
/// their number.
fn short(note: &str) -> String {
    let is_hex = |c: char| c.is_ascii_hexdigit();
    let words = note.split_inclusive(|c: char| !is_hex(c));
    let cut = |word: &str| match word.trim_end_matches(|c| !is_hex(c)) {
        hex if hex.len() >= 32 && hex.starts_with("000") => word[hex.len() - 1..].to_owned(),
        hex if hex.len() >= 32 => format!("…{}", &word[hex.len()..]),
        _ => word.to_owned(),
    };
    words.map(cut).collect()
}

#[test]
fn of_a_pool_from_its_first_image_to_its_end() {
    let mut text = String::new();
    let mut fake = FakeCluster::opted_in();
    fake.settle();
    add(&mut text, "opted in", &mut fake);
    fake.run();
    fake.settle();
    add(&mut text, "the pod runs", &mut fake);
    fake.succeed();
    fake.settle();
    add(&mut text, "the image is pushed", &mut fake);

    fake.render(2);
    fake.settle();
    add(&mut text, "another config", &mut fake);
    fake.run();
    fake.settle();
    fake.report(failed(ErrorClass::Rejected));
    fake.settle();
    add(&mut text, "its build fails", &mut fake);
    fake.render(1);
    fake.settle();
    add(&mut text, "the first one is wanted again", &mut fake);
    fake.render(2);
    fake.containerfile("RUN true");
    fake.build();
    add(&mut text, "the other one is mended", &mut fake);

    fake.annotate(labels::REBUILD, "");
    fake.settle();
    add(&mut text, "somebody asks for it once more", &mut fake);
    fake.containerfile("RUN false");
    fake.settle();
    add(&mut text, "something else is wanted meanwhile", &mut fake);
    fake.build();
    fake.events.clear();
    fake.snapshot.config = None;
    fake.settle();
    add(&mut text, "opted out", &mut fake);

    let golden =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("testdata/events/pool.txt");
    expect_file![golden].assert_eq(&text);
}
