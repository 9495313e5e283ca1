//! `mosb inspect`: what mosb knows of an image, from its manifest and config, from what is attached to it, and from
//! its tree if that is cached.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "in help texts, brackets mean what may be left out"
)]

use std::collections::BTreeMap;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::attachments::Attachments;
use super::context::{Session, json};
use super::error::Error;
use super::output::Object;
use super::page::{Align, Page, size};
use super::{ExitCode, Result, arguments};
use mosb_api::labels;
use mosb_image::Platform;
use mosb_image::packages::{Installed, Package};
use mosb_image::tree::BaseTree;
use mosb_plan::plan::diff::kernels;
use mosb_registry::base_tree;
use mosb_registry::{Resolved, Source};
use mosb_types::Finding;

/// Shows what mosb knows of an image: config, pool, base, inputs, signatures, layers and their history
///
/// An image that mosb did not build is shown too, and marked as such. Packages and kernel are shown if the cache has the
/// tree of the image, as after a build on it. With --packages, the layers are read if it does not.
///
/// Example:
///
///   mosb inspect oci:out:rendered-worker-…
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Inspect {
    /// host/repo[:tag][@digest], or oci:DIR[:TAG][@digest]
    #[arg(value_parser = arguments::source)]
    pub image: Source,
    /// The platform to select from an index, such as linux/amd64
    #[arg(long, value_name = "OS/ARCH", value_parser = arguments::platform)]
    pub platform: Option<Platform>,
    /// List the packages of the image
    #[arg(long)]
    pub packages: bool,
}

impl Inspect {
    pub async fn run(&self, session: &Session) -> Result<ExitCode> {
        let context = session.clients()?;
        let resolved = context.resolve("image", &self.image, self.platform.as_ref()).await?;
        let mut info = info(&resolved)?;
        if let (Source::Registry(name), Some(image)) = (&self.image, resolved.pinned()) {
            session.progress.step(&format!("reading what is attached to {image}"));
            match Attachments::read(&context.pull, name, &image).await {
                Ok(attached) => info.attached = Some(attached),
                Err(error) => info.warnings.push(Finding::from(&error).object(image.to_string())),
            }
        }
        let tree = match &context.cache {
            _ if self.packages => Some(context.tree(&resolved).await?),
            // A warning about the cache is for a command that needs it.
            Some(cache) => base_tree::load(cache, &resolved.manifest).await.ok().flatten(),
            None => None,
        };
        info.os = tree.map(|tree| ImageOs::new(&tree, &info.labels, self.packages));
        session.print(&info)
    }
}

/// The information in manifest and config of a resolved image.
pub fn info(image: &Resolved) -> Result<ImageInfo, Error> {
    let manifest = json(image, "manifest", &image.manifest_bytes)?;
    let config = json(image, "config", &image.config_bytes)?;
    let index = image.index.map(|digest| digest.to_string());
    Ok(ImageInfo::new(image.pinned_text(), image.manifest.to_string(), index, &manifest, &config))
}

/// The properties of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageInfo {
    /// `repo@digest`, or `oci:DIR@digest`.
    pub image: String,
    /// Digest of the manifest.
    pub digest: String,
    /// Digest of the index that names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// Whether its labels are those of a build by mosb. This is not a proof: anyone can write labels.
    pub built_by_mosb: bool,
    /// Name of the rendered MachineConfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered_config: Option<String>,
    /// Name of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseInfo>,
    /// SHA-256 of all inputs of the image: 64 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<String>,
    /// The version of mosb's image format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// `os/architecture[/variant]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// The creation time in the image's config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// What is attached to the image; absent of an image in an OCI layout, and if it can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached: Option<Attachments>,
    /// Packages and kernel; absent if the tree of the image is not cached and `--packages` is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<ImageOs>,
    /// Bytes of all layers as they are stored.
    pub size: u64,
    /// From the lowest up.
    pub layers: Vec<LayerHistory>,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// What could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub warnings: Vec<Finding>,
}

/// The OS in an image, from its tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageOs {
    /// How many packages rpm and dpkg have installed.
    pub package_count: usize,
    /// The packages, sorted; only with `--packages`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub packages: Vec<PackageInfo>,
    /// The kernels below `/usr/lib/modules`.
    pub kernels: Vec<String>,
    /// The label `ostree.linux`, if it names a kernel that the image does not have: it is that of an image below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong_kernel_label: Option<String>,
    /// What can't be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub warnings: Vec<Finding>,
}

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageInfo {
    pub name: String,
    /// `[epoch:]version[-release]`.
    pub version: String,
    /// Absent for what has none, such as rpm's public keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
}

impl ImageOs {
    fn new(tree: &BaseTree, labels: &BTreeMap<String, String>, list: bool) -> Self {
        let Installed { packages, warnings, .. } = Installed::of(tree);
        let kernels = kernels(tree);
        let label = labels.get(KERNEL_LABEL).filter(|label| !kernels.contains(label)).cloned();
        let info = |Package { name, version, arch, .. }: &Package| PackageInfo {
            name: name.clone(),
            version: version.clone(),
            arch: arch.clone(),
        };
        Self {
            package_count: packages.len(),
            packages: packages.iter().filter(|_| list).map(info).collect(),
            kernels,
            wrong_kernel_label: label,
            warnings,
        }
    }

    fn lines(&self, page: &mut Page) {
        page.section("OS");
        let kernels = self.kernels.join(", ");
        let wrong = self.wrong_kernel_label.as_ref();
        let wrong = wrong.map(|label| format!("{label}, which the image does not have"));
        page.pairs(&[
            ("kernel", Some(if kernels.is_empty() { "none" } else { &kernels })),
            (KERNEL_LABEL, wrong.as_deref()),
            ("packages", Some(&self.package_count.to_string())),
        ]);
        page.findings(&self.warnings);
        if !self.packages.is_empty() {
            page.section("Packages");
            let rows = self.packages.iter().map(|package| {
                let arch = package.arch.clone().unwrap_or_default();
                vec![package.name.clone(), package.version.clone(), arch]
            });
            page.table(&[], &rows.collect::<Vec<_>>());
        }
    }
}

/// The version of the kernel, which ostree writes; images on top inherit it.
const KERNEL_LABEL: &str = "ostree.linux";

/// The base of an image, from the image's labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaseInfo {
    /// `baseOSContainerImage`.
    pub name: String,
    /// `org.opencontainers.image.base.digest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A layer and its history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LayerHistory {
    /// Digest of the blob.
    pub digest: String,
    /// Digest of the unpacked layer, from the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff_id: Option<String>,
    /// Bytes as they are stored.
    pub size: u64,
    /// The media type in the descriptor.
    pub media_type: String,
    /// The instruction in the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

impl ImageInfo {
    /// Reads manifest and config. A field with another type than in the OCI image spec is ignored.
    pub fn new(
        image: String,
        digest: String,
        index: Option<String>,
        manifest: &Value,
        config: &Value,
    ) -> Self {
        let labels: BTreeMap<String, String> = config
            .pointer("/config/Labels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        let label = |key: &str| labels.get(key).cloned();
        let field = |name: &str| {
            Some(config.get(name)?.as_str().filter(|text| !text.is_empty())?.to_owned())
        };
        let platform =
            field("os").zip(field("architecture")).map(|(os, architecture)| {
                match field("variant") {
                    Some(variant) => format!("{os}/{architecture}/{variant}"),
                    None => format!("{os}/{architecture}"),
                }
            });
        let layers = layers(manifest, config);
        Self {
            image,
            digest,
            index,
            built_by_mosb: labels.contains_key(labels::IMAGE_INPUTS)
                && labels.contains_key(labels::IMAGE_MACHINE_CONFIG),
            rendered_config: label(labels::IMAGE_MACHINE_CONFIG),
            pool: label(labels::IMAGE_MACHINE_CONFIG_POOL),
            base: label(labels::IMAGE_BASE)
                .or_else(|| label(labels::OCI_BASE_NAME))
                .map(|name| BaseInfo { name, digest: label(labels::OCI_BASE_DIGEST) }),
            inputs: label(labels::IMAGE_INPUTS),
            format: label(labels::IMAGE_FORMAT),
            platform,
            created: field("created"),
            attached: None,
            os: None,
            size: layers.iter().map(|layer| layer.size).sum(),
            layers,
            labels,
            warnings: Vec::new(),
        }
    }
}

fn layers(manifest: &Value, config: &Value) -> Vec<LayerHistory> {
    let list = |value: &Value, pointer: &str| {
        value.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let layers = list(manifest, "/layers");
    let diff_ids = list(config, "/rootfs/diff_ids");
    let history: Vec<Value> = list(config, "/history")
        .into_iter()
        .filter(|entry| entry.get("empty_layer") != Some(&Value::Bool(true)))
        .collect();
    // A history with another number of layers can't be matched with them.
    let has_history = history.len() == layers.len();
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let layer = |(at, layer): (usize, &Value)| LayerHistory {
        digest: text(layer, "digest").unwrap_or_default(),
        diff_id: diff_ids.get(at).and_then(Value::as_str).map(str::to_owned),
        size: layer.get("size").and_then(Value::as_u64).unwrap_or_default(),
        media_type: text(layer, "mediaType").unwrap_or_default(),
        created_by: history
            .get(at)
            .filter(|_| has_history)
            .and_then(|entry| text(entry, "created_by")),
    };
    layers.iter().enumerate().map(layer).collect()
}

impl Object for ImageInfo {
    const KIND: &'static str = "ImageInfo";

    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&self.image);
        if !self.built_by_mosb {
            page.line("mosb did not build this image: it has no labels of a build.");
        }
        page.section("Build");
        let base = self.base.as_ref();
        page.pairs(&[
            ("rendered config", self.rendered_config.as_deref()),
            ("pool", self.pool.as_deref()),
            ("base", base.map(|base| base.name.as_str())),
            ("base digest", base.and_then(|base| base.digest.as_deref())),
            ("inputs", self.inputs.as_deref()),
            ("format", self.format.as_deref()),
            ("platform", self.platform.as_deref()),
            ("created", self.created.as_deref()),
            ("digest", Some(&self.digest)),
            ("found in index", self.index.as_deref()),
        ]);
        if let Some(attached) = &self.attached {
            attached.lines(&mut page);
        }
        if let Some(os) = &self.os {
            os.lines(&mut page);
        }
        page.section(&format!("Layers: {}, {}", self.layers.len(), size(self.size)));
        let rows: Vec<_> = self
            .layers
            .iter()
            .map(|layer| {
                let created_by = layer.created_by.clone().unwrap_or_default();
                vec![layer.digest.clone(), size(layer.size), created_by]
            })
            .collect();
        page.table(&[Align::Left, Align::Right], &rows);
        if !self.labels.is_empty() {
            page.labels(&self.labels);
        }
        if !self.warnings.is_empty() {
            page.section("Not read");
            page.findings(&self.warnings);
        }
        page.into_text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn history_is_shown_only_if_it_matches_the_layers() {
        let manifest = json!({ "layers": [{ "digest": "sha256:a", "size": 3, "mediaType": "m" }, { "digest": "sha256:b", "size": 4 }] });
        let history = |entries: Value| {
            let config = json!({ "history": entries, "rootfs": { "diff_ids": ["sha256:c"] }, "os": "linux" });
            let info = ImageInfo::new("i".to_owned(), "d".to_owned(), None, &manifest, &config);
            assert_eq!((info.size, info.platform, info.built_by_mosb), (7, None, false));
            info.layers.into_iter().map(|layer| layer.created_by).collect::<Vec<_>>()
        };
        let one = json!({ "created_by": "one" });
        let empty = json!({ "created_by": "ENV", "empty_layer": true });
        let two = json!({ "created_by": "two" });
        assert_eq!(
            history(json!([one, empty, two])),
            [Some("one".to_owned()), Some("two".to_owned())]
        );
        assert_eq!(history(json!([one])), [None, None]);
        assert_eq!(history(json!("rubbish")), [None, None]);
    }
}
