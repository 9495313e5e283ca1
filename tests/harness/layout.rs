//! Writes base images for tests as OCI layouts and reads layouts. It uses no code of mosb, so that
//! mosb is not tested by itself.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::snapshot::hex;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// The compression of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    Plain,
    Gzip,
    Zstd,
}

/// The definition of an image.
#[derive(Debug, Clone)]
pub struct Image {
    layers: Vec<(Compression, Vec<u8>)>,
    labels: BTreeMap<String, String>,
    /// Of the manifest.
    annotations: BTreeMap<String, String>,
    architecture: String,
}

impl Image {
    /// An image for linux/amd64 without layers and labels.
    pub fn new() -> Self {
        Self {
            layers: Vec::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            architecture: "amd64".to_owned(),
        }
    }

    /// Adds a layer on top, from an uncompressed tar.
    pub fn layer(mut self, compression: Compression, tar: Vec<u8>) -> Self {
        self.layers.push((compression, tar));
        self
    }

    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.to_owned(), value.to_owned());
        self
    }

    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.annotations.insert(name.to_owned(), value.to_owned());
        self
    }

    pub fn architecture(mut self, name: &str) -> Self {
        self.architecture = name.to_owned();
        self
    }
}

/// An OCI image layout directory.
#[derive(Debug, Clone)]
pub struct Layout {
    pub directory: PathBuf,
}

impl Layout {
    /// An existing layout.
    pub fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Creates an empty layout.
    pub fn create(directory: &Path) -> Self {
        fs::create_dir_all(directory.join("blobs/sha256")).unwrap();
        fs::write(directory.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        let layout = Self::at(directory.to_owned());
        layout.write_index(&[]);
        layout
    }

    /// The name `oci:DIR:TAG` for command lines.
    pub fn reference(&self, tag: &str) -> String {
        format!("oci:{}:{tag}", self.directory.display())
    }

    /// Adds an image with a tag and returns the digest of the manifest.
    pub fn put(&self, tag: &str, image: &Image) -> String {
        let manifest = self.put_image(image);
        self.tag(tag, manifest)
    }

    /// Adds an index of several images with a tag and returns the digest of the index.
    pub fn put_index(&self, tag: &str, images: &[Image]) -> String {
        let manifests: Vec<_> = images
            .iter()
            .map(|image| {
                let mut descriptor = self.put_image(image);
                descriptor["platform"] = json!({"os": "linux", "architecture": image.architecture});
                descriptor
            })
            .collect();
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
        let index = self.put_blob(INDEX, index.to_string().as_bytes());
        self.tag(tag, index)
    }

    /// Adds a layer on top of the image with this tag and changes nothing else. Returns the new
    /// digest.
    pub fn append(&self, tag: &str, compression: Compression, tar: &[u8]) -> String {
        let old = self.digest(tag);
        let mut manifest = self.json(&old);
        let mut config = self.json(manifest["config"]["digest"].as_str().unwrap());
        let diff_id = format!("sha256:{}", hex(&Sha256::digest(tar)));
        push(&mut config["rootfs"]["diff_ids"], json!(diff_id));
        push(&mut config["history"], json!({"created_by": "a test"}));
        manifest["config"] = self.put_blob(CONFIG, config.to_string().as_bytes());
        let layer = self.put_blob(layer_type(compression), &compress(compression, tar));
        push(&mut manifest["layers"], layer);
        let mut index = self.index();
        index.retain(|descriptor| descriptor["digest"] != old);
        self.write_index(&index);
        self.tag(tag, self.put_blob(MANIFEST, manifest.to_string().as_bytes()))
    }

    /// Adds an image with the layers of another one, and a label of its own. Returns the digest of the
    /// manifest.
    pub fn put_child(&self, tag: &str, base: &Self, base_tag: &str, label: (&str, &str)) -> String {
        let mut manifest = base.json(&base.digest(base_tag));
        let mut config = base.json(manifest["config"]["digest"].as_str().unwrap());
        for layer in manifest["layers"].as_array().unwrap() {
            let digest = layer["digest"].as_str().unwrap();
            let to = self.blob_path(digest);
            if !to.exists() {
                fs::copy(base.blob_path(digest), to).unwrap();
            }
        }
        config["config"]["Labels"][label.0] = json!(label.1);
        manifest["config"] = self.put_blob(CONFIG, config.to_string().as_bytes());
        self.tag(tag, self.put_blob(MANIFEST, manifest.to_string().as_bytes()))
    }

    fn put_image(&self, image: &Image) -> Value {
        let (mut layers, mut diff_ids) = (Vec::new(), Vec::new());
        for (compression, tar) in &image.layers {
            diff_ids.push(format!("sha256:{}", hex(&Sha256::digest(tar))));
            let stored = compress(*compression, tar);
            layers.push(self.put_blob(layer_type(*compression), &stored));
        }
        let config = json!({
            "created": "1970-01-01T00:00:00Z",
            "architecture": image.architecture,
            "os": "linux",
            "config": {"Labels": image.labels},
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": vec![json!({"created_by": "a test"}); diff_ids.len()],
        });
        let mut manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.put_blob(CONFIG, config.to_string().as_bytes()),
            "layers": layers,
        });
        if !image.annotations.is_empty() {
            manifest["annotations"] = json!(image.annotations);
        }
        self.put_blob(MANIFEST, manifest.to_string().as_bytes())
    }

    fn put_blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = format!("sha256:{}", hex(&Sha256::digest(bytes)));
        fs::write(self.blob_path(&digest), bytes).unwrap();
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }

    fn tag(&self, tag: &str, mut descriptor: Value) -> String {
        let digest = descriptor["digest"].as_str().unwrap().to_owned();
        descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
        let mut index = self.index();
        index.push(descriptor);
        self.write_index(&index);
        digest
    }

    fn write_index(&self, manifests: &[Value]) {
        let index = json!({"schemaVersion": 2, "manifests": manifests});
        fs::write(self.directory.join("index.json"), index.to_string()).unwrap();
    }

    /// The descriptors in `index.json`.
    pub fn index(&self) -> Vec<Value> {
        let index = fs::read(self.directory.join("index.json")).unwrap();
        let index: Value = serde_json::from_slice(&index).unwrap();
        index["manifests"].as_array().unwrap().clone()
    }

    /// The digest of a tag.
    #[track_caller]
    pub fn digest(&self, tag: &str) -> String {
        let index = self.index();
        let found = index
            .iter()
            .find(|found| found["annotations"]["org.opencontainers.image.ref.name"] == tag)
            .unwrap_or_else(|| panic!("no tag {tag} among {index:?}"));
        found["digest"].as_str().unwrap().to_owned()
    }

    /// A JSON blob, such as a manifest or a config.
    #[track_caller]
    pub fn json(&self, digest: &str) -> Value {
        serde_json::from_slice(&fs::read(self.blob_path(digest)).unwrap()).unwrap()
    }

    /// The path of a blob.
    pub fn blob_path(&self, digest: &str) -> PathBuf {
        self.directory.join("blobs").join(digest.replacen(':', "/", 1))
    }

    /// The uncompressed tars of an image's layers, lowest first.
    #[track_caller]
    pub fn layers(&self, tag: &str) -> Vec<Box<dyn Read>> {
        let manifest = self.json(&self.digest(tag));
        let layers = manifest["layers"].as_array().unwrap();
        layers.iter().map(|layer| self.unpacked(layer)).collect()
    }

    fn unpacked(&self, layer: &Value) -> Box<dyn Read> {
        let blob = File::open(self.blob_path(layer["digest"].as_str().unwrap())).unwrap();
        let media_type = layer["mediaType"].as_str().unwrap();
        if media_type.ends_with("gzip") {
            Box::new(GzDecoder::new(blob))
        } else if media_type.ends_with("zstd") {
            Box::new(zstd::Decoder::new(blob).unwrap())
        } else {
            Box::new(blob)
        }
    }
}

fn push(list: &mut Value, value: Value) {
    list.as_array_mut().expect("a list").push(value);
}

fn layer_type(compression: Compression) -> &'static str {
    match compression {
        Compression::Plain => "application/vnd.oci.image.layer.v1.tar",
        Compression::Gzip => "application/vnd.oci.image.layer.v1.tar+gzip",
        Compression::Zstd => "application/vnd.oci.image.layer.v1.tar+zstd",
    }
}

fn compress(compression: Compression, tar: &[u8]) -> Vec<u8> {
    match compression {
        Compression::Plain => tar.to_owned(),
        Compression::Gzip => {
            let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(tar).unwrap();
            gzip.finish().unwrap()
        }
        Compression::Zstd => zstd::encode_all(tar, 1).unwrap(),
    }
}
