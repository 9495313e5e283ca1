//! The inputs of a build in a pod, as one JSON document.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Error;
use crate::plan::{BaseName, BuilderNodes};
use mosb_api::{BuildName, BuildOn};
use mosb_image::{Digest, PinnedRef, Platform, RepoRef};

/// Key of the document in the first ConfigMap of the rendered config.
pub const BUILD_SPEC_KEY: &str = "build.json";

/// The inputs of a build: the controller writes them, and every container of its pod reads them. They
/// name no Secret, and what the pod has beside them, such as its user, is in its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BuildSpec {
    /// [`BuildSpec::FORMAT`] of the version that wrote it.
    pub format: u32,
    pub build: BuildName,
    /// Where the Job, its pod and its result are.
    pub namespace: String,
    /// The mount of the rendered config: its ConfigMaps in folders 0, 1, …, or one ConfigMap.
    pub machine_config: PathBuf,
    /// The mount of the administrator's Containerfile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containerfile: Option<PathBuf>,
    /// The mount of the certificates (PEM) for the trust store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust_bundle: Option<PathBuf>,
    pub base: PinnedRef,
    /// The base in labels.
    pub base_name: BaseName,
    /// Only there if the build needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions_image: Option<PinnedRef>,
    pub platform: Platform,
    /// The repository that the image is pushed to.
    pub push: RepoRef,
    /// ARGs of the Containerfile.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub build_args: BTreeMap<String, String>,
    pub build_on: BuildOn,
    /// Where the images of the pool are built, and so its prepared bases.
    pub nodes: BuilderNodes,
    /// The image with the base's tree, if one is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_tree: Option<PinnedRef>,
    pub prepared: PreparedImageUse,
    /// The image in service, if this build is on something else and that one's tree is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_service: Option<ImageInService>,
}

/// The image in service, with which a pod compares the OS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageInService {
    pub image: Digest,
    /// What its layer is on: its base, or a prepared base.
    pub on: Digest,
    /// The image with the tree of that.
    pub tree: PinnedRef,
}

/// What a pod has to do with a prepared base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum PreparedImageUse {
    /// Nothing.
    Without,
    /// It makes one, and the image on it.
    Make,
    /// It makes the image on this one.
    On {
        image: PinnedRef,
        /// The image with its tree, if one is recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<PinnedRef>,
    },
}

impl BuildSpec {
    /// Raised with every change of the fields or of their meaning: a Job is annotated with the format
    /// that its containers read, and is replaced if the controller writes another one.
    pub const FORMAT: u32 = 2;

    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("paths of mounts are text")
    }

    /// Reads the document of this file.
    ///
    /// # Errors
    /// Another format, or not the inputs of a build.
    pub fn from_json(file: &str, bytes: &[u8]) -> Result<Self, Error> {
        /// The fields of another format are unknown.
        #[derive(Deserialize)]
        struct AnyFormat {
            format: u32,
        }
        let wrong = |problem: String| Error::BuildSpec { file: file.to_owned(), problem };
        let AnyFormat { format } = serde_json::from_slice(bytes)
            .map_err(|source| wrong(format!("not the inputs of a build: {source}")))?;
        if format != Self::FORMAT {
            let ours = Self::FORMAT;
            return Err(wrong(format!("format {format}, and this mosb reads format {ours}")));
        }
        serde_json::from_slice(bytes)
            .map_err(|source| wrong(format!("not the inputs of a build: {source}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_types::Diagnostic as _;
    use serde_json::{Value, json};

    fn document() -> Value {
        let image = |name: &str| format!("quay.io/acme/{name}@sha256:{}", "1".repeat(64));
        json!({
            "format": 2, "build": format!("worker-{}", "0".repeat(32)), "namespace": "mosb-system",
            "machineConfig": "/run/mosb/machine-config",
            "containerfile": "/run/mosb/containerfile/Containerfile",
            "base": image("os"), "baseName": "quay.io/acme/os:stable", "platform": "linux/amd64",
            "push": "registry.example:5000/os/images", "buildArgs": { "A": "$(B) 1" },
            "buildOn": "every-config", "nodes": "control-plane",
            "prepared": { "on": { "image": image("prepared"), "tree": image("tree") } },
            "inService": { "image": Digest::of(b"image"), "on": Digest::of(b"os"), "tree": image("tree") },
        })
    }

    fn read(document: &Value) -> Result<BuildSpec, Error> {
        BuildSpec::from_json("build.json", document.to_string().as_bytes())
    }

    #[test]
    fn written_and_read_it_is_the_same() {
        for prepared in [document()["prepared"].clone(), json!("make"), json!("without")] {
            let mut document = document();
            document["prepared"] = prepared;
            let spec = read(&document).unwrap();
            let text = spec.to_json();
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
            assert_eq!(BuildSpec::from_json("build.json", text.as_bytes()).unwrap(), spec);
        }
    }

    #[test]
    fn other_documents_are_rejected() {
        type Change = fn(&mut Value);
        for (what, change, want) in [
            ("of a later version", (|d| d["format"] = json!(3)) as Change, "reads format 2"),
            ("without a format", |d| drop(d.as_object_mut().unwrap().remove("format")), "`format`"),
            ("with another field", |d| d["sign"] = json!("key"), "unknown field `sign`"),
            ("with another field inside", |d| d["prepared"]["on"]["x"] = json!(1), "`x`"),
            ("without a base", |d| drop(d.as_object_mut().unwrap().remove("base")), "`base`"),
            ("on a base without a digest", |d| d["base"] = json!("quay.io/os:1"), "quay.io/os:1"),
            ("not an object", |d| *d = json!("x"), "not the inputs of a build"),
        ] {
            let mut document = document();
            change(&mut document);
            let error = read(&document).unwrap_err();
            assert_eq!(error.code(), "build-spec", "{what}");
            let text = error.to_string();
            assert!(text.starts_with("build.json: ") && text.contains(want), "{what}: {text}");
        }
    }
}
