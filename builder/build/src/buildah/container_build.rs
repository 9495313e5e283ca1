//! What buildah builds: the image of a plan, all of it or its last part, or a prepared base.

use std::collections::BTreeMap;

use super::configs_image::ConfigsImage;
use super::error::Error;
use mosb_plan::payload::context::{self, File};
use mosb_plan::plan::{Base, BuildContext, BuildPlan, Origin, Prepared};
use mosb_trust::spdx::LayerFiles;

/// A Containerfile with what it is built from, and the names of the image.
#[derive(Debug, Clone)]
pub struct ContainerBuild {
    pub containerfile: String,
    /// The administrator's part of it; empty if there is none.
    pub own: String,
    /// The files of the build context.
    pub files: Vec<File>,
    /// What is copied of the administrator's directory, beside them.
    pub context: Option<BuildContext>,
    pub base: Base,
    /// What it starts from instead of the base.
    pub configs: Option<ConfigsImage>,
    /// The labels that the image must have.
    pub labels: BTreeMap<String, String>,
    /// Those of the manifest, which say what the base is.
    pub annotations: BTreeMap<String, String>,
    pub build_args: BTreeMap<String, String>,
    /// Whether a `RUN` line may use the network.
    pub uses_network: bool,
    /// The units of which a step with `systemctl preset` reports failures.
    pub preset_units: Vec<String>,
    pub tags: Vec<String>,
    /// The tag whose former image gets another one when it moves.
    pub protected_tag: String,
    pub origin: Origin,
    /// The files in the layer of `configs`.
    pub config_files: Option<LayerFiles>,
}

impl ContainerBuild {
    /// The image of a plan, by its Containerfile.
    ///
    /// # Errors
    /// A file of the context that can't be written.
    pub fn of_plan(plan: &BuildPlan, containerfile: impl Into<String>) -> Result<Self, Error> {
        Ok(Self {
            containerfile: containerfile.into(),
            own: plan.request.containerfile.clone().unwrap_or_default(),
            files: context::files(plan)?,
            context: plan.request.context.clone(),
            base: plan.request.base.clone(),
            configs: None,
            labels: plan.labels.clone(),
            annotations: plan.annotations.clone(),
            build_args: plan.request.build_args.clone(),
            uses_network: plan.request.containerfile.is_some()
                || plan.request.config.installs_packages(),
            preset_units: plan.preset_units.clone(),
            tags: plan.tags.to_vec(),
            protected_tag: plan.build_name.tag(),
            origin: plan.origin(),
            config_files: None,
        })
    }

    /// The image of a plan by its last part, which starts from `configs`.
    ///
    /// # Errors
    /// As [`of_plan`](Self::of_plan).
    pub fn of_last(
        plan: &BuildPlan,
        configs: ConfigsImage,
        containerfile: impl Into<String>,
    ) -> Result<Self, Error> {
        Ok(Self {
            configs: Some(configs),
            config_files: Some(plan.layer_files()),
            preset_units: Vec::new(),
            ..Self::of_plan(plan, containerfile)?
        })
    }

    /// What the image is on.
    pub(super) fn lower(&self) -> &Base {
        self.configs.as_ref().map_or(&self.base, |configs| &configs.base)
    }

    /// How many layers the base has, or the prepared base if the image is on one.
    pub(super) fn layers_below(&self) -> usize {
        // The one above them has the config.
        self.lower().config.diff_ids.len() - usize::from(self.configs.is_some())
    }

    /// A prepared base, by its Containerfile.
    pub fn of_prepared(prepared: &Prepared, containerfile: impl Into<String>) -> Self {
        let tag = prepared.tag().to_string();
        Self {
            containerfile: containerfile.into(),
            own: prepared.own.as_ref().map(|own| own.text.clone()).unwrap_or_default(),
            files: context::prepared_files(prepared),
            context: prepared.context(),
            base: prepared.request.base.clone(),
            configs: None,
            labels: prepared.labels(),
            annotations: prepared.annotations(),
            build_args: prepared.own.as_ref().map(|own| own.build_args.clone()).unwrap_or_default(),
            uses_network: prepared.own.is_some() || prepared.request.config.installs_packages(),
            preset_units: Vec::new(),
            tags: vec![tag.clone()],
            protected_tag: tag,
            origin: prepared.origin(),
            config_files: None,
        }
    }
}
