//! The program and the registry client with Debian's registry and a stand-in for other registries.
//! These tests need neither root nor Go.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod bootstrap;
mod bootstrap_registries;
mod newer_base;
mod registry_hostile;
mod registry_layout;
mod registry_policy;
mod registry_profiles;
mod repository;
mod signatures;
mod signed_builds;
mod verified_bases;
