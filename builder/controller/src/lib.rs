//! `mosb controller`: everything observed becomes one value, a pure function says what should change, and it is changed.
//!
//! In come watch events of the kinds that matter; out go writes to the API. Between them nothing is remembered: an event only
//! wakes the key of a MachineOSConfig ([`queue`]), a [`Snapshot`] is taken, [`decide`] makes a [`Decision`] of it, and its
//! steps are done. The invariant: same snapshot, same actions; and whatever is written carries the UID and resourceVersion of what
//! it was decided from, so a stale view costs another round and never an object.

mod action;
mod active_reconciles;
pub mod apply;
pub mod cluster_cache;
mod connect;
mod decide;
mod error;
pub mod events;
pub mod http_server;
pub mod indexed_store;
mod inputs;
pub mod kinds;
pub mod lease;
mod lease_gate;
mod log_archive;
mod logs;
mod lookup;
pub mod lookups;
pub mod metrics;
mod namespaces;
mod observe;
mod pending_problem;
mod pool_reason;
mod probe;
pub mod queue;
pub mod reconciler;
pub mod render;
mod response_timeout;
mod run;
pub mod sidecar;
mod snapshot;
pub mod status;
mod view;
pub mod watch;
pub mod workload;

pub use action::{Action, Annotate, Decision};
pub use cluster_cache::ClusterCache;
pub use connect::{connect, installed_in, own_image};
pub use decide::decide;
pub use error::Error;
pub use log_archive::ArchiveLogs;
pub use logs::{Line as LogLine, archived_logs, logs};
pub use lookup::{
    BaseInstead, ImageStatus, Lookup, LookupResults, PlanLookup, Planned, Problem, Pull,
};
pub use namespaces::Namespaces;
pub use observe::{Facts, observe};
pub use pool_reason::PoolReason;
pub use run::{Options, run};
pub use snapshot::{
    BuildNodes, Cluster, EarlierProblem, LabelOptIn, SeenComponent, SeenInput, SeenWorkload,
    Snapshot, Support,
};
pub use view::{PoolPhase, PoolView, pool_views, request_rebuild};

/// The name under which mosb writes fields.
pub const FIELD_MANAGER: &str = "mosb-controller";
