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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::plan::{BaseName, Draft, MethodChoice};
    use mosb_api::RenderedConfig;
    use mosb_image::overlay::Meta;
    use mosb_image::tree::BaseTree;

    const NAME: &str = "rendered-worker-0123456789abcdef0123456789abcdef";

    fn request(files: &Value) -> BuildRequest {
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": NAME },
            "spec": { "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": files } } },
        });
        let image = json!({ "os": "linux", "architecture": "amd64", "config": {},
            "rootfs": { "type": "layers", "diff_ids": [Digest::of(b"layer")] } });
        let manifest = json!({ "config": {}, "layers": [{}] }).to_string();
        let name = BaseName::from_os_image_url("quay.io/acme/base:1").unwrap();
        let (image, index) = (image.to_string(), Some(Digest::of(b"index")));
        let base = Base::new(name, "x".to_owned(), index, manifest.as_bytes(), image.as_bytes());
        BuildRequest::new(RenderedConfig::from_value(config).unwrap(), base.unwrap())
    }

    fn plan(request: BuildRequest) -> BuildPlan {
        Draft::new(request).unwrap().finish(&BaseTree::default()).unwrap()
    }

    fn file(path: &str, content: &str) -> Value {
        json!({ "path": path, "contents": { "source": format!("data:,{content}") } })
    }

    #[test]
    fn inputs_are_named_by_digest() {
        let mut request = request(&json!([file("/etc/motd", "hello")]));
        let config = Digest::of(&canonical_value(request.config.as_value())).hex();
        let base = request.base.manifest_digest;
        let image = |name: &str, digest: Digest| {
            let uri = format!("pkg:oci/base@{digest}?repository_url=quay.io/acme/base");
            json!({ "name": name, "uri": uri, "digest": { "sha256": digest.hex() } })
        };
        let mut inputs = vec![
            json!({ "name": NAME, "digest": { "sha256": config } }),
            image("base", base),
            image("index of the base", Digest::of(b"index")),
        ];
        let direct = plan(request.clone());
        let mut want = json!({
            "buildType": "https://mosb.dev/build/v1",
            "externalParameters": {
                "buildArgs": [], "method": "direct", "platform": "linux/amd64", "pool": "worker",
                "renderedConfig": NAME,
            },
            "internalParameters": { "format": FORMAT, "inputs": direct.inputs.hex() },
            "resolvedDependencies": inputs,
        });
        let origin = direct.origin();
        assert_eq!(json!(origin.definition), want);
        assert_eq!(origin.build, direct.build_name.to_string());
        assert_eq!(origin.bases, [image_name(&request.base)]);

        let own = "FROM configs\nARG TOKEN\nRUN echo x\n";
        request.containerfile = Some(own.to_owned());
        request.build_args = [("TOKEN".to_owned(), "hunter2".to_owned())].into();
        request.method = MethodChoice::Containerfile;
        let run = plan(request);
        let digest = Digest::of(own.as_bytes()).hex();
        inputs.push(json!({ "name": "Containerfile", "digest": { "sha256": digest } }));
        want["resolvedDependencies"] = json!(inputs);
        want["externalParameters"]["buildArgs"] = json!(["TOKEN"]);
        want["externalParameters"]["method"] = json!("containerfile");
        want["internalParameters"] = json!({
            "format": FORMAT, "inputs": run.inputs.hex(),
            "notRecorded": "what RUN instructions fetched",
        });
        assert_eq!(json!(run.origin().definition), want);
    }

    #[test]
    fn files_with_secrets_are_left_out() {
        let put = |path: &str, content: &str| {
            let meta = Meta { mode: 0o644, uid: 0, gid: 0 };
            let content = Bytes::copy_from_slice(content.as_bytes());
            LayerEntry::Put(path.parse().unwrap(), Node::File { meta, content })
        };
        let link = |path: &str, to: &str| {
            let to = to.parse().unwrap();
            LayerEntry::Put(path.parse().unwrap(), Node::Hardlink { to })
        };
        let pem = "-----BEGIN PRIVATE KEY-----";
        let harmless =
            [put("/etc/empty.key", ""), put("/etc/motd", "hello"), link("/a", "/etc/motd")];
        for (what, config, layer, left_out) in [
            ("none", json!([]), vec![put(CURRENT_CONFIG, "{}")], &[][..]),
            (
                "by name",
                json!([]),
                vec![
                    put(CURRENT_CONFIG, "{}"),
                    put("/etc/tls.key", "k"),
                    link("/l", "/etc/tls.key"),
                ],
                &[CURRENT_CONFIG, "/etc/tls.key", "/l"],
            ),
            ("by content", json!([]), vec![put("/etc/tls", pem)], &["/etc/tls"]),
            (
                "by another name",
                json!([file("/var/tls.key", "k")]),
                vec![put("/usr/lib/0123", "k")],
                &["/usr/lib/0123"],
            ),
        ] {
            let mut plan = plan(request(&config));
            plan.layer = harmless.iter().cloned().chain(layer.clone()).collect();
            let mut want = LayerFiles::default();
            let is_left_out = |path: &TreePath| left_out.contains(&&*path.to_string());
            let mut paths: Vec<_> = plan.layer.iter().map(LayerEntry::path).collect();
            paths.sort();
            for path in paths {
                let content = match &*path.to_string() {
                    "/etc/motd" | "/a" => "hello",
                    CURRENT_CONFIG => "{}",
                    _ => "",
                };
                if is_left_out(path) {
                    want.leave_out(path.clone());
                } else {
                    want.list(path.clone(), content.as_bytes());
                }
            }
            assert_eq!(plan.layer_files(), want, "{what}");
        }
    }
}
