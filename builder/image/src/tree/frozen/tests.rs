use super::*;

fn tree() -> BaseTree {
    BaseTree::from_entries([
        (b"etc".to_vec(), OwnedEntry::directory(0o1750)),
        (b"etc/a".to_vec(), OwnedEntry::file(b"content of a")),
        (b"etc-more".to_vec(), OwnedEntry::symlink("etc/a")),
        (b"etc.d/x/y".to_vec(), OwnedEntry::file(b"")),
        (b"etc/a/below-a-file".to_vec(), OwnedEntry::file(b"")),
        (
            b"dev/null".to_vec(),
            OwnedEntry { kind: Kind::Other, uid: u32::MAX, gid: 7, ..OwnedEntry::directory(0o666) },
        ),
        (b"big".to_vec(), OwnedEntry { size: 5 << 33, content: None, ..OwnedEntry::file(b"") }),
    ])
}

fn names(tree: &BaseTree, path: &str) -> Vec<String> {
    let children = tree.children(path);
    let name = |(name, _): &(&[u8], _)| String::from_utf8_lossy(name).into_owned();
    children.iter().map(name).collect()
}

#[test]
fn every_path_is_found_and_no_other() {
    let tree = BaseTree::from_bytes(tree().as_bytes().to_vec()).unwrap();
    assert_eq!(tree, super::tests::tree());
    assert_eq!(names(&tree, ""), ["big", "dev", "etc", "etc-more", "etc.d"]);
    assert_eq!(names(&tree, "etc"), ["a"]);
    assert_eq!(names(&tree, "etc/a"), [""; 0]);
    assert_eq!(names(&tree, "none"), [""; 0]);
    let entry = |path| tree.get(path).map(|e| (e.kind, e.mode, e.uid, e.gid, e.size));
    for (path, want) in [
        ("", Some((Kind::Directory, 0o755, 0, 0, 0))),
        ("etc", Some((Kind::Directory, 0o1750, 0, 0, 0))),
        ("etc/a", Some((Kind::File, 0o644, 0, 0, 12))),
        ("etc.d/x", Some((Kind::Directory, 0o755, 0, 0, 0))),
        ("dev/null", Some((Kind::Other, 0o666, u32::MAX, 7, 0))),
        ("big", Some((Kind::File, 0o644, 0, 0, 5 << 33))),
        ("etc/a/below-a-file", None),
        ("etc/", None),
        ("/etc", None),
        ("et", None),
    ] {
        assert_eq!(entry(path), want, "{path:?}");
    }
    let target = tree.get("etc-more").unwrap().target;
    assert_eq!(target, Some(&b"etc/a"[..]));
    assert_eq!(tree.content("etc/a"), Some(&b"content of a"[..]));
    assert_eq!(tree.content("etc.d/x/y"), Some(&b""[..]));
    assert_eq!((tree.content("big"), tree.content("etc")), (None, None));
    assert_eq!(BaseTree::default().paths(), 1);
}

/// Reads all that a tree has, up to a bound.
fn walk(tree: &BaseTree) {
    let mut todo = vec![String::new()];
    for _ in 0..1000 {
        let Some(path) = todo.pop() else { return };
        assert!(tree.content(&path).is_none_or(|content| content.len() < 1000));
        for (name, _) in tree.children(&path) {
            todo.push(format!("{path}/{}", String::from_utf8_lossy(name)));
        }
    }
}

#[test]
fn damaged_and_hostile_bytes_are_refused_or_harmless() {
    let good = tree().as_bytes().to_vec();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x80;
        assert!(BaseTree::from_bytes(bad.clone()).is_err(), "byte {at} flipped");
        assert!(BaseTree::from_bytes(good[..at].to_vec()).is_err(), "cut at {at}");
        // An attacker can make the checksum match.
        for value in [0, 1, 0x7f, 0xff] {
            bad[at] = value;
            let body = bad.len() - TRAILER;
            let sum = Sha256::digest(&bad[..body]);
            bad[body..].copy_from_slice(&sum);
            if let Ok(tree) = BaseTree::from_bytes(bad.clone()) {
                walk(&tree);
                if let Ok(builder) = Builder::on(&tree) {
                    // Fewer, if two names of a directory are equal.
                    assert!(builder.finish().unwrap().paths() <= tree.paths());
                }
            }
        }
    }
    for other in [VERSION - 1, VERSION + 1] {
        let mut bytes = good.clone();
        bytes[8] = other as u8;
        assert_eq!(BaseTree::from_bytes(bytes), Err(FrozenError::Version(other)));
    }
    assert_eq!(BaseTree::from_bytes(vec![0; 100]), Err(FrozenError::Magic));
}

#[test]
fn tree_with_shared_children_is_rejected() {
    let file = |path: &str| (path.as_bytes().to_vec(), OwnedEntry::file(b"x"));
    let tree = BaseTree::from_entries([file("a/x"), file("b/x")]);
    assert!(Builder::on(&tree).is_ok());
    let mut bytes = tree.as_bytes().to_vec();
    // The nodes are the root, a, b, a/x, b/x.
    bytes[HEADER + 2 * NODE + 8] = 3;
    let body = bytes.len() - TRAILER;
    let sum = Sha256::digest(&bytes[..body]);
    bytes[body..].copy_from_slice(&sum);
    let tree = BaseTree::from_bytes(bytes).unwrap();
    assert_eq!(Builder::on(&tree).err(), Some(FrozenError::Damaged));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]
    #[test]
    fn entries_come_back_whatever_their_order(
        entries in proptest::collection::btree_map("[a-c]{1,2}(/[a-c]{1,2}){0,3}", "[a-c]{0,3}", 0..40),
        reverse in proptest::bool::ANY,
    ) {
        let mut list: Vec<_> = entries
            .iter()
            .map(|(path, content)| (path.clone().into_bytes(), OwnedEntry::file(content.as_bytes())))
            .collect();
        if reverse {
            list.reverse();
        }
        let tree = BaseTree::from_entries(list);
        let back = BaseTree::from_bytes(tree.as_bytes().to_vec()).unwrap();
        for (path, content) in &entries {
            let below_file = path.match_indices('/').any(|(at, _)| entries.contains_key(&path[..at]));
            let want = (!below_file).then_some(content.as_bytes());
            proptest::prop_assert_eq!(back.content(path), want, "{}", path);
        }
    }
}
