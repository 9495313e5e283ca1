//! What a build would do.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::build::result::{BaseTreeUse, PinnedBase, PreparedUse};
use crate::build::verified_image::VerifiedImage;
use crate::diff::Side;
use crate::files::PathEntry;
use mosb_api::image_checks::CheckResult;
use mosb_image::Digest;
use mosb_plan::containerfile::{AtLine, Hint, Part, Split, SplitStage};
use mosb_plan::plan::diff::{ChangeCost, OsDiff};
use mosb_plan::plan::{BuildPlan, Reason, build_on_reason};
use mosb_registry::Target;
use mosb_types::Finding;

/// What a build would do, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Name of the rendered MachineConfig.
    pub rendered_config: String,
    /// Name of its pool.
    pub pool: String,
    /// `direct`, `prepared`, `last-part` or `containerfile`.
    pub method: String,
    /// Why the method is not `direct`; else empty.
    pub reasons: Vec<Finding>,
    /// The image with what must be run, if the build is made on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepared: Option<PreparedUse>,
    /// Which configs get an image: `every-config` or `os-change`.
    pub build_on: String,
    /// Why it is that one: a sentence.
    pub build_on_reason: String,
    /// The base.
    pub base: PlannedBase,
    /// The images whose signatures a policy requires.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub verified: Vec<VerifiedImage>,
    /// The tree of the base, or of the prepared base, if it is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_tree: Option<BaseTreeUse>,
    /// The image with packages, pinned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions_image: Option<String>,
    /// Digest of the administrator's Containerfile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containerfile: Option<String>,
    /// The stages of the administrator's Containerfile, in the order of its text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub stages: Vec<PlannedStage>,
    /// Names of the build arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub build_args: Vec<String>,
    /// Digest of the trust bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust_bundle: Option<String>,
    /// SHA-256 of all inputs of the image: 64 hex digits.
    pub inputs: String,
    /// The target: `host/repo` or `oci:DIR`. Without it, names are those for an OCI layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Name of the build.
    pub build_name: String,
    /// The tags that the image gets: the rendered name, the build name.
    pub tags: Vec<String>,
    /// The labels that the image gets.
    pub labels: BTreeMap<String, String>,
    /// The annotations that name the base in the image's manifest.
    pub annotations: BTreeMap<String, String>,
    /// The layer on the base, or on the prepared base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<PlanLayer>,
    /// With `--previous`: what the change costs machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<PlannedChange>,
    /// With `--checks`: what the checks before service find, except those that are off.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub checks: Vec<CheckResult>,
    /// The units whose `[Install]` links are made or removed.
    pub preset_units: Vec<String>,
    /// With `build --dry-run`: the programs that a build would run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub commands: Vec<String>,
    /// What mosb adds to the image, beside what the config says: the paths below `/var` that it brings to
    /// machines with the unit that does so, and kernel arguments for bootc.
    pub added: Vec<Finding>,
    /// The parts of the config that are not in the image, and the program that applies them.
    pub left_out: Vec<Finding>,
    /// Warnings about the image.
    pub warnings: Vec<Finding>,
    /// How a node will use the image.
    pub notes: Vec<Finding>,
}

/// What a change costs machines to which mosb brings images, as in a `Diff`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedChange {
    /// What the machines have.
    pub from: Side,
    /// The cost, and why.
    #[serde(flatten)]
    pub cost: ChangeCost,
    /// What changes of the OS, if the base differs, and both bases can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<Box<OsDiff>>,
}

/// The base of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedBase {
    /// The source.
    #[serde(flatten)]
    pub pinned: PinnedBase,
    /// Its name in the labels.
    pub name: String,
    /// `os/architecture[/variant]`.
    pub platform: String,
    /// Whether nodes can boot it.
    pub bootable: bool,
}

/// A stage of the administrator's Containerfile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedStage {
    /// The line of its `FROM`, or its first line if it has none.
    pub line: usize,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `prepared` (before the config is written), `last` (after it), `both`, or `unused`.
    pub part: Part,
    /// The reference that puts it there, with its line; none for an unused stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many of its instructions run again at the next change of the config.
    pub runs_again: usize,
    /// How the stage could run before the config is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What only a build shows, with its line: images, users by name, what is downloaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub unchecked: Vec<String>,
}

/// The one layer of a direct build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanLayer {
    /// Bytes of all files together.
    pub bytes: u64,
    /// Every path, in the order of the layer.
    pub paths: Vec<PathEntry>,
}

impl Plan {
    /// Describes a plan.
    pub fn new(plan: &BuildPlan, target: Option<&Target>, base_tree: Option<BaseTreeUse>) -> Self {
        let request = &plan.request;
        let base = &request.base;
        let digest = |bytes: &[u8]| Digest::of(bytes).to_string();
        let paths: Vec<PathEntry> = plan.layer.iter().map(PathEntry::from).collect();
        Self {
            rendered_config: request.config.name().to_string(),
            pool: request.config.pool().to_string(),
            method: plan.method.as_str().to_owned(),
            reasons: plan.method.reasons().iter().map(Reason::finding).collect(),
            prepared: None,
            build_on: request.build_on.to_string(),
            build_on_reason: build_on_reason(&request.config, request.build_on),
            base: PlannedBase {
                pinned: PinnedBase::new(base),
                name: base.name.as_str().to_owned(),
                platform: base.config.platform.to_string(),
                bootable: base.is_bootable(),
            },
            verified: Vec::new(),
            base_tree,
            extensions_image: request.extensions_image.as_ref().map(ToString::to_string),
            containerfile: request.containerfile.as_ref().map(|text| digest(text.as_bytes())),
            stages: Vec::new(),
            build_args: request.build_args.keys().cloned().collect(),
            trust_bundle: request.trust_bundle.as_ref().map(|bytes| digest(bytes)),
            inputs: plan.inputs.hex(),
            target: target.map(ToString::to_string),
            build_name: plan.build_name.to_string(),
            tags: plan.tags.to_vec(),
            labels: plan.labels.clone(),
            annotations: plan.annotations.clone(),
            layer: (!paths.is_empty()).then(|| PlanLayer {
                bytes: paths.iter().filter_map(|path| path.size).sum(),
                paths,
            }),
            change: None,
            checks: Vec::new(),
            preset_units: plan.preset_units.clone(),
            commands: Vec::new(),
            added: plan.added.clone(),
            left_out: plan.left_out.clone(),
            warnings: plan.warnings.clone(),
            notes: plan.notes.clone(),
        }
    }
}

impl PlannedStage {
    /// Describes the stages of a plan.
    pub fn all(split: &Split, hint: Option<&Hint>, decided_names: &[AtLine]) -> Vec<Self> {
        let of = |(at, one): (usize, &SplitStage)| {
            let stage = &one.stage;
            Self {
                line: if stage.is_leading() { stage.lines.start } else { stage.from.line },
                name: stage.name.clone(),
                part: one.part,
                reason: one.reason.as_ref().map(ToString::to_string),
                runs_again: if one.part == Part::Unused { 0 } else { stage.instructions },
                hint: hint.filter(|hint| hint.stage == at).map(|hint| hint.message.clone()),
                unchecked: one.unchecked(decided_names),
            }
        };
        split.stages.iter().enumerate().map(of).collect()
    }

    /// Its instructions run only once if they are before the config.
    pub fn set_prepared_once(&mut self) {
        if self.part == Part::Prepared {
            self.runs_again = 0;
        }
    }
}
