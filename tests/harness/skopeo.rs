//! Debian 13's skopeo, with which machines of the lab verify signatures: that of Debian 12, which they
//! have, pulls for bootc and rpm-ostree whatever the policy says.
//!
//! The program lies beside its libraries and the loader that starts it with them. So it needs no root of
//! its own, and reads `/etc/containers` of the machine.

use std::path::Path;

use crate::child::run;

/// Below `tests/`.
pub const RECIPE: &str = "harness/skopeo.rs";
/// Where a machine has the directory.
pub const FOLDER: &str = "/var/lib/lab/skopeo";
/// Puts it in the place of the machine's own, until the next boot.
pub const USE: &str = "printf '#!/bin/sh\\nexec %s/loader --library-path %s %s/skopeo \"$@\"\\n' \
    \"$1\" \"$1\" \"$1\" > /run/skopeo
    chmod 755 /run/skopeo
    mount --bind /run/skopeo /usr/bin/skopeo";
const COLLECT: &str = r#"cd "$1"
mkdir skopeo
cp root/usr/bin/skopeo skopeo/
chroot root ldd /usr/bin/skopeo |
    sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\/ld-linux[^ ]*\) .*/\1/p' |
    while read -r library; do cp -L "root$library" skopeo/; done
mv skopeo/ld-linux* skopeo/loader
rm -rf root
skopeo/loader --library-path skopeo skopeo/skopeo --version"#;

/// Makes `skopeo` in a directory.
pub fn make(directory: &Path) {
    let root = directory.join("root");
    let arguments = ["--quiet", "--mode=root", "--format=directory", "--variant=essential"];
    let arguments = arguments.map(str::to_owned).into_iter();
    let include = "--include=skopeo".to_owned();
    let rest = [include, "trixie".to_owned(), root.to_str().unwrap().to_owned()];
    run("mmdebstrap", arguments.chain(rest));
    run("sh", ["-euc".as_ref(), COLLECT.as_ref(), "sh".as_ref(), directory.as_os_str()]);
}
