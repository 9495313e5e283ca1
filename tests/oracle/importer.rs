//! The importer of nodes brings a build on an ostree-native base to a node completely and changes
//! nothing else.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;

use mosb_image::Digest;
use mosb_tests::{Entry, Kind, Layout, Mosb, Snapshot, ostree_base, ostree_import, run};

const NAME: &str = "rendered-worker-0123456789abcdef0123456789abcdef";

fn config() -> String {
    let file =
        |path: &str| json!({ "path": path, "mode": 0o640, "contents": { "source": "data:,x" } });
    let unit = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    let config = json!({
        "ignition": { "version": "3.5.0" },
        "storage": {
            "files": [
                file("/etc/mosb/new"), file("/usr/local/bin/tool"), file("/opt/vendor/x"), file("/home/core/x"), file("/root/x"),
                file("/srv/x"), file("/etc/ssl/certs/x.pem"), file("/usr/bin/mosb-test"), file("/var/lib/mosb/x"), file("/tmp/x"),
                { "path": "/etc/debian_version", "overwrite": true, "contents": { "source": "data:,13" } },
                { "path": "/etc/profile", "append": [{ "source": "data:,%23%20more%0A" }] },
                { "path": "/etc/issue", "overwrite": false, "mode": 0o600, "group": { "name": "adm" } },
            ],
            "directories": [{ "path": "/etc/security", "mode": 0o711 }],
            "links": [
                { "path": "/etc/link", "target": "/etc/mosb/new" },
                { "path": "/etc/mosb/hard", "target": "/etc/login.defs", "hard": true },
            ],
        },
        "systemd": { "units": [
            { "name": "mosb.service", "enabled": true, "contents": unit },
            { "name": "remote-fs.target", "enabled": false },
            { "name": "masked.service", "mask": true },
        ] },
    });
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": NAME }, "spec": { "config": config, "kernelArguments": ["quiet a=\"$(b) c\""] },
    })
    .to_string()
}

fn tree(layout: &Layout, tag: &str) -> Snapshot {
    layout
        .layers(tag)
        .into_iter()
        .fold(Snapshot::default(), |tree, layer| tree.with_layer(layer).unwrap())
}

/// The path in a node's tree for a path of an image. libostree before 2024.3 uses content of `/var`
/// for new machines only.
fn on_a_node(path: &str) -> String {
    match path.split_once('/').unwrap_or((path, "")) {
        ("etc", rest) => format!("usr/etc/{rest}"),
        ("var", rest) => format!("usr/share/factory/var/{rest}"),
        _ => path.to_owned(),
    }
    .trim_end_matches('/')
    .to_owned()
}

fn import(layout: &Layout, tag: &str) -> Snapshot {
    ostree_import(&layout.reference(tag), &[]).unwrap().snapshot()
}

fn plan_notes(mosb: &Mosb, base: &str) -> Vec<serde_json::Value> {
    let plan =
        mosb.run_with(["plan", "-", "--base", base, "-o", "json"], config().as_bytes()).ok().json();
    plan["notes"].as_array().unwrap().clone()
}

fn build(mosb: &Mosb, base: &str, method: &str) -> Layout {
    build_on(mosb, base, method, "os-change")
}

fn build_on(mosb: &Mosb, base: &str, method: &str, configs: &str) -> Layout {
    build_config(mosb, base, method, configs, &config())
}

fn build_config(mosb: &Mosb, base: &str, method: &str, configs: &str, config: &str) -> Layout {
    let output = mosb.home().join(format!("{method}-{configs}"));
    let arguments = [
        "build",
        "-",
        "--base",
        base,
        "--output",
        &format!("oci:{}", output.display()),
        "--method",
        method,
        "--isolation",
        "chroot",
        "--build-on",
        configs,
        "-o",
        "json",
    ];
    let result = mosb.run_with(arguments, config.as_bytes()).ok().json();
    assert_eq!(result["method"], method, "{result:#}");
    Layout::at(output)
}

fn arrives(tag: &str, method: &str, configs: &str) {
    let base = ostree_base();
    let mosb = Mosb::new();
    let built = build_on(&mosb, &base.reference(tag), method, configs);

    // The changes of the layer in the image must equal the changes in the tree of a node.
    let (before, after) = (tree(&base, tag), tree(&built, NAME));
    let changed: BTreeMap<&String, &Entry> =
        after.0.iter().filter(|(path, entry)| before.0.get(*path) != Some(entry)).collect();
    let removed = before.0.keys().filter(|path| !after.0.contains_key(*path));
    let mut want = import(&base, tag);
    for path in removed {
        assert!(want.0.remove(&on_a_node(path)).is_some(), "{path} was not on the node");
    }
    for (path, entry) in changed {
        // The importer does not change a directory of the base; the plan has a note about this.
        let stays = entry.kind == Kind::Directory && before.0.contains_key(path);
        if !stays {
            want.0.insert(on_a_node(path), entry.clone());
        }
        // New content of `/var` is stored separately, with the parent directories that the layer
        // contains.
        for (at, _) in path.match_indices('/').filter(|_| path.starts_with("var/")) {
            let above = &path[..at];
            want.0.insert(on_a_node(above), after.0[above].clone());
        }
    }
    let has_note = plan_notes(&mosb, &base.reference(tag))
        .iter()
        .any(|note| note["code"] == "directory-stays" && note["path"] == "/etc/security");
    assert!(has_note, "the plan has no finding about what the importer leaves");
    let got = import(&built, NAME);
    let factory = |snapshot: &Snapshot| {
        let mut rest = snapshot.clone();
        rest.0.retain(|path, _| path != "usr/share/factory" && path != "usr/share/factory/var");
        rest
    };
    factory(&got).assert_same(&factory(&want), tag);

    for (link, target) in [
        ("usr/local", "../var/usrlocal"),
        ("opt", "var/opt"),
        ("home", "var/home"),
        ("root", "var/roothome"),
    ] {
        assert_eq!(got.0[link].kind, Kind::Link { target: target.to_owned() }, "{link}");
    }
    for path in [
        "usr/etc/mosb/new",
        "usr/bin/mosb-test",
        "usr/etc/pki/tls/certs/x.pem",
        "usr/share/factory/var/usrlocal/bin/tool",
        "usr/share/factory/var/opt/vendor/x",
        "usr/share/factory/var/roothome/x",
    ] {
        assert_eq!(got.0[path].mode, 0o640, "{path}");
    }
    assert!(!got.0.keys().any(|path| path == "tmp/x"), "emptied by the commit");
}

/// `ostree container commit` changes the whole tree, so both methods must do the same.
#[test]
fn both_methods_empty_what_a_commit_empties() {
    let mosb = Mosb::new();
    let layout = mosb.home().join("base");
    let copy = format!("oci:{}:base", layout.display());
    run("skopeo", ["copy", "--quiet", &ostree_base().reference("base"), &copy]).ok();
    for (at, mode) in [("run", 0o755), ("tmp", 0o1777), ("var/tmp", 0o1777), ("var/cache", 0o755)] {
        let content = mosb.home().join("content").join(at);
        fs::create_dir_all(content.join("deep")).unwrap();
        fs::set_permissions(&content, Permissions::from_mode(mode)).unwrap();
        fs::write(content.join("deep/file"), at).unwrap();
        symlink("/nowhere", content.join("link")).unwrap();
        let image = format!("{}:base", layout.display());
        run("umoci", ["insert", "--image", &image, content.to_str().unwrap(), &format!("/{at}")])
            .ok();
    }
    let base = Layout::at(layout);
    let before = tree(&base, "base");
    assert!(before.0.contains_key("var/cache/deep/file") && before.0.contains_key("run/link"));
    let direct = build(&mosb, &base.reference("base"), "direct");
    let by_buildah = build(&mosb, &base.reference("base"), "containerfile");
    let want = tree(&by_buildah, NAME);
    assert!(!want.0.contains_key("var/cache/deep") && !want.0.contains_key("run/link"));
    tree(&direct, NAME).assert_same(&want, "direct");
    import(&direct, NAME).assert_same(&import(&by_buildah, NAME), "on a node");
}

/// What the images have besides, where nothing but the image brings files below `/var`, kernel arguments
/// and a boot check.
fn is_added(path: &str) -> bool {
    let units = "usr/lib/systemd/system";
    path == "usr/lib/mosb"
        || path == "usr/lib/bootc"
        || path.starts_with("usr/lib/bootc/")
        || path.starts_with("usr/lib/mosb/")
        || path == format!("{units}/mosb-var-files.service")
        || path == format!("{units}/sysinit.target.wants/mosb-var-files.service")
        || path.starts_with(&format!("{units}/boot-complete.target.requires"))
        || path.starts_with(&format!("{units}/mosb-boot-"))
        || path == format!("{units}/sysinit.target.wants/mosb-boot-guard.service")
}

#[test]
fn both_methods_add_the_same() {
    let mosb = Mosb::new();
    let base = ostree_base().reference("base");
    let direct = tree(&build_on(&mosb, &base, "direct", "every-config"), NAME);
    let by_buildah = build_on(&mosb, &base, "containerfile", "every-config");
    tree(&by_buildah, NAME).assert_same(&direct, "by buildah");
    let plain = tree(&build(&mosb, &base, "direct"), NAME);
    let (added, mut rest) = (direct.clone(), direct);
    rest.0.retain(|path, _| !is_added(path));
    rest.assert_same(&plain, "the rest");
    let paths: Vec<&String> = added.0.keys().filter(|path| is_added(path)).collect();
    // Six files have one content, and the list, the script, the unit and its link are one each. The
    // kernel arguments are a file in two new folders. The boot check is a script, two units, their links,
    // and a new folder.
    assert_eq!(paths.len(), 17, "{paths:#?}");
    let want = "kargs = [\"quiet\",\"a=\\\"$(b) c\\\"\"]\n";
    let (size, sha256) = (want.len() as u64, Digest::of(want.as_bytes()).hex());
    let file = &added.0["usr/lib/bootc/kargs.d/90-mosb.toml"];
    assert_eq!((file.mode, &file.kind), (0o644, &Kind::File { size, sha256 }));
}

/// The unit removes what an image before it brought.
#[test]
fn both_methods_list_nothing_below_var() {
    let mosb = Mosb::new();
    let base = ostree_base().reference("base");
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": NAME }, "spec": { "config": { "ignition": { "version": "3.5.0" } } },
    });
    let build = |method| build_config(&mosb, &base, method, "every-config", &config.to_string());
    let direct = tree(&build("direct"), NAME);
    tree(&build("containerfile"), NAME).assert_same(&direct, "by buildah");
    let list = &direct.0["usr/lib/mosb/var-files/list"];
    let sha256 = Digest::of(b"").hex();
    assert_eq!((list.mode, &list.kind), (0o644, &Kind::File { size: 0, sha256 }));
}

#[test]
fn rpm_ostree_keeps_its_kernel_arguments() {
    let mosb = Mosb::new();
    let layout = mosb.home().join("base");
    let copy = format!("oci:{}:base", layout.display());
    run("skopeo", ["copy", "--quiet", &ostree_base().reference("base"), &copy]).ok();
    let program = mosb.home().join("rpm-ostree");
    fs::write(&program, "").unwrap();
    let image = format!("{}:base", layout.display());
    run("umoci", ["insert", "--image", &image, program.to_str().unwrap(), "/usr/bin/rpm-ostree"])
        .ok();
    let base = Layout::at(layout).reference("base");
    for method in ["direct", "containerfile"] {
        let built = tree(&build_on(&mosb, &base, method, "every-config"), NAME);
        assert!(built.0.contains_key("usr/lib/mosb/var-files/list"), "{method}");
        assert!(!built.0.contains_key("usr/lib/bootc"), "{method}");
    }
}

#[test]
fn a_direct_build_arrives_where_the_links_lead() {
    arrives("base", "direct", "os-change");
}

#[test]
fn a_direct_build_follows_links_to_nowhere() {
    arrives("empty-var", "direct", "every-config");
}

#[test]
fn a_containerfile_build_arrives_where_the_links_lead() {
    arrives("base", "containerfile", "every-config");
}
