//! The default of `--build-on`. It follows from who rendered the config: a machine-config-daemon
//! applies what the Machine Config Operator renders, and of all other configs nothing but the image
//! reaches a machine.

use crate::api::{BuildOn, RenderedConfig, labels};
use crate::render::RENDERER;

/// The choice for a config, if nobody states one.
pub fn default_build_on(config: &RenderedConfig) -> BuildOn {
    match sign_of_operator(config) {
        Some(_) => BuildOn::OsChange,
        None => BuildOn::EveryConfig,
    }
}

/// Why the image of a config is built with this choice: a sentence.
pub fn build_on_reason(config: &RenderedConfig, build_on: BuildOn) -> String {
    match (build_on, sign_of_operator(config)) {
        (BuildOn::EveryConfig, None) => {
            "No Machine Config Operator rendered the config, so its files reach machines by the image alone.".to_owned()
        }
        (BuildOn::OsChange, Some(sign)) => format!(
            "The config was rendered for a cluster of the Machine Config Operator ({sign}), whose daemon applies it."
        ),
        (BuildOn::EveryConfig, Some(sign)) => format!(
            "It was asked for, although the config was rendered for a cluster of the Machine Config Operator ({sign})."
        ),
        (BuildOn::OsChange, None) => {
            "It was asked for, although no Machine Config Operator rendered the config.".to_owned()
        }
    }
}

/// What shows that a config was rendered for a cluster of the Machine Config Operator: the renderer,
/// or the release, which only its ControllerConfig has.
fn sign_of_operator(config: &RenderedConfig) -> Option<String> {
    let release = config.annotation(labels::RELEASE_IMAGE_VERSION);
    let renderer = config.annotation(labels::GENERATED_BY_CONTROLLER_VERSION);
    let signs = [
        (labels::RELEASE_IMAGE_VERSION, release),
        (labels::GENERATED_BY_CONTROLLER_VERSION, renderer.filter(|by| *by != RENDERER)),
    ];
    signs.into_iter().find_map(|(key, value)| {
        let value = value.filter(|value| !value.is_empty())?;
        Some(format!("annotation {key} is {value:?}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_default_follows_from_who_rendered_the_config() {
        use BuildOn::{EveryConfig, OsChange};
        let by = labels::GENERATED_BY_CONTROLLER_VERSION;
        let release = labels::RELEASE_IMAGE_VERSION;
        for (what, annotations, want) in [
            ("written by hand", json!({}), EveryConfig),
            ("mosb", json!({ by: RENDERER }), EveryConfig),
            ("nothing stated", json!({ by: "", release: "" }), EveryConfig),
            ("the operator", json!({ by: "0f1e2d", release: "4.20.1" }), OsChange),
            ("no release", json!({ by: "0f1e2d" }), OsChange),
            (
                "mosb, for an OpenShift cluster",
                json!({ by: RENDERER, release: "4.20.1" }),
                OsChange,
            ),
        ] {
            let config = json!({
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
                "metadata": { "name": "rendered-worker-0123456789abcdef0123456789abcdef", "annotations": annotations },
                "spec": {},
            });
            let config = RenderedConfig::from_value(config).unwrap();
            assert_eq!(default_build_on(&config), want, "{what}");
            for build_on in [EveryConfig, OsChange] {
                let is_asked_for = build_on_reason(&config, build_on).contains("asked for");
                assert_eq!(is_asked_for, build_on != want, "{what}: {build_on}");
            }
        }
    }
}
