//! What `mosb build` prints: the image that was pushed, or the prepared base.

use schemars::JsonSchema;
use serde::Serialize;

use super::signer::SignedFor;
use super::verified_image::VerifiedImage;
use crate::output::Object;
use crate::page::{Page, count, size};
use mosb_image::Digest;
use mosb_plan::plan::Base;
use mosb_registry::{Destination, Pushed};
use mosb_types::Finding;

/// A built image, whose digest the target has confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildResult {
    /// Name of the rendered MachineConfig.
    pub rendered_config: String,
    /// Name of its pool.
    pub pool: String,
    /// `repo@digest`, or `oci:DIR@digest`.
    pub image: String,
    /// The tags of the image: the rendered name, the build name.
    pub tags: Vec<String>,
    /// Digest of the manifest.
    pub digest: String,
    /// With `--sign-key`: it was read back from the registry and verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed: Option<SignedFor>,
    /// `direct`, `prepared`, `last-part` or `containerfile`.
    pub method: String,
    /// Why the method is not `direct`; else empty.
    pub reasons: Vec<Finding>,
    /// The image with what is run before the config is written, if the method is `prepared` or
    /// `last-part`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepared: Option<PreparedUse>,
    /// The base.
    pub base: PinnedBase,
    /// The images whose signatures a policy requires.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub verified: Vec<VerifiedImage>,
    /// The tree of the base, or of the prepared base, if it was needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_tree: Option<BaseTreeUse>,
    /// The layer that was added to the base, or to the prepared base, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<LayerInfo>,
    /// SHA-256 of all inputs of the image: 64 hex digits, also in its label `mosb.dev/inputs`.
    pub inputs: String,
    /// Bytes of pulled manifests and blobs.
    pub bytes_pulled: u64,
    /// Bytes of pushed manifests and blobs.
    pub bytes_pushed: u64,
    /// From start to end.
    pub duration_millis: u64,
    /// Warnings about the image.
    pub warnings: Vec<Finding>,
}

/// A base, pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinnedBase {
    /// Where it was read: `repo@digest`, or `oci:DIR@digest`.
    pub image: String,
    /// Digest of its manifest.
    pub manifest: String,
    /// Digest of the index that names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
}

/// An image with what must be run, and nothing of the rest of the config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreparedUse {
    /// SHA-256 of its inputs: 64 hex digits, also in its label `mosb.dev/prepared-inputs`.
    pub inputs: String,
    /// `repo@digest`, or `oci:DIR@digest`; absent in a plan if it must be made first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Whether it was there before.
    pub reused: bool,
}

/// The base tree that a build used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaseTreeUse {
    /// Digest of the tree.
    pub digest: String,
    /// Where it came from.
    pub source: TreeSource,
}

/// Where a base tree came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TreeSource {
    /// From the cache on this machine.
    Cache,
    /// The base's layers were read.
    Computed,
}

/// The one layer that was added to the base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LayerInfo {
    /// Digest of the blob.
    pub digest: String,
    /// Digest of the unpacked layer.
    pub diff_id: String,
    /// Bytes of the blob.
    pub size: u64,
    /// The number of paths that it adds, changes or removes; only direct builds count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<usize>,
}

impl PinnedBase {
    /// The base as it was resolved.
    pub fn new(base: &Base) -> Self {
        Self {
            image: base.image.clone(),
            manifest: base.manifest_digest.to_string(),
            index: base.index.map(|digest| digest.to_string()),
        }
    }
}

impl BaseTreeUse {
    /// The use of a tree with this digest.
    pub fn new(digest: Digest, source: TreeSource) -> Self {
        Self { digest: digest.to_string(), source }
    }
}

/// A prepared base, whose digest the target has confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrepareResult {
    /// `repo@digest`, or `oci:DIR@digest`: the value of `--prepared`.
    pub image: String,
    /// Its tag.
    pub tag: String,
    /// Digest of the manifest.
    pub digest: String,
    /// With `--sign-key`: it was read back from the registry and verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed: Option<SignedFor>,
    /// SHA-256 of its inputs: 64 hex digits, also in its label `mosb.dev/prepared-inputs`.
    pub inputs: String,
    /// Why something must be run.
    pub reasons: Vec<Finding>,
    /// The base.
    pub base: PinnedBase,
    /// The images whose signatures a policy requires.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub verified: Vec<VerifiedImage>,
    /// Bytes of pulled manifests and blobs.
    pub bytes_pulled: u64,
    /// Bytes of pushed manifests and blobs.
    pub bytes_pushed: u64,
    /// From start to end.
    pub duration_millis: u64,
    /// Warnings about the image.
    pub warnings: Vec<Finding>,
}

impl Object for BuildResult {
    const KIND: &'static str = "BuildResult";

    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&format!("Built {} (pool {})", self.rendered_config, self.pool));
        let layer = self.layer.as_ref().map(|layer| {
            let paths = layer.paths.map(|paths| format!(", {}", count(paths, "path")));
            format!("{} ({}{})", layer.digest, size(layer.size), paths.unwrap_or_default())
        });
        let tree = self.base_tree.as_ref().map(|tree| match tree.source {
            TreeSource::Cache => "from the cache",
            TreeSource::Computed => "read from the base's layers, and kept for the next build",
        });
        let prepared = self.prepared.as_ref().and_then(|prepared| {
            let image = prepared.image.as_ref()?;
            Some(format!("{image} ({})", if prepared.reused { "reused" } else { "made" }))
        });
        let names = self.signed.as_ref().map(SignedFor::names);
        page.section("Image");
        page.pairs(&[
            ("image", Some(&self.image)),
            ("tag", self.tags.first().map(String::as_str)),
            ("tag that stays", self.tags.get(1).map(String::as_str)),
            ("inputs", Some(&self.inputs)),
            ("signed by", self.signed.as_ref().map(|signed| &*signed.key)),
            ("signed for", names.as_deref()),
        ]);
        page.section("How");
        page.pairs(&[
            ("method", Some(&self.method)),
            ("base", Some(&self.base.image)),
            ("prepared base", prepared.as_deref()),
            ("base tree", tree),
            ("layer", layer.as_deref()),
            ("moved", Some(&transferred(self.bytes_pulled, self.bytes_pushed))),
            ("took", Some(&seconds(self.duration_millis))),
        ]);
        VerifiedImage::section(&self.verified, &mut page);
        for (headline, findings) in
            [("Why not directly", &self.reasons), ("Warnings", &self.warnings)]
        {
            if !findings.is_empty() {
                page.section(headline);
                page.findings(findings);
            }
        }
        page.into_text()
    }
}

impl Object for PrepareResult {
    const KIND: &'static str = "PrepareResult";

    fn text(&self) -> String {
        let mut page = Page::default();
        page.line("Prepared base");
        let names = self.signed.as_ref().map(SignedFor::names);
        page.section("Image, for --prepared");
        page.pairs(&[
            ("image", Some(&self.image)),
            ("tag", Some(&self.tag)),
            ("inputs", Some(&self.inputs)),
            ("signed by", self.signed.as_ref().map(|signed| &*signed.key)),
            ("signed for", names.as_deref()),
        ]);
        page.section("How");
        page.pairs(&[
            ("base", Some(&self.base.image)),
            ("moved", Some(&transferred(self.bytes_pulled, self.bytes_pushed))),
            ("took", Some(&seconds(self.duration_millis))),
        ]);
        VerifiedImage::section(&self.verified, &mut page);
        page.section("What was run");
        page.findings(&self.reasons);
        if !self.warnings.is_empty() {
            page.section("Warnings");
            page.findings(&self.warnings);
        }
        page.into_text()
    }
}

fn transferred(pulled: u64, pushed: u64) -> String {
    format!("{} pulled, {} pushed", size(pulled), size(pushed))
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03} s", millis / 1000, millis % 1000)
}

/// `repo@digest`, or `oci:DIR@digest`.
pub fn pushed_image(pushed: &Pushed) -> String {
    let digest = *pushed.digest.value();
    match (&pushed.image, &pushed.destination) {
        (Some(image), _) => image.value().to_string(),
        (None, Destination::Layout(dir)) => format!("oci:{}@{digest}", dir.display()),
        (None, Destination::Registry(repo)) => repo.pinned(digest).to_string(),
    }
}
