//! Which registries may be used, and how; spelt as `image.config.openshift.io` spells it.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::CONFIG_MAP;
use super::check::is_scope;
use mosb_image::signature_policy::SignaturePolicy;
use mosb_types::Finding;

/// Registries that are allowed, blocked or insecure. Each entry is `host[:port]`, `host/namespace`,
/// `host/namespace/repository`, or `*.domain` for the hosts below it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RegistrySources {
    /// If not empty, images are only pulled from and pushed to these.
    pub allowed_registries: Vec<String>,
    /// Nothing is pulled from or pushed to these.
    pub blocked_registries: Vec<String>,
    /// For these, certificates are not checked and plain HTTP is allowed.
    pub insecure_registries: Vec<String>,
    /// The object that these lists are in, for messages. Empty for the ConfigMap.
    #[serde(skip)]
    pub object: String,
}

impl RegistrySources {
    /// What messages call one of the lists.
    pub fn list_name(&self, field: &str) -> String {
        match &*self.object {
            "" => format!("registrySources.{field} of ConfigMap {CONFIG_MAP}"),
            object => format!("spec.registrySources.{field} of {object}"),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lists().iter().all(|(_, list)| list.is_empty())
    }

    /// The lists with the names of their fields.
    pub(super) fn lists(&self) -> [(&'static str, &Vec<String>); 3] {
        [
            ("allowedRegistries", &self.allowed_registries),
            ("blockedRegistries", &self.blocked_registries),
            ("insecureRegistries", &self.insecure_registries),
        ]
    }

    /// Reads `spec.registrySources` of an Image (`config.openshift.io`).
    pub(super) fn of_cluster(image_config: &Value, findings: &mut Vec<Finding>) -> Self {
        let mut list = |field: &str| {
            let entries = image_config["spec"]["registrySources"][field].as_array();
            let mut all = Vec::new();
            for (at, entry) in entries.into_iter().flatten().enumerate() {
                match entry.as_str().filter(|text| is_scope(text)) {
                    Some(scope) => all.push(scope.to_owned()),
                    None => {
                        let message = format!(
                            "spec.registrySources.{field}[{at}] names no registry; it is left out"
                        );
                        let finding = Finding::new("odd-cluster-object", message);
                        findings.push(finding.object("Image/cluster"));
                    }
                }
            }
            all
        };
        Self {
            allowed_registries: list("allowedRegistries"),
            blocked_registries: list("blockedRegistries"),
            insecure_registries: list("insecureRegistries"),
            object: "Image cluster".to_owned(),
        }
    }
}

impl super::ClusterSettings {
    /// `signaturePolicy`, parsed.
    pub fn parsed_policy(&self) -> Option<SignaturePolicy> {
        let text = self.signature_policy.as_deref()?;
        Some(SignaturePolicy::parse(text.as_bytes()).expect("it was parsed when it was read"))
    }

    /// The images that may be pulled; `None` if all may.
    pub fn pull_policy(&self) -> Option<SignaturePolicy> {
        let policy = self.parsed_policy();
        let allowed = &self.registry_sources.allowed_registries;
        if allowed.is_empty() { policy } else { Some(policy.unwrap_or_default().only(allowed)) }
    }
}
