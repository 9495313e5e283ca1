//! Cluster API's own core controllers, on the control plane of a [`Node`](crate::Node).
//!
//! The part has the manager of the core provider and its manifests, from one release. The kinds of
//! the core, their conversion between versions, the webhooks that set defaults and validate, and the
//! controllers of Clusters, MachineDeployments, MachineSets and Machines are real. There is no
//! provider of infrastructure, bootstrap or control planes, and no cert-manager: the harness makes
//! the certificate of the webhooks. The manager has the rights of an administrator.

mod manager;
mod part;

pub use part::make;
