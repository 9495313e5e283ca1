//! The disk of a machine: a folder in memory, with the base image installed.

use std::path::PathBuf;

use super::{base, name};
use crate::node::place::{Place, checked};
use crate::node::{Node, Problem};

/// A fresh copy of the base's disk `$1` at `$2`. In its `/etc` are the certificate `$5` of the
/// registry's authority and the name `$6`; its origin names the registry `$4` in place of `$3`.
const INSTALL: &str = r#"
[ ! -d "$2" ] || chattr -i "$2"/ostree/deploy/lab/deploy/*/
rm -rf "$2"
cp -a "$1" "$2"
cd "$2"/ostree/deploy/lab/deploy
sed -i "s|$3|$4|" *.origin
cd *.0/etc
mkdir -p "containers/certs.d/$4"
cp "$5" "containers/certs.d/$4/ca.crt"
echo "$6" > hostname
"#;

/// Where it is, as the control plane sees it.
pub fn disk_of(place: &Place, index: u8) -> PathBuf {
    place.path("disks").join(name(index))
}

/// Installs the base image on the disk of a machine that is off.
pub fn install(node: &Node, index: u8) -> Result<(), Problem> {
    let (place, registry) = (node.place(), node.registry());
    let mut install = place.command("sh");
    install
        .args(["-euc", INSTALL, "sh"])
        .arg(base::disk())
        .arg(disk_of(place, index))
        .args([base::REGISTRY, &registry.host_port])
        .arg(registry.certificates().join("ca.crt"))
        .arg(name(index));
    checked(&mut install).map(drop)
}
