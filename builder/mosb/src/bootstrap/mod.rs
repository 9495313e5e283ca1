//! An installation with images that exist already: what it begins with is checked, and what a cluster and its machines need is made.
//!
//! In come manifests ([`Manifests`]); out come files ([`File`]). [`check`] judges all of them and tells everything that is wrong at once;
//! [`openshift`] writes MachineOSConfigs for a cluster that renders and names by itself, [`kubernetes`] all that an OpenShift
//! installation would have made: component MachineConfigs, rendered configs, pools that name them, and for each pool the Ignition config
//! of new machines ([`machine`]). Room [`preflight`] asks registries whether the images can be used.
//!
//! The invariants: the same manifests give the same bytes; a rendered config has the name that `mosb controller --render` gives it once the
//! output is applied; of the Secrets nothing is in the output but in machines' Ignition configs; no path in these is one of the image.

mod check;
mod cluster;
mod error;
mod file;
pub mod kubernetes;
pub mod machine;
mod manifest;
pub mod openshift;
pub mod preflight;
mod secrets;
mod seed;

#[cfg(test)]
mod tests;

pub use check::{ValidatedInstall, ValidationOptions, check, invalid_fields};
pub use cluster::Cluster;
pub use error::Error;
pub use file::File;
pub use manifest::{Manifest, Manifests, SecretObject};
pub use seed::Seed;
