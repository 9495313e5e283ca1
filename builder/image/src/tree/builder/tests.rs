//! Layers are written as lines: `d path`, `f path`, `l path target`, `h path to`, `w path`
//! (whiteout), `o path` (opaque).

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::BaseTree;
use super::super::retained;
use super::*;
use crate::layer::{MAX_PATH_BYTES, MAX_UNPACKED_SIZE};
use mosb_types::Diagnostic as _;

fn delta(lines: &[impl AsRef<str>]) -> Delta {
    let mut delta = Delta::new(Digest::of(b"layer"));
    for line in lines {
        let words: Vec<&str> = line.as_ref().split(' ').collect();
        let put = |kind, bytes: Option<&[u8]>| {
            Event::Put(Put {
                kind,
                mode: words.get(3).map_or(0o700, |mode| mode.parse().unwrap()),
                uid: 1,
                gid: 1,
                size: 0,
                has_xattrs: false,
                bytes: bytes.map(Into::into),
            })
        };
        let second = words.get(2).map(|word| word.as_bytes());
        let event = match words[0] {
            "d" => put(Kind::Directory, None),
            "f" => put(Kind::File, second),
            "l" => put(Kind::Symlink, second),
            "h" => Event::Link { to: second.unwrap() },
            "w" => Event::Whiteout,
            "o" => Event::Opaque,
            other => panic!("{other}"),
        };
        delta.push(words[1].as_bytes(), &event);
    }
    delta
}

fn build(layers: &[Vec<String>]) -> Result<BaseTree, Error> {
    let mut builder = Builder::default();
    for layer in layers {
        builder.apply(&delta(layer))?;
    }
    builder.finish()
}

/// Every path with the letter of its type; directories that no entry made are upper case.
fn list(tree: &BaseTree) -> Vec<String> {
    let mut lines = Vec::new();
    let mut todo = vec![String::new()];
    while let Some(directory) = todo.pop() {
        for (name, entry) in tree.children(&directory) {
            let name = String::from_utf8_lossy(name);
            let path = match directory.as_str() {
                "" => name.into_owned(),
                directory => format!("{directory}/{name}"),
            };
            let letter = match entry.kind {
                Kind::Directory if entry.uid == 0 => "D",
                Kind::Directory => "d",
                Kind::File => "f",
                Kind::Symlink => "l",
                Kind::Other => "o",
            };
            lines.push(format!("{letter} {path}"));
            todo.push(path);
        }
    }
    lines.sort_by(|a, b| a[2..].cmp(&b[2..]));
    lines
}

fn layers(layers: &[&[&str]]) -> Vec<Vec<String>> {
    let lines = |lines: &&[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    layers.iter().map(lines).collect()
}

#[test]
fn layers_lie_on_each_other() {
    for (what, input, want) in [
        ("parents", &[&["f a/b/c"][..]][..], &["D a", "D a/b", "f a/b/c"][..]),
        ("replaced", &[&["f a/b"], &["f a"]], &["f a"]),
        ("file becomes directory", &[&["f a"], &["f a/b"]], &["D a", "f a/b"]),
        ("directory kept", &[&["d a", "f a/b"], &["d a", "f a/c"]], &["d a", "f a/b", "f a/c"]),
        ("implicit parent keeps the lower", &[&["d a"], &["f a/c"]], &["d a", "f a/c"]),
        ("link of a lower layer", &[&["l a b", "d b"], &["f a/c"]], &["D a", "f a/c", "d b"]),
        ("link of the same layer", &[&["l a b", "d b", "f a/c"]], &["l a", "d b", "f b/c"]),
        ("link out of the root", &[&["l a ../../b", "f a/c"]], &["l a", "D b", "f b/c"]),
        ("absolute link", &[&["d x", "l x/a /b", "f x/a/c"]], &["D b", "f b/c", "d x", "l x/a"]),
        ("last link replaced", &[&["l a b", "f a"]], &["f a"]),
        ("directory over a link", &[&["l a b", "d b", "d a", "f a/c"]], &["d a", "f a/c", "d b"]),
        ("whiteout", &[&["f a/b", "f a/c"], &["w a/b"]], &["D a", "f a/c"]),
        ("whiteout of a directory", &[&["f a/b"], &["w a"]], &[]),
        ("whiteout of nothing", &[&["f a"], &["w b/c"]], &["f a"]),
        ("whiteout before", &[&["f a/b"], &["w a", "f a"]], &["f a"]),
        ("whiteout behind", &[&["f a/b"], &["f a/c", "w a"]], &["D a", "f a/c"]),
        ("opaque before", &[&["f a/b"], &["o a", "f a/c"]], &["D a", "f a/c"]),
        (
            "opaque behind",
            &[&["f a/b/x", "f a/b/y"], &["f a/b/x", "o a"]],
            &["D a", "D a/b", "f a/b/x"],
        ),
        ("whiteout of a link's target stays", &[&["l a b", "f b/x"], &["w a"]], &["D b", "f b/x"]),
        ("hard link", &[&["f a", "h b/c a"]], &["f a", "D b", "f b/c"]),
        ("hard link to a link", &[&["l a x", "h b a"]], &["l a", "l b"]),
        (
            "hard link through links",
            &[&["d x", "f x/f", "l y x"], &["h b y/f"]],
            &["f b", "d x", "f x/f", "l y"],
        ),
        ("hard link to what comes later", &[&["h b a", "f a"]], &["f a", "f b"]),
        ("hard link to a later layer", &[&["h b a"], &["f a"]], &["f a", "f b"]),
        ("chain of these", &[&["h c b", "h b a"], &["l a x"]], &["l a", "l b", "l c"]),
        ("file gone, link stays", &[&["f a", "h b a"], &["w a"]], &["f b"]),
        ("dangling, then gone", &[&["h b a"], &["w b"]], &[]),
        (
            "ostree",
            &[
                &[
                    "l sysroot/ostree/repo/objects/aa/bb.file ../var",
                    "f sysroot/ostree/repo/config",
                ],
                &["h usr/local sysroot/ostree/repo/objects/aa/bb.file"],
            ],
            &[
                "D sysroot",
                "D sysroot/ostree",
                "D sysroot/ostree/repo",
                "f sysroot/ostree/repo/config",
                "D sysroot/ostree/repo/objects",
                "D usr",
                "l usr/local",
            ],
        ),
    ] {
        let tree = build(&layers(input)).map_err(|error| error.to_string());
        let mut want: Vec<String> = want.iter().map(|line| (*line).to_owned()).collect();
        want.sort_by(|a, b| a[2..].cmp(&b[2..]));
        assert_eq!(tree.as_ref().map(list), Ok(want), "{what}");
    }
}

#[test]
fn entries_that_cannot_be_unpacked_are_errors_with_layer_and_entry() {
    let dangling = || EntryError::DanglingLink("none".to_owned());
    for (what, input, entry, cause) in [
        ("loop", &[&["l a b", "l b a", "f a/c"][..]][..], "a/c", EntryError::LinkLoop),
        ("loop of itself", &[&["l a a", "f a/c"]], "a/c", EntryError::LinkLoop),
        ("through a file", &[&["f a", "f a/c"]], "a/c", EntryError::NotADirectory),
        ("to a directory", &[&["d a", "h b a"]], "b", EntryError::LinkToDirectory("a".to_owned())),
        ("dangling", &[&["h b none"]], "b", dangling()),
        ("each other", &[&["h b c", "h c b"]], "b", EntryError::DanglingLink("c".to_owned())),
    ] {
        match build(&layers(input)) {
            Err(Error::Entry { layer, entry: found, cause: why }) => {
                assert_eq!((found.as_str(), why), (entry, cause), "{what}");
                assert_eq!(layer, Digest::of(b"layer"), "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

/// A link target of maximum length that goes up and down before `to`.
fn long_way(to: &str) -> String {
    format!("/{}{to}", "d/../".repeat((4000 - to.len()) / 5))
}

#[test]
fn a_path_is_resolved_once_a_directory_and_not_once_an_entry() {
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

#[test]
fn paths_that_lead_through_links_without_end_are_an_error() {
    let mut layer = vec!["d d".to_owned(), format!("l a0 {}", long_way("d"))];
    layer.extend((1..39).map(|n| format!("l a{n} {}", long_way(&format!("a{}", n - 1)))));
    // Each of them another directory, some 50 000 steps away.
    layer.extend((0..10).map(|n| format!("f a38/{n}/x")));
    let mut builder = Builder::default();
    builder.steps.set(MAX_PATH_STEPS - 200_000);
    let error = builder.apply(&delta(&layer)).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.code(), "layer-entry", "{text}");
    assert!(text.contains("a38/") && text.contains("no more than 67108864 are read"), "{text}");
}

#[test]
fn links_that_units_are_looked_up_through_are_counted_too() {
    let unit = "usr/lib/systemd/system";
    let mut layer = vec!["d d".to_owned(), format!("l a0 {}", long_way("d"))];
    layer.extend((1..39).map(|n| format!("l a{n} {}", long_way(&format!("a{}", n - 1)))));
    layer.extend((0..10).map(|n| format!("l {unit}/{n}.service /a38/{n}")));
    let mut builder = Builder::default();
    builder.apply(&delta(&layer)).unwrap();
    builder.steps.set(MAX_PATH_STEPS - 200_000);
    assert_eq!(builder.missing_contents(), []);
    let error = builder.finish().unwrap_err();
    assert_eq!(error.code(), "layer-limit", "{error}");
}

#[test]
fn each_limit_is_four_times_what_the_largest_base_of_the_benchmark_has() {
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

#[test]
fn contents_that_decisions_need_are_retained_or_requested() {
    let mut builder = Builder::default();
    let objects = "sysroot/ostree/repo/objects";
    let put = |builder: &mut Builder, entries: &[(&str, &str, u64, Option<&[u8]>)]| {
        let mut delta = Delta::new(Digest::of(b""));
        for (path, to, size, bytes) in entries {
            let event = match *to {
                "" => Event::Put(Put {
                    kind: Kind::File,
                    mode: 0,
                    uid: 0,
                    gid: 0,
                    size: *size,
                    has_xattrs: false,
                    bytes: bytes.map(Into::into),
                }),
                to => Event::Link { to: to.as_bytes() },
            };
            delta.push(path.as_bytes(), &event);
        }
        builder.apply(&delta).unwrap();
    };
    let (known, unknown) = (format!("{objects}/a.file"), format!("{objects}/b.file"));
    put(
        &mut builder,
        &[
            (&known, "", 1, Some(b"k")),
            (&unknown, "", 1, None),
            ("usr/bin/x", "", 1, Some(b"x")),
            ("etc/group", "", retained::MAX_FILE_SIZE + 1, None),
        ],
    );
    put(
        &mut builder,
        &[
            ("usr/lib/systemd/system/k.service", &known, 0, None),
            ("usr/lib/systemd/system/u.service", &unknown, 0, None),
            ("usr/lib/systemd/system/u.service.d/d.conf", &unknown, 0, None),
            ("usr/lib/systemd/system/not-a-unit", &unknown, 0, None),
        ],
    );
    let wanted = builder.missing_contents();
    let places: Vec<_> = wanted.iter().map(|w| (w.layer, w.entry, w.size)).collect();
    assert_eq!(places, [(0, 1, 1)]);
    builder.supply(&wanted[0], b"u");
    let tree = builder.finish().unwrap();
    for (path, want) in [
        ("usr/lib/systemd/system/k.service", Some(&b"k"[..])),
        ("usr/lib/systemd/system/u.service", Some(b"u")),
        ("usr/lib/systemd/system/u.service.d/d.conf", Some(b"u")),
        ("usr/lib/systemd/system/not-a-unit", None),
        ("usr/bin/x", None),
        ("etc/group", None),
    ] {
        assert_eq!(tree.content(path), want, "{path}");
    }
}

/// A layer of files: path, the file of which it is another name, or "", and size. The content is as
/// many bytes, and not read.
fn files(entries: &[(String, &str, u64)]) -> Delta {
    let mut delta = Delta::new(Digest::of(b""));
    for (path, to, size) in entries {
        let (kind, size) = (Kind::File, *size);
        let put = Put { kind, mode: 0, uid: 0, gid: 0, size, has_xattrs: false, bytes: None };
        let event = match *to {
            "" => Event::Put(put),
            to => Event::Link { to: to.as_bytes() },
        };
        delta.push(path.as_bytes(), &event);
    }
    delta
}

/// The paths whose content a tree has once it was read again.
fn retained_paths(layers: &[Delta], paths: &[&str]) -> Vec<String> {
    let mut builder = Builder::default();
    for layer in layers {
        builder.apply(layer).unwrap();
    }
    for missing in builder.missing_contents() {
        builder.supply(&missing, &vec![b'x'; missing.size as usize]);
    }
    let tree = builder.finish().unwrap();
    let has = |path: &&&str| tree.content(path).is_some();
    paths.iter().filter(has).map(|path| (*path).to_owned()).collect()
}

#[test]
fn small_files_below_etc_are_retained_if_they_have_one_name() {
    let object = format!("{}/aa/bb.file", retained::OSTREE_OBJECTS);
    let most = retained::MAX_ETC_FILE_SIZE;
    let file = |path: &str, size| (path.to_owned(), "", size);
    let layers = [
        files(&[
            file(&object, 5),
            file("etc/a", most),
            file("etc/big", most + 1),
            file("etc/deep/er/b", 1),
            file("etc/far/too/deep/er/b", 1),
            file("usr/etc/c", 1),
            file("usr/share/d", 1),
            file("etc/twice", 1),
            file("etc/freed", 1),
        ]),
        files(&[
            ("etc/object".to_owned(), &object, 0),
            ("usr/share/object".to_owned(), &object, 0),
            ("usr/share/twice".to_owned(), "etc/twice", 0),
            ("usr/share/freed".to_owned(), "etc/freed", 0),
            ("etc/later".to_owned(), "usr/share/e", 0),
            ("etc/later-too".to_owned(), "usr/share/e", 0),
        ]),
        {
            let mut delta = files(&[file("usr/share/e", 3)]);
            delta.push(b"usr/share/freed", &Event::Whiteout);
            delta
        },
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
fn a_content_below_etc_is_that_of_the_uppermost_layer() {
    let file = |path: &str, content: &str| {
        let bytes = Some(content.as_bytes().into());
        let (kind, size) = (Kind::File, content.len() as u64);
        let put = Put { kind, mode: 0o644, uid: 0, gid: 0, size, has_xattrs: false, bytes };
        (path.to_owned(), Event::Put(put))
    };
    let layers = [
        vec![
            file("etc/replaced", "1"),
            file("etc/removed", "1"),
            file("etc/back", "1"),
            file("etc/opaque/lower", "1"),
            file("etc/hidden/lower", "1"),
            file("etc/stays", "1"),
            file("etc/larger", "1"),
            file("etc/linked", "1"),
        ],
        vec![
            file("etc/replaced", "two"),
            ("etc/removed".to_owned(), Event::Whiteout),
            ("etc/back".to_owned(), Event::Whiteout),
            ("etc/opaque".to_owned(), Event::Opaque),
            file("etc/opaque/upper", "2"),
            file("etc/hidden", "no directory"),
            file("etc/larger", &"2".repeat(retained::MAX_ETC_FILE_SIZE as usize + 1)),
            ("etc/linked".to_owned(), Event::Link { to: b"etc/stays" }),
        ],
        vec![file("etc/back", "3")],
    ];
    let mut builder = Builder::default();
    for layer in layers {
        let mut delta = Delta::new(Digest::of(b""));
        for (path, event) in layer {
            delta.push(path.as_bytes(), &event);
        }
        builder.apply(&delta).unwrap();
    }
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
fn the_limit_of_small_files_leaves_out_what_lies_deepest() {
    let most = retained::MAX_ETC_FILE_SIZE;
    let full = retained::MAX_ETC_TOTAL_SIZE / most;
    let mut paths: Vec<String> = (0..full - 1).map(|n| format!("etc/aa/b/{n:03}")).collect();
    paths.push("etc/aa/b/c/deep".to_owned());
    let mut entries: Vec<_> = paths.iter().map(|path| (path.clone(), "", most)).collect();
    // A file counts as 1 KiB at least.
    let least = retained::MIN_ETC_FILE_COST;
    for (path, size) in
        [("etc/zz/hosts", most - least), ("etc/zz/b/c/small", 1), ("etc/zz/b/c/tiny", 1)]
    {
        entries.push((path.to_owned(), "", size));
        paths.push(path.to_owned());
    }
    // Files that planning reads have a limit of their own.
    let group = ("etc/group".to_owned(), "", retained::MAX_FILE_SIZE);
    entries.push(group);
    paths.push("etc/group".to_owned());
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let left_out = ["etc/aa/b/c/deep", "etc/zz/b/c/tiny"];
    let want: Vec<&str> = paths.iter().copied().filter(|path| !left_out.contains(path)).collect();
    assert_eq!(retained_paths(&[files(&entries)], &paths), want);
}

/// An unpacker that knows nothing but a map of paths: letter and an inode's number.
#[derive(Default)]
struct Naive {
    paths: BTreeMap<String, (char, usize, String)>,
    touched: BTreeSet<String>,
    inodes: usize,
}

impl Naive {
    fn below(&self, path: &str) -> Vec<String> {
        let prefix = format!("{path}/");
        self.paths.keys().filter(|p| p.starts_with(&prefix)).cloned().collect()
    }

    fn remove(&mut self, path: &str) {
        for gone in self.below(path) {
            self.paths.remove(&gone);
            self.touched.remove(&gone);
        }
        self.paths.remove(path);
        self.touched.remove(path);
    }

    /// The real path of a directory; made if `make`, through links of this layer only if so.
    fn directory(&mut self, path: &str, make: bool, own: bool, depth: usize) -> Option<String> {
        if depth > 200 {
            return None;
        }
        let mut here = String::new();
        let mut rest: Vec<&str> = path.split('/').filter(|c| !c.is_empty()).collect();
        rest.reverse();
        while let Some(name) = rest.pop() {
            if name == ".." {
                here = here.rsplit_once('/').map_or("", |(above, _)| above).to_owned();
                continue;
            }
            let next = format!("{here}/{name}").trim_start_matches('/').to_owned();
            match self.paths.get(&next).cloned() {
                Some(('d' | 'D', ..)) => {}
                Some(('l', _, target)) if !own || self.touched.contains(&next) => {
                    rest.reverse();
                    let start = if target.starts_with('/') { "" } else { &here };
                    let whole = format!("{start}/{target}/{}", rest.join("/"));
                    return self.directory(&whole, make, own, depth + 1);
                }
                Some(_) if !make || self.touched.contains(&next) => return None,
                None if !make => return None,
                Some(_) | None => {
                    self.remove(&next);
                    self.paths.insert(next.clone(), ('D', 0, String::new()));
                }
            }
            if make {
                self.touched.insert(next.clone());
            }
            here = next;
        }
        Some(here)
    }

    fn apply(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        let (above, name) = words[1].rsplit_once('/').unwrap_or(("", words[1]));
        let at = |directory: String, name: &str| {
            format!("{directory}/{name}").trim_start_matches('/').to_owned()
        };
        match words[0] {
            "w" | "o" => {
                let Some(directory) = self.directory(above, false, true, 0) else {
                    return Some(());
                };
                let path = at(directory, name);
                for gone in self.below(&path) {
                    if !self.touched.contains(&gone) {
                        self.paths.remove(&gone);
                    }
                }
                if words[0] == "w" && !self.touched.contains(&path) {
                    self.remove(&path);
                }
            }
            "h" => {
                let (to_above, to_name) = words[2].rsplit_once('/').unwrap_or(("", words[2]));
                let directory = self.directory(to_above, false, false, 0)?;
                let (letter, inode, target) = self.paths.get(&at(directory, to_name))?.clone();
                if matches!(letter, 'd' | 'D') {
                    return None;
                }
                let path = at(self.directory(above, true, true, 0)?, name);
                self.touched.insert(path.clone());
                if self.paths.get(&path).is_none_or(|(_, old, _)| *old != inode) {
                    self.remove(&path);
                    self.touched.insert(path.clone());
                    self.paths.insert(path, (letter, inode, target));
                }
            }
            letter => {
                let path = at(self.directory(above, true, true, 0)?, name);
                let kept = letter == "d" && matches!(self.paths.get(&path), Some(('d' | 'D', ..)));
                if !kept {
                    self.remove(&path);
                }
                self.inodes += 1;
                let target = words.get(2).map_or(String::new(), |word| (*word).to_owned());
                self.paths.insert(path.clone(), (letter.chars().next()?, self.inodes, target));
                self.touched.insert(path);
            }
        }
        Some(())
    }
}

fn a_line() -> impl Strategy<Value = String> {
    let path = "[a-c](/[a-c]){0,3}";
    prop_oneof![
        4 => path.prop_map(|path| format!("f {path}")),
        2 => path.prop_map(|path| format!("d {path}")),
        2 => (path, "(/|[.][.]/)?[a-c](/[a-c]){0,1}").prop_map(|(path, to)| format!("l {path} {to}")),
        1 => (path, path).prop_map(|(path, to)| format!("h {path} {to}")),
        1 => path.prop_map(|path| format!("w {path}")),
        1 => path.prop_map(|path| format!("o {path}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn layers_lie_on_each_other_as_a_naive_unpacker_has_it(
        layers in proptest::collection::vec(proptest::collection::vec(a_line(), 0..12), 1..4),
    ) {
        let mut naive = Naive::default();
        let mut possible: Vec<Vec<String>> = Vec::new();
        for layer in layers {
            naive.touched.clear();
            let mut lines = Vec::new();
            for line in layer {
                // An entry that can't be unpacked is an error here; the rest must still agree.
                let before = (naive.paths.clone(), naive.touched.clone());
                match naive.apply(&line) {
                    Some(()) => lines.push(line),
                    None => (naive.paths, naive.touched) = before,
                }
            }
            possible.push(lines);
        }
        let tree = build(&possible).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let want: Vec<String> = naive.paths.iter().map(|(path, (letter, ..))| format!("{letter} {path}")).collect();
        prop_assert_eq!(list(&tree), want, "{:?}", possible);
    }
}
