//! Lookups of a roll-out: facts that the watches don't show. Each is resolved with a limit, and its
//! result is used for one pass.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::policy::CheckedPods;
use mosb_api::RenderedName;
use mosb_api::cluster_settings::{AlertBlock, PodsCheck};
use mosb_image::{Digest, PinnedRef, Platform};
use mosb_reconcile::Problem;
use mosb_registry::Confirmed;

/// A fact to look up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RolloutLookup {
    /// Whether the registry has an image now, and for which platforms. Credentials are the pull
    /// secrets of the MachineOSConfig. Result: [`RolloutLookupResults::images`].
    Image(PinnedRef),
    /// The pinned `osImageURL` of a rendered config. Result:
    /// [`RolloutLookupResults::stock_images`].
    StockImage(RenderedName),
    /// The digest of the machine part of a rendered config. Result:
    /// [`RolloutLookupResults::machine_parts`].
    MachinePart(RenderedName),
    /// Whether the control plane can lose a node: `/readyz`, and etcd's pods in `kube-system`.
    /// Result: [`RolloutLookupResults::control_plane`].
    ControlPlane,
    /// The slots of all nodes, read from etcd: before a machine gets one. Result:
    /// [`RolloutLookupResults::slots`].
    Slots,
    /// The pods on a node that is being drained, without those that have ended. Result:
    /// [`RolloutLookupResults::pods`].
    Pods { node: String },
    /// The pods on a node that a check of the policy selects. Result:
    /// [`RolloutLookupResults::checked_pods`].
    CheckedPods { node: String, check: PodsCheck },
    /// Which of some alerts of a Prometheus fire. Result: [`RolloutLookupResults::alerts`].
    Alerts(AlertBlock),
}

/// What checks of a policy found, by node and check.
pub type CheckedByNode = BTreeMap<(String, PodsCheck), CheckedPods>;

/// Results of the lookups of this pass.
#[derive(Debug, Clone, Default)]
pub struct RolloutLookupResults {
    /// Lookups that a registry or a Prometheus has not answered yet. No pass waits for them: a later one
    /// has the answer.
    pub pending: BTreeSet<RolloutLookup>,
    pub images: BTreeMap<PinnedRef, TargetImage>,
    /// The image, or why it is not known. A stock image by tag is resolved by the registry.
    pub stock_images: BTreeMap<RenderedName, Result<PinnedRef, Problem>>,
    /// The digest, or why it is not known.
    pub machine_parts: BTreeMap<RenderedName, Result<Digest, Problem>>,
    pub control_plane: Option<ControlPlaneHealth>,
    /// The annotation `mosb.dev/slot` of each node that has one.
    pub slots: Option<Result<BTreeMap<String, String>, Problem>>,
    /// Those that a drain evicts or waits for, by node.
    pub pods: BTreeMap<String, Result<Vec<SeenPod>, Problem>>,
    /// Also those of earlier passes, which count for a while.
    pub checked_pods: CheckedByNode,
    /// Those that fire, or why that is not known.
    pub alerts: BTreeMap<AlertBlock, Result<BTreeSet<String>, Problem>>,
}

impl RolloutLookupResults {
    /// Whether the answer to this lookup is still to come.
    pub(super) fn awaits(&self, lookup: &RolloutLookup) -> bool {
        self.pending.contains(lookup)
    }
}

/// What a registry reported about an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetImage {
    Present {
        image: Confirmed<PinnedRef>,
        platforms: BTreeSet<Platform>,
    },
    /// The registry reported that it has no such image.
    Missing,
    /// The registry rejected the request or did not answer.
    Unknown(Problem),
}

/// Whether the control plane can lose a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlPlaneHealth {
    Healthy {
        /// No pod of etcd is in `kube-system`, so that its state is not known.
        is_etcd_external: bool,
    },
    /// Why it must not lose one now.
    Unhealthy(String),
}

/// A pod on a node that is being drained, reduced to what the choice needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenPod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Its controlling owner is a DaemonSet.
    pub is_of_daemon_set: bool,
    /// It has the annotation `kubernetes.io/config.mirror`.
    pub is_mirror: bool,
    /// It is a pod of a Job of the roll-out, in the namespace of these Jobs.
    pub is_of_rollout: bool,
    /// The scheduler may put it on a node that is cordoned.
    pub tolerates_cordon: bool,
    pub deleting: bool,
    /// How long it may take to end, if it is being deleted.
    pub grace: Duration,
}

impl SeenPod {
    /// Whether a drain leaves it, as `kubectl drain` does with `--ignore-daemonsets`.
    pub(super) fn stays(&self) -> bool {
        self.is_of_daemon_set || self.is_mirror || self.is_of_rollout
    }
}
