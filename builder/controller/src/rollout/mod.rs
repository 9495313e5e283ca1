//! `mosb controller --rollout`: brings the image of each pool to its machines, a few at a time, in
//! clusters where no other controller does.
//!
//! As for builds, the state of a pool and its machines is a [`RolloutSnapshot`], which is turned
//! into actions, and these are applied. Input: nodes, the Jobs on them, and the images in service.
//! Output: Jobs, marks on nodes, evictions and the status of the pool.
//!
//! Invariant: all state is in API objects, so a restart goes on where the last process stopped. A
//! machine is cordoned, drained and rebooted only while it has a slot, and a pool never has more
//! machines unavailable by us than it allows.
//!
//! | file | does |
//! | --- | --- |
//! | `snapshot` | the input of a decision |
//! | `lookup` | facts that the watches don't show |
//! | `job_request` | the Jobs on machines that a decision creates |

mod job_request;
mod lookup;
mod snapshot;

pub use job_request::{NodeJobRequest, NodeLogin, NodeVerb};
pub use lookup::{ControlPlaneHealth, RolloutLookup, RolloutLookupResults, SeenPod, TargetImage};
pub use snapshot::{
    ClusterMachines, ControlPlaneNode, JobPhase, Machine, MachineJob, Refusal, RolloutSettings,
    RolloutSnapshot,
};
