//! What a Job on a machine is created for: everything that its template does not contain.

use super::snapshot::{Machine, RolloutSnapshot};
use mosb_image::Digest;
use mosb_plan::api::labels;
use mosb_plan::api::rollout::NodeTarget;

/// Hex digits of a node's UID in the name of a Job.
const NODE: usize = 8;

/// What a Job does on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeVerb {
    /// Reports what the machine runs.
    Report,
    /// Brings the image to the machine, which goes on running what it runs.
    Stage,
    /// Reboots the machine into the staged image.
    Apply,
    /// Brings the machine part of a target whose image the machine runs, without a reboot.
    Part,
}

impl NodeVerb {
    pub const ALL: [Self; 4] = [Self::Report, Self::Stage, Self::Apply, Self::Part];

    /// In the label `mosb.dev/node-job` and the name of the Job.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Stage => "stage",
            Self::Apply => "apply",
            Self::Part => "part",
        }
    }

    /// The verb of a label.
    pub fn from_label(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == label)
    }
}

/// A Job to create on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeJobRequest {
    /// Derived from verb, node, target and number, so a Job is created once.
    pub name: String,
    pub verb: NodeVerb,
    pub pool: String,
    pub node: String,
    /// UID of the Node object, which owns the Job.
    pub node_uid: String,
    /// None for [`NodeVerb::Report`].
    pub target: Option<NodeTarget>,
    /// The attempt of `apply`, or the try of another verb, from 1.
    pub number: u32,
    /// Whether `apply` adopts what the machine's first config wrote.
    pub adopts: bool,
    /// The image of the controller, by digest.
    pub image: String,
}

impl NodeJobRequest {
    pub(super) fn new(
        snapshot: &RolloutSnapshot,
        machine: &Machine,
        verb: NodeVerb,
        target: Option<&NodeTarget>,
        number: u32,
    ) -> Self {
        let node_uid = machine.metadata.uid();
        let node = &Digest::of(node_uid.as_bytes()).hex()[..NODE];
        let what = target.map_or_else(|| "boot".to_owned(), NodeTarget::id);
        Self {
            name: format!("mosb-{}-{node}-{what}-{number}", verb.as_str()),
            verb,
            pool: snapshot.pool.metadata.name.clone(),
            node: machine.metadata.name.clone(),
            node_uid: node_uid.to_owned(),
            target: target.cloned(),
            number,
            adopts: verb == NodeVerb::Apply && adopts(snapshot),
            image: snapshot.cluster.own_image.clone(),
        }
    }
}

/// Whether machines of the pool adopt what their first config wrote.
pub fn adopts(snapshot: &RolloutSnapshot) -> bool {
    let config = snapshot.config.as_ref();
    config.is_some_and(|config| config.metadata.annotation(labels::ADOPT) == Some("true"))
}

/// The Secret of a Job to create, with the login of its machine and the machine part of its target:
/// named as the Job and owned by it. Its content is read when it is created, and never part of a
/// decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLogin {
    /// The Job, which exists.
    pub job: String,
    pub job_uid: String,
    /// The login is cut down to this image's repository and its mirrors.
    pub target: NodeTarget,
    /// The pull secret of the MachineOSConfig, in our namespace, which takes precedence over the
    /// global one.
    pub pull_secret: Option<String>,
}
