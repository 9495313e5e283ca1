use super::*;
use mosb_api::{Metadata, labels};
use mosb_image::Digest;
use mosb_image::packages::{Effort, Listing, Manager};
use mosb_image::tree::OwnedEntry;
use serde_json::json;

fn tree(files: &[(&str, &str)]) -> BaseTree {
    let entry = |(path, content): &(&str, &str)| {
        let entry = match content.strip_prefix("-> ") {
            Some(target) => OwnedEntry::symlink(target),
            None => OwnedEntry::file(content.as_bytes()),
        };
        (path.as_bytes().to_vec(), entry)
    };
    BaseTree::from_entries(files.iter().map(entry))
}

fn diff(from: &[(&str, &str)], to: &[(&str, &str)]) -> OsDiff {
    let (from, to) = (tree(from), tree(to));
    let labels = BTreeMap::new();
    let side = |tree| OsSide { tree, labels: &labels };
    OsDiff::between(side(&from), side(&to), FileList::Listed)
}

#[test]
fn kernels_are_directories_with_a_vmlinuz() {
    let from = [
        ("usr/lib/modules/6.1.140/vmlinuz", "a"),
        ("usr/lib/modules/6.0/modules.dep", "a"),
        ("usr/lib/modules/README", "a"),
    ];
    let two = [("usr/lib/modules/6.1.148/vmlinuz", "a"), ("usr/lib/modules/6.2/vmlinuz", "a")];
    let kernel = diff(&from, &two).kernel;
    assert_eq!(kernel.from.as_deref(), Some("6.1.140"));
    assert_eq!(kernel.to.as_deref(), Some("6.1.148, 6.2"));
    assert_eq!(diff(&[], &[]).kernel, KernelChange::default());
}

#[test]
fn files_are_counted_by_directory() {
    let from = [("etc/a", "1"), ("usr/lib/modules/6.1/kernel/a.ko", "1"), ("top", "1")];
    let to = [("etc/a", "12"), ("usr/lib/modules/6.2/kernel/a.ko", "1"), ("top", "1")];
    let OsDiff { files, presets, .. } = diff(&from, &to);
    assert_eq!((files.added, files.removed, files.changed), (3, 3, 1));
    let counts = files.directories.iter();
    let counts = counts.map(|it| (it.directory.as_str(), it.added, it.removed, it.changed));
    assert!(counts.eq([("/etc", 0, 0, 1), ("/usr/lib/modules", 3, 3, 0)]));
    let change = &files.list[0];
    assert_eq!((change.path.as_str(), &*change.changed.what), ("/etc/a", &["content"][..]));
    assert_eq!(change.changed.to.as_ref().unwrap().mode.as_deref(), Some("0644"));
    assert!(presets.is_empty());
    assert!(diff(&from, &from).is_same());
}

#[test]
fn accounts_are_compared_without_passwords() {
    let from = [
        ("etc/passwd", "root:secret:0:0::/root:/bin/sh\n"),
        ("usr/lib/passwd", "root:x:9:9:::\ncore:x:1000:1000::/home/core:/bin/bash\n"),
        ("etc/group", "wheel:x:10:\n"),
    ];
    let to = [
        ("etc/passwd", "root:other:0:0::/root:/bin/bash\n# comment:x:1:1\n"),
        ("usr/etc/passwd", "new:x:1001:1001::/:/sbin/nologin\n"),
        ("etc/group", "wheel:x:10:core,eve\n"),
    ];
    let diff = diff(&from, &to);
    let users = diff.users.iter().map(|it| (it.name.as_str(), it.changed.change));
    let want = [("core", Change::Removed), ("new", Change::Added), ("root", Change::Changed)];
    assert_eq!(users.collect::<Vec<_>>(), want);
    assert_eq!(diff.users[2].changed.what, ["shell"]);
    assert_eq!(diff.groups[0].changed.what, ["members"]);
    let json = serde_json::to_string(&diff).unwrap();
    assert!(!json.contains("secret"), "{json}");
}

#[test]
fn units_are_those_that_systemd_finds_first() {
    let base = [
        ("usr/bin/systemctl", ""),
        ("usr/lib/systemd/libsystemd-shared-257.so", ""),
        ("usr/lib/systemd/system/a.service", "[Install]\nWantedBy=multi-user.target\n"),
        ("usr/lib/systemd/system/b.service", "[Service]\n"),
        ("usr/lib/systemd/system/same.service", "[Service]\n"),
        ("usr/lib/systemd/system-preset/90-a.preset", "disable *\n"),
    ];
    let changed = [
        ("usr/lib/systemd/system-preset/90-a.preset", "enable a*\n"),
        (
            "etc/systemd/system/multi-user.target.wants/a.service",
            "-> /usr/lib/systemd/system/a.service",
        ),
        ("etc/systemd/system/b.service", "-> /dev/null"),
        ("usr/lib/systemd/system/same.service.d/10.conf", "[Service]\n"),
    ];
    let diff = diff(&base, &[&base[..5], &changed].concat());
    let units = diff.units.iter().map(|it| (it.name.as_str(), it.changed.what.as_slice()));
    let want = [
        ("a.service", &["enabled"][..]),
        ("b.service", &["masked", "content"]),
        ("same.service", &["dropins"]),
    ];
    assert_eq!(units.collect::<Vec<_>>(), want);
    assert_eq!(diff.units[0].changed.to.as_ref().unwrap().enabled, Some(true));
    assert_eq!(diff.presets.len(), 1);
}

#[test]
fn labels_are_shown_with_their_values() {
    let tree = BaseTree::default();
    let label = |value: &str| BTreeMap::from([("version".to_owned(), value.to_owned())]);
    let (one, two) = (label("1"), label("2"));
    let side = |labels| OsSide { tree: &tree, labels };
    let diff = OsDiff::between(side(&one), side(&two), FileList::Counted);
    assert_eq!(diff.labels[0].to.as_deref(), Some("2"));
    assert!(!diff.is_same());
}

/// A tree with the packages of this list, `name version arch`.
fn with_packages(packages: &[&str]) -> BaseTree {
    BaseTree::from_entries([dpkg(packages)])
}

fn dpkg(packages: &[&str]) -> (Vec<u8>, OwnedEntry) {
    let paragraphs = packages.iter().map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        format!("Package: {}\nVersion: {}\nArchitecture: {}\n\n", fields[0], fields[1], fields[2])
    });
    let status = paragraphs.collect::<String>();
    let packages = Manager::Dpkg.read(status.as_bytes(), Effort::Streaming).unwrap();
    let listing = OwnedEntry::file(&Listing::Packages(packages).to_bytes());
    // The size of the database may be the same.
    (b"var/lib/dpkg/status".to_vec(), OwnedEntry { size: 1, ..listing })
}

#[test]
fn a_summary_has_kernel_and_packages() {
    let os = |kernel: &str, packages: &[&str]| {
        let kernel = format!("usr/lib/modules/{kernel}/vmlinuz").into_bytes();
        BaseTree::from_entries([(kernel, OwnedEntry::file(b"a")), dpkg(packages)])
    };
    let none = BaseTree::from_entries([]);
    let first = os("6.1.140", &["a 1 all", "b 1 all"]);
    for (after, want) in [
        (os("6.1.148", &["a 2 all", "c 1 all"]), "kernel 6.1.140 → 6.1.148, 3 packages"),
        (os("6.1.140", &["a 1 all"]), "the same kernel, 1 package"),
        (first.clone(), "the same kernel, the same packages"),
        (none, "kernel 6.1.140 → none"),
    ] {
        let summary = OsSummary::between(Digest::of(b"image"), &first, &after);
        assert_eq!(summary.to_string(), want);
        let annotations = [(labels::OS_SUMMARY.to_owned(), summary.to_annotation())].into();
        let build = Metadata { annotations, ..Metadata::default() };
        assert_eq!(OsSummary::of(&build), Some(summary), "{want}");
    }
    assert_eq!(OsSummary::of(&Metadata::default()), None);
}

#[test]
fn packages_are_compared_by_name_and_architecture() {
    let from =
        with_packages(&["a 1 all", "gone 1 all", "k 1 x", "k 2 x", "m 1 i", "m 1 x", "n 1 x"]);
    let to =
        with_packages(&["a 2 all", "k 2 x", "k 3 x", "m 2 i", "m 1 x", "n 1 all", "new 1:1-1 x"]);
    let labels = BTreeMap::new();
    let side = |tree| OsSide { tree, labels: &labels };
    let diff = OsDiff::between(side(&from), side(&to), FileList::Counted);
    let want = json!({
        "added": [{ "name": "new", "to": "1:1-1" }],
        "removed": [{ "name": "gone", "from": "1" }],
        "changed": [
            { "name": "a", "from": "1", "to": "2" },
            { "name": "k", "from": "1", "to": "3" },
            { "name": "m.i", "from": "1", "to": "2" },
            { "name": "n", "from": "1.x", "to": "1.all" },
        ],
    });
    assert_eq!(serde_json::to_value(&diff.packages).unwrap(), want);
    assert_eq!((diff.files.changed, diff.is_same()), (0, false));
}

#[test]
fn accounts_of_sysusers_are_made_at_boot() {
    let from = [
        ("etc/passwd", "taken:x:3:3::/:/bin/sh\n"),
        ("usr/lib/sysusers.d/a.conf", "u a 7 \"A user\" /a\n# u no 1\ng old -\nu taken 5\n"),
        ("usr/lib/sysusers.d/b.conf", "u b -\n"),
    ];
    let to = [
        ("etc/passwd", "taken:x:3:3::/:/bin/sh\n"),
        ("etc/sysusers.d/b.conf", "u b 9\n"),
        ("usr/lib/sysusers.d/a.conf", "u! a 7:8 - /a\nm a wheel\nu taken 6\n"),
        ("usr/lib/sysusers.d/b.conf", "u b -\n"),
    ];
    let diff = diff(&from, &to);
    let users = diff.users.iter().map(|it| (it.name.as_str(), it.changed.what.as_slice()));
    assert_eq!(users.collect::<Vec<_>>(), [("a", &["gid"][..]), ("b", &["uid", "gid"])]);
    let groups = diff.groups.iter().map(|it| (it.name.as_str(), it.changed.change));
    let want = [
        ("a", Change::Removed),
        ("b", Change::Changed),
        ("old", Change::Removed),
        ("taken", Change::Changed),
    ];
    assert_eq!(groups.collect::<Vec<_>>(), want);
}
