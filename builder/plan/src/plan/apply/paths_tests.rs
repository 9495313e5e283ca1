//! Paths of bases with links of all kinds.

use super::*;
use mosb_image::overlay::Meta;
use mosb_image::tree::OwnedEntry;

fn base() -> BaseTree {
    let entry = |path: &str, entry| (path.as_bytes().to_vec(), entry);
    BaseTree::from_entries([
        entry("var/usrlocal", OwnedEntry::directory(0o755)),
        entry("usr/local", OwnedEntry::symlink("../var/usrlocal")),
        entry("one", OwnedEntry::symlink("two")),
        entry("two", OwnedEntry::symlink("/usr/local/../../etc")),
        entry("etc/file", OwnedEntry::file(b"")),
        entry("loop", OwnedEntry::symlink("pool")),
        entry("pool", OwnedEntry::symlink("loop")),
        entry("gone", OwnedEntry::symlink("var/none")),
    ])
}

#[test]
fn the_kernel_follows_every_link() {
    let base = base();
    let tree = Overlay::new(&base);
    for (path, want) in [
        ("/usr/local", Some("/var/usrlocal")),
        ("/one/file", Some("/etc/file")),
        ("/usr/local/..", Some("/var")),
        ("/../../etc", Some("/etc")),
        ("/gone", None),
        ("/none/..", None),
        ("/", Some("/")),
    ] {
        let got = Paths::default().real(&tree, path).unwrap().map(|p| p.to_string());
        assert_eq!(got.as_deref(), want, "{path}");
    }
    assert!(matches!(Paths::default().real(&tree, "/loop/x"), Err(PathError::Loop)));
    assert!(matches!(
        Paths::default().real(&tree, "/etc/file/x"),
        Err(PathError::NotADirectory(_))
    ));
}

#[test]
fn ignition_follows_one_link_component_and_never_last() {
    let base = base();
    let tree = Overlay::new(&base);
    for (path, want) in [
        ("/usr/local/bin/x", "/var/usrlocal/bin/x"),
        ("/usr/local", "/usr/local"),
        ("/one/x", "/two/x"),
        ("/gone/a/x", "/var/none/a/x"),
        ("/none/x", "/none/x"),
    ] {
        assert_eq!(Paths::default().join(&tree, path).unwrap().to_string(), want, "{path}");
    }
    assert!(matches!(
        Paths::default().join(&tree, "/etc/file/a/x"),
        Err(PathError::NotADirectory(_))
    ));
}

#[test]
fn real_path_follows_links_that_lead_nowhere_yet() {
    for (path, want) in [
        ("/usr/local/bin/x", "/var/usrlocal/bin/x"),
        ("/one/x", "/etc/x"),
        ("/gone/a/x", "/var/none/a/x"),
        ("/gone", "/gone"),
        ("/loop/x", "/loop/x"),
        ("/etc/file/a/x", "/etc/file/a/x"),
    ] {
        assert_eq!(real_paths(&base(), [&path.to_owned()]), [want], "{path}");
    }
}

#[test]
fn links_with_long_targets_cost_once_a_directory() {
    const LINKS: usize = 39;
    let long_way = |end: &str| format!("/{}{end}", "d/../".repeat(700));
    let target = |n: usize| long_way(&if n == 0 { "d".to_owned() } else { format!("a{}", n - 1) });
    let once: usize = (0..LINKS).map(|n| components(&target(n)).len()).sum();
    let links = (0..LINKS).map(|n| (format!("a{n}"), OwnedEntry::symlink(&target(n))));
    let directory = ("d".to_owned(), OwnedEntry::directory(0o755));
    let entries = links.chain([directory]);
    let base = BaseTree::from_entries(entries.map(|(path, e)| (path.into_bytes(), e)));
    let (mut tree, paths) = (Overlay::new(&base), Paths::default());
    let meta = Meta { mode: 0o755, uid: 0, gid: 0 };
    for n in 0..2000 {
        let path = format!("/a{}/{n}/x", LINKS - 1);
        let at = paths.join(&tree, &path).unwrap();
        assert_eq!(at.to_string(), format!("/a{}/{n}/x", LINKS - 2));
        assert_eq!(paths.exact(&tree, &at).unwrap(), None);
        tree.put(format!("/d/{n}").parse().unwrap(), Node::Directory { meta });
        let exact = paths.exact(&tree, &at).unwrap().unwrap();
        assert_eq!(exact.to_string(), format!("/d/{n}/x"));
    }
    let steps = paths.known.borrow().steps;
    assert!((once..2 * once + 2000 * 10).contains(&steps), "{steps} for {once}");
}

#[test]
fn a_link_that_is_replaced_leads_elsewhere() {
    let base = base();
    let (mut tree, paths) = (Overlay::new(&base), Paths::default());
    let resolved = |tree: &Overlay<'_>| {
        let joined = paths.join(tree, "/usr/local/x").unwrap();
        (joined.to_string(), paths.exact(tree, &joined).unwrap().map(|at| at.to_string()))
    };
    let place = |path: &str| (format!("{path}/x"), Some(format!("{path}/x")));
    assert_eq!(resolved(&tree), place("/var/usrlocal"));
    let meta = Meta { mode: 0o777, uid: 0, gid: 0 };
    let link = Node::Symlink { meta, target: "/etc".to_owned() };
    tree.put("/usr/local".parse().unwrap(), link);
    assert_eq!(resolved(&tree), place("/etc"));
    tree.remove(&"/etc".parse().unwrap());
    assert_eq!(resolved(&tree), ("/etc/x".to_owned(), None));
    tree.remove(&"/usr/local".parse().unwrap());
    assert_eq!(resolved(&tree), ("/usr/local/x".to_owned(), None));
}
