//! What a pass knows about the pool as a whole.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use jiff::Timestamp;

use super::desired_target::{Desired, DesiredTarget};
use super::job_request::{LoginGrant, NodeLogin};
use super::lookup::TargetImage;
use super::machine_state::MachineState;
use super::policy::{PoolPolicy, Rings};
use super::reason::Blocked;
use super::snapshot::{MachineJob, RolloutSnapshot};
use mosb_api::rollout::{FailedTarget, History, HistoryEntry, NodeTarget, RolloutMode, Slot};
use mosb_api::{MachineOsConfig, Metadata, RenderedName, labels};
use mosb_cluster::resolver::MachineSecrets;
use mosb_cluster::target::{is_own_image, recorded, target_of};
use mosb_image::{Digest, ImageRef, PinnedRef};

/// How tools spell where an image is from.
const TRANSPORTS: [&str; 5] = [
    "ostree-unverified-registry:",
    "ostree-unverified-image:docker://",
    "ostree-unverified-image:registry:",
    "ostree-image-signed:docker://",
    "docker://",
];

#[derive(Debug)]
pub(super) struct Context<'a> {
    pub snapshot: &'a RolloutSnapshot,
    pub desired: &'a Desired,
    pub now: Timestamp,
    /// Of a pool with a policy.
    pub rings: Rings<'a>,
    /// The record that the target failed.
    pub failed_target: Option<FailedTarget>,
    /// Images and their rendered configs by digest. If several configs have one image, the config that
    /// it was built of.
    known: BTreeMap<Digest, (PinnedRef, Option<RenderedName>)>,
}

impl<'a> Context<'a> {
    pub fn new(snapshot: &'a RolloutSnapshot, desired: &'a Desired, now: Timestamp) -> Self {
        let mut known = BTreeMap::new();
        if let Some(config) = &snapshot.config {
            for entry in History::of(&config.metadata).entries() {
                let (image, config) = (entry.image.clone(), Some(entry.config.clone()));
                known.insert(image.digest(), (image, config));
            }
        }
        for build in &snapshot.builds {
            let image: Option<PinnedRef> =
                build.status.image().and_then(|image| image.parse().ok());
            let config = build.spec.machine_config.name.parse().ok();
            if let (Some(image), Some(config)) = (image, config) {
                let is_adopted = build.metadata.annotation(labels::ADOPTED_FROM).is_some();
                match known.entry(image.digest()) {
                    Entry::Occupied(_) if is_adopted => {}
                    Entry::Occupied(mut entry) => drop(entry.insert((image, Some(config)))),
                    Entry::Vacant(entry) => drop(entry.insert((image, Some(config)))),
                }
            }
        }
        if let Some(DesiredTarget { target, .. }) = desired.target() {
            let (image, config) = (target.image.clone(), target.config.clone());
            known.entry(image.digest()).or_insert((image, config));
        }
        let rings = match &snapshot.policy {
            PoolPolicy::Named { policy, .. } => {
                let nodes = snapshot.machines.iter().map(|machine| &machine.node.metadata);
                Rings::new(&policy.rings, nodes)
            }
            PoolPolicy::None | PoolPolicy::Invalid(_) => Rings::default(),
        };
        let failed = snapshot.config.as_ref().and_then(|one| FailedTarget::of(&one.metadata));
        let is_it = |failed: &FailedTarget| {
            let target = desired.target().map(|desired| &desired.target);
            target.is_some_and(|target| failed.target.is_same_to_machines(target))
        };
        Self { snapshot, desired, now, rings, failed_target: failed.filter(is_it), known }
    }

    pub fn desired_target(&self) -> Option<&'a DesiredTarget> {
        self.desired.target()
    }

    /// What the machines should run, whether it is brought to them or not.
    pub fn target(&self) -> Option<&'a NodeTarget> {
        self.desired_target().map(|desired| &desired.target)
    }

    /// Whether the target is of the pool's rendered config, or of what the pool is pinned to.
    pub fn is_newest(&self) -> bool {
        let rendered = &self.snapshot.pool.spec.configuration.name;
        self.desired_target().is_some_and(|desired| {
            let config = desired.target.config.as_ref();
            desired.is_pinned || config.is_none_or(|config| config.to_string() == *rendered)
        })
    }

    /// The target, if it is staged on machines now.
    pub fn stages(&self) -> Option<&'a NodeTarget> {
        let desired = self.desired_target().filter(|_| self.failed_target.is_none())?;
        let may = desired.mode >= RolloutMode::Stage && !self.snapshot.pool.spec.paused;
        may.then_some(&desired.target)
    }

    /// Whether a machine may get the files of the target while it runs another image. The machine
    /// finds out whether it can.
    pub fn may_go_live(&self, state: &MachineState<'_>) -> bool {
        self.desired_target().is_some_and(|desired| {
            let is_live = state.booted().is_some_and(|one| desired.live_images.contains(&one));
            is_live && !state.needs_reboot(&desired.target)
        })
    }

    /// Whether images are only staged, and others reboot the machines.
    pub fn only_stages(&self) -> bool {
        self.desired_target().is_some_and(|desired| desired.mode == RolloutMode::Stage)
    }

    /// The target, if machines are rebooted into it now.
    pub fn rolls_to(&self) -> Option<&'a NodeTarget> {
        let desired = self.desired_target().filter(|_| self.failed_target.is_none())?;
        let may = desired.mode == RolloutMode::Automatic && !self.snapshot.pool.spec.paused;
        may.then_some(&desired.target)
    }

    /// Whether a registry is still asked for the target.
    pub fn is_target_pending(&self) -> bool {
        matches!(self.desired, Desired::Pending)
    }

    /// Whether nothing is brought to machines, and nothing is unknown.
    pub fn is_off(&self) -> bool {
        match self.desired {
            Desired::Nothing => true,
            Desired::Target(desired) => desired.mode == RolloutMode::None,
            Desired::LookUp(_) | Desired::Pending | Desired::Unknown(_) | Desired::Invalid(_) => {
                false
            }
        }
    }

    /// Whether it is kept known what the machines run: an image is brought to them now, or was. In
    /// the mode `none` after a roll-out, a machine that somebody rebooted reports again.
    pub fn is_observed(&self) -> bool {
        let mut configs = self.snapshot.config.iter();
        let has_finalizer = |config: &MachineOsConfig| {
            config.metadata.finalizers.iter().any(|one| one == labels::ROLLOUT_FINALIZER)
        };
        !self.is_off() || configs.any(has_finalizer)
    }

    /// Whether Jobs on machines would be admitted: they run the controller's image, by digest.
    pub fn may_create_jobs(&self) -> bool {
        self.snapshot.cluster.own_image.parse::<PinnedRef>().is_ok()
    }

    /// Why nothing new is begun, as far as that is known before any machine is considered.
    pub fn blocked(&self) -> Option<Blocked> {
        match self.desired {
            Desired::Invalid(error) => {
                return Some(Blocked { reason: error.reason, message: error.message.clone() });
            }
            Desired::Unknown(problem) => {
                return Some(Blocked { reason: "LookupFailed", message: problem.message.clone() });
            }
            Desired::Nothing | Desired::LookUp(_) | Desired::Pending | Desired::Target(_) => {}
        }
        if !self.is_off()
            && let Some(message) = self.policy_error()
        {
            return Some(Blocked { reason: "BadRolloutPolicy", message });
        }
        if let Some(failed) = self.failed_target.as_ref().filter(|_| !self.is_off()) {
            return Some(self.by_failed_target(failed));
        }
        if self.is_off() || self.may_create_jobs() {
            return None;
        }
        let cause = match &*self.snapshot.cluster.own_image {
            "" => "the image of the controller is not known".to_owned(),
            image => format!("{image}: the digest of the controller's image is not known"),
        };
        let message = format!(
            "{cause}, so no Job on a machine would be admitted; name the image of the controller's Deployment by digest, or set MOSB_BUILDER_IMAGE there"
        );
        Some(Blocked { reason: "NoControllerDigest", message })
    }

    /// Whether the annotations of a machine are written. What a Job brought to it is known by the Job's
    /// report alone, also if the MachineOSConfig was deleted meanwhile.
    pub fn is_managed(&self, state: &MachineState<'_>) -> bool {
        let is_observed = self.is_observed() && !self.is_target_pending();
        is_observed || state.has_slot() || state.has_part_job()
    }

    /// Whether an image of this pool was ever brought to machines, or is now.
    pub fn is_used(&self) -> bool {
        let machines = &mut self.snapshot.machines.iter();
        self.snapshot.config.is_some() && self.is_observed()
            || self.snapshot.rivals.iter().any(asks_for_rollout)
            || machines.any(|machine| {
                let annotation = |key| machine.node.metadata.annotation(key).is_some();
                annotation(labels::NODE_REPORT) || annotation(labels::NODE_SLOT)
            })
    }

    /// Whether a drain for this slot is cancelled. If a fact could not be looked up, it goes on.
    pub fn takes_back(&self, state: &MachineState<'_>, slot: &Slot) -> bool {
        if self.brings_back(state).as_ref() == Some(&slot.target) {
            return false;
        }
        if matches!(self.desired, Desired::Unknown(_) | Desired::LookUp(_) | Desired::Pending) {
            return self.snapshot.pool.spec.paused;
        }
        self.rolls_to() != Some(&slot.target)
    }

    /// Whether machines of this pool may run an image: it is the target, or of the history or the
    /// builds, in the push repository or pre-built. A slot that somebody else wrote could name any.
    pub fn may_run(&self, target: &NodeTarget) -> bool {
        let Some(config) = &self.snapshot.config else {
            return false;
        };
        let is_of = |entry: &HistoryEntry| {
            (&entry.image, Some(&entry.config)) == (&target.image, target.config.as_ref())
                && entry.machine_part == target.machine_part
                && recorded(config, &self.snapshot.builds, entry).is_some()
        };
        let history = History::of(&config.metadata);
        let mut builds = self.snapshot.builds.iter();
        self.target() == Some(target)
            || history.entries().iter().any(is_of)
            || builds.any(|build| target_of(config, build).as_ref() == Ok(target))
    }

    /// The Secret of a Job that exists, which brings this target.
    pub fn login(&self, job: &MachineJob, target: &NodeTarget) -> NodeLogin {
        let (snapshot, config) = (self.snapshot, self.snapshot.config.as_ref());
        let is_own = |config| is_own_image(config, &snapshot.builds, &target.image);
        let grant = if !job.pulls {
            LoginGrant::NothingToPull
        } else if config.is_some_and(is_own) {
            LoginGrant::OwnImage
        } else {
            LoginGrant::Rendered(snapshot.pool.spec.configuration.name.clone())
        };
        NodeLogin {
            job: job.name.clone(),
            job_uid: job.uid.clone(),
            target: target.clone(),
            grant,
            secrets: config.map(MachineSecrets::of).unwrap_or_default(),
        }
    }

    /// The booted image with its digest, and the rendered config that the machine has, as far as they
    /// are known.
    pub fn current(&self, state: &MachineState<'_>) -> (Option<String>, Option<String>) {
        let booted = state.report.as_ref().and_then(|report| report.booted.as_ref());
        let Some((booted, digest)) = booted.and_then(|booted| Some((booted, booted.digest?)))
        else {
            return (None, None);
        };
        let applied = state.report.as_ref().and_then(|report| report.applied.as_ref());
        let brought = self.target().filter(|target| state.has(target)).or(applied);
        let is_live = |image| state.live().is_some_and(|live| live.image.digest() == image);
        let brought = brought.filter(|target| {
            let image = target.image.digest();
            image == digest || is_live(image)
        });
        let brought = brought.and_then(|target| target.config.as_ref());
        if let Some((image, config)) = self.known.get(&digest) {
            let config = brought.or(config.as_ref()).map(ToString::to_string);
            return (Some(image.to_string()), config);
        }
        let image = TRANSPORTS.iter().find_map(|one| booted.image.strip_prefix(one));
        let image: Option<ImageRef> = image.unwrap_or(&booted.image).parse().ok();
        (image.map(|image| image.repo().pinned(digest).to_string()), None)
    }

    /// Whether the controller runs on this machine.
    pub fn is_own(&self, state: &MachineState<'_>) -> bool {
        self.snapshot.cluster.own_node.as_deref() == Some(state.name())
    }

    /// What the registry reported about the target in this pass.
    pub fn target_image(&self) -> Option<&'a TargetImage> {
        self.snapshot.lookup_results.images.get(&self.target()?.image)
    }

    /// Whether the target has an image for the platform of this machine, as far as that is known.
    pub fn is_for(&self, state: &MachineState<'_>) -> bool {
        let (Some(TargetImage::Present { platforms, .. }), Some(platform)) =
            (self.target_image(), state.platform())
        else {
            return true;
        };
        platforms.iter().any(|one| platform.accepts(one))
    }
}

/// Whether a MachineOSConfig has, or had, an image that is brought to machines.
fn asks_for_rollout(config: &Metadata) -> bool {
    RolloutMode::of(config) != Ok(RolloutMode::None)
        || config.annotation(labels::ROLLOUT_ONCE).is_some()
        || config.finalizers.iter().any(|one| one == labels::ROLLOUT_FINALIZER)
}
