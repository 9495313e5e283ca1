//! A machine leaves an image whose own check fails, without a hand on it.
//!
//! Real: the kernel, systemd, the units and the program of the image, `mosb node`, ostree. Stand-ins: the
//! test for the boot loader, which takes the default entry; and, unless the environment names real ones,
//! those of the lab for `bootc rollback` and rpm-ostree.

use serde_json::json;

use mosb_api::RenderedConfig;
use mosb_plan::plan::machine_part;
use mosb_tests::{Mosb, VmRelease};

use super::image;
use super::machine::{CONNECT, Deployment, End, Machine};
use super::program_disk::ProgramDisk;

const FILE: &str = "/etc/vm-bad";
const IS_THERE: &str = "test -e /etc/vm-bad && echo there || echo missing";

#[test]
#[ignore = "boots a machine four times: make test-vm"]
fn a_machine_leaves_an_image_that_fails() {
    let registry = image::registry();
    let mosb = Mosb::new();
    let file = |path: &str, mode: u32, content: &str| {
        let content: String = content.bytes().map(|byte| format!("%{byte:02X}")).collect();
        json!({ "path": path, "mode": mode, "contents": { "source": format!("data:,{content}") } })
    };
    let rendered = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": format!("rendered-worker-{}", "3".repeat(32)) },
        "spec": { "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": [
            file(FILE, 0o644, "bad"),
            file("/etc/mosb/boot-check.conf", 0o644, "TIME=30\n"),
            file("/etc/mosb/check.d/10-own", 0o755, "#!/bin/sh\necho no disk\nexit 1\n"),
        ] } } },
    });
    let image =
        image::build(&mosb, &registry, VmRelease::First, &rendered, "direct", "every-config");
    let (_, digest) = image.split_once('@').unwrap();
    let part = machine_part(&RenderedConfig::from_value(rendered).unwrap());
    let target = json!({ "image": image, "machinePart": part.digest().to_string() });
    let parts = [("part.json".to_owned(), part.to_json())];
    let machine = Machine::new(&registry).with(ProgramDisk::new(&parts));
    let node = |command: &str| {
        let place = ProgramDisk::PLACE;
        format!("{place}/mosb node {command} --target '{target}' --machine-part {place}/part.json")
    };

    let missing = [(IS_THERE, "missing")];
    let (stage, apply) = (node("stage"), node("apply --attempt 1"));
    let end = End::Reboot(&apply);
    machine.boot("the base", Deployment::Default, &missing, &[CONNECT, &stage], end);
    machine.boot_until_off("the image");
    machine.boot_until_off("the image again");
    let left = format!("{digest}\nthe check /etc/mosb/check.d/10-own ended with 1: no disk");
    let checks = [(IS_THERE, "missing"), ("cat /var/lib/mosb/boot-check/went-back", &*left)];
    machine.boot("the base again", Deployment::Default, &checks, &[], End::PowerOff);
}
