//! The Ignition config of new machines, as text and as an object.

use serde_json::json;

use super::{BUILD, RENDERED, digest, looks_like};
use crate::cli::objects::MachineIgnition;
use mosb_types::Finding;

#[test]
fn golden_machine_ignition() {
    let message = "machines boot and do not join the cluster";
    let object = MachineIgnition {
        pool: "worker".to_owned(),
        machine_os_config: "worker".to_owned(),
        build: BUILD.to_owned(),
        image: format!("registry.example.com/os/worker@{}", digest("image")),
        rendered_config: RENDERED.to_owned(),
        joins: false,
        holds_credentials: true,
        config: json!({ "systemd": {}, "ignition": { "version": "3.0.0" } }),
        notices: vec![Finding::new("does-not-join", message)],
    };
    assert!(!format!("{object:?}").contains("3.0.0"));
    looks_like("machine-ignition", &object);
}
