//! Boot images with Cluster API's own core controllers, which make, roll and delete the machines.
//! The program needs root.
//!
//! mosb with the rights of `deploy/boot-images`, the API server, and the core controllers with their
//! kinds and webhooks are real. [`provider`] is a stand-in for a cloud, for the control plane of a
//! workload cluster, and for its machines; the API server is that of the workload cluster, too.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod order;
mod provider;
mod restore;
mod roll;
mod tenant;
