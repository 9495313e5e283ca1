//! Assembles buildah's result and the base into one image: the base's layers as its registry has
//! them, the others recompressed.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::error::Error;
use mosb_image::edit::annotate_base;
use mosb_image::media_type::{
    DOCKER_LAYER, DOCKER_LAYER_GZIP, DOCKER_LAYER_ZSTD, OCI_CONFIG, OCI_LAYER, OCI_LAYER_GZIP,
    OCI_LAYER_ZSTD, OCI_MANIFEST,
};
use mosb_image::{DiffId, Digest};
use mosb_plan::plan::Base;
use mosb_types::canonical_json;

/// Docker's types of layers, and OCI's for the same bytes.
const DOCKER_LAYERS: [(&str, &str); 3] = [
    (DOCKER_LAYER_GZIP, OCI_LAYER_GZIP),
    (DOCKER_LAYER_ZSTD, OCI_LAYER_ZSTD),
    (DOCKER_LAYER, OCI_LAYER),
];

/// Fields of a config that the OCI image spec and Docker's own config know, so that buildah decides
/// about them.
const KNOWN: [&str; 10] = [
    "created",
    "author",
    "architecture",
    "os",
    "os.version",
    "os.features",
    "variant",
    "config",
    "rootfs",
    "history",
];
const KNOWN_CONFIG: [&str; 12] = [
    "User",
    "ExposedPorts",
    "Env",
    "Entrypoint",
    "Cmd",
    "Volumes",
    "WorkingDir",
    "Labels",
    "StopSignal",
    "ArgsEscaped",
    "OnBuild",
    "Image",
];

/// An image ready to be pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    pub manifest: Vec<u8>,
    pub media_type: &'static str,
    pub config: Vec<u8>,
    /// How many of the lowest layers are the base's; they are read from the base's source.
    pub base_layers: usize,
    pub layers: Vec<NewLayer>,
}

/// A gzip layer that the base doesn't have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewLayer {
    /// Digest of the compressed bytes.
    pub digest: Digest,
    /// Size of the compressed bytes.
    pub size: u64,
    /// Digest of the uncompressed tar.
    pub diff_id: DiffId,
}

impl Assembled {
    /// Digest of the manifest, which is the image's.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.manifest)
    }

    /// Digest of the config blob.
    pub fn config_digest(&self) -> Digest {
        Digest::of(&self.config)
    }
}

/// How many leading layers of a built config are the base's.
pub(super) fn shared(base: &Base, diff_ids: &[DiffId]) -> usize {
    let pairs = base.config.diff_ids.iter().zip(diff_ids);
    pairs.take_while(|(ours, theirs)| ours == theirs).count()
}

/// Replaces the base's layers in a built image by the base's own descriptors, and the layers above
/// by `layers`. `annotations` say which base that is; an image that the administrator's
/// Containerfile made of something else gets none.
///
/// # Errors
/// A config without `rootfs.diff_ids`, or with another number of layers.
pub fn assemble(
    base: &Base,
    config: &Value,
    layers: Vec<NewLayer>,
    annotations: &BTreeMap<String, String>,
) -> Result<Assembled, Error> {
    let diff_ids = diff_ids(config)?;
    let kept = shared(base, &diff_ids);
    if diff_ids.len() != kept + layers.len() {
        return Err(output(format!(
            "{} layers, and {} of them are there",
            diff_ids.len(),
            kept + layers.len()
        )));
    }
    let on_base = kept == base.config.diff_ids.len();
    let mut config = config.clone();
    let all: Vec<_> =
        diff_ids[..kept].iter().copied().chain(layers.iter().map(|layer| layer.diff_id)).collect();
    config["rootfs"]["diff_ids"] = json!(all);
    remove_from_comments(&base.config.raw, &mut config);
    if on_base {
        carry_over(&base.config.raw, &mut config, &KNOWN);
        if let Some(inner) = config.get_mut("config") {
            carry_over(&base.config.raw["config"], inner, &KNOWN_CONFIG);
        }
    }
    let config = canonical_json(&config);
    let mut manifest = if on_base { base.manifest.clone() } else { Value::Object(Map::new()) };
    let below =
        base.manifest.get("layers").and_then(Value::as_array).into_iter().flatten().take(kept);
    let above = layers.iter().map(
        |layer| json!({ "mediaType": OCI_LAYER_GZIP, "digest": layer.digest, "size": layer.size }),
    );
    manifest["layers"] = below.map(as_oci).chain(above).collect();
    manifest["schemaVersion"] = json!(2);
    manifest["mediaType"] = json!(OCI_MANIFEST);
    if on_base {
        annotate_base(&mut manifest, annotations);
    }
    manifest["config"] =
        json!({ "mediaType": OCI_CONFIG, "digest": Digest::of(&config), "size": config.len() });
    Ok(Assembled {
        manifest: canonical_json(&manifest),
        media_type: OCI_MANIFEST,
        config,
        base_layers: kept,
        layers,
    })
}

/// Copies the base's fields that buildah does not know.
fn carry_over(base: &Value, built: &mut Value, known: &[&str]) {
    let (Some(base), Some(built)) = (base.as_object(), built.as_object_mut()) else {
        return;
    };
    for (key, value) in base.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
        built.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

/// Removes the comments `FROM IMAGE` that buildah added to the history. It names an image there as its
/// store does: by ID or by a temporary tag, which differs between equal builds.
///
/// A comment that the base has stays, wherever its entry is: buildah may add entries to the base's
/// history, and drops it if the last stage is of another image.
fn remove_from_comments(base: &Value, built: &mut Value) {
    let of_base = base["history"].as_array().into_iter().flatten();
    let of_base: Vec<_> = of_base.filter_map(|entry| entry.get("comment")).collect();
    let is_buildahs = |comment: &Value| {
        let text = comment.as_str().unwrap_or_default();
        text.starts_with("FROM ") && !of_base.contains(&comment)
    };
    let history = built.get_mut("history").and_then(Value::as_array_mut).into_iter().flatten();
    for entry in history.filter_map(Value::as_object_mut) {
        if entry.get("comment").is_some_and(is_buildahs) {
            entry.remove("comment");
        }
    }
}

fn as_oci(descriptor: &Value) -> Value {
    let mut descriptor = descriptor.clone();
    let media_type = descriptor.get("mediaType").and_then(Value::as_str);
    let oci = DOCKER_LAYERS.iter().find(|(docker, _)| Some(*docker) == media_type);
    if let Some((_, oci)) = oci {
        descriptor["mediaType"] = json!(oci);
    }
    descriptor
}

pub(super) fn output(problem: String) -> Error {
    Error::Output(problem)
}

pub(super) fn diff_ids(config: &Value) -> Result<Vec<DiffId>, Error> {
    let ids = config.pointer("/rootfs/diff_ids").cloned().unwrap_or_default();
    serde_json::from_value(ids)
        .map_err(|e| output(format!("its rootfs.diff_ids are not digests ({e})")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_plan::plan::BaseName;
    use mosb_types::Diagnostic as _;

    fn base(media_type: &str) -> Base {
        let config = json!({
            "os": "linux", "architecture": "amd64", "vendor": 1,
            "config": { "Healthcheck": { "Test": ["NONE"] }, "Cmd": ["gone"] },
            "rootfs": { "type": "layers", "diff_ids": [DiffId::of(b"1"), DiffId::of(b"2")] },
        });
        let layer = |n: u8| json!({ "mediaType": media_type, "digest": Digest::of(&[n]), "size": 7, "annotations": { "a": "b" } });
        let manifest = json!({ "schemaVersion": 2, "mediaType": "x", "annotations": { "kept": "yes", "org.opencontainers.image.base.name": "its own" }, "layers": [layer(1), layer(2)] });
        let (manifest, config) = (manifest.to_string(), config.to_string());
        let name = BaseName::from_layout(Digest::of(b""));
        Base::new(name, "oci:x".to_owned(), None, manifest.as_bytes(), config.as_bytes()).unwrap()
    }

    fn built(diff_ids: &[&[u8]]) -> Value {
        let diff_ids: Vec<_> = diff_ids.iter().map(|bytes| DiffId::of(bytes)).collect();
        json!({ "config": { "Env": ["A=b"] }, "rootfs": { "type": "layers", "diff_ids": diff_ids } })
    }

    fn new(n: u8) -> NewLayer {
        NewLayer { digest: Digest::of(&[n, n]), size: 9, diff_id: DiffId::of(&[n, n]) }
    }

    #[test]
    fn leading_layers_of_base_are_its_own_descriptors() {
        let name = "org.opencontainers.image.base.name";
        let ours = BTreeMap::from([(name.to_owned(), "ours".to_owned())]);
        for (what, diff_ids, layers, kept, want) in [
            ("on the base", &[b"1" as &[u8], b"2", b"3"][..], vec![new(3)], 2, 3),
            ("nothing added", &[b"1", b"2"], vec![], 2, 2),
            ("two added, one like a base's", &[b"1", b"2", b"3", b"2"], vec![new(3), new(2)], 2, 4),
            ("another base", &[b"9", b"2"], vec![new(9), new(2)], 0, 2),
            ("forked", &[b"1", b"3"], vec![new(3)], 1, 2),
        ] {
            let made = assemble(
                &base("application/vnd.docker.image.rootfs.diff.tar.gzip"),
                &built(diff_ids),
                layers,
                &ours,
            )
            .unwrap();
            let manifest: Value = serde_json::from_slice(&made.manifest).unwrap();
            let config: Value = serde_json::from_slice(&made.config).unwrap();
            assert_eq!(made.base_layers, kept, "{what}");
            let descriptors = manifest["layers"].as_array().unwrap();
            assert_eq!(descriptors.len(), want, "{what}");
            assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), want, "{what}");
            assert!(descriptors.iter().all(|d| d["mediaType"] == OCI_LAYER_GZIP), "{what}");
            assert_eq!(
                descriptors[..kept].iter().filter(|d| d["annotations"]["a"] == "b").count(),
                kept,
                "{what}"
            );
            assert_eq!(manifest["config"]["digest"], json!(made.config_digest()), "{what}");
            let annotations = (kept == 2).then(|| json!({ "kept": "yes", name: "ours" }));
            assert_eq!(manifest.get("annotations"), annotations.as_ref(), "{what}");
            assert_eq!(config.get("vendor").is_some(), kept == 2, "{what}");
            assert_eq!(config["config"].get("Healthcheck").is_some(), kept == 2, "{what}");
            assert!(config["config"].get("Cmd").is_none(), "{what}");
        }
    }

    #[test]
    fn the_history_of_equal_builds_is_equal() {
        let mut base = base(OCI_LAYER_GZIP);
        let of_base = json!({ "created_by": "base", "comment": "FROM scratch" });
        base.config.raw["history"] = json!([of_base]);
        let administrators = json!({ "created_by": "LABEL", "comment": "the administrator's" });
        let added =
            |name: &str| json!({ "created_by": "RUN true", "comment": format!("FROM {name}") });
        let kept = json!({ "created_by": "RUN true" });
        let missing = json!({ "created_by": "buildah" });
        for (what, before, want) in [
            ("on the base's", vec![of_base.clone()], vec![of_base.clone()]),
            (
                "an entry before the base's",
                vec![missing.clone(), of_base.clone()],
                vec![missing, of_base],
            ),
            ("without the base's", vec![], vec![]),
            ("of another image", vec![added("elsewhere:1")], vec![kept.clone()]),
        ] {
            for name in ["286788468c02", "docker.io/library/x-tmp:latest"] {
                let mut config = built(&[b"1", b"2", b"3"]);
                let above = [added(name), administrators.clone()];
                config["history"] = before.iter().cloned().chain(above).collect();
                let made = assemble(&base, &config, vec![new(3)], &BTreeMap::new()).unwrap();
                let config: Value = serde_json::from_slice(&made.config).unwrap();
                let above = [kept.clone(), administrators.clone()];
                let want: Value = want.iter().cloned().chain(above).collect();
                assert_eq!(config["history"], want, "{what}, {name}");
            }
        }
    }

    #[test]
    fn layers_that_do_not_add_up_are_refused() {
        let base = base(OCI_LAYER_GZIP);
        for (what, config, layers) in [
            ("one short", built(&[b"1", b"2", b"3"]), vec![]),
            ("one over", built(&[b"1", b"2"]), vec![new(3)]),
            ("no digests", json!({ "rootfs": { "diff_ids": ["x"] } }), vec![]),
            ("none", json!({}), vec![new(3)]),
        ] {
            let error = assemble(&base, &config, layers, &BTreeMap::new()).unwrap_err();
            assert_eq!(error.code(), "bad-build-output", "{what}");
        }
    }
}
