//! Layers are written, and read again by us and by others.

use super::*;

fn path(s: &str) -> TreePath {
    s.parse().unwrap()
}

const META: Meta = Meta { mode: 0o4755, uid: 7, gid: 8 };

fn file(content: &'static str) -> Node {
    Node::File { meta: META, content: Bytes::from_static(content.as_bytes()) }
}

fn written(entries: &[LayerEntry]) -> Vec<String> {
    let blob = write_layer(entries).unwrap();
    assert_eq!((Digest::of(&blob.bytes), blob.bytes.len() as u64), (blob.digest, blob.size));
    let mut tar = Vec::new();
    std::io::copy(&mut flate2::read::GzDecoder::new(&*blob.bytes), &mut tar).unwrap();
    assert_eq!((DiffId::of(&tar), tar.len() as u64), (blob.diff_id, blob.unpacked_size));
    list(&tar).unwrap()
}

#[test]
fn a_layer_is_written_from_its_entries() {
    let to = |to: &str| Node::Hardlink { to: path(to) };
    let put = |at: &str, node| LayerEntry::Put(path(at), node);
    let link = Node::Symlink { meta: Meta { mode: 0o777, ..META }, target: "../ü".to_owned() };
    let entries = [
        LayerEntry::Parent(path("/etc"), Meta { mode: 0o750, ..META }),
        put("/etc/a", to("/etc/b")),
        put("/etc/b", file("content")),
        put("/etc/c", to("/etc/a")),
        put("/etc/l", link),
        put("/etc/m", to("/etc/l")),
        LayerEntry::Whiteout(path("/etc/gone")),
        LayerEntry::Whiteout(path("/gone")),
        put("/var", Node::Directory { meta: Meta { uid: u32::MAX, gid: 0o10_000_000, ..META } }),
    ];
    assert_eq!(
        written(&entries),
        [
            "Directory etc 750 7:8 0",
            "File etc/a 4755 7:8 7",
            "Hardlink etc/b -> etc/a 4755 7:8 0",
            "Hardlink etc/c -> etc/a 4755 7:8 0",
            "Symlink etc/l -> ../ü 777 7:8 0",
            "Hardlink etc/m -> etc/l 777 7:8 0",
            "Whiteout etc/gone 0 0:0 0",
            "Whiteout gone 0 0:0 0",
            "Directory var 4755 4294967295:2097152 0",
        ]
    );
    // Another digest here means that every image gets another one: raise the format number.
    let digest = write_layer(&entries).unwrap().digest.to_string();
    assert_eq!(digest, "sha256:8da3fe06cdb077eea469349785aef5ccc5375f86cdbc3b9b9b0ea80c94c9dff9");
    for (what, node) in [("none", to("/x")), ("loop", to("/a"))] {
        let error = write_layer(&[put("/a", node)]).unwrap_err();
        assert_eq!(error.code(), "layer-link", "{what}");
    }
}

#[test]
fn other_readers_see_what_was_written() {
    let long = format!("/{}/{}", "d".repeat(200), "é".repeat(60));
    let fits = format!("/{}/{}", "d".repeat(150), "f".repeat(100));
    let entries = [&*long, &*fits, "/a"].map(|at| LayerEntry::Put(path(at), file("content")));
    let blob = write_layer(&entries).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&*blob.bytes));
    let found: Vec<_> = archive
        .entries()
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!(header.mtime().unwrap(), MTIME);
            assert_eq!((header.mode().unwrap(), header.uid().unwrap()), (0o4755, 7));
            assert_eq!(header.username().unwrap(), Some(""));
            format!("/{}", entry.path().unwrap().display())
        })
        .collect();
    assert_eq!(found, [long, fits, "/a".to_owned()]);
}

fn a_name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z.]{1,8}".prop_filter("a component", |name| name.bytes().any(|b| b != b'.') && !name.starts_with(".wh.")),
        1 => "[a-z]{90,120}",
        1 => "[é雪]{1,60}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn written_layers_are_read_back(
        entries in proptest::collection::btree_map(
            proptest::collection::vec(a_name(), 1..4),
            (0..3_u8, any::<u16>(), any::<u32>(), any::<u32>(), "[a-zé]{1,200}"),
            0..8,
        ),
    ) {
        let (mut entries_in, mut want) = (Vec::new(), Vec::new());
        for (names, (kind, mode, uid, gid, text)) in entries {
            let at = names.join("/");
            let meta = Meta { mode: u32::from(mode) & 0o7777, uid, gid };
            let mode = meta.mode;
            let (node, line) = match kind {
                0 => (Node::Directory { meta }, format!("Directory {at} {mode:o} {uid}:{gid} 0")),
                1 => {
                    let line = format!("File {at} {mode:o} {uid}:{gid} {}", text.len());
                    (Node::File { meta, content: Bytes::from(text) }, line)
                }
                _ => {
                    let line = format!("Symlink {at} -> {text} {mode:o} {uid}:{gid} 0");
                    (Node::Symlink { meta, target: text }, line)
                }
            };
            entries_in.push(LayerEntry::Put(path(&format!("/{at}")), node));
            want.push(line);
        }
        prop_assert_eq!(written(&entries_in), want);
    }

    #[test]
    fn any_bytes_are_read_without_harm(mut block in proptest::collection::vec(any::<u8>(), 512..4096), seal in any::<bool>()) {
        if seal {
            let mut header = tar::Header::from_byte_slice(&block[..512]).clone();
            header.set_cksum();
            block[..512].copy_from_slice(header.as_bytes());
        }
        let layer = layer_of("tar", &block, &block);
        let _ = read_delta(&layer, Cursor::new(&block), &Budget::default());
        let _ = header::parse_pax(&block);
        let _ = header::clean(&block);
    }
}
