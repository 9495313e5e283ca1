//! The `policy.json` in a pool's rendered config, which also applies to the pool's images: one that the
//! pool's machines would reject is neither built on nor brought into service. The Machine Config
//! Operator writes the cluster's ClusterImagePolicies there. If the settings have a policy too, both
//! must accept an image.

use mosb_api::{ClusterSettings, RenderedConfig, RenderedName};
use mosb_image::signature_policy::{PolicyError, SignaturePolicy};
use mosb_plan::plan::{MACHINE_POLICY, machine_policy};
use mosb_types::Diagnostic;

/// A rendered config whose policy can't be read.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("machineconfig {config}: {MACHINE_POLICY}: {source}; correct the file")]
#[diagnostic(code = "bad-signature-policy", class = InvalidInput)]
pub struct PoolPolicyError {
    config: RenderedName,
    source: PolicyError,
}

/// The settings with the policy of this config, beside their own.
///
/// # Errors
/// The policy of the config is not valid.
pub fn with_policy_of(
    mut settings: ClusterSettings,
    config: &RenderedConfig,
) -> Result<ClusterSettings, PoolPolicyError> {
    let Some(bytes) = machine_policy(config) else {
        return Ok(settings);
    };
    let policy = SignaturePolicy::parse(&bytes)
        .map_err(|source| PoolPolicyError { config: config.name().clone(), source })?;
    let both = match settings.parsed_policy() {
        Some(own) => own.and(&policy),
        None => policy,
    };
    settings.signature_policy = Some(both.with_signatures());
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
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
        json!([{ "path": "/etc/other" }, { "path": MACHINE_POLICY, "contents": { "source": format!("data:;base64,{data}") } }])
    }

    #[test]
    fn of_settings_and_machines_both_policies_hold() {
        const ACCEPT: &str = r#"{"default":[{"type":"insecureAcceptAnything"}]}"#;
        for (what, of_settings, files, want) in [
            ("none", None, json!([]), Ok(None)),
            ("of the machines", None, file(REJECT), Ok(Some(REJECT))),
            ("of the settings", Some(REJECT), json!([]), Ok(Some(REJECT))),
            ("the stricter of the machines", Some(ACCEPT), file(REJECT), Ok(Some(REJECT))),
            ("the stricter of the settings", Some(REJECT), file(ACCEPT), Ok(Some(REJECT))),
            ("both the same", Some(ACCEPT), file(ACCEPT), Ok(Some(ACCEPT))),
            ("no contents", None, json!([{ "path": MACHINE_POLICY }]), Ok(None)),
            (
                "contents that the planner refuses",
                None,
                json!([{ "path": MACHINE_POLICY, "contents": { "source": "data:;base64,%" } }]),
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
                Ok(settings) => Ok(settings.parsed_policy()),
                Err(error) => Err(error.code()),
            };
            let parse = |text: &str| SignaturePolicy::parse(text.as_bytes()).unwrap();
            assert_eq!(got, want.map(|text| text.map(parse)), "{what}: {read:?}");
        }
    }
}
