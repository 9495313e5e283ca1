//! The base image of the lab's machines, and a machine's disk with it; this folder is part of their
//! version.
//!
//! A Debian in ostree's shape, with systemd, ostree, what brings an image onto a machine, and Ignition
//! and `ostree container commit` for builds with buildah. bootc and rpm-ostree with its daemon are
//! those of the [tools](MachineTools): real ones, or stand-ins ([bootc](bootc),
//! [rpm-ostree](rpm-ostree)) over the real importer and the real ostree. update-ca-trust is a stand-in
//! over the real p11-kit, that of the base with packages. The kubelet,
//! containerd and runc are not in it: a machine gets them from the harness.

use std::path::{Path, PathBuf};

use crate::child::{finish, limited, run};
use crate::layout::Layout;
use crate::machine_tools::MachineTools;
use crate::parts::{LAB_BASE, OSTREE_EXT_CLI, source};
use crate::root::put_ignition;

/// The image's tag in the layout.
pub const STOCK: &str = "stock";
/// What the disk's deployment has as its registry, until the machine's own is known.
pub const REGISTRY: &str = "registry.invalid:5000";
/// The repository of the base image, in each registry.
pub const REPOSITORY: &str = "lab/stock";

const PACKAGES: &str = "--include=usr-is-merged,systemd,systemd-sysv,dbus,jq,passwd,ostree,ostree-boot,skopeo,libseccomp2,iproute2,procps,p11-kit,p11-kit-modules";
const LEFT_OUT: [&str; 7] = [
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/zoneinfo/*",
    "/usr/lib/*/gconv/*",
    "/usr/share/bash-completion/*",
];
/// The stand-in of the program that compiles the trust store.
pub const UPDATE_CA_TRUST: &str = "harness/package_base/update-ca-trust";
const SHAPE: &str = include_str!("shape.sh");

/// The base as an OCI layout with one image, tag [`STOCK`]; to be read only.
#[track_caller]
pub fn image() -> Layout {
    Layout::at(LAB_BASE.directory().join("image"))
}

/// A disk on which that image is installed; to be copied.
#[track_caller]
pub fn disk() -> PathBuf {
    LAB_BASE.directory().join("disk")
}

/// Makes image and disk in a directory.
pub fn make(directory: &Path) {
    let root = directory.join("tree");
    let mut arguments: Vec<String> = [
        "--quiet",
        "--mode=root",
        "--format=directory",
        "--variant=essential",
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
        PACKAGES,
    ]
    .map(str::to_owned)
    .to_vec();
    arguments.extend(LEFT_OUT.map(|path| format!("--dpkgopt=path-exclude={path}")));
    let tools = MachineTools::get();
    arguments.extend(tools.debian_arguments());
    arguments.extend(["bookworm".to_owned(), root.to_str().unwrap().to_owned()]);
    run("mmdebstrap", arguments);
    put_ignition(&root);
    tools.put(&root);

    let mut shell = limited("sh");
    shell
        .args(["-euc", SHAPE, "sh"])
        .arg(OSTREE_EXT_CLI.program())
        .args([STOCK, &format!("{REGISTRY}/{REPOSITORY}")])
        .arg(source(UPDATE_CA_TRUST))
        .current_dir(directory);
    finish(&mut shell, &[]).ok();
}
