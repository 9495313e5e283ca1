//! The program and the registry client against Debian's registry and a stand-in that answers like
//! others: no root, no Go.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod bootstrap;
mod bootstrap_registries;
mod registry_hostile;
mod registry_layout;
mod registry_policy;
mod registry_profiles;
