//! The `policy.json` that a config brings to machines: whether they may pull images from where this
//! one is pushed to, and what it brings beside that for signatures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::build_plan::BuildRequest;
use super::checks::CheckError;
use mosb_api::RenderedConfig;
use mosb_ignition::{Compression, Resource};
use mosb_image::signature_policy::{Requirement, SignaturePolicy, Verdict};
use mosb_types::Finding;

/// The policy of podman, bootc and rpm-ostree on a machine.
pub const FILE: &str = "/etc/containers/policy.json";
/// Far above the size of real policies, which have some hundred bytes per scope.
const MAX_SIZE: u64 = 1 << 20;

/// Returns a warning if machines need a signature.
///
/// # Errors
/// The policy rejects the repository, or is none, with which machines pull nothing at all.
pub(super) fn check(request: &BuildRequest) -> Result<Option<Finding>, CheckError> {
    let (Some(repo), Some(text)) = (&request.push, contents(&request.config)) else {
        return Ok(None);
    };
    let config = request.config.name().to_string();
    let policy = match SignaturePolicy::parse(&text) {
        Ok(policy) => policy,
        Err(source) => return Err(CheckError::MachinePolicy { config, source }),
    };
    let repo = repo.to_string();
    let Verdict { scope, requirement } = policy.verdict(&repo);
    match requirement {
        Requirement::Accept => Ok(None),
        Requirement::Reject => Err(CheckError::MachinesReject { config, repo, scope }),
        Requirement::Signatures(_) => {
            let message = format!(
                "{scope:?} of it requires signatures of images in {repo}: machines with this config pull the image, and the next one, only once it is signed (mosb sign)"
            );
            Ok(Some(Finding::new("machines-require-signature", message).path(FILE)))
        }
    }
}

/// The contents of the file in a config, of any spec; `None` without such a file, or if its contents
/// can't be read, which is another error of the plan.
pub fn contents(config: &RenderedConfig) -> Option<Vec<u8>> {
    let mut files = files(config);
    files.find(|file| file["path"] == FILE).and_then(bytes)
}

/// What a config brings to machines for the signatures of images: texts by their path below
/// `/etc/containers`, `policy.json` and `registries.d/NAME.yaml` (containers-registries.d(5)).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignatureFiles(BTreeMap<String, String>);

impl SignatureFiles {
    /// Those of a config. Contents that can't be read are another error of the plan.
    pub fn of(config: &RenderedConfig) -> Self {
        let found = files(config).filter_map(|file| {
            let name = file["path"].as_str()?.strip_prefix("/etc/containers/")?;
            is_name(name).then_some(())?;
            Some((name.to_owned(), String::from_utf8(bytes(file)?).ok()?))
        });
        Self(found.collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Path and text of each.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (&**name, &**text))
    }

    /// The text of `policy.json`.
    pub fn policy(&self) -> Option<&str> {
        self.0.get(POLICY).map(String::as_str)
    }

    /// Whether each path is one of such a file.
    pub fn is_valid(&self) -> bool {
        self.0.keys().all(|name| is_name(name))
    }
}

const POLICY: &str = "policy.json";

fn is_name(name: &str) -> bool {
    let is_plain = |name: &str| !name.is_empty() && !name.contains(['/', '\0']);
    let of_registries = || name.strip_prefix("registries.d/")?.strip_suffix(".yaml");
    name == POLICY || of_registries().is_some_and(is_plain)
}

fn files(config: &RenderedConfig) -> impl Iterator<Item = &Value> {
    let files = config.ignition().and_then(|config| config.pointer("/storage/files")?.as_array());
    files.into_iter().flatten()
}

fn bytes(file: &Value) -> Option<Vec<u8>> {
    let contents = &file["contents"];
    let resource = Resource {
        source: Some(contents["source"].as_str()?.to_owned()),
        compression: match contents["compression"].as_str() {
            Some("gzip") => Compression::Gzip,
            _ => Compression::None,
        },
        verification: None,
    };
    resource.bytes(MAX_SIZE).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_files_about_signatures_are_taken() {
        let file = |path: &str, text: &str| json!({ "path": path, "contents": { "source": format!("data:,{text}") } });
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": format!("rendered-worker-{}", "0".repeat(32)) },
            "spec": { "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": [
                file(FILE, "policy"),
                file("/etc/containers/registries.d/own.yaml", "own"),
                file("/etc/containers/registries.d/README", "text"),
                file("/etc/containers/registries.conf", "conf"),
                file("/etc/containers/registries.d/deep/er.yaml", "deep"),
                file("/etc/motd", "motd"),
            ] } } },
        });
        let config = RenderedConfig::from_value(config).unwrap();
        let found = SignatureFiles::of(&config);
        let want = [(POLICY, "policy"), ("registries.d/own.yaml", "own")];
        assert_eq!(found.files().collect::<Vec<_>>(), want);
        assert_eq!(found.policy(), Some("policy"));
        for (name, want) in [
            ("policy.json", true),
            ("registries.d/a.yaml", true),
            ("registries.d/.yaml", false),
            ("registries.d/../../shadow.yaml", false),
            ("../policy.json", false),
            ("registries.conf", false),
        ] {
            let read: SignatureFiles = serde_json::from_value(json!({ name: "" })).unwrap();
            assert_eq!(read.is_valid(), want, "{name}");
        }
    }
}
