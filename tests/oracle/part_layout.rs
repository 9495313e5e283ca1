//! Other programs accept the base images of tests, and trees are compared correctly.

use mosb_tests::{
    Compression, Entry, Image, Kind, Layout, Snapshot, Tree, base_image, debian_root, run,
};

#[test]
fn umoci_unpacks_what_the_layout_holds() {
    let directory = tempfile::tempdir().unwrap();
    let long = format!("a/{}", "long".repeat(40));
    let lower = Tree::new()
        .directory("a", 0o750)
        .owned(3, 5)
        .file(&long, 0o640, "1")
        .file("a/gone", 0o644, "2")
        .file("a/file", 0o4755, "3")
        .link("l", "a/file");
    let upper = Tree::new().file("a/.wh.gone", 0o644, "").hard_link("h", "a/file");
    let layout = Layout::create(&directory.path().join("layout"));
    let image =
        Image::new().layer(Compression::Plain, lower.tar()).layer(Compression::Gzip, upper.tar());
    layout.put("t", &image);
    let bundle = directory.path().join("bundle");
    let source = layout.reference("t").replacen("oci:", "", 1);
    run("umoci", ["unpack", "--image", &source, bundle.to_str().unwrap()]);

    let mut tree = Snapshot::default();
    for layer in layout.layers("t") {
        tree = tree.with_layer(layer).unwrap();
    }
    assert_eq!(tree.0.len(), 5, "{tree:?}");
    let file = Kind::File {
        size: 1,
        sha256: "4e07408562bedb8b60ce05c1decfe3ad16b72230967de01f640b7e4729b49fce".to_owned(),
    };
    assert_eq!(tree.0["h"], Entry { kind: file, mode: 0o4755, uid: 0, gid: 0 });
    tree.assert_same(&Snapshot::of(&bundle.join("rootfs")), "umoci unpack");
}

#[test]
fn every_kind_of_image_is_read_by_skopeo() {
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::create(directory.path());
    let tar = Tree::new().file("f", 0o644, "").tar();
    let image = |compression| Image::new().layer(compression, tar.clone()).label("a", "b");
    layout.put("plain", &image(Compression::Plain));
    layout.put("zstd", &image(Compression::Zstd));
    let platforms = [image(Compression::Gzip), image(Compression::Gzip).architecture("arm64")];
    layout.put_index("index", &platforms);
    for tag in ["plain", "zstd", "index"] {
        let inspected = run("skopeo", ["--override-arch=amd64", "inspect", &layout.reference(tag)]);
        assert_eq!(inspected.json()["Labels"]["a"], "b", "{tag}");
    }
}

#[test]
fn a_layer_through_links_is_an_error() {
    let base = Tree::new().directory("d", 0o755).link("l", "d").tar();
    let base = Snapshot::default().with_layer(base.as_slice()).unwrap();
    let cases = [
        ("through a link", Tree::new().file("l/f", 0o644, "")),
        ("without a parent", Tree::new().file("n/f", 0o644, "")),
        ("out of the tree", Tree::new().file("../f", 0o644, "")),
        ("a whiteout of nothing", Tree::new().file("d/.wh.f", 0o644, "")),
        ("a hard link to nothing", Tree::new().hard_link("h", "f")),
        ("a device", Tree::new().special("d/null", tar::EntryType::Char)),
    ];
    for (what, layer) in cases {
        base.with_layer(layer.tar().as_slice()).expect_err(what);
    }
}

#[test]
fn the_base_image_is_the_debian_root() {
    let mut tree = Snapshot::default();
    for layer in base_image().layers("base") {
        tree = tree.with_layer(layer).unwrap();
    }
    tree.assert_same(&Snapshot::of(&debian_root()), "the base image's layers");
}
