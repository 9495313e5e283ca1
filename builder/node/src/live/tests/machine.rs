//! A machine in a folder, with a booted deployment and a staged one.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use mosb_image::Digest;

use crate::host_root::HostRoot;
use crate::live::live_plan::{LivePlan, Planned};
use crate::live::live_record::LiveRecord;

pub(super) const BOOT: &str = "00000000-0000-0000-0000-000000000001";
pub(super) const LATER: &str = "00000000-0000-0000-0000-000000000002";
pub(super) const DEPLOYMENTS: &str = "sysroot/ostree/deploy/lab/deploy";
pub(super) const REGISTRIES: &str = "containers/registries.conf";
pub(super) const POLICY: &str = "containers/policy.json";
pub(super) const CERT: &str = "containers/certs.d/reg:5000/ca.crt";
pub(super) const ANCHOR: &str = "pki/ca-trust/source/anchors/ca.pem";

pub(super) struct Fixture {
    dir: tempfile::TempDir,
    pub(super) root: HostRoot,
}

/// A path of an image, below its root, and its content; `/` at the end of a path makes a directory.
pub(super) type Tree<'a> = &'a [(&'a str, &'a str)];

/// What both images have.
pub(super) const BOTH: Tree<'static> = &[
    ("usr/bin/program", "bytes"),
    ("usr/bin/empty", ""),
    ("usr/share/factory/var/lib/other", "bytes"),
    ("usr/etc/motd", "of the image"),
    ("usr/etc/containers/storage.conf", "s"),
    ("usr/etc/containers/certs.d/", ""),
    ("usr/etc/pki/ca-trust/source/anchors/README", "r"),
];

/// The booted image and the other one, beside [`BOTH`]: a file that changes, one that goes, one that
/// comes with its directory, what is made of a CA, and the config.
pub(super) const BEFORE: Tree<'static> = &[
    ("usr/etc/containers/registries.conf", "old"),
    ("usr/etc/containers/policy.json", "{}"),
    ("usr/etc/pki/ca-trust/extracted/bundle.pem", "one"),
    ("usr/etc/machine-config-daemon/currentconfig", "config a"),
];
pub(super) const AFTER: Tree<'static> = &[
    ("usr/etc/containers/registries.conf", "new"),
    ("usr/etc/containers/certs.d/reg:5000/ca.crt", "cert"),
    ("usr/etc/pki/ca-trust/source/anchors/ca.pem", "ca"),
    ("usr/etc/pki/ca-trust/extracted/bundle.pem", "one and ca"),
    ("usr/etc/machine-config-daemon/currentconfig", "config b"),
];

pub(super) fn digest(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

pub(super) fn put(path: &Path, content: &str) {
    if path.as_os_str().to_string_lossy().ends_with('/') {
        fs::create_dir_all(path).unwrap();
    } else {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }
}

impl Fixture {
    /// A machine that booted `before`, with `after` staged. Its `/etc` is that of its image.
    pub(super) fn new(before: Tree<'_>, after: Tree<'_>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        put(&dir.path().join("run/ostree-booted"), "");
        put(&dir.path().join("var/lib/kubelet/"), "");
        put(&dir.path().join("var/lib/mosb/"), "");
        let this = Self { root: HostRoot::open(dir.path()).unwrap(), dir };
        this.deploy("a", before, None);
        this.deploy("b", after, Some("a"));
        symlink(format!("{DEPLOYMENTS}/{}/usr", name("a")), this.at("usr")).unwrap();
        let etc = format!("{DEPLOYMENTS}/{}/etc", name("a"));
        let copied = std::process::Command::new("cp")
            .args(["-a", "--"])
            .args([this.at("usr/etc"), this.at(&etc)])
            .status();
        assert!(copied.unwrap().success());
        symlink(etc, this.at("etc")).unwrap();
        this
    }

    /// As ostree does, with hard links of what an earlier deployment has.
    pub(super) fn deploy(&self, image: &str, tree: Tree<'_>, earlier: Option<&str>) {
        let folder = |image| self.at(&format!("{DEPLOYMENTS}/{}", name(image)));
        for (path, content) in BOTH.iter().chain(tree) {
            let to = folder(image).join(path);
            let from = earlier.map(|earlier| folder(earlier).join(path));
            match from.filter(|from| fs::read(from).ok().as_deref() == Some(content.as_bytes())) {
                Some(from) if !content.is_empty() => {
                    fs::create_dir_all(to.parent().unwrap()).unwrap();
                    fs::hard_link(from, to).unwrap();
                }
                _ => {
                    // Not through the hard link.
                    drop(fs::remove_file(&to));
                    put(&to, content);
                }
            }
        }
        put(&folder(image).join(".ostree.cfs"), image);
        let origin = format!(
            "[origin]\ncontainer-image-reference=ostree-unverified-registry:reg.example/os@{}\n",
            digest(image)
        );
        put(&self.at(&format!("{DEPLOYMENTS}/{}.origin", name(image))), &origin);
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(super) fn plan(&self, boot: &str) -> Planned {
        LivePlan::to_staged(&self.root, digest("b"), boot).unwrap()
    }

    pub(super) fn live(&self, boot: &str) -> LivePlan {
        live(self.plan(boot))
    }

    /// As `apply --no-reboot`; whether CRI-O is reloaded, if anything is done.
    pub(super) fn apply(&self, boot: &str) -> Option<bool> {
        self.finish(&self.live(boot))
    }

    /// As `apply` of the booted image.
    pub(super) fn restore(&self) -> Option<bool> {
        let plan = LivePlan::to_booted(&self.root, digest("a"), BOOT).unwrap()?;
        self.finish(&live(plan))
    }

    pub(super) fn finish(&self, plan: &LivePlan) -> Option<bool> {
        if !plan.is_needed() {
            return None;
        }
        for step in plan.steps() {
            plan.carry_out(&self.root, &step).unwrap();
        }
        plan.complete(&self.root).unwrap();
        Some(plan.reloads_crio())
    }

    pub(super) fn record(&self) -> Option<LiveRecord> {
        LiveRecord::of_booted(&self.root).unwrap()
    }

    /// Everything below a directory: path, mode and content.
    pub(super) fn state(&self, folder: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let mut folders = vec![self.at(folder)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let found = path.symlink_metadata().unwrap();
                let content = if found.is_file() {
                    fs::read_to_string(&path).unwrap()
                } else if found.is_symlink() {
                    fs::read_link(&path).unwrap().display().to_string()
                } else {
                    folders.push(path.clone());
                    String::new()
                };
                let below = path.strip_prefix(self.dir.path()).unwrap();
                lines.push(format!("{} {:o} {content}", below.display(), found.mode()));
            }
        }
        lines.sort();
        lines
    }

    /// `/etc` of the machine.
    pub(super) fn etc(&self) -> Vec<String> {
        let etc = format!("{DEPLOYMENTS}/{}/etc", name("a"));
        let lines = self.state(&etc).into_iter();
        lines.map(|line| line.replacen(&format!("{etc}/"), "", 1)).collect()
    }

    /// `/etc` of an image, with the record of its config replaced by that of the booted one, as that
    /// one is not live.
    pub(super) fn image_etc(&self, image: &str) -> Vec<String> {
        let etc = format!("{DEPLOYMENTS}/{}/usr/etc", name(image));
        let lines = self.state(&etc).into_iter();
        lines
            .map(|line| line.replacen(&format!("{etc}/"), "", 1).replace("config b", "config a"))
            .collect()
    }
}

pub(super) fn name(image: &str) -> String {
    format!("{}.0", digest(image).hex())
}

pub(super) fn live(planned: Planned) -> LivePlan {
    match planned {
        Planned::Live(plan) => *plan,
        Planned::Reboot(cause) => panic!("{cause}"),
    }
}

pub(super) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}
