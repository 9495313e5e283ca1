//! Selects the build: the current one, an older one, one that adopts the image in service, or a new
//! one.

use super::DecisionBuilder;
use crate::lookup::{ImageStatus, Lookup, PlanLookup, Planned};
use crate::pool_reason::PoolReason;
use mosb_api::{BuildCondition, BuildOn, ImageBuilderType, MachineOsBuild, labels};
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_cluster::status::{EventReason, blocking_conditions};
use mosb_image::Platform;
use mosb_reconcile::Problem;
use mosb_reconcile::write::Patch;
use mosb_types::ErrorClass;

impl<'a> DecisionBuilder<'a> {
    pub(super) fn run(&mut self) -> Result<PoolReason, Lookup> {
        if let Some(seed) = self.seed.clone()
            && let Some(reason) = self.put_in_service(&seed)?
        {
            return Ok(reason);
        }
        if let Some(reason) = self.rebuild() {
            return Ok(reason);
        }
        let fitting = self.current().filter(|build| self.matches_desired(build));
        match fitting.or_else(|| self.in_progress()) {
            Some(build) => self.advance(build),
            None => self.plan_and_select(),
        }
    }

    /// The build that the MachineOSConfig names.
    pub(super) fn current(&self) -> Option<&'a MachineOsBuild> {
        let name = self.config.metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD)?;
        let mut builds = self.snapshot.builds.iter();
        builds.find(|build| build.metadata.name == name && !build.metadata.is_being_deleted())
    }

    /// Whether a build matches the desired state, as far as that needs no lookup.
    pub(super) fn matches_desired(&self, build: &MachineOsBuild) -> bool {
        if self.is_ours(build) {
            let wanted =
                if build.is_pre_built() { &self.desired.seeded } else { &self.desired.wanted };
            return build.metadata.annotation(labels::WANTED) == Some(wanted)
                && build.status.state() != Some(BuildCondition::Interrupted)
                && !self.is_outdated(build)
                && !is_image_deleted(build);
        }
        // Another builder's build, in service and unchanged since.
        let status = &self.config.status;
        let is_foreign = build.metadata.annotation(labels::INPUTS).is_none();
        is_foreign
            && !self.config.metadata.annotations.contains_key(labels::REBUILD)
            && build.status.image() == Some(&*status.current_image_pull_spec)
            && status.observed_generation == self.config.metadata.generation
            && build.spec.machine_config.name == self.desired.rendered.as_str()
    }

    /// Whether a build has the image of an older config although every config gets its own.
    pub(super) fn is_outdated(&self, build: &MachineOsBuild) -> bool {
        self.desired.build_on == BuildOn::EveryConfig
            && build.metadata.annotation(labels::ADOPTED_FROM).is_some()
            && build.metadata.annotation(labels::RECOGNISED).is_none()
            && build.metadata.annotation(labels::SAME_LAYER).is_none()
    }

    /// An active or failed build that matches, although the MachineOSConfig does not name it.
    fn in_progress(&self) -> Option<&'a MachineOsBuild> {
        self.ours().find(|build| {
            self.matches_desired(build) && build.status.state() != Some(BuildCondition::Succeeded)
        })
    }

    /// Plans, and selects the planned build.
    fn plan_and_select(&mut self) -> Result<PoolReason, Lookup> {
        if let Some(reason) = self.reuse_seeded_build()? {
            return Ok(reason);
        }
        // Its image is unknown and may be a pre-built one.
        if let Some(lost) = self.snapshot.lost_components.first() {
            return Ok(PoolReason::SeedGone(lost.clone()));
        }
        let plan = self.plan(|| self.plan_lookup(None, self.desired.builder))?;
        match plan {
            Ok(planned) => match self.unreconcilable(planned) {
                Some(reason) => {
                    self.block(&reason);
                    self.interrupt_running();
                    Ok(reason)
                }
                None => self.select_planned(planned),
            },
            Err(problem) => {
                let reason = self.problem(problem);
                if problem.class != ErrorClass::Transient {
                    self.interrupt_running();
                }
                Ok(reason)
            }
        }
    }

    /// Interrupts active builds, which are for an older desired state.
    fn interrupt_running(&mut self) {
        let running = |build: &&MachineOsBuild| !build.status.is_terminal();
        let running: Vec<_> = self.ours().filter(running).collect();
        for build in running {
            self.interrupt(build);
        }
    }

    /// The lookup of [`Self::plan_inputs`].
    pub(super) fn plan_lookup(
        &self,
        build: Option<&MachineOsBuild>,
        builder: ImageBuilderType,
    ) -> Lookup {
        Lookup::Plan(Box::new(self.plan_inputs(build, builder)))
    }

    /// The inputs of a plan; for an existing build, with its pinned base and method.
    pub(super) fn plan_inputs(
        &self,
        build: Option<&MachineOsBuild>,
        builder: ImageBuilderType,
    ) -> PlanLookup {
        let desired = &self.desired;
        let annotation = |key| build.and_then(|build| build.metadata.annotation(key));
        let method = annotation(labels::METHOD);
        let direct = mosb_build::JobMethod::Containerfile;
        let compare =
            self.in_service().filter(|_| build.is_none() || desired.build_on == BuildOn::OsChange);
        PlanLookup {
            pool: desired.pool.clone(),
            rendered: desired.rendered.clone(),
            containerfile: desired.containerfile.clone(),
            push: desired.push.clone(),
            push_secret: desired.push_secret.clone(),
            pull_secret: desired.pull_secret.clone(),
            platform: desired.platform.clone(),
            base: annotation(labels::BASE).and_then(|base| base.parse().ok()),
            recorded: desired.recorded.clone(),
            instead: desired.instead.clone(),
            build_on: desired.build_on,
            builder,
            method: method.filter(|method| *method == direct.as_str()).map(|_| direct),
            compare: compare.map(|build| build.spec.machine_config.name.clone()),
            recognise: match build {
                None => self.recognisable().map(|(_, image)| image),
                Some(_) => None,
            },
        }
    }

    /// Selects the build of this name, or creates it.
    pub(super) fn select_planned(&mut self, planned: &Planned) -> Result<PoolReason, Lookup> {
        let name = planned.build.as_str();
        let mut builds = self.snapshot.builds.iter();
        let Some(build) = builds.find(|build| build.metadata.name == name) else {
            return self.create_or_adopt(planned);
        };
        if build.metadata.is_being_deleted() || !self.is_ours(build) {
            // It belongs to a deleted MachineOSConfig of the same name and will be deleted with it.
            return Ok(PoolReason::Replacing(name.to_owned()));
        }
        let again = match build.status.state() {
            Some(BuildCondition::Succeeded) => {
                let image = build.status.image().and_then(|image| image.parse().ok());
                match image {
                    Some(image)
                        if !self.is_outdated(build)
                            && !is_on_other_base(build, planned)
                            && !is_image_deleted(build) =>
                    {
                        match self.image_status(&image, build)? {
                            ImageStatus::Present(_) => false,
                            ImageStatus::Missing => true,
                            ImageStatus::Unknown(problem) => return Ok(self.problem(problem)),
                        }
                    }
                    _ => true,
                }
            }
            Some(BuildCondition::Interrupted) => true,
            Some(BuildCondition::Prepared | BuildCondition::Building | BuildCondition::Failed)
            | None => false,
        };
        if again {
            if let Some(reason) = self.blocked_by_degraded_pool() {
                return Ok(reason);
            }
            self.note_deleted_image(build);
            self.delete_build(
                build,
                "its image no longer exists, or is for another config or base",
            );
            return Ok(PoolReason::Replacing(name.to_owned()));
        }
        self.advance_as_wanted(build)
    }

    /// Notes that the image of a build is deleted, or about to be: the registry may still have it, and
    /// the next build of this name must not take it.
    fn note_deleted_image(&mut self, build: &MachineOsBuild) {
        let (metadata, uid) = (&self.config.metadata, build.metadata.uid());
        if is_image_deleted(build) && metadata.annotation(labels::REBUILD_OF) != Some(uid) {
            let mut patch = Patch::default();
            patch.set(labels::REBUILD_OF, uid);
            self.actions.push(object::patch(kinds::MACHINE_OS_CONFIG, metadata, patch));
        }
    }

    /// Advances a build, and records on it that it matches the desired state.
    fn advance_as_wanted(&mut self, build: &'a MachineOsBuild) -> Result<PoolReason, Lookup> {
        if build.metadata.annotation(labels::WANTED) != Some(&*self.desired.wanted) {
            let mut patch = Patch::default();
            patch.set(labels::WANTED, self.desired.wanted.clone());
            self.actions.push(object::patch(kinds::MACHINE_OS_BUILD, &build.metadata, patch));
        }
        self.advance(build)
    }

    /// Creates a build, which adopts the image in service if possible.
    fn create_or_adopt(&mut self, planned: &Planned) -> Result<PoolReason, Lookup> {
        let recognised = self.recognisable().filter(|_| planned.is_recognised);
        if let Some((source, image)) = self.adoptable(planned).or(recognised) {
            match self.image_status(&image, source)? {
                ImageStatus::Present(_) => {
                    self.supersede(None);
                    self.create(planned, Some(source));
                    return Ok(if planned.is_recognised {
                        PoolReason::Recognised(image.to_string())
                    } else {
                        PoolReason::Adopting(image.to_string())
                    });
                }
                ImageStatus::Missing => {}
                ImageStatus::Unknown(problem) => return Ok(self.problem(problem)),
            }
        }
        if let Some(reason) = self.blocked_by_degraded_pool() {
            return Ok(reason);
        }
        if let Some(problem) = self.tag_of_another_platform(planned)? {
            return Ok(self.problem(&problem));
        }
        self.supersede(None);
        self.create(planned, None);
        Ok(PoolReason::Creating(planned.build.to_string()))
    }

    /// Whether the tag of the planned image names one for another platform, as far as builds of this
    /// pool show it: the push would be refused.
    fn tag_of_another_platform(&self, planned: &Planned) -> Result<Option<Problem>, Lookup> {
        let tagged = self.desired.push_spec();
        let pushed = |build: &MachineOsBuild| {
            let annotation = |key| build.metadata.annotation(key);
            let platform: Platform = annotation(labels::PLATFORM)?.parse().ok()?;
            let is_own = annotation(labels::ADOPTED_FROM).is_none() && !build.is_pre_built();
            let is_pushed = build.status.state() == Some(BuildCondition::Succeeded)
                && build.spec.rendered_image_push_spec == tagged;
            let image = build.status.image()?.parse().ok()?;
            (is_own && is_pushed && !planned.platform.accepts(&platform))
                .then_some((platform, image))
        };
        let Some((build, (platform, image))) =
            self.ours().find_map(|build| Some((build, pushed(build)?)))
        else {
            return Ok(None);
        };
        Ok(match self.image_status(&image, build)? {
            ImageStatus::Present(_) => Some(Problem {
                class: ErrorClass::InvalidInput,
                reason: "tag-of-another-platform".to_owned(),
                message: format!(
                    "{tagged}: {} pushed an image for {platform} there, and this one is for {}, which no push replaces; name another repository in spec.renderedImagePushSpec, one for each platform",
                    build.metadata.name, planned.platform
                ),
            }),
            ImageStatus::Missing => None,
            ImageStatus::Unknown(problem) => Some(problem.clone()),
        })
    }

    /// Blocks if the pool is degraded for reasons that a new image doesn't fix.
    fn blocked_by_degraded_pool(&mut self) -> Option<PoolReason> {
        let kinds = blocking_conditions(&self.pool.status.conditions);
        if kinds.is_empty() {
            return None;
        }
        let reason = PoolReason::PoolDegraded(kinds.into_iter().map(str::to_owned).collect());
        self.block(&reason);
        Some(reason)
    }

    /// Handles the annotation `rebuild`. Records the UID of the build to be replaced, to detect
    /// when another build has taken its place.
    fn rebuild(&mut self) -> Option<PoolReason> {
        let metadata = &self.config.metadata;
        metadata.annotations.get(labels::REBUILD)?;
        let build = self.current().filter(|build| self.is_ours(build))?;
        let uid = build.metadata.uid();
        let noted = metadata.annotation(labels::REBUILD_OF);
        if noted.is_some_and(|noted| noted != uid) {
            return None;
        }
        if let Some(reason) = self.blocked_by_degraded_pool() {
            return Some(reason);
        }
        let name = build.metadata.name.clone();
        if noted.is_none() {
            let note = format!("{name} is built again");
            self.emit_config_event(EventReason::RebuildRequested, uid, note);
            let mut patch = Patch::default();
            patch.set(labels::REBUILD_OF, uid);
            self.actions.push(object::patch(kinds::MACHINE_OS_CONFIG, metadata, patch));
        } else {
            self.delete_build(build, "a rebuild was asked for");
        }
        Some(PoolReason::Replacing(name))
    }
}

/// Whether the image of a build was deleted because nothing needed it, or is about to be.
fn is_image_deleted(build: &MachineOsBuild) -> bool {
    build.metadata.annotation(labels::IMAGE_DELETED).is_some()
}

/// Whether a build took over an image on another base than the planned one.
fn is_on_other_base(build: &MachineOsBuild, planned: &Planned) -> bool {
    let annotation = |key| build.metadata.annotation(key);
    annotation(labels::ADOPTED_FROM).is_some()
        && annotation(labels::BASE) != Some(&*planned.base.to_string())
}
