//! Images on the base, made by the program under test, in a registry that the machine reaches.

use serde_json::Value;

use mosb_tests::{Mosb, Registry, vm_base};

use super::machine::REGISTRY;

/// The base's repository and tag.
const BASE: &str = "base:1";

/// A registry with the base.
#[track_caller]
pub fn registry() -> Registry {
    let registry = Registry::plain();
    registry.push(&vm_base().0, "base", BASE);
    registry
}

/// Builds the image of a rendered MachineConfig and pushes it; `HOST:PORT/REPOSITORY@DIGEST`, as the
/// machine reaches it.
#[track_caller]
pub fn build(mosb: &Mosb, registry: &Registry, rendered: &Value, method: &str) -> String {
    let (base, target) = (registry.repository(BASE), registry.repository("os"));
    let line = ["build", "-", "--base", &base, "--output", &target, "--method", method];
    let more = ["--build-on", "os-change", "--isolation", "chroot", "-o", "json"];
    let line = [&line[..], &more].concat();
    let built = mosb.run_with(line, rendered.to_string().as_bytes()).ok();
    let image = built.json()["image"].as_str().unwrap().to_owned();
    image.replace(registry.address(), REGISTRY)
}
