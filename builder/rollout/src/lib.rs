//! `mosb controller --rollout`: brings the image of each pool to its machines, a few at a time, in
//! clusters where no other controller does.
//!
//! As for builds, the state of a pool and its machines is a [`RolloutSnapshot`], which is turned
//! into actions, and these are applied. Input: nodes, the Jobs on them, and the images in service.
//! Output: Jobs, annotations of nodes, evictions and the status of the pool.
//!
//! Invariant: all state is in API objects, so a restart goes on where the last process stopped. A
//! machine is cordoned, drained and rebooted only while it has a slot, and a pool never has more
//! machines unavailable by us than it allows.
//!
//! | file | does |
//! | --- | --- |
//! | `snapshot`, `lookup` | the input of a decision, and facts that the watches don't show |
//! | `observe`, `job_phase` | cache → snapshot, and which pools a change affects |
//! | `desired_target`, `target_source` | what the machines should run |
//! | `machine_state`, `job_state`, `slot_phase` | what one machine runs and does, from its annotations and Jobs |
//! | `fallback` | machines that booted the target and run another image again |
//! | `slots`, `give_slots`, `control_plane_health` | which machines may become unavailable |
//! | `slot_waits` | why other machines may not |
//! | `policy` | rings, windows and checks, and what becomes of an image that fails them |
//! | `other_places` | where the controller can run now |
//! | `staging` | which machines report, and which ones stage the target |
//! | `part_jobs` | which machines are changed without a reboot |
//! | `drain`, `drain_records` | which pods are evicted, how drains went in earlier passes, and when their pods are listed again |
//! | `context` | what a pass knows about the pool as a whole |
//! | `machine_plan`, `slot_progress` | what one machine gets, without and with a slot |
//! | `begin_apply` | what precedes the reboot of a drained machine |
//! | `node_patch`, `obsolete_jobs` | the patch of its Node, and its Jobs to delete |
//! | `machine_status`, `pool_status` | where a machine and its pool stand: metrics and counts of the pool |
//! | `pool_conditions` | conditions of the pool, and their events |
//! | `ended_phases` | what metrics show of the writes that were applied |
//! | `config_annotations` | history and finalizer of the MachineOSConfig |
//! | `leaving_configs` | MachineOSConfigs that are being deleted and no longer decide about a pool |
//! | `decide`, `reason` | snapshot → lookups or actions, and why, or why not |
//! | `effect`, `evict` | what is done beside writes to one object: Jobs, their Secrets, evictions |
//! | `job_request`, `new_job` | the Jobs on machines that a decision creates |
//! | `lookups`, `registry_lookups`, `alerts` | asks the API; and registries and Prometheus, for which no pass waits |
//! | `reconciler` | gives these functions to the driver |
//! | `refused_writes` | writes that were refused, and what becomes of their pass |
//! | `node_job`, `job_secret`, `machine_part` | these Jobs and their Secrets as objects, from `job-templates/`, and what the Secrets have |
//! | `elapsed`, `seen_times` | the time between two moments, and when this process saw what other clocks date |
//! | `view` | what commands show, and what they ask for |

mod alerts;
mod begin_apply;
mod config_annotations;
mod context;
mod control_plane_health;
mod decide;
mod desired_target;
mod drain;
mod drain_records;
mod effect;
mod elapsed;
mod ended_phases;
mod evict;
mod fallback;
mod give_slots;
mod job_phase;
mod job_request;
mod job_secret;
mod job_state;
mod leaving_configs;
mod lookup;
mod lookups;
mod machine_part;
mod machine_plan;
mod machine_state;
mod machine_status;
mod metrics;
mod new_job;
mod node_job;
mod node_patch;
mod observe;
mod obsolete_jobs;
mod other_places;
mod part_jobs;
mod policy;
mod pool_conditions;
mod pool_status;
mod reason;
mod reconciler;
mod refused_writes;
mod registry_lookups;
mod seen_times;
mod slot_phase;
mod slot_progress;
mod slot_waits;
mod slots;
mod snapshot;
mod staging;
mod target_source;
mod view;

#[cfg(test)]
mod tests;

pub use decide::{RolloutDecision, decide};
pub use drain::{DrainRecord, DrainRecords, NodeEvictions, Refusal};
pub use effect::{Action, Eviction, RolloutEffect, RolloutExecutor};
pub use ended_phases::{EndedPhase, MachinePhase};
pub use job_request::{NodeJobRequest, NodeLogin, NodeVerb};
pub use lookup::{ControlPlaneHealth, RolloutLookup, RolloutLookupResults, SeenPod, TargetImage};
pub use machine_status::{MachineProgress, MachineStatus};
pub use metrics::RolloutMetrics;
pub use new_job::adopts;
pub use observe::{OwnPlace, observe};
pub use other_places::OtherPlaces;
pub use policy::{CheckedPod, CheckedPods, PoolPolicy};
pub use pool_status::PoolStatus;
pub use reason::{Blocked, RolloutPhase, RolloutReason};
pub use reconciler::RolloutReconciler;
pub use snapshot::{
    ClusterMachines, ControlPlaneNode, JobPhase, Machine, MachineJob, RefusedWrites,
    RolloutSettings, RolloutSnapshot,
};
pub use view::{
    BuildView, MachineCounts, NodeView, PoolCondition, Retry, RolloutChange, RolloutRequest,
    RolloutRequestError, RolloutView, SoftReboots, TargetView, UndoTo, build_views, decide_request,
    node_views, rollout_view, write_request,
};
