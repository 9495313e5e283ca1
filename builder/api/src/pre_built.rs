//! Names of what a pre-built image leaves in a cluster: the annotation that asks for it, and the
//! component MachineConfig by which a pool's rendered config names it (`docs/reference/api.md`,
//! Pre-built images).

use serde_json::{Map, Value, json};

use super::labels;
use super::machine_config::{API_VERSION, MachineConfig};
use super::metadata::Metadata;
use super::names::PoolName;

/// The one spelling that is written.
const COMPONENT: &str = "10-prebuiltimage-osimageurl-";
/// Another spelling, in a description of the Machine Config Operator: recognised, never written.
const MISSPELT: &str = "10-prebuildimage-osimageurl-";

/// Name of the MachineConfig that brings a pool its pre-built image:
/// `10-prebuiltimage-osimageurl-<pool>`.
pub fn component_name(pool: &PoolName) -> String {
    format!("{COMPONENT}{pool}")
}

/// The pool in the name of such a MachineConfig, in either spelling; none for any other name.
pub fn component_pool(name: &str) -> Option<PoolName> {
    let pool = [COMPONENT, MISSPELT].iter().find_map(|prefix| name.strip_prefix(prefix))?;
    // A name without a pool is somebody's own.
    pool.parse().ok()
}

/// Whether a MachineConfig of this name brings some pool its pre-built image.
pub fn is_component_name(name: &str) -> bool {
    component_pool(name).is_some()
}

/// The MachineConfig that brings a pool this image, `host/repository@sha256:…`, checked by
/// `plan::pre_built_image`.
///
/// It has no Ignition config: the image is all that it contains.
pub fn component(pool: &PoolName, image: &str) -> MachineConfig {
    let mut spec = Map::new();
    spec.insert("osImageURL".to_owned(), json!(image));
    MachineConfig {
        api_version: API_VERSION.to_owned(),
        kind: "MachineConfig".to_owned(),
        metadata: Metadata {
            name: component_name(pool),
            labels: [(labels::ROLE.to_owned(), pool.to_string())].into(),
            annotations: [(labels::PRE_BUILT_IMAGE.to_owned(), image.to_owned())].into(),
            ..Metadata::default()
        },
        spec,
    }
}

/// The image that such a MachineConfig brings: its `spec.osImageURL`, which is what a rendered
/// config gets; empty if it names none.
pub fn component_image(component: &MachineConfig) -> &str {
    let image = component.spec.get("osImageURL").and_then(Value::as_str);
    image.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_read() {
        for (what, name, want) in [
            ("ours", "10-prebuiltimage-osimageurl-worker", Some("worker")),
            ("the other spelling", "10-prebuildimage-osimageurl-worker", Some("worker")),
            ("a pool with separators", "10-prebuiltimage-osimageurl-a-b.c", Some("a-b.c")),
            ("no pool", "10-prebuiltimage-osimageurl-", None),
            ("no pool's name", "10-prebuiltimage-osimageurl--x", None),
            ("another", "10-prebuiltimage-worker", None),
            ("a longer one", "x10-prebuiltimage-osimageurl-worker", None),
            ("nothing", "", None),
        ] {
            let pool = component_pool(name);
            assert_eq!(pool.as_ref().map(PoolName::as_str), want, "{what}");
            assert_eq!(is_component_name(name), want.is_some(), "{what}");
        }
    }

    #[test]
    fn a_component_has_only_its_pool_and_image() {
        let image = format!("quay.io/acme/os@sha256:{}", "0a".repeat(32));
        let pool: PoolName = "infra".parse().unwrap();
        let made = component(&pool, &image);
        assert_eq!(component_image(&made), image);
        assert_eq!(component_pool(&made.metadata.name), Some(pool));
        let value = serde_json::to_value(&made).unwrap();
        let want = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {
                "name": "10-prebuiltimage-osimageurl-infra",
                "labels": { "machineconfiguration.openshift.io/role": "infra" },
                "annotations": { "machineconfiguration.openshift.io/pre-built-image": image },
                "ownerReferences": [], "uid": null, "generation": null,
            },
            "spec": { "osImageURL": image },
        });
        assert_eq!(value, want);
        assert_eq!(component_image(&MachineConfig::default()), "");
    }
}
