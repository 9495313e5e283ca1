//! An installation with pre-built images: checks its manifests, and makes the objects and Ignition
//! configs that the cluster and its machines need.
//!
//! Input: manifests ([`Manifests`]). Output: files ([`File`]). [`check()`] validates all manifests
//! and reports all problems at once. [`openshift`] writes MachineOSConfigs for a cluster that
//! renders pools itself. [`kubernetes`] writes everything that an OpenShift installation would have
//! made: component MachineConfigs, rendered configs, pools that name them, and for each pool the
//! Ignition config of new machines ([`mosb_build::new_machine`]). [`preflight`] asks registries whether the images
//! can be used.
//!
//! Invariants: the same manifests give the same bytes; a rendered config has the name that `mosb
//! controller --render` gives it once the output is applied; content of Secrets is only in the
//! machines' Ignition configs; no path in these is also a path of the image.

mod check;
mod file;
pub mod kubernetes;
mod manifest;
pub mod openshift;
pub mod preflight;
mod secrets;

#[cfg(test)]
mod tests;

pub use check::{Seed, ValidatedInstall, ValidationOptions, check, invalid_fields};
pub use file::File;
pub use manifest::{Cluster, Error, Manifest, Manifests};
