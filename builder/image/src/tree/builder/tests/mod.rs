//! Layers are written as lines: `d path`, `f path`, `l path target`, `h path to`, `w path`
//! (whiteout), `o path` (opaque).

mod contents;
mod extend;
mod limits;
mod naive_unpacker;

use super::*;
use crate::layer::Put;
use crate::tree::BaseTree;

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

/// The same, from the tree of the first `count` layers.
fn build_on(layers: &[Vec<String>], count: usize) -> Result<BaseTree, Error> {
    let mut builder = Builder::on(&build(&layers[..count])?).unwrap();
    for layer in &layers[count..] {
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

/// All else is as the naive unpacker has it.
#[test]
fn hard_links_may_lead_to_later_entries() {
    for (what, input, want) in [
        ("hard link to what comes later", &[&["h b a", "f a"][..]][..], &["f a", "f b"][..]),
        ("hard link to a later layer", &[&["h b a"], &["f a"]], &["f a", "f b"]),
        ("chain of these", &[&["h c b", "h b a"], &["l a x"]], &["l a", "l b", "l c"]),
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
fn impossible_entries_are_errors_with_layer_and_entry() {
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
