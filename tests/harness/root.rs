//! The recipe of the Debian root; its text is part of the root's version.
//!
//! About 110 MB: what is essential, systemd, jq, and Ignition where CoreOS has it, without documentation and caches; `/dev`
//! is empty as in any image. Beside the root lies the same as a base image: Debian one layer, Ignition the next.

use std::fs;
use std::path::{Path, PathBuf};

use super::child::{finish, limited, run};
use super::layout::{Compression, Image, Layout};
use super::parts::{DEBIAN_ROOT, IGNITION};
use super::tree::archive;

/// Where a base has the Ignition binary.
pub const IGNITION_PATH: &str = "usr/lib/dracut/modules.d/30ignition/ignition";

const PACKAGES: &str = "usr-is-merged,systemd,jq,passwd";
const LEFT_OUT: [&str; 9] = [
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/zoneinfo/*",
    "/usr/share/i18n/*",
    "/usr/lib/*/gconv/*",
    "/usr/lib/udev/hwdb.d/*",
    "/usr/share/bash-completion/*",
];
/// What an image has no use for, and what tells of the machine that it was made on.
const CLEAN: &str = r#"cd "$1" && rm -rf dev/* run/* tmp/* var/cache/* var/log/* var/lib/apt var/lib/dpkg \
    usr/lib/*/perl-base usr/bin/perl* etc/hostname etc/resolv.conf"#;

/// The unpacked root; to be read only.
#[track_caller]
pub fn debian_root() -> PathBuf {
    DEBIAN_ROOT.directory().join("root")
}

/// The root as an OCI layout with one image, tag `base`; to be read only.
#[track_caller]
pub fn base_image() -> Layout {
    Layout::at(DEBIAN_ROOT.directory().join("image"))
}

/// Makes a small Debian of these packages, separated by commas; `arguments` are further ones of
/// mmdebstrap.
#[track_caller]
pub fn make_debian(root: &Path, packages: &str, arguments: &[&str]) {
    let mut command = limited("mmdebstrap");
    command.args(["--quiet", "--mode=root", "--format=directory", "--variant=essential"]);
    command.arg("--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr");
    command.arg(format!("--include={packages}"));
    command.args(LEFT_OUT.map(|path| format!("--dpkgopt=path-exclude={path}")));
    command.args(arguments).arg("bookworm").arg(root);
    finish(&mut command, &[]).ok();
    run("sh", ["-euc".as_ref(), CLEAN.as_ref(), "sh".as_ref(), root.as_os_str()]);
}

/// Puts Ignition where CoreOS has it, for builds with buildah.
pub fn put_ignition(root: &Path) {
    let binary = root.join(IGNITION_PATH);
    fs::create_dir_all(binary.parent().unwrap()).unwrap();
    fs::copy(IGNITION.program(), &binary).unwrap();
}

/// Makes root and image in a directory.
pub fn make(directory: &Path) {
    let root = directory.join("root");
    make_debian(&root, PACKAGES, &[]);
    let debian = archive(&root, &[]);

    put_ignition(&root);
    let ignition = archive(&root, &["usr/lib/dracut"]);
    let image = Image::new()
        .layer(Compression::Gzip, debian)
        .layer(Compression::Gzip, ignition)
        .label("org.opencontainers.image.version", "12");
    Layout::create(&directory.join("image")).put("base", &image);
}
