//! What a Job on a machine is created for: everything that its template does not contain.

use mosb_api::rollout::NodeTarget;
use mosb_cluster::resolver::MachineSecrets;
use mosb_cluster::words;

words! {
    /// What a Job does on a machine: in the label `mosb.dev/node-job` and the name of the Job.
    pub enum NodeVerb {
        /// Reports what the machine runs.
        Report = "report",
        /// Brings the image to the machine, which goes on running what it runs.
        Stage = "stage",
        /// Reboots the machine into the staged image.
        Apply = "apply",
        /// Brings the machine part of a target whose image the machine runs, without a reboot.
        Part = "part",
    }
}

impl NodeVerb {
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
    /// Whether it may pull the image. Only then it gets a login.
    pub pulls: bool,
    /// Whether `apply` adopts what the machine's first config wrote.
    pub adopts: bool,
    /// Whether `apply` may leave the kernel running.
    pub may_be_soft: bool,
    /// Whether `report` and `apply` confirm what the machine runs, so that it does not leave it by itself.
    pub confirms: bool,
    /// The image of the controller, by digest.
    pub image: String,
}

/// The Secret of a Job to create, with a login if it pulls and the machine part of its target:
/// named as the Job and owned by it. Its content is read when it is created, and never part of a
/// decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLogin {
    /// The Job, which exists.
    pub job: String,
    pub job_uid: String,
    /// The login is cut down to this image's repository and its mirrors.
    pub target: NodeTarget,
    pub grant: LoginGrant,
    pub secrets: MachineSecrets,
}

/// Why a machine gets the login for an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginGrant {
    /// The image is in the push repository, or a pre-built one of the MachineOSConfig.
    OwnImage,
    /// Only if the rendered config of this name has the image's repository in `osImageURL`.
    Rendered(String),
    /// It gets none, because its Job pulls nothing.
    NothingToPull,
}
