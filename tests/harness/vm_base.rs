//! What a virtual machine boots: a base of CoreOS's format with a kernel, a disk on which it is
//! installed, and a second base with another kernel. For x86-64.
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

/// Downloads two kernels from where mmdebstrap has the packages from. The second one is of another
/// flavor, so that there is one whatever versions are published.
const KERNELS: &str = r#"--customize-hook=
export APT_CONFIG=$MMDEBSTRAP_APT_CONFIG
cd "$(dirname "$1")"
download() {
    name=$(apt-cache depends "$1" | sed -n 's/.*Depends: \(linux-image-\)/\1/p')
    apt-get download --quiet "$name"
    mv linux-image-*.deb "$2"
}
download linux-image-cloud-amd64 kernel.deb
download linux-image-amd64 second-kernel.deb"#;

/// What virtual machines boot; to be read only.
#[derive(Debug)]
pub struct VmBase {
    directory: PathBuf,
}

/// A base of virtual machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VmRelease {
    /// The installed one.
    First,
    /// An update with another kernel and initramfs.
    Second,
}

impl VmRelease {
    pub const ALL: [Self; 2] = [Self::First, Self::Second];

    /// The tag in the layout.
    pub fn tag(self) -> &'static str {
        match self {
            Self::First => "base",
            Self::Second => "second",
        }
    }
}

#[track_caller]
pub fn vm_base() -> VmBase {
    VmBase { directory: VM_BASE.directory() }
}

impl VmBase {
    /// Both bases as an OCI layout.
    pub fn images(&self) -> Layout {
        Layout::at(self.directory.join("image"))
    }

    /// A disk on which the first one is installed.
    pub fn disk(&self) -> PathBuf {
        self.directory.join("disk.img")
    }

    /// What `uname -r` prints there.
    #[track_caller]
    pub fn kernel(&self, release: VmRelease) -> String {
        let file = match release {
            VmRelease::First => "kernel-version",
            VmRelease::Second => "second-kernel-version",
        };
        fs::read_to_string(self.directory.join(file)).unwrap().trim().to_owned()
    }
}

/// Makes all of it in a directory.
pub fn make(directory: &Path) {
    let root = directory.join("debian");
    let tools = MachineTools::get();
    let of_tools = tools.debian_arguments();
    let mut arguments: Vec<&str> = of_tools.iter().map(String::as_str).collect();
    arguments.push(KERNELS);
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
