//! A base image as CoreOS has it, and the importer by which nodes take an image; the recipe's text is part of its version.
//!
//! The Debian root in ostree's shape: `/etc` is `/usr/etc`; `/home`, `/root`, `/srv`, `/opt` and `/usr/local` lead into `/var`;
//! `/etc/ssl/certs` leads to `/etc/pki/tls/certs`; `ostree container commit` is the real one. In the image nearly every path is a hard link into `sysroot/ostree/repo`.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::child::{finish, limited, run};
use super::layout::Layout;
use super::parts::{OSTREE_BASE, OSTREE_EXT_CLI};
use super::root::debian_root;
use super::snapshot::Snapshot;

/// Makes `tree` of the Debian root `$1`; `$2` is the importer's program.
pub const SHAPE: &str = r#"
cp -a "$1" tree
cd tree
mv etc usr/etc
mkdir -p var/home var/roothome usr/etc/pki/tls usr/etc/ssl sysroot
mv srv opt var/
mv usr/local var/usrlocal
rm -rf home root usr/etc/ssl/certs
mkdir usr/etc/pki/tls/certs
ln -s ../pki/tls/certs usr/etc/ssl/certs
ln -s var/home home
ln -s var/roothome root
ln -s var/srv srv
ln -s var/opt opt
ln -s ../var/usrlocal usr/local
ln -s sysroot/ostree ostree
chmod 0700 var/roothome
# ostree-ext writes its own, and buildah takes no image that names a path twice.
rm -rf var/tmp
# `ostree container commit`, as CoreOS has it: the program of this machine with its libraries, and ostree-ext behind it.
cp /usr/bin/ostree usr/bin/ostree
cp "$2" usr/bin/ostree-ext-cli
mkdir -p usr/libexec/libostree/ext
printf '#!/bin/sh\nexec /usr/bin/ostree-ext-cli "$@"\n' > usr/libexec/libostree/ext/ostree-container
chmod 755 usr/libexec/libostree/ext/ostree-container
for library in $(ldd /usr/bin/ostree "$2" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | sort -u); do
    test -e "./$library" || cp -L "$library" usr/lib/x86_64-linux-gnu/
done
cd ..
"#;

/// `made IMPORTER TAG [FLAG…]` makes the image with this tag, in the layout `image`, of `tree`; the flags are those of
/// `ostree commit`.
pub const MADE: &str = r#"
made() {
    importer=$1 tag=$2
    shift 2
    ostree --repo=made init --mode=bare
    ostree --repo=made commit --branch="$tag" --tree=dir=tree --timestamp=@0 "$@"
    "$importer" container encapsulate --repo=made --compression-fast --label=containers.bootc=1 --label=ostree.bootable=true \
        "$tag" "oci:image:$tag"
}
"#;

const IMAGES: &str = r#"
made "$2" base
rm -rf tree/var/*
made "$2" empty-var
rm -rf tree made
ostree --repo=repo init --mode=bare
"$2" container image pull --quiet repo "ostree-unverified-image:oci:$PWD/image:base""#;

/// The ostree-native base as an OCI layout, to be read only. The links lead to directories in the image with tag `base`, and
/// nowhere in the one with tag `empty-var`.
#[track_caller]
pub fn base() -> Layout {
    Layout::at(OSTREE_BASE.directory().join("image"))
}

/// The importer's program.
#[track_caller]
pub fn ext_cli() -> PathBuf {
    OSTREE_EXT_CLI.program()
}

/// Makes the base, and a repository that has it, in a directory.
pub fn make(directory: &Path) {
    let mut shell = limited("sh");
    shell
        .args(["-euc", &[SHAPE, MADE, IMAGES].concat(), "sh"])
        .arg(debian_root())
        .arg(OSTREE_EXT_CLI.program())
        .current_dir(directory);
    finish(&mut shell, &[]).ok();
}

/// What a node would have after taking an image.
#[derive(Debug)]
pub struct Checkout {
    directory: TempDir,
}

impl Checkout {
    /// The tree, owners and modes included; its files are the repository's own, so only to be read.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("tree")
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.path())
    }
}

/// Imports an image (`oci:DIR:TAG`, `docker://HOST/REPO@DIGEST`) as a node does that runs the base already, and checks it
/// out. `flags` are those of `container image pull`. The error is what the importer said.
#[track_caller]
pub fn import(image: &str, flags: &[&str]) -> Result<Checkout, String> {
    let directory = TempDir::new().unwrap();
    let repository = directory.path().join("repo");
    let known = OSTREE_BASE.directory().join("repo");
    run("cp", ["-a".as_ref(), known.as_os_str(), repository.as_os_str()]);
    let mut pull = limited(OSTREE_EXT_CLI.program());
    pull.args(["container", "image", "pull", "--quiet"]);
    pull.args(flags).arg(&repository);
    pull.arg(format!("ostree-unverified-image:{image}"));
    let pulled = finish(&mut pull, &[]);
    if !pulled.status.success() {
        return Err(pulled.stderr);
    }
    let commit = commit(&pulled.text())
        .unwrap_or_else(|| panic!("{}: no commit named\n{}", pulled.what, pulled.text()));
    let repo = format!("--repo={}", repository.display());
    let checkout = Checkout { directory };
    let tree = checkout.path();
    run("ostree", ["checkout", &repo, &commit, tree.to_str().unwrap()]);
    Ok(checkout)
}

/// The commit in the line `Wrote: IMAGE => COMMIT`.
fn commit(output: &str) -> Option<String> {
    let (_, commit) = output.lines().find_map(|line| line.split_once(" => "))?;
    Some(commit.trim().to_owned())
}
