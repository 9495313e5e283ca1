//! Layers of a base with hostile or odd entries are refused, or built upon within their root.

use std::path::PathBuf;

use serde_json::json;
use tar::EntryType;

use mosb_tests::build_fixture::{BuildFixture, assert_refused, base, os, with};
use mosb_tests::{Compression, Image, Layout, Tree};

use super::bad_base::{bounded, refused};

#[test]
fn layers_with_hostile_names_are_refused() {
    let long = "x/".repeat(5000);
    let cases: [(&str, Tree, &[&str]); 7] = [
        (
            "a name that climbs",
            Tree::new().file("etc/../../../tmp/mosb-was-here", 0o644, ""),
            &["mosb-was-here", ".."],
        ),
        ("a bare ..", Tree::new().directory("..", 0o755), &[".."]),
        (
            "a hard link that climbs",
            Tree::new().hard_link("etc/x", "../../etc/passwd"),
            &["etc/x", "hard link"],
        ),
        ("a hard link to nothing", Tree::new().hard_link("etc/x", "etc/none"), &["etc/none"]),
        (
            "a type that nobody knows",
            Tree::new().special("etc/x", EntryType::new(b'Q')),
            &["etc/x"],
        ),
        ("a whiteout that climbs", Tree::new().file("etc/.wh...", 0o644, ""), &[".wh..."]),
        ("a name that is too long", Tree::new().file(&long, 0o644, ""), &["x/x"]),
    ];
    for (what, tree, words) in cases {
        let fixture = bounded(BuildFixture::with(&base().layer(Compression::Gzip, tree.tar())));
        refused(&fixture, what, &[], 2, "layer-entry", words);
    }
    assert!(!PathBuf::from("/tmp/mosb-was-here").exists());
}

#[test]
fn odd_bases_are_built_upon_within_their_root() {
    let tree = os()
        .file("/etc/absolute", 0o644, "")
        .special("etc/null", EntryType::Char)
        .special("etc/pipe", EntryType::Fifo)
        .link("etc/loop", "loop2")
        .link("etc/loop2", "loop")
        .link("etc/outside", "../../../../var");
    let fixture = bounded(BuildFixture::with(&Image::new().layer(Compression::Zstd, tree.tar())));
    let file = |path: &str| {
        with("storage", json!({ "files": [{ "path": path, "contents": { "source": "data:,x" } }] }))
    };
    for (path, landed) in [
        ("/etc/outside/x", Some("var/x")),
        ("/etc/absolute/x", None),
        ("/etc/loop/x", None),
        ("/etc/null/x", None),
        ("/etc/pipe/x", None),
    ] {
        let finished = fixture.build(file(path).as_bytes(), &[]);
        match landed {
            Some(_) => {
                finished.ok();
                let built = Layout::at(fixture.output());
                let layer = built.layers(mosb_tests::build_fixture::NAME).pop().unwrap();
                let mut layer = tar::Archive::new(layer);
                let paths: Vec<_> = layer
                    .entries()
                    .unwrap()
                    .map(|e| e.unwrap().path().unwrap().display().to_string())
                    .collect();
                assert!(paths.contains(&landed.unwrap().to_owned()), "{paths:?}");
            }
            None => assert_refused(
                &finished,
                path,
                2,
                "conflicts-with-base",
                &[path.rsplit_once('/').unwrap().0],
            ),
        }
        fixture.assert_clean(path);
    }
}
