//! Kernel arguments, SSH keys and the password of `core` come to a machine with its image by
//! `mosb node`, change, go and come back, and an argument that a person added stays. And a base with
//! another kernel comes and goes, with the arguments of the config and its own.
//!
//! Real: what [update](super::update) names, the command line that the kernel reports after each
//! boot, `mosb node stage`, `apply` and `report` in the machine, as the Jobs of a roll-out run them,
//! and the shutdown that they begin. Stand-ins: the test for the boot loader, which appends what an
//! emulated machine needs; and, unless the environment names real ones, those of the lab for
//! [bootc](../harness/lab/base/bootc) and [rpm-ostree](../harness/lab/base/rpm-ostree), of which
//! `rpm-ostree kargs` writes the arguments with the real ostree.

use serde_json::{Value, json};

use mosb_api::RenderedConfig;
use mosb_api::rollout::MachinePart;
use mosb_plan::plan::machine_part;
use mosb_tests::{Mosb, Registry, VmRelease, vm_base};

use super::image::{self, OS_CHANGE};
use super::machine::{CONNECT, Check, Deployment, End, Machine};
use super::program_disk::ProgramDisk;

/// Without the link to the deployment, which ostree adds, and what the test appends.
const ARGUMENTS: &str = "tr ' ' '\\n' </proc/cmdline | \
    grep -vxe 'ostree=.*' -e no_timer_check -e panic=-1 | paste -sd ' '";
const KERNEL: &str = "uname -r";
const KEYS: &str = "cat /var/home/core/.ssh/authorized_keys.d/ignition";
const KEYS_OWNER: &str = "stat -c '%a %U:%G' /var/home/core/.ssh/authorized_keys.d/ignition";
const PASSWORD: &str = "sed -n 's/^core:\\([^:]*\\):.*/\\1/p' /etc/shadow";
const FILE: &str = "cat /etc/vm-part";
/// As an installation does it, without a password.
const ADD_CORE: &str =
    "useradd --create-home --home-dir /var/home/core --password '*' --shell /bin/bash core";
/// With ostree's own tool, in the boot entries.
const ADD_OWN: &str = "ostree admin kargs edit-in-place --append-if-missing=own=1";

/// What the installation gave the machine, but for what its base brings and `quiet`.
const INSTALLED: &str = "root=/dev/vda rw console=ttyS0 net.ifnames=0";
/// With the argument of the first base, which the installation put there.
const BASE: &str = "root=/dev/vda rw console=ttyS0 net.ifnames=0 base=first";

/// An image with its machine part.
struct Target {
    word: &'static str,
    release: VmRelease,
    image: String,
    part: MachinePart,
}

impl Target {
    #[track_caller]
    fn build(
        mosb: &Mosb,
        registry: &Registry,
        (word, digit): (&'static str, &str),
        release: VmRelease,
        arguments: &[&str],
        removed: &[&str],
    ) -> Self {
        let rendered = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": format!("rendered-worker-{}", digit.repeat(32)) },
            "spec": { "kernelArguments": arguments, "config": ignition(word, removed) },
        });
        let image = image::build(mosb, registry, release, &rendered, "direct", OS_CHANGE);
        // As the controller takes it from the config.
        let part = machine_part(&RenderedConfig::from_value(rendered).unwrap());
        Self { word, release, image, part }
    }

    fn file(&self) -> String {
        format!("{}.json", self.word)
    }

    /// `mosb node`, as a Job of a roll-out runs it.
    fn node(&self, command: &str) -> String {
        let target = json!({ "image": self.image, "machinePart": self.part.digest().to_string() });
        let (place, file) = (ProgramDisk::PLACE, self.file());
        format!("{place}/mosb node {command} --target '{target}' --machine-part {place}/{file}")
    }

    fn apply(&self) -> String {
        self.node("apply --attempt 1")
    }

    /// What a machine that runs it has, with these kernel arguments.
    #[track_caller]
    fn assert_on(
        &self,
        machine: &Machine,
        what: &str,
        arguments: &str,
        actions: &[&str],
        end: End,
    ) {
        let keys = self.part.ssh_authorized_keys.join("\n");
        let hash = self.part.password_hash.clone().unwrap();
        let digest = self.part.digest().to_string();
        let applied = format!(
            "{}/mosb node report -o json 2>/dev/null | jq -r .applied.machinePart",
            ProgramDisk::PLACE
        );
        let kernel = vm_base().kernel(self.release);
        let checks: [Check; 7] = [
            (KERNEL, &kernel),
            (ARGUMENTS, arguments),
            (FILE, self.word),
            (KEYS, &keys),
            (KEYS_OWNER, "600 core:core"),
            (PASSWORD, &hash),
            (&applied, &digest),
        ];
        machine.boot(what, Deployment::Default, &checks, actions, end);
    }
}

fn ignition(word: &str, removed: &[&str]) -> Value {
    json!({
        "ignition": { "version": "3.5.0" },
        "kernelArguments": { "shouldNotExist": removed },
        "passwd": { "users": [{
            "name": "core",
            "sshAuthorizedKeys": [format!("ssh-ed25519 AAAA{word} {word}"), "ssh-rsa BBBB"],
            "passwordHash": format!("$6$salt{word}$hash{word}"),
        }] },
        "storage": { "files": [
            { "path": "/etc/vm-part", "mode": 0o644, "contents": { "source": format!("data:,{word}") } },
        ] },
    })
}

#[test]
#[ignore = "boots a machine four times: make test-vm"]
fn arguments_keys_and_password_come_and_go() {
    let registry = image::registry();
    let mosb = Mosb::new();
    let base = VmRelease::First;
    let first = Target::build(&mosb, &registry, ("first", "1"), base, &["a=1", "b"], &[]);
    let second = Target::build(&mosb, &registry, ("second", "2"), base, &["a=2", "c"], &["quiet"]);
    let parts = [&first, &second].map(|target| (target.file(), target.part.to_json()));
    let machine = Machine::new(&registry).with(ProgramDisk::new(&parts));

    // As a roll-out does it. Later ones are staged by `apply`, which a roll-out does if a power cut
    // lost what was staged.
    machine.boot(
        "the base",
        Deployment::Default,
        &[(ARGUMENTS, &format!("{BASE} quiet"))],
        &[ADD_CORE, CONNECT, &first.node("stage")],
        End::Reboot(&first.apply()),
    );
    first.assert_on(
        &machine,
        "the first target",
        &format!("{BASE} quiet a=1 b"),
        &[ADD_OWN, CONNECT],
        End::Reboot(&second.apply()),
    );
    second.assert_on(
        &machine,
        "the second target",
        &format!("{BASE} own=1 a=2 c"),
        &[CONNECT],
        End::Reboot(&first.apply()),
    );
    let again = format!("{BASE} own=1 a=1 b quiet");
    first.assert_on(&machine, "the first target again", &again, &[], End::PowerOff);
}

#[test]
#[ignore = "boots a machine four times: make test-vm"]
fn another_kernel_comes_and_goes_with_the_base() {
    let registry = image::registry();
    let mosb = Mosb::new();
    let build = |word, digit, release| {
        Target::build(&mosb, &registry, (word, digit), release, &["a=1"], &[])
    };
    let first = build("first", "1", VmRelease::First);
    let second = build("second", "2", VmRelease::Second);
    let kernels = [&first, &second].map(|target| vm_base().kernel(target.release));
    assert_ne!(kernels[0], kernels[1]);
    let parts = [&first, &second].map(|target| (target.file(), target.part.to_json()));
    let machine = Machine::new(&registry).with(ProgramDisk::new(&parts));

    machine.boot(
        "the base",
        Deployment::Default,
        &[(KERNEL, &kernels[0])],
        &[ADD_CORE, CONNECT, &first.node("stage")],
        End::Reboot(&first.apply()),
    );
    let stage = second.node("stage");
    let actions = [CONNECT, &stage];
    let end = End::Reboot(&second.apply());
    first.assert_on(&machine, "the first base", &format!("{BASE} quiet a=1"), &actions, end);
    // As `mosb rollout undo`: the first image again.
    let end = End::Reboot(&first.apply());
    let of_second = format!("{INSTALLED} quiet a=1 base=second");
    second.assert_on(&machine, "the second base", &of_second, &[CONNECT], end);
    let again = format!("{INSTALLED} quiet a=1 base=first");
    first.assert_on(&machine, "the first base again", &again, &[], End::PowerOff);
}
