//! What an image is made of, for its provenance and its SBOM. Texts of the inputs are not in it, only
//! their digests.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::json;

use mosb_image::overlay::{LayerEntry, Node};
use mosb_image::{Digest, ImageRef, PinnedRef, TreePath};
use mosb_trust::ImageName;
use mosb_trust::provenance::{BuildDefinition, Dependency, Parameters};
use mosb_trust::spdx::LayerFiles;
use mosb_types::{canonical_json, canonical_value};

use super::apply::CURRENT_CONFIG;
use super::base::Base;
use super::build_context::BuildContext;
use super::build_plan::{BuildPlan, BuildRequest};
use super::explain::{named_like_secret, reads_like_secret, secret_files};
use super::inputs::FORMAT;
use super::method::Method;
use super::prepared::Prepared;

/// What an image is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    pub definition: BuildDefinition,
    /// What it is built on, the nearest first: a prepared base, the base.
    pub bases: Vec<ImageName>,
    /// The name of the build, or the tag of the prepared base.
    pub build: String,
}

impl BuildPlan {
    pub fn origin(&self) -> Origin {
        let request = &self.request;
        let prepared = self.prepared.as_ref().map(|prepared| image_name(&prepared.image));
        let dependency = |image: &ImageName| Dependency::image("prepared base", image);
        let mut inputs: Vec<_> = prepared.iter().map(dependency).collect();
        let config = Digest::of(&canonical_value(request.config.as_value()));
        let name = request.config.name().to_string();
        inputs.push(Dependency::text(&name, config));
        let own = request.containerfile.as_deref();
        inputs.extend(dependencies(request, own, request.context.as_ref()));
        let mut external = parameters(request, self.method.as_str(), &request.build_args);
        external.insert("pool", json!(request.config.pool().as_str()));
        external.insert("renderedConfig", json!(name));
        let runs = match self.method {
            // What was run for a prepared base is in the provenance of that.
            Method::Direct | Method::Prepared(_) => false,
            Method::LastPart(_) | Method::Containerfile(_) => true,
        };
        let mut internal = internal_parameters(&self.inputs.hex(), runs);
        internal.insert("format", json!(FORMAT));
        let base = image_name(&request.base);
        Origin {
            definition: BuildDefinition::new(external, internal, inputs),
            bases: prepared.into_iter().chain([base]).collect(),
            build: self.build_name.to_string(),
        }
    }

    /// The files of the plan's layer. Those that may have secrets are left out, by their names and
    /// contents in the image and in the config; with them, the copy of the config.
    pub fn layer_files(&self) -> LayerFiles {
        let nodes: BTreeMap<&TreePath, &Node> = self
            .layer
            .iter()
            .filter_map(|entry| match entry {
                LayerEntry::Put(path, node) => Some((path, node)),
                LayerEntry::Parent(..) | LayerEntry::Whiteout(_) => None,
            })
            .collect();
        let mut secrets = self.secret_contents();
        for (&path, &node) in &nodes {
            if let Node::File { content, .. } = node
                && !content.is_empty()
                && named_like_secret(path.relative()).or(reads_like_secret(content)).is_some()
            {
                secrets.insert(Digest::of(content));
            }
        }
        let has_secrets = |path: &TreePath, content: &Bytes| {
            !secrets.is_empty()
                && (path.to_string() == CURRENT_CONFIG || secrets.contains(&Digest::of(content)))
        };
        let mut files = LayerFiles::default();
        for (&path, &node) in &nodes {
            let file = match node {
                Node::Hardlink { to } => nodes.get(to).copied(),
                Node::File { .. } | Node::Directory { .. } | Node::Symlink { .. } => Some(node),
            };
            let Some(Node::File { content, .. }) = file else {
                continue;
            };
            if has_secrets(path, content) {
                files.leave_out(path.clone());
            } else {
                files.list(path.clone(), content);
            }
        }
        files
    }

    /// Those of the files of the config that probably contain secrets. The image may have them by
    /// other names.
    fn secret_contents(&self) -> BTreeSet<Digest> {
        let Some(ignition) = &self.ignition else {
            return BTreeSet::new();
        };
        let paths: BTreeSet<&str> = secret_files(ignition).map(|(path, _)| path).collect();
        let files = ignition.storage.files.iter();
        let secret = files.filter(|file| paths.contains(file.path.as_str()));
        // A plan was made, so what can't be read is not in the image.
        let contents = secret.filter_map(|file| file.contents.as_ref()?.bytes(u64::MAX).ok());
        let contents = contents.filter(|content| !content.is_empty());
        contents.map(|content| Digest::of(&content)).collect()
    }
}

impl Prepared {
    pub fn origin(&self) -> Origin {
        let request = &self.request;
        let own = self.own.as_ref();
        let none = BTreeMap::new();
        let arguments = own.map_or(&none, |own| &own.build_args);
        let text = own.map(|own| own.text.as_str());
        Origin {
            definition: BuildDefinition::new(
                parameters(request, "prepare", arguments),
                internal_parameters(&self.inputs.hex(), true),
                dependencies(request, text, self.context().as_ref()),
            ),
            bases: vec![image_name(&request.base)],
            build: self.tag().to_string(),
        }
    }
}

/// What was asked for. Values of build arguments may be secrets, so only their names are in it.
fn parameters(
    request: &BuildRequest,
    method: &str,
    build_args: &BTreeMap<String, String>,
) -> Parameters {
    [
        ("buildArgs", json!(build_args.keys().collect::<Vec<_>>())),
        ("method", json!(method)),
        ("platform", json!(request.base.config.platform.to_string())),
    ]
    .into()
}

/// `runs` is whether programs made a part of the image.
fn internal_parameters(inputs: &str, runs: bool) -> Parameters {
    let missing = runs.then_some(("notRecorded", json!("what RUN instructions fetched")));
    [("inputs", json!(inputs))].into_iter().chain(missing).collect()
}

/// The inputs that images and prepared bases have. `own` is what runs of the administrator's
/// Containerfile.
fn dependencies(
    request: &BuildRequest,
    own: Option<&str>,
    context: Option<&BuildContext>,
) -> Vec<Dependency> {
    let mut dependencies = vec![Dependency::image("base", &image_name(&request.base))];
    if let Some(index) = request.base.index {
        let index = ImageName { digest: index, ..image_name(&request.base) };
        dependencies.push(Dependency::image("index of the base", &index));
    }
    let extensions = request.extensions_image.as_ref().map(|image: &PinnedRef| {
        let image = ImageName { repo: Some(image.repo().clone()), digest: image.digest() };
        Dependency::image("extensions image", &image)
    });
    dependencies.extend(extensions);
    let texts = [
        ("Containerfile", own.map(|text| Digest::of(text.as_bytes()))),
        ("build context", context.map(|context| Digest::of(&canonical_json(context)))),
        ("trust bundle", request.trust_bundle.as_ref().map(|bundle| Digest::of(bundle))),
    ];
    let text = |(name, digest): (&str, Option<Digest>)| Some(Dependency::text(name, digest?));
    dependencies.extend(texts.into_iter().filter_map(text));
    dependencies
}

fn image_name(base: &Base) -> ImageName {
    let named = (!base.name.is_layout()).then(|| base.name.as_str().parse::<ImageRef>());
    // The name was checked when the base was.
    let repo = named.and_then(Result::ok).map(|image| image.repo().clone());
    ImageName { repo, digest: base.manifest_digest }
}
