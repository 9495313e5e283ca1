//! Takes the image that the registry has already instead of a workload that would make it.
//!
//! Invariant: only an image whose digest was computed for this build is taken, and it is confirmed as one
//! that a workload made. If anything about it is not known, the workload is created.

use super::DecisionBuilder;
use super::annotations::method_of;
use super::prepared_base::prepared_use;
use super::progress::BuildProgress;
use super::signing::SigningWait;
use crate::lookup::{ExistingLookup, Lookup, Planned};
use crate::pool_reason::PoolReason;
use crate::prepared_bases::PreparedUse;
use mosb_api::{ImageBuilderType, MachineOsBuild, labels};
use mosb_build::JobMethod;
use mosb_cluster::status::{BuildPhase, EventReason, build_status};
use mosb_image::PinnedRef;
use mosb_registry::Confirmed;

impl<'a> DecisionBuilder<'a> {
    /// Whether a new build makes its image even if the registry has it: that is what a rebuild is for.
    pub(super) fn is_made_anew(&self) -> bool {
        let annotations = &self.config.metadata.annotations;
        [labels::REBUILD, labels::REBUILD_OF].iter().any(|key| annotations.contains_key(*key))
    }

    /// The image in the registry that this build would make, before its first workload. Only a direct
    /// build gives the same image each time, which can be compared.
    pub(super) fn existing_image(
        &self,
        build: &MachineOsBuild,
        planned: &Planned,
        attempt: u32,
    ) -> Result<Option<&'a Confirmed<PinnedRef>>, Lookup> {
        let is_direct = match self.desired.builder {
            ImageBuilderType::Job | ImageBuilderType::CustomPod => {
                planned.method == JobMethod::Direct
                    && method_of(build) == JobMethod::Direct
                    && prepared_use(build) == PreparedUse::Without
            }
            // It supports only Containerfiles.
            ImageBuilderType::OpenShiftImage => false,
        };
        if attempt > 1 || !is_direct || build.metadata.annotation(labels::ANEW).is_some() {
            return Ok(None);
        }
        match self.snapshot.lookup_results.existing.get(&planned.build) {
            Some(Ok(found)) => Ok(found.as_ref()),
            // A registry that does not answer must not delay the build.
            Some(Err(_)) => Ok(None),
            None => Err(Lookup::Existing(Box::new(ExistingLookup {
                build: planned.build.clone(),
                plan: self.plan_inputs(Some(build), self.desired.builder),
            }))),
        }
    }

    /// Ends a build with this image, once it is signed.
    pub(super) fn take_existing(
        &mut self,
        build: &MachineOsBuild,
        image: &Confirmed<PinnedRef>,
    ) -> Result<BuildProgress, Lookup> {
        let builder = self.desired.builder;
        let kind = self.image_kind(build, builder, None);
        match self.sign(build, image.value(), kind, builder)? {
            None => {}
            Some(SigningWait::InputsChanged(planned)) => {
                return Ok(BuildProgress::InputsChanged(planned.clone()));
            }
            Some(SigningWait::Problem(problem)) => {
                let reason = self.problem(&problem);
                return Ok(BuildProgress::State(build.status.clone(), reason));
            }
        }
        let text = image.value().to_string();
        let note = format!("the registry had {text} already, so nothing was built");
        self.emit_build_event(build, EventReason::BuildCompleted, "", note);
        let status = build_status(&build.status, BuildPhase::Found(image), self.now);
        self.write_build(build, status.clone());
        Ok(BuildProgress::State(status, PoolReason::Found(text)))
    }
}
