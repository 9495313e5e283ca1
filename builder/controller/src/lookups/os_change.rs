//! Whether a config change needs a new image on machines that apply configs themselves.

use serde_json::{Value, json};

use super::Resolver;
use super::rendered_config::get_rendered_config;
use crate::lookup::{NO_RENDERED_CONFIG, PlanLookup, Problem};
use mosb_plan::api::RenderedConfig;
use mosb_types::ErrorClass;

/// Whether the config in service differs in fields that machines can't apply themselves. A deleted
/// config can't be compared, so it counts as different.
pub(super) async fn os_changed(
    resolver: &Resolver,
    lookup: &PlanLookup,
    parts: [Value; 4],
) -> Result<bool, Problem> {
    let Some(name) = &lookup.compare else {
        return Ok(true);
    };
    if name == lookup.rendered.as_str() {
        return Ok(false);
    }
    match get_rendered_config(resolver, name).await {
        Ok(before) => Ok(os_fields(&before) != parts),
        Err(problem)
            if problem.class == ErrorClass::Transient && problem.reason != NO_RENDERED_CONFIG =>
        {
            Err(problem)
        }
        Err(_) => Ok(true),
    }
}

/// The fields that machines can't apply themselves.
pub(super) fn os_fields(config: &RenderedConfig) -> [Value; 4] {
    let spec = |field: &str| {
        let value = config.as_value().pointer(&format!("/spec/{field}")).cloned();
        // Empty, null and absent values are equal.
        let empty = |value: &Value| value.is_null() || *value == json!([]) || *value == json!("");
        value.filter(|value| !empty(value)).unwrap_or_default()
    };
    [
        spec("osImageURL"),
        json!(config.kernel_type.as_str()),
        spec("extensions"),
        spec("kernelArguments"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(spec: Value) -> RenderedConfig {
        let hash = "0".repeat(32);
        RenderedConfig::from_value(json!({ "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig", "metadata": { "name": format!("rendered-worker-{hash}") }, "spec": spec }))
        .unwrap()
    }

    #[test]
    fn changes_that_machines_apply_themselves_do_not_change_the_os() {
        let before = json!({ "osImageURL": "quay.io/os:1", "kernelArguments": ["a", "b"], "extensions": [] });
        for (what, after, changed) in [
            ("the same", before.clone(), false),
            (
                "files",
                json!({ "osImageURL": "quay.io/os:1", "kernelArguments": ["a", "b"],
                "config": { "ignition": { "version": "3.5.0" } } }),
                false,
            ),
            (
                "another base",
                json!({ "osImageURL": "quay.io/os:2", "kernelArguments": ["a", "b"] }),
                true,
            ),
            (
                "arguments in another order",
                json!({ "osImageURL": "quay.io/os:1", "kernelArguments": ["b", "a"] }),
                true,
            ),
            (
                "a kernel",
                json!({ "osImageURL": "quay.io/os:1", "kernelArguments": ["a", "b"], "kernelType": "realtime" }),
                true,
            ),
            (
                "extensions",
                json!({ "osImageURL": "quay.io/os:1", "kernelArguments": ["a", "b"], "extensions": ["usbguard"] }),
                true,
            ),
        ] {
            let differs = os_fields(&config(before.clone())) != os_fields(&config(after));
            assert_eq!(differs, changed, "{what}");
        }
    }
}
