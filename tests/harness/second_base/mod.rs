//! The second base for each of the first ones, as an update of the OS brings it; this folder is part
//! of their version.
//!
//! Each is the first one as [differences.sh](differences.sh) changes it, the only list of what
//! differs between the files. The images differ, too: in labels, and in a layer more, of another
//! compression.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::child::{finish, limited, run};
use crate::layout::{Compression, Image, Layout};
use crate::parts::{OSTREE_EXT_CLI, SECOND_LAB_BASE, SECOND_PACKAGE_BASE, SECOND_ROOT, source};
use crate::root::{base_image, debian_root};
use crate::snapshot::Snapshot;
use crate::tree::{Tree, archive};
use crate::{lab, package_base};

/// Below `tests/`.
pub const RECIPE: &str = "harness/second_base";
const OSTREE: &str = include_str!("ostree.sh");

/// A plain base: a root, and the same as an image with the tag `base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainBase {
    /// The Debian root.
    First,
    Second,
}

impl PlainBase {
    /// The unpacked root; to be read only.
    #[track_caller]
    pub fn root(self) -> PathBuf {
        match self {
            Self::First => debian_root(),
            Self::Second => SECOND_ROOT.directory().join("root"),
        }
    }

    /// An OCI layout; to be read only.
    #[track_caller]
    pub fn image(self) -> Layout {
        match self {
            Self::First => base_image(),
            Self::Second => Layout::at(SECOND_ROOT.directory().join("image")),
        }
    }

    /// The unpacked root, read once.
    pub fn snapshot(self) -> &'static Snapshot {
        static SNAPSHOTS: [OnceLock<Snapshot>; 2] = [const { OnceLock::new() }; 2];
        SNAPSHOTS[self as usize].get_or_init(|| Snapshot::of(&self.root()))
    }
}

/// The second base with packages as an OCI layout, tag `base`; to be read only.
#[track_caller]
pub fn package_image() -> Layout {
    Layout::at(SECOND_PACKAGE_BASE.directory().join("image"))
}

/// The second base of the lab's machines as an OCI layout, with the tag of the first one; to be read
/// only.
#[track_caller]
pub fn lab_image() -> Layout {
    Layout::at(SECOND_LAB_BASE.directory().join("image"))
}

/// Makes root and image in a directory.
pub fn make_plain(directory: &Path) {
    let root = directory.join("root");
    run("cp", ["-a".as_ref(), debian_root().as_os_str(), root.as_os_str()]);
    let mut change = limited("sh");
    change.arg("-eu").arg(differences()).current_dir(&root);
    finish(&mut change, &[]).ok();
    let etc = archive(&root, &["etc"]);
    let rest = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name());
    let mut rest: Vec<_> = rest.map(|name| name.into_string().unwrap()).collect();
    rest.retain(|name| name != "etc");
    rest.sort();
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let image = Image::new()
        .layer(Compression::Zstd, archive(&root, &rest))
        .layer(Compression::Gzip, etc)
        .layer(Compression::Zstd, layer().tar())
        .label("org.opencontainers.image.version", "12.1");
    Layout::create(&directory.join("image")).put("base", &image);
    finish(limited("tar").arg("--extract").arg("--directory").arg(&root), &layer().tar()).ok();
}

/// Makes the image of the base with packages in a directory.
pub fn make_package_base(directory: &Path) {
    make_ostree(directory, &package_base::image(), "base");
}

/// Makes the image of the lab's base in a directory.
pub fn make_lab_base(directory: &Path) {
    make_ostree(directory, &lab::base::image(), lab::base::STOCK);
}

fn make_ostree(directory: &Path, first: &Layout, tag: &str) {
    let mut shell = limited("sh");
    shell
        .args(["-euc", OSTREE, "sh"])
        .arg(OSTREE_EXT_CLI.program())
        .args([&first.reference(tag), tag])
        .arg(differences())
        .current_dir(directory);
    finish(&mut shell, &[]).ok();
    let image = Layout::at(directory.join("image"));
    image.append(tag, Compression::Zstd, &layer().tar());
}

fn differences() -> PathBuf {
    source(RECIPE).join("differences.sh")
}

/// The layer that the first one does not have, as of an image that is derived from another one.
fn layer() -> Tree {
    Tree::new().file("usr/share/second-layer", 0o644, "second\n")
}
