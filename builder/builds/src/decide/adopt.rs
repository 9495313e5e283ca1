//! Builds that reuse (adopt) the image in service, because machines apply the change of the config
//! themselves.

use super::DecisionBuilder;
use super::progress::BuildProgress;
use crate::lookup::{ImageStatus, Lookup, Planned};
use crate::pool_reason::PoolReason;
use mosb_api::rollout::RolloutMode;
use mosb_api::{BuildOn, MachineOsBuild, labels};
use mosb_cluster::status::{BuildPhase, build_status};
use mosb_image::PinnedRef;

impl<'a> DecisionBuilder<'a> {
    /// The build whose image is in service.
    pub(super) fn in_service(&self) -> Option<&'a MachineOsBuild> {
        let image = &*self.config.status.current_image_pull_spec;
        let has_it = |build: &&MachineOsBuild| build.status.image() == Some(image);
        let current = self.current().filter(has_it);
        current.or_else(|| self.snapshot.builds.iter().find(has_it))
    }

    /// The image in service, if only the rendered config changed and machines apply the difference
    /// themselves, or get it by a roll-out without another image.
    pub(super) fn adoptable(&self, planned: &Planned) -> Option<(&'a MachineOsBuild, PinnedRef)> {
        let may = |source: &&MachineOsBuild| match self.desired.build_on {
            BuildOn::OsChange => !planned.os_changed,
            // The roll-out brings keys and password to machines, and a build of this config would
            // bring nothing else.
            BuildOn::EveryConfig => {
                planned.is_login_change
                    && self.is_rolled_out()
                    && self.rolls_pool_out()
                    && !source.is_pre_built()
                    && !self.is_outdated(source)
            }
        };
        let source = self.in_service().filter(may)?;
        let adoptable = self.has_other_inputs(source)
            && source.spec.machine_config.name != self.desired.rendered.as_str()
            && planned.containerfile_problem.is_none()
            && !self.config.metadata.annotations.contains_key(labels::REBUILD);
        let image = source.status.image()?.parse().ok()?;
        adoptable.then_some((source, image))
    }

    /// Whether this build has the inputs of the desired one, whatever its rendered config and base are.
    pub(super) fn has_other_inputs(&self, build: &MachineOsBuild) -> bool {
        let rendered = &build.spec.machine_config.name;
        match build.metadata.annotation(labels::WANTED) {
            Some(wanted) if build.is_pre_built() => wanted == self.desired.seeded_with(rendered),
            Some(wanted) => wanted == self.desired.wanted_with(rendered),
            None => self.config.status.observed_generation == self.config.metadata.generation,
        }
    }

    /// Whether mosb alone brings configs to the pool's machines.
    pub(super) fn is_rolled_out(&self) -> bool {
        self.snapshot.cluster.rolling_out && !self.has_config_daemon()
    }

    /// Whether the pool's images are brought to machines, or staged there.
    fn rolls_pool_out(&self) -> bool {
        match RolloutMode::of(&self.config.metadata) {
            Ok(RolloutMode::Stage | RolloutMode::Automatic) => true,
            Ok(RolloutMode::None) | Err(_) => false,
        }
    }

    /// Whether machines apply configs themselves, so that mosb brings them nothing.
    pub(super) fn has_config_daemon(&self) -> bool {
        let cluster = &self.snapshot.cluster;
        cluster.machine_config_daemon || cluster.machine_config_operator
    }

    /// The pre-built image if it is in service: the pool's current MachineConfigs may give the same
    /// image.
    pub(super) fn recognisable(&self) -> Option<(&'a MachineOsBuild, PinnedRef)> {
        let source = self.in_service().filter(|build| build.is_pre_built())?;
        let annotations = &self.config.metadata.annotations;
        if self.desired.containerfile.is_some() || annotations.contains_key(labels::REBUILD) {
            return None;
        }
        let image = source.status.image()?.parse().ok()?;
        Some((source, image))
    }

    /// Copies the image of another build, once the registry confirmed it.
    pub(super) fn adopt(&mut self, build: &'a MachineOsBuild) -> Result<BuildProgress, Lookup> {
        let from = build.metadata.annotation(labels::ADOPTED_FROM);
        let mut builds = self.snapshot.builds.iter();
        let source = builds.find(|one| Some(&*one.metadata.name) == from);
        let image = source.and_then(|source| source.status.image()?.parse().ok());
        let gone = |builder: &mut Self| {
            builder.delete_build(build, "the image to adopt no longer exists");
            let reason = PoolReason::Replacing(build.metadata.name.clone());
            Ok(BuildProgress::State(build.status.clone(), reason))
        };
        let (Some(source), Some(image)) = (source, image) else {
            return gone(self);
        };
        match self.image_status(&image, source)? {
            ImageStatus::Present(image) => {
                let end = BuildPhase::Succeeded { workload: None, image };
                let status = build_status(&build.status, end, self.now);
                self.write_build(build, status.clone());
                let text = image.value().to_string();
                let reason = match build.metadata.annotation(labels::RECOGNISED) {
                    Some(_) => PoolReason::Recognised(text),
                    None => PoolReason::Adopting(text),
                };
                Ok(BuildProgress::State(status, reason))
            }
            ImageStatus::Missing => gone(self),
            ImageStatus::Unknown(problem) => {
                let reason = self.problem(problem);
                Ok(BuildProgress::State(build.status.clone(), reason))
            }
        }
    }
}
