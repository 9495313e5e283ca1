//! The `policy.json` in a pool's rendered config, which also applies to the pool's builds if the
//! settings have none. The Machine Config Operator writes the cluster's ClusterImagePolicies there.

use super::invalid_input;
use mosb_api::{ClusterSettings, RenderedConfig};
use mosb_ignition::{Compression, Resource};
use mosb_image::signature_policy::SignaturePolicy;
use mosb_reconcile::Problem;

const POLICY: &str = "/etc/containers/policy.json";
/// Far above the size of real policies, which have some hundred bytes per scope.
const MAX_POLICY_SIZE: u64 = 1 << 20;

/// The settings with the policy of this config, if they have none.
pub(super) fn with_policy_of(
    mut settings: ClusterSettings,
    config: &RenderedConfig,
) -> Result<ClusterSettings, Problem> {
    if settings.signature_policy.is_some() {
        return Ok(settings);
    }
    let Some(bytes) = policy(config) else {
        return Ok(settings);
    };
    let wrong = |cause: String| {
        let name = config.name();
        let message = format!(
            "machineconfig {name}: {POLICY}: {cause}; fix it, or set signaturePolicy of ConfigMap mosb-config"
        );
        invalid_input("bad-signature-policy", message)
    };
    SignaturePolicy::parse(&bytes).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
    settings.signature_policy = Some(text);
    Ok(settings)
}

/// The file's contents. The planner reports contents that can't be read.
fn policy(config: &RenderedConfig) -> Option<Vec<u8>> {
    let files = config.ignition()?.pointer("/storage/files")?.as_array()?;
    let file = files.iter().find(|file| file["path"] == POLICY)?;
    let contents = &file["contents"];
    let resource = Resource {
        source: Some(contents["source"].as_str()?.to_owned()),
        compression: match contents["compression"].as_str() {
            Some("gzip") => Compression::Gzip,
            _ => Compression::None,
        },
        verification: None,
    };
    // The planner reports this error.
    resource.bytes(MAX_POLICY_SIZE).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_api::RenderedConfig;
    use serde_json::{Value, json};

    const REJECT: &str = r#"{"default":[{"type":"reject"}]}"#;

    fn config(files: Value) -> RenderedConfig {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": "rendered-worker-0123456789abcdef0123456789abcdef" },
            "spec": { "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": files } } },
        });
        RenderedConfig::from_value(object).unwrap()
    }

    fn file(text: &str) -> Value {
        use base64::Engine as _;
        let data = base64::engine::general_purpose::STANDARD.encode(text);
        json!([{ "path": "/etc/other" }, { "path": POLICY, "contents": { "source": format!("data:;base64,{data}") } }])
    }

    #[test]
    fn the_machines_policy_holds_where_the_settings_have_none() {
        let accept = r#"{"default":[{"type":"insecureAcceptAnything"}]}"#;
        for (what, of_settings, files, want) in [
            ("none", None, json!([]), Ok(None)),
            ("of the machines", None, file(REJECT), Ok(Some(REJECT))),
            ("of the settings", Some(accept), file(REJECT), Ok(Some(accept))),
            ("no contents", None, json!([{ "path": POLICY }]), Ok(None)),
            (
                "contents that the planner refuses",
                None,
                json!([{ "path": POLICY, "contents": { "source": "data:;base64,%" } }]),
                Ok(None),
            ),
            ("no policy", None, file("{}"), Err("bad-signature-policy")),
        ] {
            let settings = ClusterSettings {
                signature_policy: of_settings.map(str::to_owned),
                ..ClusterSettings::default()
            };
            let read = with_policy_of(settings, &config(files));
            let got = match &read {
                Ok(settings) => Ok(settings.signature_policy.as_deref()),
                Err(problem) => Err(&*problem.reason),
            };
            assert_eq!(got, want, "{what}: {read:?}");
        }
    }
}
