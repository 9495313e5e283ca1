use super::super::Digest;
use super::chunked::*;
use super::pieces::{FEW_RANGES, GAP};
use super::*;
use crate::packages::{Effort, Listing, Manager};
use mosb_types::Diagnostic as _;

fn read(blob: &[u8], layer: &Layer) -> Result<Option<(Delta, Vec<Piece>)>, Error> {
    let Some(toc) = Toc::of(layer)? else {
        return Ok(None);
    };
    let range = toc.range().start as usize..toc.range().end as usize;
    read_toc(&toc, &blob[range], &Budget::default())
}

#[test]
fn table_of_contents_is_read_like_the_tar() {
    let rows = r#"{"type":"dir","name":"etc/","mode":16877},
        {"type":"symlink","name":"./l","linkName":"../x"},
        {"type":"hardlink","name":"h","linkName":"/etc/a"},
        {"type":"fifo","name":"p"},
        {"type":"reg","name":"etc/.wh.gone"}"#;
    let (blob, layer) = with_rows(&[("etc/a", "content")], rows);
    let (delta, pieces) = read(&blob, &layer).unwrap().unwrap();
    let mut events = Vec::new();
    delta
        .each(|_, path, event| {
            let path = String::from_utf8_lossy(path).into_owned();
            events.push(match event {
                Event::Put(put) => format!("{:?} {path} {:o} {}", put.kind, put.mode, put.size),
                other => format!("{other:?} {path}"),
            });
            Ok::<_, ()>(())
        })
        .unwrap();
    assert_eq!(
        events,
        [
            "File etc/a 644 7".to_owned(),
            "Directory etc 755 0".to_owned(),
            "Symlink l 0 0".to_owned(),
            format!("Link {{ to: {:?} }} h", b"etc/a"),
            "Other p 0 0".to_owned(),
            "Whiteout etc/gone".to_owned(),
        ]
    );
    let ranges = ranges(&pieces, &[0, 1], layer.size);
    assert_eq!(ranges.len(), 1);
    let (range, inside) = &ranges[0];
    let stored = &blob[range.start as usize..range.end as usize];
    let mut got = Vec::new();
    let mut take = |entry, content: &[u8]| got.push((entry, content.to_vec()));
    read_pieces(&layer.digest, range, inside, stored, &mut take).unwrap();
    assert_eq!(got, [(0, b"content".to_vec())]);
    let other = zstd(b"forgery");
    let error = read_pieces(&layer.digest, range, inside, &*other, |_, _| ()).unwrap_err();
    assert_eq!(error.code(), "layer-toc");
}

#[test]
fn a_damaged_package_database_is_no_error() {
    let status = "Package: a\nStatus: install ok installed\nVersion: 1\n";
    let (blob, layer) =
        with_rows(&[("var/lib/dpkg/status", status)], r#"{"type":"dir","name":"etc/"}"#);
    let (_, pieces) = read(&blob, &layer).unwrap().unwrap();
    let piece = database_piece(&pieces, 0).unwrap();
    let listing = |bytes: &[u8]| {
        read_listing_piece(&layer.digest, piece, Manager::Dpkg, Effort::Streaming, bytes)
    };
    let stored = &blob[piece.range.start as usize..piece.range.end as usize];
    assert!(matches!(listing(stored), Ok(Some(Listing::Packages(found))) if found.len() == 1));
    let damaged = [&stored[..stored.len() / 2], &[0xff; 40]].concat();
    for (what, bytes) in [
        ("another content", zstd(b"Package: b\n")),
        ("damaged", damaged),
        ("not zstd", b"nothing".to_vec()),
        ("cut off", stored[..8].to_vec()),
    ] {
        let found = listing(&bytes);
        assert!(
            matches!(found, Ok(Some(Listing::Unreadable(Manager::Dpkg, _)))),
            "{what}: {found:?}"
        );
    }
    struct Cut;
    impl std::io::Read for Cut {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the connection was cut"))
        }
    }
    let cut = std::io::Read::chain(&stored[..8], Cut);
    let found = read_listing_piece(&layer.digest, piece, Manager::Dpkg, Effort::Streaming, cut);
    assert!(matches!(found, Err(Error::Unpack { .. })), "{found:?}");
}

#[test]
fn adjacent_ranges_are_joined_within_the_blob() {
    // Hashes don't compress.
    let big: String = (0..4000_u32).map(|n| Digest::of(&n.to_le_bytes()).hex()).collect();
    let files = [("a", "1"), ("b", "2"), ("big", &big), ("c", "3")];
    let (blob, layer) = chunked(&files);
    let (_, pieces) = read(&blob, &layer).unwrap().unwrap();
    let of = |ranges: Vec<(_, Vec<Piece>)>| -> Vec<Vec<u32>> {
        ranges.iter().map(|(_, pieces)| pieces.iter().map(|piece| piece.entry).collect()).collect()
    };
    assert_eq!(of(ranges(&pieces, &[0, 1, 3], layer.size)), [vec![0, 1], vec![3]]);
    assert_eq!(of(ranges(&pieces, &[0, 3, 9], 200)), [vec![0]]);
}

#[test]
fn many_contents_are_requested_with_longer_gaps() {
    let apart = GAP * 3;
    let piece = |entry: u32| {
        let start = u64::from(entry) * apart;
        let (size, zeros) = (1, Vec::new());
        Piece { entry, range: start..start + 1, size, digest: Digest::of(b""), zeros }
    };
    let count = FEW_RANGES as u32;
    let size = u64::from(count + 1) * apart;
    for (what, count, want) in [("few", count, count as usize), ("many", count + 1, 1)] {
        let pieces: Vec<Piece> = (0..count).map(piece).collect();
        let entries: Vec<u32> = (0..count).collect();
        let ranges = ranges(&pieces, &entries, size);
        assert_eq!(ranges.len(), want, "{what}");
        assert_eq!(ranges.iter().map(|(_, pieces)| pieces.len()).sum::<usize>(), entries.len());
    }
    // Of hostile tables, all pieces may be in one place.
    let pieces: Vec<Piece> = (0..1000).map(|entry| Piece { entry, ..piece(0) }).collect();
    let entries: Vec<u32> = (0..1000).collect();
    assert_eq!(ranges(&pieces, &entries, size).len(), 1000);
}

#[test]
fn false_or_incomplete_table_is_not_used() {
    let change = |key: &str, value: &str| {
        let (blob, mut layer) = chunked(&[("a", "x")]);
        layer.annotations.insert(key.to_owned(), value.to_owned());
        (blob, layer)
    };
    let row = |row: &str| with_rows(&[], row);
    for (what, (blob, layer), want) in [
        ("fine", chunked(&[("a", "x")]), Ok(true)),
        ("other type", change(POSITION, "1:2:3:2"), Ok(false)),
        ("no UTF-8", row(r#"{"type":"reg","name":"a\ufffd"}"#), Ok(false)),
        ("checksum", change(CHECKSUM, &Digest::of(b"").to_string()), Err("layer-toc")),
        ("no checksum", change(CHECKSUM, "md5:0"), Err("layer-toc")),
        ("beyond the blob", change(POSITION, "1:99999:3:1"), Err("layer-toc")),
        ("overflow", change(POSITION, "18446744073709551615:2:3:1"), Err("layer-toc")),
        ("no numbers", change(POSITION, "a:b:c:1"), Err("layer-toc")),
        ("no JSON", row("{"), Err("layer-toc")),
        ("..", row(r#"{"type":"reg","name":"../a"}"#), Err("layer-entry")),
        ("unknown type", row(r#"{"type":"door","name":"a"}"#), Err("layer-entry")),
    ] {
        let found = read(&blob, &layer).map(|read| read.is_some()).map_err(|error| error.code());
        assert_eq!(found, want, "{what}");
    }
}
