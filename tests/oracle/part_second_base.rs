//! The second base differs from the first one in what an update of an OS changes.

use std::collections::BTreeSet;

use mosb_tests::{
    Kind, Layout, PlainBase, Snapshot, package_images, second_lab_image, second_package_image,
};

fn tree(layout: &Layout, tag: &str) -> Snapshot {
    let layers = layout.layers(tag).into_iter();
    layers.fold(Snapshot::default(), |tree, layer| tree.with_layer(layer).unwrap())
}

/// The paths that are changed, of another kind, added and removed.
fn differences(first: &Snapshot, second: &Snapshot) -> [BTreeSet<String>; 4] {
    let mut found: [BTreeSet<String>; 4] = Default::default();
    for path in first.0.keys().chain(second.0.keys()) {
        let group = match (first.0.get(path), second.0.get(path)) {
            (Some(one), Some(two)) if one == two => continue,
            (Some(one), Some(two)) => {
                let kind = |kind: &Kind| std::mem::discriminant(kind);
                usize::from(kind(&one.kind) != kind(&two.kind))
            }
            (None, _) => 2,
            (_, None) => 3,
        };
        found[group].insert(path.clone());
    }
    found
}

#[test]
fn the_plain_one_differs_in_each_way() {
    let [first, second] = [PlainBase::First, PlainBase::Second];
    let [changed, of_another_kind, added, removed] =
        differences(first.snapshot(), second.snapshot());
    let has = |set: &BTreeSet<String>, paths: &[&str]| {
        let missing: Vec<_> = paths.iter().filter(|path| !set.contains(**path)).collect();
        assert!(missing.is_empty(), "{missing:?} in {set:#?}");
    };
    let defaults = ["etc/debian_version", "etc/host.conf", "etc/gai.conf", "etc/xattr.conf"];
    has(&changed, &defaults);
    has(&changed, &["usr/lib/os-release", "etc/passwd", "etc/group"]);
    has(&changed, &["usr/lib/systemd/system-preset/90-systemd.preset"]);
    has(&of_another_kind, &["usr/share/base-files/motd", "usr/share/pixmaps", "usr/bin/pager"]);
    has(&of_another_kind, &["etc/issue.net", "etc/update-motd.d", "etc/rmt", "usr/local", "opt"]);
    has(&added, &["usr/share/second-base", "usr/share/second-layer", "etc/second.conf"]);
    has(&removed, &["usr/bin/factor", "etc/bindresvport.blacklist"]);
    tree(&second.image(), "base").assert_same(second.snapshot(), "image and root");
    let layers = |base: PlainBase| base.image().layers("base").len();
    assert_ne!(layers(first), layers(second));
}

#[test]
fn those_in_ostrees_shape_have_other_kernels() {
    for (layout, tag, kernel) in
        [(second_package_image(), "base", "6.1.1"), (second_lab_image(), "stock", "6.1.1-lab")]
    {
        let tree = tree(&layout, tag);
        let kernels = tree.0.keys().filter(|path| path.starts_with("usr/lib/modules/6"));
        let kernels: BTreeSet<&str> = kernels.map(|path| path.split('/').nth(3).unwrap()).collect();
        assert_eq!(kernels, BTreeSet::from([kernel]));
        for path in ["usr/lib/bootc/kargs.d/10-second.toml", "usr/share/second-layer"] {
            assert!(tree.0.contains_key(path), "{path}");
        }
        assert_eq!(tree.0["usr/local"].kind, Kind::Directory);
        let manifest = layout.json(&layout.digest(tag));
        let config = layout.json(manifest["config"]["digest"].as_str().unwrap());
        assert_eq!(config["config"]["Labels"]["ostree.linux"], kernel, "{config:#}");
        assert_eq!(config["config"]["Labels"]["version"], "2");
    }
    let database = "usr/share/rpm/rpmdb.sqlite";
    let [first, second] = [package_images(), second_package_image()].map(|one| tree(&one, "base"));
    assert_ne!(first.0[database], second.0[database]);
}
