//! The cluster controller behind `mosb controller`: observe, decide, apply.
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
mod base_trees;
mod cached_plans;
mod cluster_facts;
mod config_reconciler;
mod connect;
mod decide;
mod inputs;
mod log_archive;
mod logs;
mod lookup;
pub mod lookups;
pub mod metrics;
mod observe;
mod pod_containers;
mod pool_reason;
mod prepared_bases;
mod probe;
mod run;
pub mod sidecar;
mod snapshot;
mod view;
mod workload;

pub use action::{Action, Attempt, BuildEffect, new_object};
pub use base_trees::BaseTreeKey;
pub use connect::{connect, connect_for_evictions, installed_in, own_image};
pub use decide::{Decision, decide};

pub use log_archive::ArchiveLogs;
pub use logs::{Line as LogLine, archived_logs, logs};
pub use lookup::{BaseInstead, ImageStatus, Lookup, LookupResults, PlanLookup, Planned, Pull};
pub use mosb_cluster::cluster_cache::Tasks;
pub use mosb_cluster::{ClusterCache, Namespaces, object};
pub use mosb_followed_bases as followed_bases;
pub use mosb_machine_sets as machine_sets;
pub use mosb_new_machines as new_machines;
pub use mosb_reconcile::Error;
pub use mosb_reconcile::lease::LeaseTimes;
pub use mosb_render as render;
pub use mosb_rollout as rollout;
pub use observe::{Facts, observe};
pub use pool_reason::PoolReason;
pub use prepared_bases::{PreparedBase, PreparedBaseKey, PreparedBases, PreparedUse};
pub use run::{Options, run};
pub use snapshot::{
    BuildNodes, Cluster, LabelOptIn, SeenComponent, SeenInput, SeenWorkload, Snapshot, Support,
};
pub use view::{PoolPhase, PoolView, pool_views, request_rebuild};
