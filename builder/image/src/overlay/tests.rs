use super::*;
use crate::tree::OwnedEntry;

fn path(s: &str) -> TreePath {
    s.parse().unwrap()
}

fn base() -> BaseTree {
    BaseTree::from_entries([
        (b"etc".to_vec(), OwnedEntry::directory(0o750)),
        (b"etc/a".to_vec(), OwnedEntry::file(b"base")),
        (b"etc/d/sub/z".to_vec(), OwnedEntry::file(b"z")),
        (b"etc/d/x".to_vec(), OwnedEntry::file(b"x")),
        (b"etc/d/y".to_vec(), OwnedEntry::file(b"y")),
        (b"etc-more".to_vec(), OwnedEntry::file(b"")),
        (b"odd/\xff".to_vec(), OwnedEntry::file(b"")),
    ])
}

const META: Meta = Meta { mode: 0o644, uid: 0, gid: 0 };

fn file(content: &'static str) -> Node {
    Node::File { meta: META, content: Bytes::from_static(content.as_bytes()) }
}

fn list(overlay: &Overlay<'_>) -> Vec<String> {
    let line = |entry: &LayerEntry| match entry {
        LayerEntry::Put(path, _) => format!("+{path}"),
        LayerEntry::Parent(path, meta) => format!("={path} {:o}", meta.mode),
        LayerEntry::Whiteout(path) => format!("-{path}"),
    };
    overlay.layer().iter().map(line).collect()
}

#[test]
fn layer_repeats_parents_and_whites_out_removed_paths() {
    let base = base();
    for (what, change, want) in [
        ("nothing", (|_| ()) as fn(&mut Overlay<'_>), &[][..]),
        ("new file", |o| o.put(path("/etc/n"), file("n")), &["=/etc 750", "+/etc/n"]),
        ("file on a file", |o| o.put(path("/etc/a"), file("n")), &["=/etc 750", "+/etc/a"]),
        ("gone", |o| o.remove(&path("/etc/a")), &["=/etc 750", "-/etc/a"]),
        ("gone, never there", |o| o.remove(&path("/etc/none")), &[]),
        (
            "file on a directory",
            |o| o.put(path("/etc/d"), file("n")),
            &["=/etc 750", "-/etc/d", "+/etc/d"],
        ),
        (
            "directory wiped",
            |o| {
                o.remove(&path("/etc/d"));
                o.put(path("/etc/d"), Node::Directory { meta: META });
                o.put(path("/etc/d/y"), file("n"));
            },
            &["=/etc 750", "+/etc/d", "-/etc/d/sub", "-/etc/d/x", "+/etc/d/y"],
        ),
        (
            "directory wiped, and one below it made anew",
            |o| {
                o.remove(&path("/etc/d"));
                o.put(path("/etc/d"), Node::Directory { meta: META });
                o.put(path("/etc/d/sub"), Node::Directory { meta: META });
                o.put(path("/etc/d/sub/n"), file("n"));
            },
            &[
                "=/etc 750",
                "+/etc/d",
                "+/etc/d/sub",
                "+/etc/d/sub/n",
                "-/etc/d/sub/z",
                "-/etc/d/x",
                "-/etc/d/y",
            ],
        ),
        (
            "directory wiped, and a file where one was below it",
            |o| {
                o.remove(&path("/etc/d"));
                o.put(path("/etc/d"), Node::Directory { meta: META });
                o.put(path("/etc/d/sub"), file("n"));
            },
            &["=/etc 750", "+/etc/d", "-/etc/d/sub", "+/etc/d/sub", "-/etc/d/x", "-/etc/d/y"],
        ),
        (
            "directory wiped, with a name that is not text",
            |o| {
                o.remove(&path("/odd"));
                o.put(path("/odd"), Node::Directory { meta: META });
            },
            &["-/odd", "+/odd"],
        ),
        (
            "directory kept",
            |o| o.put(path("/etc/d"), Node::Directory { meta: META }),
            &["=/etc 750", "+/etc/d"],
        ),
        (
            "put and taken away again",
            |o| {
                o.put(path("/etc/n"), file("n"));
                o.remove(&path("/etc/n"));
            },
            &[],
        ),
    ] {
        let mut overlay = Overlay::new(&base);
        change(&mut overlay);
        assert_eq!(list(&overlay), want, "{what}");
    }
}

#[test]
fn path_is_read_from_base_and_the_changes() {
    let base = base();
    let mut overlay = Overlay::new(&base);
    overlay.put(path("/etc/n"), file("n"));
    overlay.remove(&path("/etc/d"));
    assert_eq!(overlay.children(&path("/etc")), ["a", "n"]);
    assert_eq!(overlay.children(&path("/")), ["etc", "etc-more", "odd"]);
    assert_eq!(overlay.get(&path("/etc/d/x")), None);
    assert_eq!(overlay.content(&path("/etc/a")), Content::Known(Bytes::from_static(b"base")));
    assert_eq!(overlay.content(&path("/etc/d/x")), Content::NoFile);
    overlay.put(path("/etc/d"), Node::Directory { meta: META });
    assert_eq!(overlay.children(&path("/etc/d")), [""; 0]);
}

#[test]
fn a_file_stays_under_its_other_names() {
    let base = BaseTree::from_entries([]);
    let linked = || {
        let mut overlay = Overlay::new(&base);
        overlay.put(path("/tmp"), Node::Directory { meta: META });
        overlay.put(path("/tmp/a"), file("a"));
        let link = |to| Node::Hardlink { to: path(to) };
        overlay.put(path("/b"), link("/tmp/a"));
        overlay.put(path("/c"), link("/b"));
        overlay
    };
    type Change = fn(&mut Overlay<'_>);
    for (what, change, a, rest) in [
        ("nothing", (|_| ()) as Change, Some("a"), "a"),
        ("removed", |o| o.remove(&path("/tmp/a")), None, "a"),
        ("withdrawn", |o| o.withdraw(&path("/tmp/a")), None, "a"),
        ("removed with its directory", |o| o.remove(&path("/tmp")), None, "a"),
        ("replaced", |o| o.put(path("/tmp/a"), file("n")), Some("n"), "a"),
        ("written into by another name", |o| o.rewrite(&path("/c"), file("n")), Some("n"), "n"),
    ] {
        let mut overlay = linked();
        change(&mut overlay);
        let content = |p| match overlay.content(&path(p)) {
            Content::Known(bytes) => Some(bytes),
            Content::NotRetained | Content::NoFile => None,
        };
        let [a, rest] = [a, Some(rest)].map(|want| want.map(Bytes::from));
        assert_eq!(content("/tmp/a"), a, "{what}");
        assert_eq!([content("/b"), content("/c")], [rest.clone(), rest], "{what}");
        let links = overlay.puts().filter(|(_, node)| matches!(node, Node::Hardlink { .. }));
        let targets: Vec<_> = links.map(|(path, _)| overlay.file_path(path)).collect();
        assert!(
            targets.iter().all(|to| {
                let node = overlay.changes.get(to).and_then(super::Change::node);
                matches!(node, Some(Node::File { .. }))
            }),
            "{what}: {targets:?}"
        );
    }
}

#[test]
fn contents_are_not_shown_by_debug() {
    let (shadow, base) = (OwnedEntry::file(b"root:$6$secret"), base());
    let mut overlay = Overlay::new(&base);
    overlay.put(path("/etc/a"), file("secret"));
    let content = overlay.content(&path("/etc/a"));
    let tree = BaseTree::from_entries([(b"etc/shadow".to_vec(), shadow.clone())]);
    let layer = overlay.layer();
    let shown = format!("{shadow:?} {overlay:?} {content:?} {layer:?} {tree:?}");
    assert!(!shown.contains("secret") && shown.contains("[6 bytes]"), "{shown}");
    let numbers = format!("{:?}", b"secret").replace(['[', ']'], "");
    assert!(!shown.contains(&numbers), "{shown}");
}
