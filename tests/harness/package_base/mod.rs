//! A base image on which packages can be installed, and an extensions image; this folder is part of
//! their version.
//!
//! A Debian in ostree's shape, with the real rpm, dnf and p11-kit. Its RPMs are our own
//! ([packages.sh](packages.sh)). Two programs are stand-ins: [rpm-ostree](rpm-ostree), which calls
//! dnf, and [update-ca-trust](update-ca-trust), which calls `trust` as Fedora's does.

use std::fs;
use std::path::{Path, PathBuf};

use crate::child::{finish, limited, run};
use crate::layout::{Compression, Image, Layout};
use crate::ostree::{MADE, SHAPE};
use crate::parts::{OSTREE_EXT_CLI, PACKAGE_BASE, source};
use crate::root::{make_debian, put_ignition};
use crate::tree::archive;

const PACKAGES: &str =
    "usr-is-merged,systemd,jq,passwd,rpm,dnf,createrepo-c,p11-kit,p11-kit-modules,gpg,gpg-agent";
const PACKAGE_SHAPE: &str = include_str!("shape.sh");
const IMAGE: &str = r#"
made "$2" base
rm -rf tree made
"#;

/// The images as an OCI layout with the tags `base` and `extensions`; to be read only.
#[track_caller]
pub fn image() -> Layout {
    Layout::at(PACKAGE_BASE.directory().join("image"))
}

/// A repository for dnf with the package `acme-tool`, which the base does not have, and the key that
/// signed it, `RPM-GPG-KEY-acme`; to be read only.
#[track_caller]
pub fn repository() -> PathBuf {
    PACKAGE_BASE.directory().join("repository")
}

/// Makes images and repository in a directory.
pub fn make(directory: &Path) {
    let root = directory.join("root");
    let folder = source("harness/package_base");
    let packages = format!("--customize-hook={}", folder.join("packages.sh").display());
    make_debian(&root, PACKAGES, &[&packages]);
    put_ignition(&root);
    let build = root.join("build");
    fs::rename(build.join("repository"), directory.join("repository")).unwrap();
    let extensions = archive(&build.join("extensions"), &["usr"]);
    fs::remove_dir_all(build).unwrap();

    let mut shell = limited("sh");
    shell
        .args(["-euc", &[SHAPE, PACKAGE_SHAPE, MADE, IMAGE].concat(), "sh"])
        .arg(&root)
        .arg(OSTREE_EXT_CLI.program())
        .arg(&folder)
        .current_dir(directory);
    finish(&mut shell, &[]).ok();
    run("rm", ["-rf".as_ref(), root.as_os_str()]);
    let image = Image::new().layer(Compression::Gzip, extensions);
    Layout::at(directory.join("image")).put("extensions", &image);
}
