//! A machine on the base takes an image of ours by itself, updates itself to a second one, and goes
//! back: what the config says is on the machine, and no unit fails. The first image is a direct
//! build, the second one is built by buildah.
//!
//! Real: the kernel, systemd, `mosb build`, buildah, the registry, and the importer (ostree-ext)
//! that rpm-ostree and bootc are built on. Stand-ins: Debian for CoreOS; the test for the boot
//! loader, of whose entries it takes the default or the next, as after a rollback; the command line
//! of ostree-ext for rpm-ostree and bootc. What `mosb node` brings beside an image, by `bootc`
//! and `rpm-ostree kargs` as in the lab, is in [machine_part](super::machine_part).

use mosb_tests::{Mosb, Registry, VmRelease};

use super::config::{Config, ON_THE_BASE};
use super::image::{self, OS_CHANGE};
use super::machine::{CONNECT, Check, Deployment, End, Machine};

/// The image that the running deployment was made from.
const ORIGIN: &str = "deployment=$(readlink -f \"$(sed 's/.*ostree=//; s/ .*//' /proc/cmdline)\"); \
    sed -n 's/^container-image-reference=//p' \"$deployment.origin\"";

/// An image in the registry, built from a config.
struct Image {
    config: Config,
    /// As the machine's importer names it.
    reference: String,
    current_config: String,
}

impl Image {
    fn build(mosb: &Mosb, registry: &Registry, config: Config) -> Self {
        let rendered = config.rendered();
        let name =
            image::build(mosb, registry, VmRelease::First, &rendered, config.method(), OS_CHANGE);
        let reference = format!("ostree-unverified-registry:{name}");
        Self { config, reference, current_config: rendered.to_string() }
    }

    /// What a machine that runs this image has, and these.
    fn checks<'a>(&'a self, more: &[Check<'a>]) -> Vec<Check<'a>> {
        let mut checks = self.config.checks();
        checks.push((ORIGIN, &self.reference));
        checks.push(("cat /etc/machine-config-daemon/currentconfig", &self.current_config));
        checks.extend(more);
        checks
    }

    /// The command by which a machine takes it: it becomes the default at shutdown.
    fn deploy(&self) -> String {
        format!(
            "ostree-ext-cli container image deploy --sysroot / --stateroot vm --imgref {}",
            self.reference
        )
    }
}

#[test]
#[ignore = "boots a machine four times: make test-vm"]
fn a_machine_takes_two_images_and_goes_back() {
    let registry = image::registry();
    let mosb = Mosb::new();
    let first = Image::build(&mosb, &registry, Config::First);
    let second = Image::build(&mosb, &registry, Config::Second);
    let machine = Machine::new(&registry);

    machine.boot(
        "the base",
        Deployment::Default,
        &ON_THE_BASE,
        &[CONNECT, &first.deploy()],
        End::PowerOff,
    );
    machine.boot(
        "the first image",
        Deployment::Default,
        &first.checks(&[("cat /etc/vm/on-machine", "first")]),
        &[
            "echo machine >/etc/vm/on-machine",
            "echo machine >/etc/vm/of-machine",
            CONNECT,
            &second.deploy(),
        ],
        End::PowerOff,
    );
    // What the machine changed stays, in the deployments that were made of this one's `/etc`.
    let of_machine = [("cat /etc/vm/on-machine", "machine"), ("cat /etc/vm/of-machine", "machine")];
    machine.boot(
        "the second image",
        Deployment::Default,
        &second.checks(&of_machine),
        &["echo second >/etc/vm/of-machine", "echo second >/etc/vm/of-second"],
        End::PowerOff,
    );
    let of_first =
        [of_machine[0], of_machine[1], ("test -e /etc/vm/of-second || echo missing", "missing")];
    let checks = first.checks(&of_first);
    machine.boot("the first image again", Deployment::Previous, &checks, &[], End::PowerOff);
}
