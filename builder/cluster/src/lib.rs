//! The cluster as all controllers see it, and what they write into its statuses.
//!
//! Input: watch events. Output: a [`ClusterCache`], from which each controller takes a snapshot of its
//! own; conditions, statuses and events. Invariant: what depends on the decisions of one controller is
//! not here.

pub mod cluster_cache;
pub mod cluster_names;
pub mod gate;
pub mod kinds;
pub mod metrics;
pub mod name_list;
pub mod namespaces;
pub mod node_pool;
pub mod object;
pub mod resolver;
pub mod secret_ref;
pub mod status;
pub mod target;
pub mod user_data_secret;
pub mod versions;
mod words;

pub use cluster_cache::ClusterCache;
pub use namespaces::Namespaces;
