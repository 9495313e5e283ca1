//! The controller of builds: observe, decide, apply.
//!
//! Input: watch events of the resource kinds that matter. Output: writes to the API. Nothing is
//! remembered between events: an event only enqueues a key, for example the name of a
//! MachineOSConfig. The `driver` then lets the `reconciler` of that key take a [`Snapshot`] of
//! the cache, [`decide`] turns it into a [`Decision`], and its actions are applied.
//!
//! Invariant: the same snapshot gives the same actions, and each write carries the UID and
//! resourceVersion of the object that it was decided from. A stale snapshot therefore costs another
//! pass, and never an object.

mod action;
pub mod apply;
mod approval;
mod base_trees;
mod cached_plans;
mod cluster_facts;
mod config_reconciler;
mod decide;
mod inputs;
mod log_archive;
mod logs;
mod lookup;
pub mod lookups;
mod metrics;
mod observe;
mod pool_reason;
mod prepared_bases;
mod probe;
mod signing_keys;
mod snapshot;

pub use action::{Action, Attempt, BuildEffect, new_object};
pub use apply::BuildExecutor;
pub use approval::{
    ApprovalChange, ApprovalError, ApprovalRequest, decide_approval, own_user, write_approval,
};
pub use base_trees::BaseTreeKey;
pub use cluster_facts::ClusterFacts;
pub use config_reconciler::ConfigReconciler;
pub use decide::{Decision, decide};
pub use log_archive::{ArchiveLogs, secret_name as log_secret_name};
pub use logs::{Line as LogLine, archived_logs, check_logs, logs};
pub use lookup::{
    BaseInstead, ChecksLookup, ExistingLookup, ImageKind, ImageStatus, Lookup, LookupResults,
    PlanLookup, Planned, Pull, RequiredPolicy, SignLookup, Signed,
};
pub use metrics::BuildMetrics;
pub use observe::{Facts, observe};
pub use pool_reason::{INVALID_INPUT, PoolReason, REJECTED, UNRECONCILABLE};
pub use prepared_bases::{PreparedBase, PreparedBaseKey, PreparedBases, PreparedUse};
pub use signing_keys::{SigningKeyError, SigningKeys};
pub use snapshot::{
    Cluster, LabelOptIn, SeenComponent, SeenInput, SeenWorkload, Snapshot, Support,
};
