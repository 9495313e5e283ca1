//! The kind of cluster that an installation makes.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cluster {
    /// Its own operator renders pools and names the configs.
    Openshift,
    /// mosb renders pools and names the configs.
    Kubernetes,
}
