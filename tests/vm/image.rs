//! Images on the base, made by the program under test, in a registry that the machine reaches.

use serde_json::Value;

use mosb_tests::{Mosb, Registry, VmRelease, vm_base};

use super::machine::REGISTRY;

/// Images have only what the config says.
pub const OS_CHANGE: &str = "os-change";

/// A registry with the bases.
#[track_caller]
pub fn registry() -> Registry {
    let registry = Registry::plain();
    for release in VmRelease::ALL {
        registry.push(&vm_base().images(), release.tag(), &repository(release));
    }
    registry
}

/// The repository and tag of a base.
fn repository(release: VmRelease) -> String {
    format!("base:{}", release.tag())
}

/// Builds the image of a rendered MachineConfig on a base and pushes it; `HOST:PORT/REPOSITORY@DIGEST`, as the
/// machine reaches it.
#[track_caller]
pub fn build(
    mosb: &Mosb,
    registry: &Registry,
    release: VmRelease,
    rendered: &Value,
    method: &str,
    build_on: &str,
) -> String {
    let (base, target) = (registry.repository(&repository(release)), registry.repository("os"));
    let line = ["build", "-", "--base", &base, "--output", &target, "--method", method];
    let more = ["--build-on", build_on, "--isolation", "chroot", "-o", "json"];
    let line = [&line[..], &more].concat();
    let built = mosb.run_with(line, rendered.to_string().as_bytes()).ok();
    let image = built.json()["image"].as_str().unwrap().to_owned();
    image.replace(registry.address(), REGISTRY)
}
