//! Which image of a MachineOSConfig machines may run.
//!
//! Invariant: it is in the push repository and was in service, or is of a succeeded build that this very
//! MachineOSConfig controls and whose [gate](crate::gate) is open. Such a build of a pre-built image
//! permits that image in any repository.

use std::collections::BTreeSet;

use crate::gate::Gate;
use mosb_api::rollout::{
    History, HistoryEntry, NodeTarget, PinnedBuild, RolloutMode, VerifyOnMachines,
};
use mosb_api::{AnnotationError, MachineOsBuild, MachineOsConfig, RenderedName, labels};
use mosb_image::{Digest, ImageRef, PinnedRef};

/// A setting or an object that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetError {
    /// One word for programs.
    pub reason: &'static str,
    pub message: String,
}

impl From<AnnotationError> for TargetError {
    fn from(error: AnnotationError) -> Self {
        Self { reason: "BadAnnotation", message: error.to_string() }
    }
}

impl TargetError {
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// Whether it may only be that a build is not seen yet.
    pub fn is_missing_build(&self) -> bool {
        ["PinNotFound", "ImageNotOurs"].contains(&self.reason)
    }
}

/// The build that an annotation names.
#[derive(Debug, Clone, Copy)]
pub struct Pin<'a> {
    pub build: &'a PinnedBuild,
    pub annotation: &'static str,
}

/// A build, and what machines run with it.
pub type Found = (PinnedBuild, NodeTarget);

/// A build that was in service, or one of this MachineOSConfig that may be.
pub fn by_pin(
    config: &MachineOsConfig,
    builds: &[MachineOsBuild],
    pin: Pin<'_>,
) -> Result<Found, TargetError> {
    let (pin, annotation) = (pin.build, pin.annotation);
    let history = History::of(&config.metadata);
    let entry = history.find(pin);
    if let Some(target) = entry.and_then(|entry| recorded(config, builds, entry)) {
        return Ok((pin.clone(), target));
    }
    let Some(build) = builds.iter().find(|build| build.metadata.name == pin.name) else {
        if let Some(HistoryEntry { image, .. }) = entry {
            let message = format!(
                "{annotation}: {image} is in the history, and not in the push repository; choose another build that `mosb builds` lists, or remove the annotation"
            );
            return Err(TargetError::new("ImageNotOurs", message));
        }
        return Err(TargetError::new(
            "PinNotFound",
            format!(
                "{annotation}: no build {pin} of this pool; choose one that `mosb builds` lists, or remove the annotation"
            ),
        ));
    };
    let target = target_of(config, build)?;
    if target.image.digest() != pin.digest {
        return Err(TargetError::new(
            "PinChanged",
            format!(
                "{annotation}: build {} has the image {} now, not {}; set {}@{}, or remove the annotation",
                pin.name,
                target.image,
                pin.digest,
                pin.name,
                target.image.digest()
            ),
        ));
    }
    let gate = Gate::recorded(config, build, &target.image.to_string());
    if !gate.is_open() {
        let message = gate.message(&config.spec.machine_config_pool.name, pin);
        return Err(TargetError::new("NotInService", format!("{annotation}: {message}")));
    }
    Ok((pin.clone(), target))
}

/// The build of an image, and of this config if several have it, that machines may run.
pub fn by_image(
    config: &MachineOsConfig,
    builds: &[MachineOsBuild],
    digest: Digest,
    rendered: Option<&RenderedName>,
) -> Option<Found> {
    let found = builds.iter().filter_map(|build| {
        let target = target_of(config, build).ok()?;
        let pin = PinnedBuild { name: build.metadata.name.clone(), digest };
        (target.image.digest() == digest).then_some((pin, target))
    });
    let found: Vec<Found> = found.collect();
    let of_it = found.iter().find(|(_, target)| target.config.as_ref() == rendered);
    of_it.or(found.first()).cloned()
}

/// What is in service, and the build of it.
pub fn in_service(
    config: &MachineOsConfig,
    builds: &[MachineOsBuild],
) -> Result<Option<Found>, TargetError> {
    let spec = &config.status.current_image_pull_spec;
    if spec.is_empty() {
        return Ok(None);
    }
    let error = |message: String| TargetError { reason: "ImageNotOurs", message };
    let image: PinnedRef = spec
        .parse()
        .map_err(|_| error(format!("{spec:?} in service has no digest; rebuild the pool")))?;
    let named = config.status.machine_os_build.as_ref().map(|build| &build.name);
    let mut of_it = builds.iter().filter(|build| Some(&build.metadata.name) == named);
    let target = of_it.next().map(|build| (build, target_of(config, build)));
    let wrong = match target {
        Some((build, Ok(target))) if target.image == image => {
            let build = PinnedBuild { name: build.metadata.name.clone(), digest: image.digest() };
            return Ok(Some((build, target)));
        }
        Some((build, Err(wrong))) if !build.metadata.is_controlled_by(config.metadata.uid()) => {
            return Err(wrong);
        }
        Some((_, Err(wrong))) => wrong,
        Some((_, Ok(_))) | None => {
            error(format!("{image} in service is of no build of this pool; rebuild the pool"))
        }
    };
    // The build may have been deleted since its image came into service, or it runs again.
    let history = History::of(&config.metadata);
    let entry = history.entries().iter().find(|entry| entry.image == image);
    let found = entry.and_then(|entry| Some((entry.pin(), recorded(config, builds, entry)?)));
    found.ok_or(wrong).map(Some)
}

/// What new machines boot: the build to which the pool is pinned, else the newest image that a machine of
/// the pool ran well; without a roll-out or such an image, the one in service. `None` before the first one.
///
/// # Errors
/// What is in service is not of this MachineOSConfig, or the pool is pinned to something else.
pub fn of_new_machines(
    config: &MachineOsConfig,
    builds: &[MachineOsBuild],
) -> Result<Option<Found>, TargetError> {
    let annotation = labels::ROLLOUT_BUILD;
    match PinnedBuild::in_annotation(&config.metadata, annotation)? {
        None => {
            let served = in_service(config, builds)?;
            let is_off = RolloutMode::of(&config.metadata) == Ok(RolloutMode::None);
            let history = History::of(&config.metadata);
            let confirmed = history.newest_confirmed().filter(|_| !is_off && served.is_some());
            let confirmed =
                confirmed.and_then(|entry| Some((entry.pin(), recorded(config, builds, entry)?)));
            Ok(confirmed
                .filter(|(build, _)| served.as_ref().map(|it| &it.0) != Some(build))
                .or(served))
        }
        Some(build) if build.is_stock() => Err(TargetError::new(
            "PinnedToStock",
            "the pool is pinned to the stock image, for which there is no config; `mosb rollout start` ends that",
        )),
        Some(build) => by_pin(config, builds, Pin { build: &build, annotation }).map(Some),
    }
}

/// An image that was in service, if machines may run it. The record is an annotation, which could
/// name any image.
pub fn recorded(
    config: &MachineOsConfig,
    builds: &[MachineOsBuild],
    entry: &HistoryEntry,
) -> Option<NodeTarget> {
    is_own_image(config, builds, &entry.image).then(|| NodeTarget {
        image: entry.image.clone(),
        config: Some(entry.config.clone()),
        machine_part: entry.machine_part,
        live_from: entry.live_from,
        verify: verifies(config),
    })
}

/// Whether machines pull the images of this MachineOSConfig only with a signature. A value that is
/// invalid, for which roll-outs begin nothing, does not relax it.
pub fn verifies(config: &MachineOsConfig) -> bool {
    VerifyOnMachines::of(&config.metadata) != Ok(VerifyOnMachines::None)
}

/// Whether an image is in the push repository, or a pre-built one of this MachineOSConfig.
pub fn is_own_image(
    config: &MachineOsConfig,
    builds: &[MachineOsBuild],
    image: &PinnedRef,
) -> bool {
    let is_pre_built = |build: &MachineOsBuild| {
        let built = build.status.image().and_then(|image| image.parse().ok());
        build.is_pre_built()
            && build.metadata.is_controlled_by(config.metadata.uid())
            && built.is_some_and(|built: PinnedRef| built == *image)
    };
    is_pushed(config, image) || builds.iter().any(is_pre_built)
}

/// Whether an image is in the push repository.
fn is_pushed(config: &MachineOsConfig, image: &PinnedRef) -> bool {
    let push: Result<ImageRef, _> = config.spec.rendered_image_push_spec.parse();
    push.is_ok_and(|push| push.repo() == image.repo())
}

/// The images that machines may run while they get this target without a reboot: they differ from it
/// and from each other only in files that are written at once.
pub fn live_images(
    config: &MachineOsConfig,
    builds: &[MachineOsBuild],
    target: &NodeTarget,
) -> BTreeSet<Digest> {
    let digest = target.image.digest();
    let first = target.live_from.unwrap_or(digest);
    let history = History::of(&config.metadata);
    let entries = history.entries().iter();
    let recorded = entries.filter_map(|entry| recorded(config, builds, entry));
    let built = builds.iter().filter_map(|build| target_of(config, build).ok());
    let of_it = recorded.chain(built).filter(|one| one.live_from == Some(first));
    let images = of_it.map(|one| one.image.digest()).chain([first]);
    images.filter(|image| *image != digest).collect()
}

/// The image of a build, if it is one that machines may run.
pub fn target_of(
    config: &MachineOsConfig,
    build: &MachineOsBuild,
) -> Result<NodeTarget, TargetError> {
    let name = &build.metadata.name;
    let error = |cause: &str| TargetError {
        reason: "ImageNotOurs",
        message: format!("build {name}: {cause}; choose one that `mosb builds` lists"),
    };
    if !build.metadata.is_controlled_by(config.metadata.uid()) {
        return Err(error("not controlled by this MachineOSConfig"));
    }
    if build.metadata.annotation(labels::IMAGE_DELETED).is_some() {
        return Err(error("its image was deleted from the registry, because nothing needed it"));
    }
    let image = build.status.image().ok_or_else(|| error("it has no image"))?;
    let image: PinnedRef = image.parse().map_err(|_| error("its image has no digest"))?;
    // A pre-built image is named by the administrator, and was never pushed by mosb.
    if !is_pushed(config, &image) && !build.is_pre_built() {
        return Err(error("its image is not in the push repository"));
    }
    let rendered = &build.spec.machine_config.name;
    let rendered = rendered.parse().map_err(|_| error("it is not of a rendered config"))?;
    let digest = |key| build.metadata.annotation(key).map(str::parse::<Digest>).transpose();
    let part = digest(labels::MACHINE_PART);
    let machine_part = part.map_err(|_| error("its mosb.dev/machine-part is not a digest"))?;
    let live = digest(labels::LIVE_FROM);
    let live_from = live.map_err(|_| error("its mosb.dev/live-from is not a digest"))?;
    Ok(NodeTarget {
        image,
        config: Some(rendered),
        machine_part,
        live_from,
        verify: verifies(config),
    })
}
