//! What is told of a pool's images, in order: each event once.

use std::fmt::Write as _;
use std::path::Path;

use expect_test::expect_file;

use super::world::*;
use mosb_plan::api::*;
use mosb_types::ErrorClass;

/// Adds what was told since the last time, after what happened.
fn add(text: &mut String, happened: &str, world: &mut World) {
    writeln!(text, "# {happened}").unwrap();
    for (reason, note) in world.events.drain(..) {
        let kind = reason.kind().as_str();
        writeln!(text, "{kind} {}: {}", reason.as_str(), short(&note)).unwrap();
    }
}

/// Without digests and the hashes in names: they follow from the format of images too. Of rendered configs the number is left.
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
    let mut world = World::opted_in();
    world.settle();
    add(&mut text, "opted in", &mut world);
    world.run();
    world.settle();
    add(&mut text, "the pod runs", &mut world);
    world.succeed();
    world.settle();
    add(&mut text, "the image is pushed", &mut world);

    world.render(2);
    world.settle();
    add(&mut text, "another config", &mut world);
    world.run();
    world.settle();
    world.tell(failed(ErrorClass::Rejected));
    world.settle();
    add(&mut text, "its build fails", &mut world);
    world.render(1);
    world.settle();
    add(&mut text, "the first one is wanted again", &mut world);
    world.render(2);
    world.containerfile("RUN true");
    world.build();
    add(&mut text, "the other one is mended", &mut world);

    world.annotate(labels::REBUILD, "");
    world.settle();
    add(&mut text, "somebody asks for it once more", &mut world);
    world.containerfile("RUN false");
    world.settle();
    add(&mut text, "something else is wanted meanwhile", &mut world);
    world.build();
    world.events.clear();
    world.seen.config = None;
    world.settle();
    add(&mut text, "opted out", &mut world);

    let golden =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("testdata/events/pool.txt");
    expect_file![golden].assert_eq(&text);
}
