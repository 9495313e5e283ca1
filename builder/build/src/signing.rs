//! What is attached to an image before its tags name it: a signature for each name, an SBOM and
//! provenance.

use jiff::Timestamp;
use serde_json::Value;
use tokio::task::spawn_blocking;

use mosb_image::layer::Layer;
use mosb_image::tree::BaseTree;
use mosb_image::{BlobRef, DiffId, Digest, RepoRef};
use mosb_plan::plan::{BuildPlan, Origin};
use mosb_registry::{PushPlan, Target};
use mosb_trust::attestation::Statement;
use mosb_trust::provenance::{Builder, Provenance, SLSA_PROVENANCE};
use mosb_trust::spdx::{LayerFiles, OsPackages, SPDX_DOCUMENT, Sbom, SbomLayer};
use mosb_trust::{Evidence, ImageName, SigningKey};

/// How images are signed.
#[derive(Debug, Clone, Copy)]
pub struct Signing<'k> {
    pub key: &'k SigningKey,
    /// The names that an image is signed for; without any, it is each tag that is pushed.
    pub identities: &'k [String],
    /// A URI, which the provenance names.
    pub builder: &'static str,
    /// The tree of what the image is built on: the base, or the prepared base. Without it, the SBOM has
    /// no packages.
    pub below: Option<&'k BaseTree>,
}

/// What the SBOM and the provenance of an image have.
#[derive(Debug)]
pub struct Description {
    pub origin: Origin,
    pub layers: Vec<SbomLayer>,
    /// `None` if they can't be read.
    pub packages: Option<OsPackages>,
}

/// What is known of an image before the layer of its config is written.
#[derive(Debug)]
pub struct ConfigDescription {
    origin: Origin,
    files: LayerFiles,
    packages: Option<OsPackages>,
}

/// The layer of a config in an image that programs wrote to as well.
#[derive(Debug)]
pub struct ConfigLayer {
    pub diff_id: DiffId,
    /// `None` if they are not known.
    pub files: Option<LayerFiles>,
}

/// An image that is signed.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// None in an OCI layout.
    pub repo: Option<&'a RepoRef>,
    pub manifest: &'a BlobRef,
    pub tags: &'a [String],
    /// Its config, in JSON.
    pub config: &'a [u8],
}

impl ConfigDescription {
    /// `below` is the tree of what the plan is on: the base, or the prepared base.
    pub fn new(plan: &BuildPlan, below: Option<&BaseTree>) -> Self {
        let packages = below.map(OsPackages::unchanged);
        Self { origin: plan.origin(), files: plan.layer_files(), packages }
    }

    /// Of an image that has only this layer above what the plan is on.
    pub fn with_layer(self, digest: Digest) -> Description {
        let Self { origin, files, packages } = self;
        Description { origin, layers: vec![SbomLayer { digest, files: Some(files) }], packages }
    }
}

impl Description {
    /// Of an image with these layers, the lowest first, that was made on an image with the layers
    /// `below`, or on that with `config` above. Programs wrote what is above those.
    pub fn of_layers(
        mut origin: Origin,
        below: &[DiffId],
        config: Option<ConfigLayer>,
        layers: &[Layer],
        packages: Option<OsPackages>,
    ) -> Self {
        let (config, mut files) = config.map(|layer| (layer.diff_id, layer.files)).unzip();
        let lower: Vec<DiffId> = below.iter().copied().chain(config).collect();
        let pairs = layers.iter().map(|layer| layer.diff_id).zip(&lower);
        let shared = pairs.take_while(|(ours, theirs)| ours == *theirs).count();
        let mut first = below.len();
        // The administrator's Containerfile may make the image of something else.
        if shared < lower.len() {
            origin.bases.clear();
            (first, files) = (shared, None);
        }
        let described =
            |layer: &Layer| SbomLayer { digest: layer.digest, files: files.take().flatten() };
        Self { origin, layers: layers.iter().skip(first).map(described).collect(), packages }
    }
}

impl<'k> Signing<'k> {
    /// What must be attached to an image that is pushed.
    pub(crate) async fn of_push(
        self,
        target: &Target,
        push: &PushPlan,
        config: &[u8],
        description: Description,
    ) -> Evidence<'k> {
        let manifest = &BlobRef::of(&push.media_type, &push.manifest);
        let subject = Subject { repo: target.repo(), manifest, tags: &push.tags, config };
        self.evidence(subject, description).await
    }

    /// What must be attached to an image.
    pub async fn evidence(self, subject: Subject<'_>, description: Description) -> Evidence<'k> {
        let digest = subject.manifest.digest;
        let image = ImageName { repo: subject.repo.cloned(), digest };
        let references = self.references(&image, subject.tags);
        let (created, builder) = (created(subject.config), self.builder);
        let writing = spawn_blocking(move || statements(&image, &description, &created, builder));
        let statements = writing.await.expect("it does not panic and is not cancelled");
        Evidence { key: self.key, subject: subject.manifest.clone(), references, statements }
    }

    fn references(&self, image: &ImageName, tags: &[String]) -> Vec<String> {
        let Some(repo) = image.repo.as_ref().filter(|_| self.identities.is_empty()) else {
            return self.identities.to_vec();
        };
        if tags.is_empty() {
            return vec![repo.pinned(image.digest).to_string()];
        }
        tags.iter().map(|tag| format!("{repo}:{tag}")).collect()
    }
}

fn statements(
    image: &ImageName,
    description: &Description,
    created: &str,
    builder: &'static str,
) -> Vec<Statement> {
    let Description { origin, layers, packages } = description;
    let packages = packages.as_ref();
    let version = env!("CARGO_PKG_VERSION");
    let sbom = Sbom { image, bases: &origin.bases, created, version, layers, packages };
    let builder = Builder { id: builder, version };
    let provenance = Provenance::new(&origin.definition, builder, &origin.build);
    vec![
        Statement::new(&image.digest, SPDX_DOCUMENT, &sbom.document()),
        Statement::new(&image.digest, SLSA_PROVENANCE, &provenance),
    ]
}

/// When an image says that it was made, in whole seconds; else 1970.
fn created(config: &[u8]) -> String {
    // A config that is not JSON was not pushed.
    let config: Value = serde_json::from_slice(config).unwrap_or_default();
    let time = config["created"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    // SPDX has years of four digits.
    let text = format!("{:.0}", time.unwrap_or(Timestamp::UNIX_EPOCH));
    if text.len() == "1970-01-01T00:00:00Z".len() { text } else { created(b"{}") }
}

#[cfg(test)]
mod tests {
    use mosb_trust::provenance::{BuildDefinition, Parameters};

    use super::*;

    #[test]
    fn an_image_is_signed_for_its_tags_or_by_name() {
        let (key, _) = SigningKey::generate().unwrap();
        let digest = mosb_image::Digest::of(b"manifest");
        let repo = RepoRef::try_from("quay.io/os".to_owned()).unwrap();
        let image = ImageName { repo: Some(repo), digest };
        let named = ["other.example/os:1".to_owned()];
        let tags = ["a".to_owned(), "b".to_owned()];
        let by_digest = format!("quay.io/os@{digest}");
        for (what, identities, tags, want) in [
            ("each tag", &[][..], &tags[..], &["quay.io/os:a", "quay.io/os:b"][..]),
            ("no tag", &[], &[], &[&*by_digest]),
            ("names", &named, &tags, &[&*named[0]]),
        ] {
            let signing = Signing { key: &key, identities, builder: "", below: None };
            assert_eq!(signing.references(&image, tags), want, "{what}");
        }
    }

    #[test]
    fn layers_above_the_config_are_those_of_programs() {
        let diff_id = |name: &str| DiffId::of(name.as_bytes());
        let digest = |name: &str| Digest::of(format!("{name}, compressed").as_bytes());
        let layer = |name: &&str| Layer {
            media_type: String::new(),
            digest: digest(name),
            size: 0,
            diff_id: diff_id(name),
            annotations: Default::default(),
        };
        let below = ["base", "prepared"].map(diff_id);
        let mut files = LayerFiles::default();
        files.list("/etc/motd".parse().unwrap(), b"hello");
        let config =
            || Some(ConfigLayer { diff_id: diff_id("config"), files: Some(files.clone()) });
        let bases = [ImageName { repo: None, digest: digest("prepared") }];
        let origin = || Origin {
            definition: BuildDefinition::new(Parameters::new(), Parameters::new(), Vec::new()),
            bases: bases.to_vec(),
            build: String::new(),
        };
        let run = ["base", "prepared", "config", "run"];
        for (what, layers, config, want, on) in [
            ("its last part", &run[..], config(), &[("config", true), ("run", false)][..], true),
            ("no part after it", &run[..3], config(), &[("config", true)], true),
            ("all run", &run[..], None, &[("config", false), ("run", false)], true),
            ("on the base", &["base", "run"], config(), &[("run", false)], false),
            (
                "without the config",
                &["base", "prepared", "run"],
                config(),
                &[("run", false)],
                false,
            ),
            (
                "of something else",
                &["other", "run"],
                None,
                &[("other", false), ("run", false)],
                false,
            ),
        ] {
            let layers: Vec<_> = layers.iter().map(layer).collect();
            let found = Description::of_layers(origin(), &below, config, &layers, None);
            let want: Vec<_> = want
                .iter()
                .map(|(name, is_listed)| SbomLayer {
                    digest: digest(name),
                    files: is_listed.then(|| files.clone()),
                })
                .collect();
            assert_eq!(found.layers, want, "{what}");
            assert_eq!(found.origin.bases.is_empty(), !on, "{what}");
        }
    }

    #[test]
    fn times_are_those_of_the_image() {
        let epoch = "1970-01-01T00:00:00Z";
        for (config, want) in [
            (r#"{"created":"2026-01-02T03:04:05.678+02:00"}"#, "2026-01-02T01:04:05Z"),
            (r#"{"created":"-002026-01-02T03:04:05Z"}"#, epoch),
            (r#"{"created":"soon"}"#, epoch),
            ("{}", epoch),
            ("", epoch),
        ] {
            assert_eq!(created(config.as_bytes()), want, "{config}");
        }
    }
}
