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
//! | `observe`, `job_phase` | cache → snapshot, and which pools a change affects |
//! | `job_request` | the Jobs on machines that a decision creates |
//! | `node_job` | these Jobs and their Secrets as objects, from `job-templates/` |

mod job_phase;
mod job_request;
mod lookup;
mod node_job;
mod observe;
mod snapshot;

pub use job_request::{NodeJobRequest, NodeLogin, NodeVerb};
pub use lookup::{ControlPlaneHealth, RolloutLookup, RolloutLookupResults, SeenPod, TargetImage};
pub(crate) use node_job::{OwnerJob, node_job, node_secret};
pub use observe::{OwnPlace, Refusals, affected_pools, observe};
pub use snapshot::{
    ClusterMachines, ControlPlaneNode, JobPhase, Machine, MachineJob, Refusal, RolloutSettings,
    RolloutSnapshot,
};
