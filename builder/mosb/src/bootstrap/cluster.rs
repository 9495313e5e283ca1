//! The kind of cluster that an installation makes.

/// The kind of cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cluster {
    /// Its own operator renders pools and names the configs.
    Openshift,
    /// Any other.
    Kubernetes,
}
