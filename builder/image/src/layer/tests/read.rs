//! Layers are read whatever they are, and hostile ones refused.

use super::*;

#[test]
fn every_form_of_tar_is_read() {
    let long = format!("{}/{}", "d".repeat(150), "f".repeat(150));
    let old_sparse = entry(b"s", b'S', b"12", |header| {
        let gnu = header.as_gnu_mut().unwrap();
        gnu.isextended = [1];
        gnu.realsize.copy_from_slice(b"00000001000\0");
    });
    let (map_head, map_data) = old_sparse.split_at(512);
    let mut more = vec![0; 512];
    more[504] = 1;
    let sparse_map = [more, vec![0; 512]].concat();
    for (what, tar, want) in [
        ("empty", Vec::new(), &[][..]),
        ("only an end", end(&[]), &[]),
        ("no end", plain("a", b'0', "x"), &["File a 644 1:2 1"]),
        (
            "./ and slashes",
            end(&[plain("./", b'5', ""), plain("./a//b/", b'5', "")]),
            &["Directory  644 1:2 0", "Directory a/b 644 1:2 0"],
        ),
        ("leading slash", end(&[plain("/a", b'0', "")]), &["File a 644 1:2 0"]),
        (
            "v7 directory",
            end(&[entry(b"a/", 0, b"", |h| h.as_gnu_mut().unwrap().magic = [0; 6])]),
            &["Directory a 644 1:2 0"],
        ),
        (
            "links",
            end(&[linked("a", b'2', "../x"), linked("b", b'1', "./a")]),
            &["Symlink a -> ../x 644 1:2 0", "Hardlink b -> a 644 1:2 0"],
        ),
        (
            "link with a size",
            end(&[
                entry(b"a", b'2', b"", |h| {
                    h.as_old_mut().linkname[0] = b'x';
                    h.set_size(5);
                }),
                plain("b", b'0', ""),
            ]),
            &["Symlink a -> x 644 1:2 0", "File b 644 1:2 0"],
        ),
        (
            "device",
            end(&[plain("a", b'3', ""), plain("b", b'6', "")]),
            &["Other a 644 1:2 0", "Other b 644 1:2 0"],
        ),
        (
            "GNU long name",
            end(&[plain("././@LongLink", b'L', &format!("{long}\0")), plain("cut", b'0', "x")]),
            &[&*format!("File {long} 644 1:2 1")],
        ),
        (
            "GNU long link",
            end(&[plain("././@LongLink", b'K', &long), linked("a", b'2', "cut")]),
            &[&*format!("Symlink a -> {long} 644 1:2 0")],
        ),
        (
            "PAX",
            end(&[pax("path=ü;uid=3000000000;gid=9"), plain("cut", b'0', "")]),
            &["File ü 644 3000000000:9 0"],
        ),
        (
            "PAX link",
            end(&[pax("linkpath=ü"), linked("a", b'1', "cut")]),
            &["Hardlink a -> ü 644 1:2 0"],
        ),
        (
            "PAX size",
            end(&[
                pax("size=3"),
                entry(b"a", b'0', b"123", |h| h.set_size(0)),
                plain("b", b'0', ""),
            ]),
            &["File a 644 1:2 3", "File b 644 1:2 0"],
        ),
        (
            "global PAX",
            end(&[plain("x", b'g', "10 path=no\n"), plain("a", b'0', "")]),
            &["File a 644 1:2 0"],
        ),
        (
            "PAX counts once",
            end(&[pax("path=b"), plain("a", b'0', ""), plain("a", b'0', "")]),
            &["File b 644 1:2 0", "File a 644 1:2 0"],
        ),
        (
            "base 256",
            end(&[entry(b"a", b'0', b"", |h| h.set_uid(1 << 31))]),
            &["File a 644 2147483648:2 0"],
        ),
        (
            "GNU sparse",
            end(&[[map_head, &sparse_map, map_data].concat(), plain("b", b'0', "")]),
            &["File s 644 1:2 512", "File b 644 1:2 0"],
        ),
        (
            "PAX sparse",
            end(&[
                pax("GNU.sparse.name=s;GNU.sparse.realsize=4096"),
                plain("a", b'0', "map"),
                plain("b", b'0', ""),
            ]),
            &["File s 644 1:2 4096", "File b 644 1:2 0"],
        ),
        (
            "whiteouts",
            end(&[
                plain("a/.wh.b", b'0', ""),
                plain("a/.wh..wh..opq", b'0', ""),
                plain(".wh.c", b'0', ""),
                plain(".wh..wh.plnk", b'5', ""),
            ]),
            &["Whiteout a/b 644 1:2 0", "Opaque a 644 1:2 0", "Whiteout c 644 1:2 0"],
        ),
        (
            "rubbish behind the end",
            [end(&[plain("a", b'0', "")]), b"rubbish".to_vec()].concat(),
            &["File a 644 1:2 0"],
        ),
        ("cut padding", plain("a", b'0', "x")[..513].to_vec(), &["File a 644 1:2 1"]),
    ] {
        let found = list(&tar).map_err(|error| error.to_string());
        assert_eq!(found, Ok(want.iter().map(|line| (*line).to_owned()).collect()), "{what}");
    }
}

#[test]
fn broken_tars_are_refused_with_their_entry() {
    let too_much = |what, limit, found| EntryError::TooMuch { what, limit, found };
    let mut broken = plain("broken", b'0', "");
    broken[0] = b'B';
    for (what, tar, name, cause) in [
        ("..", end(&[plain("a/../../x", b'0', "")]), "a/../../x", EntryError::Path),
        (".. in a hard link", end(&[linked("a", b'1', "../x")]), "a", EntryError::Path),
        ("NUL by PAX", end(&[pax("path=a\0b"), plain("a", b'0', "")]), "a\0b", EntryError::Path),
        ("link to nothing", end(&[linked("a", b'2', "")]), "a", EntryError::Path),
        (
            "long component",
            end(&[plain("l", b'L', &"x".repeat(256)), plain("a", b'0', "")]),
            &"x".repeat(256),
            EntryError::Path,
        ),
        ("checksum", end(&[broken]), "Broken", EntryError::Checksum),
        (
            "zero block within",
            [vec![0; 512], plain("a", b'0', "")].concat(),
            "",
            EntryError::Checksum,
        ),
        (
            "negative size",
            end(&[entry(b"a", b'0', b"", |h| h.as_old_mut().size = [0xff; 12])]),
            "a",
            EntryError::Number("size"),
        ),
        (
            "huge owner",
            end(&[pax("uid=5000000000"), plain("a", b'0', "")]),
            "a",
            EntryError::Number("uid"),
        ),
        ("unknown type", end(&[plain("a", b'Z', "")]), "a", EntryError::Type(b'Z')),
        ("bad PAX", end(&[plain("x", b'x', "99 path=x\n")]), "x", EntryError::Pax),
        (
            "huge PAX",
            entry(b"x", b'x', b"", |h| h.set_size(1 << 40)),
            "x",
            too_much("bytes of PAX header or long name", 1 << 20, 1 << 40),
        ),
        (
            "huge long name",
            entry(b"l", b'L', b"", |h| h.set_size((1 << 20) + 1)),
            "l",
            too_much("bytes of PAX header or long name", 1 << 20, (1 << 20) + 1),
        ),
        ("cut content", plain("a", b'0', "x")[..512].to_vec(), "", EntryError::Truncated),
        ("cut header", plain("a", b'0', "x")[..100].to_vec(), "", EntryError::Truncated),
        (
            "size without end",
            entry(b"a", b'0', b"", |h| h.set_size(1 << 40)),
            "",
            EntryError::Truncated,
        ),
        ("whiteout of nothing", end(&[plain("a/.wh.", b'0', "")]), "a/.wh.", EntryError::Whiteout),
        ("whiteout of ..", end(&[plain("a/.wh...", b'0', "")]), "a/.wh...", EntryError::Whiteout),
    ] {
        match list(&tar) {
            Err(Error::Entry { layer, entry, cause: found }) => {
                assert_eq!((entry.as_str(), found), (name, cause), "{what}");
                assert_eq!(layer, Digest::of(&tar), "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

#[test]
fn layers_are_unpacked_by_what_they_are() {
    let tar = end(&[plain("a", b'0', &"x".repeat(5000))]);
    let (head, tail) = tar.split_at(700);
    let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"toc"].concat();
    for (what, media_type, blob) in [
        ("plain", "tar", tar.clone()),
        ("gzip", "tar+gzip", gzipped(&tar)),
        ("gzip members", "tar+gzip", [gzipped(head), gzipped(tail)].concat()),
        ("zstd", "tar+zstd", zstd(&tar)),
        (
            "zstd frames",
            "tar+zstd",
            [zstd(head), skippable.clone(), zstd(tail), skippable].concat(),
        ),
        ("wrong media type", "tar+gzip", zstd(&tar)),
    ] {
        let delta = read_delta(&layer_of(media_type, &blob, &tar), &*blob, &Budget::default());
        assert_eq!(delta.map(|delta| delta.len()).map_err(|e| e.to_string()), Ok(1), "{what}");
    }
}

#[test]
fn a_layer_that_lies_is_named() {
    let tar = end(&[plain("a", b'0', "x")]);
    let blob = gzipped(&tar);
    let layer = layer_of("tar+gzip", &blob, &tar);
    let other = Digest::of(b"other");
    let mut rubbish = blob.clone();
    rubbish[blob.len() - 8] ^= 1;
    let twice = [blob.clone(), blob.clone()].concat();
    let lie = |change: fn(&mut Layer)| {
        let mut layer = layer.clone();
        change(&mut layer);
        layer
    };
    for (what, layer, blob, want) in [
        ("media type", lie(|l| l.media_type.push_str("+encrypted")), &blob, "layer-media-type"),
        ("diffID", lie(|l| l.diff_id = DiffId::of(b"")), &blob, "layer-diff-id"),
        ("digest", lie(|l| l.digest = Digest::of(b"other")), &blob, "layer-digest"),
        ("longer", layer.clone(), &twice, "layer-size"),
        ("shorter", layer.clone(), &blob[..blob.len() - 1].to_vec(), "layer-size"),
        ("other bytes", layer.clone(), &vec![b'x'; blob.len()], "layer-digest"),
        ("damaged", layer_of("tar+gzip", &rubbish, &tar), &rubbish, "layer-unreadable"),
    ] {
        let error = read_delta(&layer, blob.as_slice(), &Budget::default()).unwrap_err();
        assert_eq!(error.code(), want, "{what}: {error}");
        let named = error.to_string();
        assert!(
            named.contains(&layer.digest.to_string()) || layer.digest == other,
            "{what}: {named}"
        );
    }
}

#[test]
fn exceeded_limit_is_reported_with_limit_and_value() {
    let tar = end(&[plain("etc/a", b'0', "content"), linked("etc/b", b'2', "a")]);
    let layer = layer_of("tar", &tar, &tar);
    let read = |budget: &Budget| read_delta(&layer, &*tar, budget).unwrap_err();
    let before = Budget::default();
    before.add_entry(MAX_PATH_BYTES as usize - 10).unwrap();
    let error = read(&before);
    let found = (error.code(), error.to_string());
    let want = "134217729 bytes of paths in all layers, and no more than 134217728 are read";
    assert_eq!(found.0, "layer-entry", "{}", found.1);
    assert!(found.1.contains(want) && found.1.contains("etc/b"), "{}", found.1);
    let before = Budget::default();
    before.add_unpacked(MAX_UNPACKED_SIZE - 1).unwrap();
    let error = read(&before);
    let found = (error.code(), error.to_string());
    let want = "unpacked bytes in all layers, and no more than 68719476736 are read";
    assert_eq!(found.0, "layer-limit", "{}", found.1);
    assert!(found.1.contains(want), "{}", found.1);
}

#[test]
fn deciding_contents_are_retained_or_read_again() {
    let object = format!("{}/aa/bb.file", retained::OSTREE_OBJECTS);
    let odd = format!("{}/aa/cc.file", retained::OSTREE_OBJECTS);
    let unit = "usr/lib/systemd/system";
    let tar = end(&[
        plain("etc/passwd", b'0', "root:x:0:0::/:"),
        plain("usr/bin/x", b'0', "[Unit]"),
        plain(&object, b'0', "[Unit]\n"),
        plain(&odd, b'0', "looks like nothing"),
        linked(&format!("{unit}/a.service"), b'1', &object),
        linked(&format!("{unit}/odd.service"), b'1', &odd),
        linked(&format!("{unit}/odd.service.d/d.conf"), b'1', &odd),
        linked(&format!("{unit}/not-a-unit"), b'1', &odd),
        plain(&format!("{unit}/empty.service"), b'0', ""),
    ]);
    let layer = layer_of("tar", &tar, &tar);
    let mut builder = Builder::default();
    let budget = Budget::default();
    builder.apply(&read_delta(&layer, &*tar, &budget).unwrap()).unwrap();
    let wanted = builder.missing_contents();
    assert_eq!(wanted.iter().map(|w| w.entry).collect::<Vec<_>>(), [3]);
    let mut got = Vec::new();
    read_contents(&layer, &*tar, &budget, &[3], |entry, content| {
        got.push((entry, content.to_vec()))
    })
    .unwrap();
    assert_eq!(got, [(3, b"looks like nothing".to_vec())]);
    builder.supply(&wanted[0], &got[0].1);
    let tree = builder.finish().unwrap();
    for (path, want) in [
        ("etc/passwd", Some("root:x:0:0::/:")),
        ("usr/bin/x", None),
        ("usr/lib/systemd/system/a.service", Some("[Unit]\n")),
        ("usr/lib/systemd/system/odd.service", Some("looks like nothing")),
        ("usr/lib/systemd/system/odd.service.d/d.conf", Some("looks like nothing")),
        ("usr/lib/systemd/system/not-a-unit", None),
        ("usr/lib/systemd/system/empty.service", Some("")),
    ] {
        assert_eq!(tree.content(path), want.map(str::as_bytes), "{path}");
    }
}

#[test]
fn package_database_of_topmost_layer_is_listed() {
    let status = |name: &str| format!("Package: {name}\nStatus: a b installed\nVersion: 1\n");
    let object = format!("{}/aa/bb.file", retained::OSTREE_OBJECTS);
    // Too long to be held until its name is known.
    let long = format!("{}\nPackage: long\nVersion: 2:3-4\n", status(&"x".repeat(70_000)));
    let long = long.replacen("Package: x", "Package: \n\n", 1);
    let (path, other) = ("var/lib/dpkg/status", "usr/share/factory/var/lib/dpkg/status");
    let large = [plain(&object, b'0', &long), linked(path, b'1', &object)];
    let short = [plain(&object, b'0', &status("short")), linked(path, b'1', &object)];
    let linked =
        [plain("usr/share/doc/x", b'0', &status("linked")), linked(path, b'1', "usr/share/doc/x")];
    let (lower, both) = (plain(path, b'0', &status("lower")), plain(other, b'0', &status("other")));
    let one = |entry: &Vec<u8>| end(std::slice::from_ref(entry));
    for (what, layers, again, want) in [
        ("a file", vec![one(&lower)], 0, &["lower"][..]),
        ("another place above", vec![one(&lower), one(&both)], 0, &["other"]),
        ("the first place", vec![end(&[both, lower.clone()])], 0, &["lower"]),
        ("removed", vec![one(&lower), end(&[plain("var/lib/.wh.dpkg", b'0', "")])], 0, &[]),
        ("an object", vec![end(&large)], 0, &["long"]),
        ("a small object", vec![end(&short)], 1, &["short"]),
        ("a hard link", vec![end(&linked)], 1, &["linked"]),
        ("an empty one", vec![end(&[plain(path, b'0', "")])], 0, &[]),
    ] {
        let mut builder = Builder::default();
        let layers: Vec<_> =
            layers.into_iter().map(|tar| (layer_of("tar", &tar, &tar), tar)).collect();
        for (layer, tar) in &layers {
            let delta = read_delta(layer, &**tar, &Budget::default()).unwrap();
            builder.apply(&delta).unwrap();
        }
        let missing = builder.missing_contents();
        assert_eq!(missing.len(), again, "{what}");
        for missing in missing {
            let (layer, tar) = &layers[missing.layer];
            let database = (missing.entry, missing.database.unwrap());
            let read = read_listing(layer, &**tar, &Budget::default(), database).unwrap();
            builder.supply(&missing, &read.unwrap().to_bytes());
        }
        let tree = builder.finish().unwrap();
        let installed = Installed::of(&tree);
        let names: Vec<_> = installed.packages.iter().map(|package| &*package.name).collect();
        assert_eq!((names, tree.content(path)), (want.to_vec(), None), "{what}");
    }
}

#[test]
fn small_files_below_etc_are_taken_along() {
    let object = format!("{}/aa/bb.file", retained::OSTREE_OBJECTS);
    let other_object = format!("{}/aa/cc.file", retained::OSTREE_OBJECTS);
    let most = "x".repeat(retained::MAX_ETC_FILE_SIZE as usize);
    let tar = end(&[
        plain("etc/plain", b'0', "\x7f no text"),
        plain("etc/most", b'0', &most),
        plain("etc/more", b'0', &format!("{most}x")),
        pax("SCHILY.xattr.user.a=b"),
        plain("etc/attributes", b'0', "a"),
        pax("SCHILY.xattr.security.selinux=b"),
        plain("etc/label", b'0', "l"),
        plain(&object, b'0', "looks like nothing"),
        linked("etc/object", b'1', &object),
        pax("SCHILY.xattr.user.a=b"),
        plain("etc/empty-attributes", b'0', ""),
        pax("SCHILY.xattr.user.a=b"),
        plain(&other_object, b'0', "a"),
        linked("etc/object-attributes", b'1', &other_object),
    ]);
    let layer = layer_of("tar", &tar, &tar);
    let mut builder = Builder::default();
    let delta = read_delta(&layer, &*tar, &Budget::default()).unwrap();
    builder.apply(&delta).unwrap();
    assert_eq!(builder.missing_contents(), [], "nothing is read again");
    let tree = builder.finish().unwrap();
    for (path, want) in [
        ("etc/plain", Some("\x7f no text")),
        ("etc/most", Some(&*most)),
        ("etc/more", None),
        ("etc/attributes", None),
        ("etc/empty-attributes", None),
        ("etc/object-attributes", None),
        ("etc/label", Some("l")),
        ("etc/object", Some("looks like nothing")),
    ] {
        let found = tree.content(path).map(<[u8]>::len);
        assert_eq!(found, want.map(str::len), "{path}");
    }
    assert_eq!(tree.content("etc/object"), Some(&b"looks like nothing"[..]));
}

#[test]
fn small_files_are_not_taken_beyond_the_budget() {
    let count = 40 << 20 >> 16;
    let most = "x".repeat(retained::MAX_ETC_FILE_SIZE as usize);
    let files = (0..count).map(|n| plain(&format!("etc/{n}"), b'0', &most));
    let tar = end(&files.collect::<Vec<_>>());
    let layer = layer_of("tar", &tar, &tar);
    let mut builder = Builder::default();
    let delta = read_delta(&layer, &*tar, &Budget::default()).unwrap();
    let shown = format!("{delta:?}");
    assert!(shown.len() < 200 && !shown.contains("xxx"), "{shown}");
    let mut taken = 0;
    delta
        .each(|_, _, event| {
            taken += u64::from(matches!(event, Event::Put(Put { bytes: Some(_), .. })));
            Ok::<_, ()>(())
        })
        .unwrap();
    assert_eq!(taken, (32 << 20) / retained::MAX_ETC_FILE_SIZE);
    builder.apply(&delta).unwrap();
    assert_eq!(builder.missing_contents(), [], "what fits is among them");
    let bytes = builder.finish().unwrap().as_bytes().len() as u64;
    let most = retained::MAX_ETC_TOTAL_SIZE;
    assert!((most..most + (1 << 20)).contains(&bytes), "{bytes}");
}
