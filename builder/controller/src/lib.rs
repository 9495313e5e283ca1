//! The process behind `mosb controller`: connects to a cluster, watches it, and runs the controllers
//! while it holds the Lease.

mod connect;
pub mod metrics;
mod run;
mod view;

pub use connect::{connect, connect_for_evictions, installed_in, own_image};
pub use mosb_builds as builds;
pub use mosb_cluster::cluster_cache::Tasks;
pub use mosb_cluster::{ClusterCache, Namespaces, cluster_names, kinds, object};
pub use mosb_followed_bases as followed_bases;
pub use mosb_machine_sets as machine_sets;
pub use mosb_new_machines as new_machines;
pub use mosb_reconcile::lease::LeaseTimes;
pub use mosb_reconcile::{Error, Kind};
pub use mosb_render as render;
pub use mosb_retention as retention;
pub use mosb_rollout as rollout;
pub use mosb_workload as workload;
pub use run::{Options, run};
pub use view::{PoolPhase, PoolView, REJECTED_RETRY, pool_views, request_rebuild};
