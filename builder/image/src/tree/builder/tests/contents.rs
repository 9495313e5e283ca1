//! Which contents a tree has.

use super::*;
use crate::tree::retained::{self, OSTREE_OBJECTS};

/// A path and what a layer has there.
type Line<'a> = (&'a str, Event<'a>);

fn file<'a>(path: &'a str, size: u64, bytes: Option<&[u8]>) -> Line<'a> {
    let bytes = bytes.map(Into::into);
    let (kind, has_xattrs) = (Kind::File, false);
    (path, Event::Put(Put { kind, mode: 0o644, uid: 0, gid: 0, size, has_xattrs, bytes }))
}

fn read<'a>(path: &'a str, content: &str) -> Line<'a> {
    file(path, content.len() as u64, Some(content.as_bytes()))
}

/// A file whose content was not read.
fn unread(path: &str, size: u64) -> Line<'_> {
    file(path, size, None)
}

fn link<'a>(path: &'a str, to: &'a str) -> Line<'a> {
    (path, Event::Link { to: to.as_bytes() })
}

fn builder(layers: &[Vec<Line<'_>>]) -> Builder {
    let mut builder = Builder::default();
    for layer in layers {
        let mut delta = Delta::new(Digest::of(b"layer"));
        for (path, event) in layer {
            delta.push(path.as_bytes(), event);
        }
        builder.apply(&delta).unwrap();
    }
    builder
}

/// The paths whose content a tree has once it was read again.
fn retained_paths<'a>(layers: &[Vec<Line<'_>>], paths: &[&'a str]) -> Vec<&'a str> {
    let mut builder = builder(layers);
    for missing in builder.missing_contents() {
        builder.supply(&missing, &vec![b'x'; missing.size as usize]);
    }
    let tree = builder.finish().unwrap();
    paths.iter().copied().filter(|path| tree.content(path).is_some()).collect()
}

#[test]
fn small_etc_files_with_one_name_are_retained() {
    let object = format!("{OSTREE_OBJECTS}/aa/bb.file");
    let most = retained::MAX_ETC_FILE_SIZE;
    let layers = [
        vec![
            unread(&object, 5),
            unread("etc/a", most),
            unread("etc/big", most + 1),
            unread("etc/deep/er/b", 1),
            unread("etc/far/too/deep/er/b", 1),
            unread("usr/etc/c", 1),
            unread("usr/share/d", 1),
            unread("etc/twice", 1),
            unread("etc/freed", 1),
        ],
        vec![
            link("etc/object", &object),
            link("usr/share/object", &object),
            link("usr/share/twice", "etc/twice"),
            link("usr/share/freed", "etc/freed"),
            link("etc/later", "usr/share/e"),
            link("etc/later-too", "usr/share/e"),
        ],
        vec![unread("usr/share/e", 3), ("usr/share/freed", Event::Whiteout)],
    ];
    let paths = [
        "etc/a",
        "etc/big",
        "etc/deep/er/b",
        "etc/far/too/deep/er/b",
        "usr/etc/c",
        "usr/share/d",
        "etc/twice",
        "etc/freed",
        "etc/object",
        "etc/later",
        "etc/later-too",
    ];
    let want = ["etc/a", "etc/deep/er/b", "usr/etc/c", "etc/freed", "etc/object"];
    assert_eq!(retained_paths(&layers, &paths), want);
}

#[test]
fn content_below_etc_is_that_of_uppermost_layer() {
    let larger = "2".repeat(retained::MAX_ETC_FILE_SIZE as usize + 1);
    let builder = builder(&[
        vec![
            read("etc/replaced", "1"),
            read("etc/removed", "1"),
            read("etc/back", "1"),
            read("etc/opaque/lower", "1"),
            read("etc/hidden/lower", "1"),
            read("etc/stays", "1"),
            read("etc/larger", "1"),
            read("etc/linked", "1"),
        ],
        vec![
            read("etc/replaced", "two"),
            ("etc/removed", Event::Whiteout),
            ("etc/back", Event::Whiteout),
            ("etc/opaque", Event::Opaque),
            read("etc/opaque/upper", "2"),
            read("etc/hidden", "no directory"),
            read("etc/larger", &larger),
            link("etc/linked", "etc/stays"),
        ],
        vec![read("etc/back", "3")],
    ]);
    assert_eq!(builder.missing_contents(), []);
    let tree = builder.finish().unwrap();
    for (path, want) in [
        ("etc/replaced", Some("two")),
        ("etc/removed", None),
        ("etc/back", Some("3")),
        ("etc/opaque/lower", None),
        ("etc/opaque/upper", Some("2")),
        ("etc/hidden", Some("no directory")),
        ("etc/hidden/lower", None),
        ("etc/larger", None),
        ("etc/linked", None),
        ("etc/stays", None),
    ] {
        assert_eq!(tree.content(path), want.map(str::as_bytes), "{path}");
    }
}

#[test]
fn limit_of_small_files_drops_the_deepest() {
    let most = retained::MAX_ETC_FILE_SIZE;
    // A smaller file counts as so many bytes.
    let least = retained::MIN_ETC_FILE_COST;
    let full = retained::MAX_ETC_TOTAL_SIZE / most;
    let many: Vec<String> = (1..full).map(|n| format!("etc/aa/b/{n:03}")).collect();
    let mut layer: Vec<_> = many.iter().map(|path| unread(path, most)).collect();
    layer.extend([
        unread("etc/aa/b/c/deep", most),
        unread("etc/zz/hosts", most - least),
        unread("etc/zz/b/c/small", 1),
        unread("etc/zz/b/c/tiny", 1),
        // Files that planning reads have a limit of their own.
        unread("etc/group", retained::MAX_FILE_SIZE),
    ]);
    let paths: Vec<&str> = layer.iter().map(|(path, _)| *path).collect();
    let left_out = ["etc/aa/b/c/deep", "etc/zz/b/c/tiny"];
    let want: Vec<&str> = paths.iter().copied().filter(|path| !left_out.contains(path)).collect();
    assert_eq!(retained_paths(&[layer], &paths), want);
}
