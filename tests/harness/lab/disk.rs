//! The disk of a machine: a folder in memory, with the base image installed, and what Ignition
//! writes there before the first boot.

use std::path::PathBuf;

use super::{base, name};
use crate::child::finish;
use crate::node::place::{Place, checked};
use crate::node::{Node, Problem};
use crate::parts::IGNITION;
use crate::sandbox::in_private_mounts;

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

/// The fetch stage of Ignition `$2`, which alone trusts the CAs of the config, then its files stage in
/// the deployment on the disk `$1`. The rest is as CoreOS has it: a first boot is one without a machine
/// id, a unit is enabled only if a preset says so, and nobody is asked at the console.
const PROVISION: &str = r#"
cd "$1"/ostree/deploy/lab/deploy/*.0
rm etc/machine-id
ln -s /dev/null etc/systemd/system/systemd-firstboot.service
mkdir -p etc/systemd/system-preset
echo 'disable *' > etc/systemd/system-preset/90-systemd.preset
mount --bind "$1/ostree/deploy/lab/var" var
mount -t tmpfs tmpfs run
cat > run/config.ign
IGNITION_CONFIG_FILE=run/config.ign "$2" --platform=file --stage=fetch --root run --config-cache run/used.ign \
    --state-file run/state --neednet run/neednet --log-to-stdout
exec bash -c 'exec -a ignition-apply "$0" --root "$PWD" --ignore-unsupported - < run/used.ign' "$2"
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

/// Writes what a config contains, or what it fetches, onto the freshly installed disk of a machine
/// that is off, by the real Ignition in the network of the machine: that of this process. Its stages
/// that need disks don't run, as a folder has no partitions.
#[track_caller]
pub fn provision(node: &Node, index: u8, firmware: &str, config: &[u8]) {
    let place = node.place();
    let mut enter = place.command("nsenter");
    enter.args(["--target", firmware, "--net", "--", "unshare"]);
    let mut ignition = in_private_mounts(enter, PROVISION);
    ignition.arg(disk_of(place, index)).arg(IGNITION.program());
    finish(&mut ignition, config).ok();
}
