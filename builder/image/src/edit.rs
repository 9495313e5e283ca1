//! Adds a layer to a base's manifest and config, and changes nothing else.
//!
//! Both are edited as JSON values and written as canonical JSON: structs would drop fields that
//! they don't know (`Healthcheck`, `Shell`, vendors' own).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::digest::{DiffId, Digest};
use super::media_type::{
    DOCKER_CONFIG, DOCKER_LAYER_GZIP, DOCKER_MANIFEST, OCI_CONFIG, OCI_LAYER_GZIP, OCI_MANIFEST,
};
use mosb_types::canonical_value;

/// The creation time of an image whose base has none: equal inputs make equal images at any time.
const NO_TIME: &str = "1970-01-01T00:00:00Z";

/// A gzip layer to add.
#[derive(Debug, Clone)]
pub struct NewLayer {
    /// Digest of the compressed bytes.
    pub digest: Digest,
    /// Count of the compressed bytes.
    pub size: u64,
    /// Digest of the uncompressed tar.
    pub diff_id: DiffId,
    /// The text in `history`.
    pub created_by: String,
}

/// The manifest and config to push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// Bytes of the manifest.
    pub manifest: Vec<u8>,
    /// Media type of the manifest: the base's.
    pub media_type: String,
    pub config: Vec<u8>,
}

impl Edited {
    /// Digest of the manifest, which is the image's.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.manifest)
    }

    /// Digest of the config blob.
    pub fn config_digest(&self) -> Digest {
        Digest::of(&self.config)
    }
}

/// Adds a layer and labels to an image, and annotations about the base to its manifest. The base's
/// labels remain unless they have the same key.
///
/// The base must have been checked: `layers` and `rootfs.diff_ids` are lists of the same length.
pub fn append_layer(
    manifest: &Value,
    config: &Value,
    layer: &NewLayer,
    labels: &BTreeMap<String, String>,
    base: &BTreeMap<String, String>,
) -> Edited {
    let [media_type, layer_type, config_type] = if is_docker(manifest) {
        [DOCKER_MANIFEST, DOCKER_LAYER_GZIP, DOCKER_CONFIG]
    } else {
        [OCI_MANIFEST, OCI_LAYER_GZIP, OCI_CONFIG]
    };

    let mut config = config.clone();
    push(object(&mut config, "rootfs"), "diff_ids", json!(layer.diff_id));
    let created = config.get("created").and_then(Value::as_str).unwrap_or(NO_TIME).to_owned();
    let history = json!({ "created": created, "created_by": layer.created_by });
    if history_is_whole(&config, manifest) {
        push(&mut config, "history", history);
    }
    let all = object(object(&mut config, "config"), "Labels");
    for (key, value) in labels {
        all[key] = json!(value);
    }
    let config = canonical_value(&config);

    let mut manifest = manifest.clone();
    manifest["mediaType"] = json!(media_type);
    annotate_base(&mut manifest, base);
    let descriptor = object(&mut manifest, "config");
    descriptor["digest"] = json!(Digest::of(&config));
    descriptor["size"] = json!(config.len());
    if descriptor.get("mediaType").is_none() {
        descriptor["mediaType"] = json!(config_type);
    }
    // A descriptor may have its content inline, which is that of the base's config.
    if let Some(fields) = descriptor.as_object_mut() {
        fields.remove("data");
    }
    push(
        &mut manifest,
        "layers",
        json!({ "mediaType": layer_type, "digest": layer.digest, "size": layer.size }),
    );
    Edited { manifest: canonical_value(&manifest), media_type: media_type.to_owned(), config }
}

/// Whether the history has an entry for each layer: only then another entry is attributed to the
/// new layer.
fn history_is_whole(config: &Value, manifest: &Value) -> bool {
    let list = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let of_layers = list(config, "history")
        .into_iter()
        .filter(|entry| entry.get("empty_layer") != Some(&json!(true)));
    of_layers.count() == list(manifest, "layers").len()
}

/// Whether a manifest is one of Docker, which has no annotations.
pub fn is_docker(manifest: &Value) -> bool {
    manifest.get("mediaType").and_then(Value::as_str) == Some(DOCKER_MANIFEST)
}

/// Replaces the annotations about the base's own base by those about the image's base.
pub fn annotate_base(manifest: &mut Value, base: &BTreeMap<String, String>) {
    if let Some(annotations) = manifest.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !key.starts_with("org.opencontainers.image.base."));
    }
    for (key, value) in base {
        object(manifest, "annotations")[key] = json!(value);
    }
}

/// The object at a key; it is created if there is none.
fn object<'v>(value: &'v mut Value, key: &str) -> &'v mut Value {
    if !value.get(key).is_some_and(Value::is_object) {
        value[key] = Value::Object(Map::new());
    }
    &mut value[key]
}

fn push(value: &mut Value, key: &str, item: Value) {
    match value.get_mut(key).and_then(Value::as_array_mut) {
        Some(items) => items.push(item),
        None => value[key] = json!([item]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer() -> NewLayer {
        NewLayer {
            digest: Digest::of(b"gz"),
            size: 2,
            diff_id: DiffId::of(b"tar"),
            created_by: "mosb".to_owned(),
        }
    }

    #[test]
    fn unknown_fields_are_preserved() {
        let config = json!({
            "os": "linux", "architecture": "amd64", "created": "2024-05-01T00:00:00Z", "vendor": { "b": 1, "a": [null] },
            "config": { "Healthcheck": { "Test": ["NONE"] }, "Labels": { "ostree.commit": "abc", "version": "40" } },
            "rootfs": { "type": "layers", "diff_ids": [DiffId::of(b"base")] },
            "history": [{ "created_by": "base", "comment": "x" }],
        });
        let manifest = json!({
            "schemaVersion": 2, "other": 1.5,
            "annotations": { "ostree.version": "40", "org.opencontainers.image.base.name": "its own" },
            "config": { "mediaType": OCI_CONFIG, "digest": Digest::of(b"x"), "size": 1, "data": "eA==" },
            "layers": [{ "mediaType": OCI_LAYER_GZIP, "digest": Digest::of(b"base"), "size": 4, "annotations": { "a": "b" } }],
        });
        let labels = BTreeMap::from([
            ("machineconfig".to_owned(), "rendered".to_owned()),
            ("version".to_owned(), "41".to_owned()),
        ]);
        let base = BTreeMap::from([(
            "org.opencontainers.image.base.digest".to_owned(),
            "sha256:ours".to_owned(),
        )]);
        let edited = append_layer(&manifest, &config, &layer(), &labels, &base);

        let mut want = config.clone();
        want["config"]["Labels"] =
            json!({ "ostree.commit": "abc", "version": "41", "machineconfig": "rendered" });
        want["rootfs"]["diff_ids"] = json!([DiffId::of(b"base"), DiffId::of(b"tar")]);
        want["history"] = json!([
            { "created_by": "base", "comment": "x" },
            { "created": "2024-05-01T00:00:00Z", "created_by": "mosb" },
        ]);
        assert_eq!(serde_json::from_slice::<Value>(&edited.config).unwrap(), want);

        let mut want = manifest.clone();
        want["mediaType"] = json!(OCI_MANIFEST);
        want["annotations"] = json!({ "ostree.version": "40",
            "org.opencontainers.image.base.digest": "sha256:ours" });
        want["config"] = json!({ "mediaType": OCI_CONFIG, "digest": edited.config_digest(), "size": edited.config.len() });
        want["layers"] = json!([
            manifest["layers"][0],
            { "mediaType": OCI_LAYER_GZIP, "digest": Digest::of(b"gz"), "size": 2 },
        ]);
        assert_eq!(serde_json::from_slice::<Value>(&edited.manifest).unwrap(), want);
        assert_eq!(append_layer(&manifest, &config, &layer(), &labels, &base), edited);
    }

    #[test]
    fn docker_image_stays_one_and_gaps_are_filled() {
        let manifest = json!({ "mediaType": DOCKER_MANIFEST, "config": {}, "layers": [] });
        let edited = append_layer(
            &manifest,
            &json!({ "config": null, "history": null }),
            &layer(),
            &BTreeMap::new(),
            &BTreeMap::new(),
        );
        assert_eq!(edited.media_type, DOCKER_MANIFEST);
        let manifest: Value = serde_json::from_slice(&edited.manifest).unwrap();
        assert_eq!(manifest.pointer("/layers/0/mediaType"), Some(&json!(DOCKER_LAYER_GZIP)));
        assert_eq!(manifest.pointer("/config/mediaType"), Some(&json!(DOCKER_CONFIG)));
        let config: Value = serde_json::from_slice(&edited.config).unwrap();
        assert_eq!(config.pointer("/history/0/created"), Some(&json!(NO_TIME)));
    }

    #[test]
    fn incomplete_history_stays_as_it_is() {
        let manifest = json!({ "layers": [{}, {}] });
        for (history, want) in [
            (json!(null), json!(null)),
            (json!([{}]), json!([{}])),
            (json!([{}, { "empty_layer": true }]), json!([{}, { "empty_layer": true }])),
        ] {
            let config = json!({ "history": history });
            let edited =
                append_layer(&manifest, &config, &layer(), &BTreeMap::new(), &BTreeMap::new());
            let config: Value = serde_json::from_slice(&edited.config).unwrap();
            assert_eq!(config["history"], want);
        }
    }
}
