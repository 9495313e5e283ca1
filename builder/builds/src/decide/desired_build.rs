//! The desired build of a pool, validated as far as that needs no lookup.

use std::collections::BTreeSet;

use serde_json::json;

use crate::lookup::BaseInstead;
use crate::pool_reason::PoolReason;
use crate::snapshot::Snapshot;
use mosb_api::{
    BuildOn, ImageBuilderType, MachineConfigPool, MachineOsBuild, MachineOsConfig, PoolName,
    RecordedBase, RenderedName, is_tag_format, labels,
};
use mosb_image::{Digest, Platform, RepoRef};
use mosb_plan::plan;
use mosb_plan::plan::PushSpecError;
use mosb_types::canonical_json;

/// Part of the fingerprints of the desired state. It is not the image format: an image in an
/// older format still matches.
const FINGERPRINT_FORMAT: u32 = 1;

/// The desired build of a pool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DesiredBuild {
    pub pool: PoolName,
    pub rendered: RenderedName,
    /// Not part of the fingerprints: every builder gives the same image.
    pub builder: ImageBuilderType,
    pub push: RepoRef,
    pub push_secret: String,
    pub pull_secret: Option<String>,
    pub platform: Option<Platform>,
    pub containerfile: Option<String>,
    /// The base that was recorded for the pool.
    pub recorded: Option<RecordedBase>,
    pub instead: Option<BaseInstead>,
    pub build_on: BuildOn,
    /// Value of annotation `mosb.dev/wanted` of a build that matches.
    pub wanted: String,
    /// The same for a build that represents a pre-built image; it does not depend on a base.
    pub seeded: String,
}

impl DesiredBuild {
    /// The desired build, or why there is none.
    pub fn of(
        snapshot: &Snapshot,
        config: &MachineOsConfig,
        pool: &MachineConfigPool,
    ) -> Result<Self, PoolReason> {
        let bad = |why: String| PoolReason::BadConfig(why);
        let spec = &config.spec;
        let builder = builder(snapshot, config).map_err(bad)?;
        let name: PoolName = spec
            .machine_config_pool
            .name
            .parse()
            .map_err(|cause| bad(format!("spec.machineConfigPool.name {cause}")))?;
        let push_secret = spec.rendered_image_push_secret.name.clone();
        if push_secret.is_empty() {
            return Err(bad("spec.renderedImagePushSecret.name is empty".to_owned()));
        }
        let push = push_repository(&spec.rendered_image_push_spec, snapshot)?;

        let configuration = &pool.spec.configuration.name;
        // A pre-built image exists before its machines.
        let installing = snapshot.cluster.machine_config_daemon
            && pool.status.configuration.name.is_empty()
            && config.metadata.annotation(labels::PRE_BUILT_IMAGE).is_none();
        if configuration.is_empty() || installing {
            return Err(PoolReason::NotRendered);
        }
        let rendered: RenderedName = configuration
            .parse()
            .map_err(|cause| bad(format!("the pool's spec.configuration.name {cause}")))?;
        let tagged = push_spec(&push, &rendered);
        if !is_tag_format(&tagged) {
            return Err(bad(format!(
                "{tagged} has more than 447 characters; push to a repository with a shorter name"
            )));
        }

        let platform = platform(snapshot, config)?;
        if platform.is_none() && spec.depends_on_architecture() {
            return Err(PoolReason::NoNode);
        }
        let architecture = platform.as_ref().map_or("", Platform::architecture);
        let containerfile = spec.containerfile(architecture).map(str::to_owned);

        // A rendered config may still name the image after its MachineConfig was deleted.
        let mut of = snapshot.prebuilt.clone();
        of.extend(snapshot.builds.iter().filter_map(seeded_image));
        let instead = (!of.is_empty())
            .then(|| BaseInstead { of, stock: snapshot.cluster.stock_base.clone() });
        let build_on = match config.metadata.annotation(labels::BUILD_ON) {
            Some(text) => text
                .parse()
                .map_err(|cause| bad(format!("annotation {} {cause}", labels::BUILD_ON)))?,
            None if snapshot.cluster.machine_config_daemon => BuildOn::OsChange,
            None => BuildOn::EveryConfig,
        };
        let mut desired = Self {
            pool: name,
            rendered,
            builder,
            push,
            push_secret,
            pull_secret: spec.base_image_pull_secret.as_ref().map(|secret| secret.name.clone()),
            platform,
            containerfile,
            recorded: RecordedBase::of(&config.metadata).map_err(|error| bad(error.to_string()))?,
            instead,
            build_on,
            wanted: String::new(),
            seeded: String::new(),
        };
        desired.wanted = desired.wanted_with(desired.rendered.as_str());
        desired.seeded = desired.seeded_with(desired.rendered.as_str());
        Ok(desired)
    }

    /// The fingerprint for another rendered config.
    pub fn wanted_with(&self, rendered: &str) -> String {
        let instead = self.instead.as_ref().map(|base| &base.stock);
        let mut value = json!({
            "format": FINGERPRINT_FORMAT, "rendered": rendered, "containerfile": self.containerfile,
            "push": self.push.to_string(), "instead": instead,
        });
        if let Some(recorded) = &self.recorded {
            value["base"] = json!(recorded.to_string());
        }
        Digest::of(&canonical_json(&value)).hex()
    }

    /// The fingerprint for another rendered config whose image is pre-built.
    pub fn seeded_with(&self, rendered: &str) -> String {
        let value = json!({
            "format": FINGERPRINT_FORMAT, "rendered": rendered, "containerfile": self.containerfile,
            "push": self.push.to_string(), "preBuilt": true,
        });
        Digest::of(&canonical_json(&value)).hex()
    }

    /// `spec.renderedImagePushSpec` of its build.
    pub fn push_spec(&self) -> String {
        push_spec(&self.push, &self.rendered)
    }
}

/// The platform of the pool's image. Nodes of another one are left out: that of the image in service
/// stays while a node has it; without such an image, that of most nodes counts.
fn platform(snapshot: &Snapshot, config: &MachineOsConfig) -> Result<Option<Platform>, PoolReason> {
    let platforms = &snapshot.pool_platforms;
    if platforms.len() < 2 {
        return Ok(platforms.keys().next().cloned());
    }
    let named = config.status.machine_os_build.as_ref().map(|build| &build.name);
    let build = snapshot.builds.iter().find(|build| Some(&build.metadata.name) == named);
    let in_service = build.and_then(|build| build.metadata.annotation(labels::PLATFORM));
    let in_service = in_service.and_then(|text| text.parse::<Platform>().ok());
    let of_it = in_service.and_then(|of| platforms.keys().find(|platform| platform.accepts(&of)));
    if let Some(platform) = of_it {
        return Ok(Some(platform.clone()));
    }
    let most = platforms.values().map(BTreeSet::len).max();
    let mut with_most = platforms.iter().filter(|(_, nodes)| Some(nodes.len()) == most);
    match (with_most.next(), with_most.next()) {
        (Some((platform, _)), None) => Ok(Some(platform.clone())),
        _ => Err(PoolReason::MixedPlatforms(platforms.keys().map(Platform::to_string).collect())),
    }
}

/// The builder: from the annotation, else from the label's ConfigMap, else a Job.
fn builder(snapshot: &Snapshot, config: &MachineOsConfig) -> Result<ImageBuilderType, String> {
    let field = &config.spec.image_builder.image_builder_type;
    if field != ImageBuilderType::Job.as_str() {
        return Err(format!(
            "spec.imageBuilder.imageBuilderType is {field:?}, and the only one is Job; for another, annotate the MachineOSConfig with {}",
            labels::BUILDER
        ));
    }
    let settings = snapshot.label.as_ref().and_then(|label| label.settings.as_ref());
    let of_label = settings.and_then(|settings| settings.get("imageBuilderType"));
    let (place, text) = match (config.metadata.annotation(labels::BUILDER), of_label) {
        (Some(text), _) => (format!("annotation {}", labels::BUILDER), text),
        (None, Some(text)) if !text.trim().is_empty() => {
            ("imageBuilderType of ConfigMap on-cluster-build-config".to_owned(), text.trim())
        }
        (None, _) => return Ok(ImageBuilderType::default()),
    };
    text.parse().map_err(|cause| format!("{place} {cause}"))
}

fn seeded_image(build: &MachineOsBuild) -> Option<String> {
    let image = build.status.image()?;
    build.is_pre_built().then(|| image.to_owned())
}

fn push_spec(push: &RepoRef, rendered: &RenderedName) -> String {
    format!("{push}:{}", rendered.tag())
}

/// The push repository, if this cluster's CRDs accept its digests.
fn push_repository(spec: &str, snapshot: &Snapshot) -> Result<RepoRef, PoolReason> {
    let nested = !snapshot.cluster.nested_digests_refused;
    plan::push_repository(spec, nested).map_err(|error| match error {
        PushSpecError::Nested(repo) => PoolReason::NestedRepository(repo.to_string()),
        other => PoolReason::BadConfig(format!("spec.renderedImagePushSpec {other}")),
    })
}
