//! Images, what changes between them, the cache, and the checks of a preflight.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::{RENDERED, digest, hex, looks_like};
use mosb_api::image_checks::CheckName;
use mosb_bootstrap::preflight::{CheckedImage, ImageCheck, Kind, Outcome, Report};
use mosb_commands::attachments::Attachments;
use mosb_commands::cache::*;
use mosb_commands::diff::{Diff, Side};
use mosb_commands::files::*;
use mosb_commands::inspect::{ImageInfo, ImageOs, PackageInfo};
use mosb_image::packages::{Effort, Listing, Manager};
use mosb_image::tree::{BaseTree, OwnedEntry};
use mosb_plan::plan::diff;
use mosb_plan::plan::live::{LiveAction, LiveChange};
use mosb_types::Finding;

pub(super) fn live() -> diff::ChangeCost {
    let live = LiveChange {
        actions: [LiveAction::Write, LiveAction::ReloadCrio].into(),
        paths: ["/etc/containers/policy.json".to_owned()].into(),
    };
    let disruption = diff::Disruption::Reboot;
    diff::ChangeCost { disruption, live: Some(live), unreconcilable: Vec::new() }
}

fn entry(kind: PathType, path: &str) -> PathEntry {
    PathEntry {
        path: path.to_owned(),
        kind,
        mode: Some("0644".to_owned()),
        uid: Some(0),
        gid: Some(0),
        size: None,
        target: None,
        unchanged: false,
    }
}

pub(super) fn paths() -> Vec<PathEntry> {
    let directory =
        |path| PathEntry { mode: Some("0755".to_owned()), ..entry(PathType::Directory, path) };
    let file = |path, size| PathEntry { size: Some(size), ..entry(PathType::File, path) };
    let bare = |kind, path, target: Option<&str>| PathEntry {
        mode: None,
        uid: None,
        gid: None,
        target: target.map(str::to_owned),
        ..entry(kind, path)
    };
    vec![
        PathEntry { unchanged: true, ..directory("/etc") },
        directory("/etc/mosb"),
        file("/etc/mosb/large", 1_500_000),
        bare(PathType::Hardlink, "/etc/mosb/other", Some("/etc/mosb/large")),
        PathEntry {
            mode: Some("0600".to_owned()),
            uid: Some(1000),
            gid: Some(998),
            ..file("/etc/mosb/small", 12)
        },
        PathEntry {
            mode: Some("0777".to_owned()),
            target: Some("/dev/null".to_owned()),
            ..entry(PathType::Symlink, "/etc/systemd/system/cups.service")
        },
        bare(
            PathType::Whiteout,
            "/etc/systemd/system/multi-user.target.wants/chronyd.service",
            None,
        ),
    ]
}

#[test]
fn the_cache() {
    let tree =
        |of: &str, size, unused_seconds| CachedTree { base: digest(of), size, unused_seconds };
    let list = CacheList {
        directory: "/home/core/.cache/mosb".to_owned(),
        size: 12_300_000,
        trees: vec![tree("new", 6_000_000, 5), tree("old", 6_300_000, 90_000)],
        buildah: Some(BuildahStore {
            directory: "/home/core/.cache/mosb/buildah".to_owned(),
            size: 3_400_000_000,
        }),
    };
    looks_like("cache-list", &list);
    let pruned = CachePrune {
        directory: "/home/core/.cache/mosb".to_owned(),
        removed: 1,
        size: 6_300_000,
        buildah: Some(PrunedStore {
            directory: "/home/core/.cache/mosb/buildah".to_owned(),
            size: 3_400_000_000,
            removed: false,
        }),
    };
    looks_like("cache-prune", &pruned);
}

#[test]
fn changes() {
    let content = |of: &str, size| diff::ContentState { size, digest: Some(digest(of)) };
    let file = |mode: &str, of| diff::PathState {
        kind: "file",
        mode: Some(mode.to_owned()),
        content: Some(content(of, 2048)),
        ..Default::default()
    };
    let setting = |field: &str, change, from: Option<&str>, to: Option<&str>| diff::SettingChange {
        field: field.to_owned(),
        change,
        from: from.map(str::to_owned),
        to: to.map(str::to_owned),
    };
    let path = |path: &str, change, what: &[&'static str], from, to| diff::PathChange {
        path: path.to_owned(),
        changed: diff::Changed { change, what: what.to_vec(), from, to },
    };
    let link = diff::PathState {
        kind: "symlink",
        target: Some("../usr/share/zoneinfo/UTC".to_owned()),
        ..Default::default()
    };
    let unit = diff::UnitState {
        enabled: Some(true),
        content: Some(content("unit", 300)),
        dropins: [("10-a.conf".to_owned(), content("a", 20))].into(),
        ..Default::default()
    };
    let changed = diff::UnitState {
        enabled: None,
        masked: Some(true),
        content: None,
        dropins: [("20-b.conf".to_owned(), content("b", 21))].into(),
    };
    let side = |operand: &str| Side {
        operand: operand.to_owned(),
        rendered_config: Some(RENDERED.to_owned()),
    };
    let differs = Diff {
        from: side("old.yaml"),
        to: side("new.yaml"),
        same: false,
        os: None,
        changes: diff::Diff {
            settings: vec![
                setting(
                    "base",
                    diff::Change::Changed,
                    Some("quay.io/os/base:1"),
                    Some("quay.io/os/base:2"),
                ),
                setting("spec.config.passwd", diff::Change::Changed, None, None),
                setting("spec.kernelArguments", diff::Change::Removed, Some("a=1 b"), None),
            ],
            paths: vec![
                path(
                    "/etc/chrony.conf",
                    diff::Change::Changed,
                    &["content", "mode"],
                    Some(file("0644", "one")),
                    Some(file("0600", "two")),
                ),
                path("/etc/localtime", diff::Change::Added, &[], None, Some(link)),
                path("/etc/old", diff::Change::Removed, &[], Some(file("0644", "one")), None),
            ],
            units: vec![
                diff::UnitChange {
                    name: "kubelet.service".to_owned(),
                    changed: diff::Changed {
                        change: diff::Change::Changed,
                        what: vec!["enabled", "masked", "content", "dropins"],
                        from: Some(unit.clone()),
                        to: Some(changed),
                    },
                },
                diff::UnitChange {
                    name: "new.service".to_owned(),
                    changed: diff::Changed {
                        change: diff::Change::Added,
                        what: Vec::new(),
                        from: None,
                        to: Some(unit),
                    },
                },
            ],
            notes: vec![Finding::new("var-file", "/opt/x is removed").path("/opt/x")],
            cost: diff::ChangeCost {
                disruption: diff::Disruption::Reinstall,
                live: None,
                unreconcilable: vec![
                    Finding::new("needs-reinstall", "it is changed")
                        .object("spec.config.storage.disks[/dev/sda]"),
                ],
            },
        },
    };
    looks_like("diff", &differs);
    let changes = diff::Diff { cost: live(), ..diff::Diff::default() };
    looks_like("diff-live", &Diff { changes, ..differs.clone() });
    let same = Diff { same: true, changes: diff::Diff::default(), ..differs };
    looks_like("diff-same", &same);
}

#[test]
fn changes_of_an_os() {
    let packages = |lines: &str| {
        let paragraphs = lines.split(',').map(|line| {
            let (name, version) = line.split_once(' ').unwrap();
            format!("Package: {name}\nVersion: {version}\n\n")
        });
        let status: String = paragraphs.collect();
        let packages = Manager::Dpkg.read(status.as_bytes(), Effort::Streaming).unwrap();
        OwnedEntry::file(&Listing::Packages(packages).to_bytes())
    };
    let tree = |version: &str, files: &[(&str, &str)]| {
        let all =
            format!("kernel {version}-1,bash 5.2-1,{}", ["old 2", "new|tool 1"][files.len() % 2]);
        let kernel = format!("usr/lib/modules/{version}/vmlinuz");
        let passwd = format!("root:x:0:0::/root:/bin/sh\nchrony:x:99{version}:99::/:/bin/false\n");
        let files =
            [(&*kernel, "kernel"), ("etc/passwd", &passwd)].into_iter().chain(files.to_vec());
        let files = files.map(|(path, content)| {
            (path.as_bytes().to_vec(), OwnedEntry::file(content.as_bytes()))
        });
        BaseTree::from_entries(files.chain([(b"var/lib/dpkg/status".to_vec(), packages(&all))]))
    };
    let from = tree("6.1.140", &[("usr/bin/old|er", "1"), ("etc/group", "wheel:x:10:\n")]);
    let to = tree(
        "6.1.148",
        &[
            ("etc/group", "wheel:x:10:core\nchrony:x:99:\n"),
            ("usr/lib/systemd/system/new.service", "[Service]\n"),
            ("usr/lib/systemd/system-preset/90-a.preset", "enable new.service\n"),
        ],
    );
    let labels = |version: &str| BTreeMap::from([("version".to_owned(), version.to_owned())]);
    let labels = (labels("41.1"), labels("41.2"));
    let (before, after) = (
        diff::OsSide { tree: &from, labels: &labels.0 },
        diff::OsSide { tree: &to, labels: &labels.1 },
    );
    let side = |operand: &str| Side { operand: operand.to_owned(), rendered_config: None };
    let differs = Diff {
        from: side("oci:base@sha256:one"),
        to: side("oci:base@sha256:two"),
        same: false,
        os: Some(diff::OsDiff::between(before, after, diff::FileList::Listed)),
        changes: diff::Diff::default().on_other_os(),
    };
    looks_like("diff-os", &differs);
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/cli"));
    expect_test::expect_file![folder.join("diff-os.md")].assert_eq(&differs.markdown());
    let os = diff::OsDiff::between(before, before, diff::FileList::Counted);
    looks_like("diff-os-layers", &Diff { os: Some(os), ..differs });
}

#[test]
fn an_image() {
    let manifest = serde_json::json!({ "layers": [
        { "digest": digest("one"), "size": 700_000_000, "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip" },
        { "digest": digest("layer"), "size": 20_480, "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip" },
    ] });
    let config = |labels: serde_json::Value| {
        serde_json::json!({
            "os": "linux", "architecture": "arm64", "variant": "v8", "created": "1970-01-01T00:00:00Z", "config": { "Labels": labels },
            "history": [{ "created_by": "ostree" }, { "created_by": "ENV", "empty_layer": true }, { "created_by": "mosb build" }],
            "rootfs": { "type": "layers", "diff_ids": [digest("one, unpacked"), digest("layer, unpacked")] },
        })
    };
    let info = |labels| {
        ImageInfo::new(
            format!("oci:out@{}", digest("image")),
            digest("image"),
            None,
            &manifest,
            &config(labels),
        )
    };
    let built = serde_json::json!({
        "machineconfig": RENDERED, "machineconfigpool": "worker", "mosb.dev/inputs": hex("inputs"), "mosb.dev/format": "1",
        "baseOSContainerImage": "quay.io/fedora/fedora-coreos:stable", "org.opencontainers.image.base.digest": digest("base"),
    });
    let mut with_os = info(built.clone());
    let package = |name: &str, arch: Option<&str>| PackageInfo {
        name: name.to_owned(),
        version: "1:2.3-4.fc44".to_owned(),
        arch: arch.map(str::to_owned),
    };
    with_os.os = Some(ImageOs {
        package_count: 2,
        packages: vec![package("bash", Some("aarch64")), package("gpg-pubkey", None)],
        kernels: vec!["6.1.148".to_owned()],
        wrong_kernel_label: Some("6.1.140".to_owned()),
        warnings: Vec::new(),
    });
    with_os.attached = Some(Attachments {
        signatures: 2,
        signed_by: vec![digest("key")],
        sbom: true,
        provenance: true,
    });
    looks_like("inspect-packages", &with_os);
    let unsigned = ImageInfo { attached: Some(Attachments::default()), ..info(built) };
    looks_like("inspect", &unsigned);
    let finding = Finding::new("denied", "the registry refuses reading acme/os").object("acme/os");
    let refused = ImageInfo { warnings: vec![finding], ..info(serde_json::Value::Null) };
    looks_like("inspect-refused", &refused);
    looks_like("inspect-other", &info(serde_json::Value::Null));
}

#[test]
fn files_of_an_image() {
    let list = FileList {
        image: format!("oci:out@{}", digest("image")),
        layers: vec![FileLayer { digest: digest("layer"), config: true, paths: paths() }],
    };
    looks_like("files", &list);
}

fn took(millis: u64, check: ImageCheck) -> ImageCheck {
    let took = Duration::from_millis(millis);
    ImageCheck { took, ..check }
}

#[test]
fn checks_of_two_images() {
    let good = format!("quay.io/acme/master@{}", digest("master"));
    let bad = format!("quay.io/acme/worker@{}", digest("worker"));
    let refused = "the registry refuses pushing to quay.io/acme/worker (401: UNAUTHORIZED: no) with the credentials of secret push";
    let remedy = "let these logins push there, or put others for quay.io into the Secret that spec.renderedImagePushSecret names";
    let images = vec![
        CheckedImage {
            object: Some("MachineOSConfig master".to_owned()),
            image: good,
            checks: vec![took(45, ImageCheck::passed(Kind::Registry, "quay.io answers"))],
        },
        CheckedImage {
            object: None,
            image: bad,
            checks: vec![
                took(45, ImageCheck::passed(Kind::Registry, "mirror registry.example answers")),
                took(
                    1430,
                    ImageCheck::skipped(
                        Kind::built_in(CheckName::Release),
                        "it has no label with an OS version",
                    ),
                ),
                took(
                    212,
                    ImageCheck::not_passed(Kind::Push, Outcome::Failed, "denied", refused, remedy),
                ),
            ],
        },
    ];
    let report = Report::new(images, Duration::from_millis(1500));
    looks_like("preflight", &report);
    let findings = report.findings();
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].object.as_deref(), Some(&*report.images[1].image));
    assert_eq!(findings[0].message, format!("{refused}; {remedy}"));
}
