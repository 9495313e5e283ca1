//! What the machines of a pool should run. Pure.
//!
//! Input: MachineOSConfig, its MachineOSBuilds and the result of looking up the stock image.
//! Output: a target and how far it is brought to the machines, or why there is none.
use std::collections::BTreeSet;

use super::lookup::RolloutLookup;
use super::snapshot::RolloutSnapshot;
use super::target_source::{NoTarget, stock};
use mosb_api::rollout::{
    NodeTarget, OnDelete, PinnedBuild, RolloutMode, SoftRebootMode, VerifyOnMachines,
};
use mosb_api::{MachineOsConfig, Metadata, labels};
use mosb_cluster::target::{Pin, TargetError, by_pin, in_service, live_images};
use mosb_image::Digest;
use mosb_reconcile::Problem;

/// What the machines should run.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Desired {
    /// There is no MachineOSConfig, or it has no image yet: nothing is brought to machines.
    Nothing,
    /// A fact is missing.
    LookUp(RolloutLookup),
    /// A registry has not answered yet: what is under way goes on, and nothing is reported.
    Pending,
    /// A fact could not be looked up: what is under way goes on.
    Unknown(Problem),
    /// A setting or an object is wrong: nothing new is begun.
    Invalid(TargetError),
    Target(Box<DesiredTarget>),
}

/// A target of the pool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DesiredTarget {
    pub target: NodeTarget,
    /// The images that machines may run while they get the target without a reboot.
    pub live_images: BTreeSet<Digest>,
    /// The build by name and digest.
    pub build: PinnedBuild,
    /// `Automatic` also for a target that is rolled out once, and before a deletion.
    pub mode: RolloutMode,
    /// The build in service, if the pool is pinned to another one.
    pub newer: Option<PinnedBuild>,
    pub is_pinned: bool,
    /// The annotation `mosb.dev/rollout-once` names it.
    pub is_once: bool,
    /// The MachineOSConfig is deleted once all machines run it.
    pub is_deletion: bool,
}

impl From<NoTarget> for Desired {
    fn from(reason: NoTarget) -> Self {
        match reason {
            NoTarget::LookUp(lookup) => Self::LookUp(lookup),
            NoTarget::Pending => Self::Pending,
            NoTarget::Unknown(problem) => Self::Unknown(problem),
            NoTarget::Invalid(error) => Self::Invalid(error),
        }
    }
}

impl Desired {
    pub fn of(snapshot: &RolloutSnapshot) -> Self {
        if snapshot.pool.metadata.is_being_deleted() {
            return Self::Nothing;
        }
        if !snapshot.rivals.is_empty() {
            let names = rival_names(&snapshot.rivals);
            return Self::Invalid(TargetError::new(
                "Rivals",
                format!("more than one MachineOSConfig for the pool: {names}; delete all but one"),
            ));
        }
        let Some(config) = &snapshot.config else {
            return Self::Nothing;
        };
        let mode = match RolloutMode::of(&config.metadata) {
            Ok(mode) => mode,
            Err(error) => return Self::Invalid(error.into()),
        };
        if let Err(error) = SoftRebootMode::of(&config.metadata) {
            return Self::Invalid(error.into());
        }
        if let Err(error) = VerifyOnMachines::of(&config.metadata) {
            return Self::Invalid(error.into());
        }
        if config.metadata.is_being_deleted() {
            return on_deletion(snapshot, config);
        }
        let pin = |annotation| PinnedBuild::in_annotation(&config.metadata, annotation);
        let (pinned, once) = match (pin(labels::ROLLOUT_BUILD), pin(labels::ROLLOUT_ONCE)) {
            (Ok(pinned), Ok(once)) => (pinned, once),
            (Err(error), _) | (_, Err(error)) => return Self::Invalid(error.into()),
        };
        let found = Self::of_annotations(snapshot, config, mode, pinned, once.as_ref());
        match found {
            // In this mode a target is not needed.
            Self::Invalid(_) | Self::LookUp(_) | Self::Pending | Self::Unknown(_)
                if mode == RolloutMode::None && once.is_none() =>
            {
                Self::Nothing
            }
            Self::Invalid(error) if error.is_missing_build() => {
                match &snapshot.cluster.broken_watch {
                    Some(watch) => Self::Unknown(Problem::of_watch(watch)),
                    None => Self::Invalid(error),
                }
            }
            found => found,
        }
    }

    fn of_annotations(
        snapshot: &RolloutSnapshot,
        config: &MachineOsConfig,
        mode: RolloutMode,
        pinned: Option<PinnedBuild>,
        once: Option<&PinnedBuild>,
    ) -> Self {
        let in_service = in_service(config, &snapshot.builds);
        // A pin takes precedence over a target that is rolled out once.
        let pin = |build, annotation| Pin { build, annotation };
        let named = pinned.as_ref().map(|build| pin(build, labels::ROLLOUT_BUILD));
        let named = named.or_else(|| once.map(|build| pin(build, labels::ROLLOUT_ONCE)));
        let found = match named {
            Some(pin) if pin.build.is_stock() => stock(snapshot, Some(pin)).map_err(Self::from),
            Some(pin) => by_pin(config, &snapshot.builds, pin).map_err(Self::Invalid),
            None => match &in_service {
                Ok(Some(found)) => Ok(found.clone()),
                Ok(None) => Err(Self::Nothing),
                Err(error) => Err(Self::Invalid(error.clone())),
            },
        };
        let (build, target) = match found {
            Ok(found) => found,
            Err(desired) => return desired,
        };
        let is_once = once == Some(&build);
        let newer = in_service.ok().flatten().map(|(newest, _)| newest);
        Self::Target(Box::new(DesiredTarget {
            mode: if is_once { RolloutMode::Automatic } else { mode },
            newer: newer.filter(|newest| pinned.is_some() && *newest != build),
            is_pinned: pinned.is_some(),
            is_once,
            is_deletion: false,
            build,
            live_images: live_images(config, &snapshot.builds, &target),
            target,
        }))
    }

    pub fn target(&self) -> Option<&DesiredTarget> {
        match self {
            Self::Target(target) => Some(target),
            _ => None,
        }
    }
}

/// The names of these MachineOSConfigs, for people.
pub(super) fn rival_names(rivals: &[Metadata]) -> String {
    rivals.iter().map(|rival| &*rival.name).collect::<Vec<_>>().join(", ")
}

/// The image in service as an entry of the history; none before the first one, or if it is not of
/// this MachineOSConfig.
pub(super) fn served(snapshot: &RolloutSnapshot) -> Option<(PinnedBuild, NodeTarget)> {
    let config = snapshot.config.as_ref()?;
    in_service(config, &snapshot.builds).ok().flatten()
}

/// Only a MachineOSConfig whose image was rolled out has our finalizer.
fn on_deletion(snapshot: &RolloutSnapshot, config: &MachineOsConfig) -> Desired {
    if !config.metadata.finalizers.iter().any(|one| one == labels::ROLLOUT_FINALIZER) {
        return Desired::Nothing;
    }
    match OnDelete::of(&config.metadata) {
        Err(error) => Desired::Invalid(error.into()),
        Ok(OnDelete::Keep) => Desired::Nothing,
        Ok(OnDelete::Stock) => match stock(snapshot, None) {
            Err(reason) => reason.into(),
            Ok((build, target)) => Desired::Target(Box::new(DesiredTarget {
                target,
                build,
                mode: RolloutMode::Automatic,
                newer: None,
                is_pinned: false,
                is_once: false,
                is_deletion: true,
                live_images: BTreeSet::new(),
            })),
        },
    }
}
