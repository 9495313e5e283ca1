//! Layers on top of a tree, against all layers.

use super::*;
use crate::tree::retained::{MAX_ETC_FILE_SIZE, OSTREE_OBJECTS};

/// `path size xattrs content` for a file, `path = target` for a hard link, `- path` for a whiteout.
fn delta(lines: &[&str]) -> Delta {
    let mut delta = Delta::new(Digest::of(b"layer"));
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["-", path] => delta.push(path.as_bytes(), &Event::Whiteout),
            [path, "=", to] => delta.push(path.as_bytes(), &Event::Link { to: to.as_bytes() }),
            [path, size, xattrs, content] => {
                let put = Put {
                    kind: Kind::File,
                    mode: 0o644,
                    uid: 0,
                    gid: 0,
                    size: size.parse().unwrap(),
                    has_xattrs: xattrs == "x",
                    bytes: (content != "?").then(|| content.as_bytes().into()),
                };
                delta.push(path.as_bytes(), &Event::Put(put));
            }
            _ => panic!("{line}"),
        }
    }
    delta
}

fn finish(mut builder: Builder) -> BaseTree {
    for missing in builder.missing_contents() {
        builder.supply(&missing, format!("layer {}", missing.layer).as_bytes());
    }
    builder.finish().unwrap()
}

#[test]
fn contents_are_of_all_layers_or_dropped() {
    let big = format!("etc/big {} - ?", MAX_ETC_FILE_SIZE + 1);
    let object = format!("{OSTREE_OBJECTS}/aa/bb.file");
    let of_object = format!("usr/etc/o = {object}");
    let read_object = format!("{object} 1 - o");
    for (what, below, above, lost) in [
        ("nothing on top", &["etc/a 1 - a", "etc/x 1 x ?", &big][..], &[][..], &[][..]),
        ("another file", &["etc/a 1 - a"], &["etc/b 1 - b", "etc/passwd 1 - r"], &[]),
        ("replaced", &["etc/a 1 - a"], &["etc/a 1 - b"], &[]),
        ("removed", &["etc/a 1 - a", "etc/b 1 - b"], &["- etc/a"], &[]),
        ("another name", &["etc/a 1 - a"], &["usr/a = etc/a"], &[]),
        ("one of two names", &["etc/a 1 - a", "etc/b = etc/a"], &["etc/c 1 - c"], &[]),
        ("an object of ostree", &[&read_object, &of_object], &["usr/etc/p 1 - p"], &[]),
        ("read again", &[], &["usr/lib/systemd/system/a.service 7 - ?"], &[]),
        // What only the layers below have.
        ("two names, one is removed", &["etc/a 1 - a", "etc/b = etc/a"], &["- etc/b"], &["etc/a"]),
        (
            "a file becomes a unit",
            &["usr/share/a 1 - ?"],
            &["usr/lib/systemd/system/a.service = usr/share/a"],
            &["usr/lib/systemd/system/a.service"],
        ),
        (
            "a file gets a name below /etc",
            &["usr/share/a 1 - ?"],
            &["etc/a = usr/share/a", "- usr/share/a"],
            &["etc/a"],
        ),
    ] {
        let mut all = Builder::default();
        all.apply(&delta(below)).unwrap();
        let tree = finish(all);
        let mut all = Builder::default();
        all.apply(&delta(below)).unwrap();
        all.apply(&delta(above)).unwrap();
        let mut on = Builder::on(&tree).unwrap();
        on.apply(&delta(above)).unwrap();
        let (all, on) = (finish(all), finish(on));
        assert_eq!(list(&on), list(&all), "{what}");
        for line in list(&all) {
            let path = &line[2..];
            assert_eq!(on.get(path), all.get(path), "{what}: {path}");
            let want = all.content(path).filter(|_| !lost.contains(&path));
            // In the tree of one layer, the layer on top is the first.
            let want = want.map(|content| if content == b"layer 1" { b"layer 0" } else { content });
            assert_eq!(on.content(path), want, "{what}: {path}");
        }
        for path in lost {
            assert!(all.content(path).is_some(), "{what}: {path} is lost");
        }
    }
}
