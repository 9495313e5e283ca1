//! Seeding: puts a pre-built image, requested by an annotation, in service as the pool's first
//! build.
//!
//! Order: the confirmation by the registry, and by the signature policies that apply; the MachineConfig
//! that sets the image; a rendered config that names it; a MachineOSBuild that has succeeded; the status
//! of the MachineOSConfig, then its annotation that names the build; removal of the request. Until the
//! MachineOSConfig names the build, nothing is planned or built. While the request exists, lost objects
//! are created again.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::component::{Component, component};
use super::desired_build::DesiredBuild;
use super::promotion::Promotion;
use super::{Decision, DecisionBuilder, Unavailable, is_reported, needs, pull_of, report_status};
use crate::action::{Action, new_object};
use crate::lookup::{ImageStatus, Lookup, Pull, RequiredPolicy};
use crate::pool_reason::PoolReason;
use crate::snapshot::Snapshot;
use mosb_api::{BuildCondition, MachineOsBuild, MachineOsConfig, PoolName, labels};
use mosb_cluster::status::{EventReason, seeded_status};
use mosb_image::PinnedRef;
use mosb_plan::plan::{pre_built_image, pre_built_inputs};
use mosb_reconcile::Problem;
use mosb_registry::Confirmed;
use mosb_types::ErrorClass;

/// A pre-built image that must be put in service first.
#[derive(Debug, Clone)]
pub(super) struct Seed {
    pub pool: PoolName,
    pub image: PinnedRef,
    push_secret: String,
    pull: Pull,
    policy: RequiredPolicy,
    /// The build that represents it, once the pool has a rendered config.
    build: Option<SeededBuild>,
}

#[derive(Debug, Clone)]
struct SeededBuild {
    name: String,
    inputs: String,
    /// Whether it is still to be created: the MachineOSConfig names no other build of the image.
    is_next: bool,
}

impl Seed {
    /// The requested image; `None` without a request, or if another image is in use already.
    pub fn of(
        snapshot: &Snapshot,
        config: &MachineOsConfig,
        desired: Option<&DesiredBuild>,
    ) -> Result<Option<Self>, PoolReason> {
        let metadata = &config.metadata;
        let Some(text) = metadata.annotation(labels::PRE_BUILT_IMAGE) else {
            return Ok(None);
        };
        let bad = |why: String| PoolReason::BadConfig(why);
        let nested = !snapshot.cluster.nested_digests_refused;
        let image = pre_built_image(text, nested);
        let find = |name: &str| {
            let mut builds = snapshot.builds.iter();
            builds.find(|build| build.metadata.name == name)
        };
        // A deleted build has no information, and a referenced one may be another builder's.
        let in_use = [
            metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD),
            in_service(config).filter(|name| find(name).is_some()),
        ];
        let mut in_use = in_use.into_iter().flatten().peekable();
        let (image, _) = match image {
            // An image is in use already, so the request will only be removed.
            Err(_) if in_use.peek().is_some() => return Ok(None),
            image => image
                .map_err(|error| bad(format!("annotation {}: {error}", labels::PRE_BUILT_IMAGE)))?,
        };
        let spec = &config.spec;
        let pool = spec.machine_config_pool.name.parse();
        let pool: PoolName =
            pool.map_err(|cause| bad(format!("spec.machineConfigPool.name {cause}")))?;
        let mut build = desired.map(|desired| {
            let inputs = pre_built_inputs(&pool, &desired.rendered, &image);
            SeededBuild {
                name: inputs.build_name(&pool, Some(&desired.push)).to_string(),
                inputs: inputs.hex(),
                is_next: true,
            }
        });
        let stands_for_it = |build: &MachineOsBuild| {
            let there = build.status.image();
            build.is_pre_built() && there.is_none_or(|there| there == image.to_string())
        };
        for name in in_use {
            if build.as_ref().is_some_and(|build| build.name == name) {
                continue;
            }
            if !find(name).is_some_and(stands_for_it) {
                return Ok(None);
            }
            if let Some(build) = &mut build {
                build.is_next = false;
            }
        }
        Ok(Some(Self {
            pool,
            image,
            push_secret: spec.rendered_image_push_secret.name.clone(),
            pull: pull_of(config),
            policy: desired.map_or(RequiredPolicy::Settings, |desired| {
                RequiredPolicy::Pool(desired.rendered.clone())
            }),
            build,
        }))
    }

    /// Before the pool's first rendered config: only the component is created.
    pub fn before_first_render(
        &self,
        snapshot: &Snapshot,
        config: &MachineOsConfig,
        now: Timestamp,
    ) -> Decision {
        match component(&self.pool, &self.image, snapshot) {
            Component::Ready(name) => {
                let mut actions = Vec::new();
                report_status::unblock(config, now, &mut actions);
                Decision::of(self.not_rendered(name), actions)
            }
            Component::Deleting(name) => Decision::unchanged(PoolReason::Replacing(name)),
            Component::Pending { name, changes_image, actions } => {
                match changes_image.then(|| self.confirmed_image(snapshot)) {
                    None | Some(Ok(_)) => Decision::of(PoolReason::SeedComponent(name), actions),
                    Some(Err(Unavailable::Problem(problem))) => {
                        let reason = PoolReason::Problem(problem.clone());
                        let mut actions = Vec::new();
                        if is_reported(snapshot, &problem) {
                            report_status::block(snapshot, config, &reason, now, &mut actions);
                        }
                        Decision::of(reason, actions)
                    }
                    Some(Err(Unavailable::Lookup(lookup))) => needs(lookup),
                }
            }
        }
    }

    fn not_rendered(&self, component: String) -> PoolReason {
        PoolReason::SeedNotRendered { component, image: self.image.to_string() }
    }

    /// The image, if the registry confirms it, and the policies that apply accept it.
    fn confirmed_image<'a>(
        &self,
        snapshot: &'a Snapshot,
    ) -> Result<&'a Confirmed<PinnedRef>, Unavailable> {
        match snapshot.lookup_results.exists.get(&self.image) {
            None => Err(Unavailable::Lookup(Lookup::Exists {
                image: self.image.clone(),
                secret: self.push_secret.clone(),
                pull: self.pull.clone(),
                policy: self.policy.clone(),
            })),
            Some(ImageStatus::Present(image)) => Ok(image),
            Some(ImageStatus::Missing) => Err(Unavailable::Problem(Problem {
                class: ErrorClass::InvalidInput,
                reason: "not-found".to_owned(),
                message: format!(
                    "{}: the registry has no such image; push it, or name another one in annotation {}",
                    self.image,
                    labels::PRE_BUILT_IMAGE
                ),
            })),
            Some(ImageStatus::Unknown(problem)) => Err(Unavailable::Problem(problem.clone())),
        }
    }
}

/// Name of the build whose image is in service.
fn in_service(config: &MachineOsConfig) -> Option<&str> {
    let status = &config.status;
    let build = status.machine_os_build.as_ref()?;
    (!status.current_image_pull_spec.is_empty()).then_some(&build.name)
}

impl<'a> DecisionBuilder<'a> {
    /// The next action for a pre-built image; `None` once it was in service and the pool's config
    /// has changed.
    pub(super) fn put_in_service(&mut self, seed: &Seed) -> Result<Option<PoolReason>, Lookup> {
        let snapshot = self.snapshot;
        let component = match component(&seed.pool, &seed.image, snapshot) {
            Component::Ready(name) => name,
            Component::Deleting(name) => return Ok(Some(PoolReason::Replacing(name))),
            Component::Pending { name, changes_image, actions } => {
                // Check the image before the pool uses it.
                if changes_image && let Err(cause) = seed.confirmed_image(snapshot) {
                    return self.unavailable(cause).map(Some);
                }
                // Clear `Blocked` only after the API server accepted these.
                self.actions.extend(actions);
                self.unblock();
                return Ok(Some(PoolReason::SeedComponent(name)));
            }
        };
        match self.names_image(&component, &seed.image) {
            Ok(true) => {}
            Ok(false) => {
                self.unblock();
                return Ok(Some(seed.not_rendered(component)));
            }
            Err(cause) => return self.unavailable(cause).map(Some),
        }
        match &seed.build {
            Some(build) if build.is_next => self.select_seeded(seed, build).map(Some),
            _ => {
                self.seed = None;
                Ok(None)
            }
        }
    }

    /// Whether the pool's config was rendered from this MachineConfig and has its image.
    fn names_image(&self, component: &str, image: &PinnedRef) -> Result<bool, Unavailable> {
        let mut sources = self.pool.spec.configuration.source.iter();
        if !sources.any(|source| source.name == component) {
            return Ok(false);
        }
        let rendered = &self.desired.rendered;
        match self.snapshot.lookup_results.os_image.get(rendered) {
            None => Err(Unavailable::Lookup(Lookup::OsImage { rendered: rendered.clone() })),
            Some(Ok(named)) => Ok(named.parse::<PinnedRef>().as_ref() == Ok(image)),
            Some(Err(problem)) => Err(Unavailable::Problem(problem.clone())),
        }
    }

    /// Creates, completes and reports the build that represents the image.
    fn select_seeded(&mut self, seed: &Seed, wanted: &SeededBuild) -> Result<PoolReason, Lookup> {
        let name = &wanted.name;
        let seeding = PoolReason::Seeding(seed.image.to_string());
        let mut builds = self.snapshot.builds.iter();
        let build = builds.find(|build| build.metadata.name == *name);
        if let Some(build) = build
            && (build.metadata.is_being_deleted() || !self.is_ours(build))
        {
            // It belongs to a deleted MachineOSConfig of the same name and will be deleted with it.
            return Ok(PoolReason::Replacing(name.clone()));
        }
        let Some(build) = build else {
            if let Err(cause) = seed.confirmed_image(self.snapshot) {
                return self.unavailable(cause);
            }
            self.supersede(None);
            self.create_seeded(wanted);
            return Ok(seeding);
        };
        let status = match build.status.state() {
            Some(BuildCondition::Failed | BuildCondition::Interrupted) => {
                self.delete_build(build, "the image was built elsewhere and exists");
                return Ok(PoolReason::Replacing(name.clone()));
            }
            Some(BuildCondition::Succeeded) => build.status.clone(),
            Some(BuildCondition::Prepared | BuildCondition::Building) | None => {
                match seed.confirmed_image(self.snapshot) {
                    Ok(image) => seeded_status(&build.status, image, self.now),
                    Err(cause) => return self.unavailable(cause),
                }
            }
        };
        self.supersede(Some(build));
        self.write_build(build, status.clone());
        let promotion = self.promotion(build, &status)?;
        let metadata = &self.config.metadata;
        let is_open = promotion.as_ref().is_some_and(Promotion::is_open);
        if is_open && metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD) != Some(name) {
            let note = format!("{} was built elsewhere, and is in service", seed.image);
            self.emit_config_event(EventReason::PreBuiltImageSeeded, build.metadata.uid(), note);
        }
        self.report_seeded_status(build, &status, promotion.as_ref());
        if let Some(held) = promotion.and_then(|promotion| promotion.held()) {
            return Ok(held);
        }
        self.seed = None;
        Ok(seeding)
    }

    fn create_seeded(&mut self, wanted: &SeededBuild) {
        let annotations: BTreeMap<String, String> = [
            (labels::INPUTS, &wanted.inputs),
            (labels::WANTED, &self.desired.seeded),
            (labels::RENDERED_IMAGE_PUSH_SECRET, &self.desired.push_secret),
        ]
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .into();
        let mut build = self.new_build(&wanted.name, annotations);
        let label = (labels::PRE_BUILT_IMAGE.to_owned(), "true".to_owned());
        build.metadata.labels.extend([label]);
        // As in the MachineOSConfig: nothing is pushed.
        let spec = &self.config.spec.rendered_image_push_spec;
        build.spec.rendered_image_push_spec.clone_from(spec);
        self.actions.push(Action::Create(new_object::build(&build)));
    }
}
