//! What a virtual machine boots: a base of CoreOS's format with a kernel, and a disk on which it is
//! installed. For x86-64.
//!
//! A Debian in ostree's shape, as in `ostree.rs`, with Ignition, whose kernel is Debian's.
//! `tests/parts/vm-base` has the rest of the recipe: an initramfs, a unit that runs the script of a
//! test, the units that a machine in a test has no use for, which are masked. bootc and rpm-ostree are
//! those of the lab's machines.

use std::fs;
use std::path::{Path, PathBuf};

use super::child::{finish, limited};
use super::layout::Layout;
use super::machine_tools::MachineTools;
use super::ostree::{MADE, SHAPE};
use super::parts::{OSTREE_EXT_CLI, VM_BASE, source};
use super::root::{make_debian, put_ignition};

/// Below `tests/`.
pub const RECIPE: &str = "parts/vm-base";

const PACKAGES: &str = "usr-is-merged,systemd,systemd-sysv,udev,kmod,mount,passwd,\
    ostree,ostree-boot,skopeo,busybox-static,dbus,jq";

/// Downloads the kernel from where mmdebstrap has the packages from.
const KERNEL: &str = r#"--customize-hook=
export APT_CONFIG=$MMDEBSTRAP_APT_CONFIG
cd "$(dirname "$1")"
name=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-\)/\1/p')
apt-get download --quiet "$name"
mv linux-image-*.deb kernel.deb"#;

/// The base as an OCI layout, tag `base`, and the disk; to be read only.
#[track_caller]
pub fn vm_base() -> (Layout, PathBuf) {
    let directory = VM_BASE.directory();
    (Layout::at(directory.join("image")), directory.join("disk.img"))
}

/// Makes both in a directory.
pub fn make(directory: &Path) {
    let root = directory.join("debian");
    let tools = MachineTools::get();
    let of_tools = tools.debian_arguments();
    let mut arguments: Vec<&str> = of_tools.iter().map(String::as_str).collect();
    arguments.push(KERNEL);
    make_debian(&root, PACKAGES, &arguments);
    put_ignition(&root);
    tools.put(&root);
    let importer = OSTREE_EXT_CLI.program();
    let mut shape = limited("sh");
    shape.args(["-euc", SHAPE, "sh"]).arg(root).arg(&importer).current_dir(directory);
    finish(&mut shape, &[]).ok();
    fs::write(directory.join("functions"), MADE).unwrap();
    let mut make = limited(source(RECIPE).join("make"));
    make.arg(source(RECIPE)).arg(importer).current_dir(directory);
    finish(&mut make, &[]).ok();
}
