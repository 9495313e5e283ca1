//! Signs images: what a build made before the build ends, a prepared base before anything is built on it.
//!
//! Invariant: a build is called signed only after the registry returned evidence that verifies. While an
//! image has to be signed and is not, its build does not end.

use super::DecisionBuilder;
use super::annotations::method_of;
use super::prepared_base::PreparedChoice;
use crate::base_trees::BaseTreeKey;
use crate::lookup::{ImageKind, Lookup, PlanLookup, Planned, SignLookup, Signed};
use crate::prepared_bases::PreparedBase;
use crate::snapshot::base_of;
use mosb_api::cluster_settings::CONFIG_MAP;
use mosb_api::{ImageBuilderType, MachineOsBuild, MachineOsBuildStatus, condition, labels};
use mosb_build::JobMethod;
use mosb_cluster::status::{ConditionUpdate, EventReason, IMAGE_SIGNED};
use mosb_image::{Digest, PinnedRef};
use mosb_reconcile::Problem;
use mosb_reconcile::write::Patch;
use mosb_types::ErrorClass;

/// The most characters of a recorded message.
const MAX_MESSAGE: usize = 1024;

/// Why an image can't be used yet.
pub(super) enum SigningWait<'a> {
    /// It has to be signed, and could not be.
    Problem(Problem),
    /// The inputs of its build changed, so another build is needed.
    InputsChanged(&'a Planned),
}

/// Whether the image of a build is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Signature {
    /// By the key with this fingerprint.
    By(String),
    /// It has to be and is not: why.
    Missing(String),
    /// mosb did not sign it.
    NotRecorded,
}

impl Signature {
    /// As it is recorded on a build.
    fn of(build: &MachineOsBuild) -> Self {
        let annotation = |key| build.metadata.annotation(key).map(str::to_owned);
        match (annotation(labels::SIGNED), annotation(labels::NOT_SIGNED)) {
            (Some(key), _) => Self::By(key),
            (None, Some(why)) => Self::Missing(why),
            (None, None) => Self::NotRecorded,
        }
    }
}

/// Contents of the condition `ImageSigned`.
pub(super) struct SignedCondition {
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl SignedCondition {
    pub fn condition_update(&self) -> ConditionUpdate<'_> {
        ConditionUpdate {
            kind: IMAGE_SIGNED,
            status: self.status,
            reason: self.reason,
            message: &self.message,
        }
    }
}

impl<'a> DecisionBuilder<'a> {
    /// What the image of a build was made from. `on` is the prepared base that it is on.
    pub(super) fn image_kind(
        &self,
        build: &MachineOsBuild,
        builder: ImageBuilderType,
        on: Option<&PreparedBase>,
    ) -> ImageKind {
        let containerfile = || ImageKind::Containerfile { tree: self.tree_of_base(build) };
        match (builder, method_of(build), on) {
            // It supports only Containerfiles.
            (ImageBuilderType::OpenShiftImage, ..) => containerfile(),
            (_, _, Some(on)) => {
                ImageKind::OnPrepared { base: on.image, tree: self.tree_of(build, on.image) }
            }
            (_, JobMethod::Containerfile, None) => containerfile(),
            (_, JobMethod::Direct, None) => ImageKind::Direct { tree: self.lower_of(build).1 },
        }
    }

    /// Signs an image in the push repository, if images of the pool are signed. Returns why it can't be
    /// used yet.
    pub(super) fn sign(
        &mut self,
        build: &MachineOsBuild,
        image: &PinnedRef,
        kind: ImageKind,
        builder: ImageBuilderType,
    ) -> Result<Option<SigningWait<'a>>, Lookup> {
        let waits = |problem: Problem| Ok(Some(SigningWait::Problem(problem)));
        let Some(settings) = &self.snapshot.cluster.signing else {
            return waits(Problem {
                class: ErrorClass::InvalidInput,
                reason: "bad-cluster-settings".to_owned(),
                message: format!(
                    "configmap {CONFIG_MAP}: it can't be read, so it is not known whether {image} has to be signed; correct it"
                ),
            });
        };
        let secret = match settings.secret_of(&self.config.metadata) {
            Ok(Some(secret)) => secret,
            Ok(None) => return Ok(None),
            Err(error) => return waits(error.into()),
        };
        let problem = match self.snapshot.lookup_results.signed.get(image) {
            None => {
                return Err(Lookup::Sign(Box::new(SignLookup {
                    image: image.clone(),
                    kind,
                    build: build.metadata.name.clone(),
                    plan: self.plan_of_pushed(build, builder),
                    secret,
                })));
            }
            Some(Ok(Signed::By(key))) => {
                self.record_signature(build, kind, Signature::By(key.to_string()));
                return Ok(None);
            }
            Some(Ok(Signed::InputsChanged)) => {
                match self.plan(|| self.plan_lookup(Some(build), builder))? {
                    Ok(planned) if planned.build.as_str() != build.metadata.name => {
                        return Ok(Some(SigningWait::InputsChanged(planned)));
                    }
                    Ok(_) => Problem {
                        class: ErrorClass::Transient,
                        reason: "inputs-changed".to_owned(),
                        message: format!("{image}: its inputs changed while it was signed"),
                    },
                    Err(problem) => problem.clone(),
                }
            }
            Some(Err(problem)) => problem.clone(),
        };
        let problem =
            Problem { message: format!("{image}: not signed: {}", problem.message), ..problem };
        if settings.required {
            if super::is_reported(self.snapshot, &problem) {
                self.record_signature(build, kind, Signature::Missing(describe(&problem)));
            }
            return waits(problem);
        }
        if !kind.is_prepared_base() {
            let note = format!("{}; it comes into service unsigned", problem.message);
            self.emit_build_event(build, EventReason::ImageNotSigned, "", note);
            self.record_signature(build, kind, Signature::Missing(describe(&problem)));
        }
        Ok(None)
    }

    /// The same for a prepared base in the push repository.
    pub(super) fn sign_prepared(
        &mut self,
        build: &MachineOsBuild,
        image: Digest,
        builder: ImageBuilderType,
    ) -> Result<Option<SigningWait<'a>>, Lookup> {
        let kind = ImageKind::PreparedBase {
            tree: self.tree_of(build, image),
            base_tree: self.tree_of_base(build),
        };
        self.sign(build, &self.desired.push.pinned(image), kind, builder)
    }

    fn tree_of_base(&self, build: &MachineOsBuild) -> Option<Digest> {
        self.tree_of(build, base_of(build)?)
    }

    /// The image with the tree of what a build is made on, recorded or about to be.
    fn tree_of(&self, build: &MachineOsBuild, on: Digest) -> Option<Digest> {
        match self.lower_of(build) {
            (Some(lower), Some(tree)) if lower == on => Some(tree),
            _ => {
                let key = BaseTreeKey::new(&on, &self.desired.push, &self.snapshot.build_nodes);
                self.snapshot.cluster.base_trees.get(&key).copied()
            }
        }
    }

    /// What a build whose image was pushed was planned with.
    fn plan_of_pushed(&self, build: &MachineOsBuild, builder: ImageBuilderType) -> PlanLookup {
        let plan = self.plan_inputs(Some(build), builder);
        let secret = build.metadata.annotation(labels::RENDERED_IMAGE_PUSH_SECRET);
        let push_secret = secret.map_or(plan.push_secret, str::to_owned);
        // Nothing is compared.
        PlanLookup { push_secret, method: None, compare: None, recognise: None, ..plan }
    }

    /// Records on a build whether its image is signed. If the same problem was recorded before, its message
    /// stays, because the text of a problem may differ each time.
    fn record_signature(&mut self, build: &MachineOsBuild, kind: ImageKind, found: Signature) {
        let mut patch = Patch::default();
        match &found {
            Signature::By(key) => {
                patch.remove(labels::NOT_SIGNED);
                if !kind.is_prepared_base() {
                    patch.set(labels::SIGNED, key.clone());
                }
            }
            Signature::Missing(why) => {
                let before = build.metadata.annotation(labels::NOT_SIGNED);
                if before.is_none_or(|before| cause(before) != cause(why)) {
                    patch.set(labels::NOT_SIGNED, why.clone());
                }
            }
            Signature::NotRecorded => {}
        }
        self.record_choice(build, patch);
        if !kind.is_prepared_base() {
            self.signature = Some(found);
        }
    }

    /// Whether the image of a build is signed: as this decision found it, else as it is recorded.
    fn signature_of(&self, build: &MachineOsBuild) -> Signature {
        self.signature.clone().unwrap_or_else(|| Signature::of(build))
    }

    /// Whether the image of a build is signed; none if images of the pool were never signed.
    pub(super) fn signed_condition(
        &self,
        build: &MachineOsBuild,
        status: &MachineOsBuildStatus,
    ) -> Option<SignedCondition> {
        let image = status.image()?;
        let (status, reason, message) = match self.signature_of(build) {
            Signature::By(key) => ("True", "Signed", format!("{image} is signed with key {key}")),
            Signature::Missing(why) => ("False", "NotSigned", why),
            Signature::NotRecorded => {
                condition(&self.config.status.conditions, IMAGE_SIGNED)?;
                ("Unknown", "NotSignedHere", format!("mosb did not sign {image}"))
            }
        };
        Some(SignedCondition { status, reason, message })
    }
}

impl SigningWait<'_> {
    /// What that means for a build that is to be made on the image.
    pub(super) fn into_choice(self) -> PreparedChoice {
        PreparedChoice::Unknown(match self {
            Self::Problem(problem) => problem,
            Self::InputsChanged(planned) => Problem {
                class: ErrorClass::Transient,
                reason: "inputs-changed".to_owned(),
                message: format!("{}: its inputs changed while it was prepared", planned.build),
            },
        })
    }
}

/// As the annotation has it.
fn describe(problem: &Problem) -> String {
    let text = format!("{}: {}", problem.reason, problem.message);
    text.chars().take(MAX_MESSAGE).collect()
}

/// The code, and what the message begins with.
fn cause(text: &str) -> Vec<&str> {
    text.split(": ").take(4).collect()
}
