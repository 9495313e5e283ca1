//! The rooms of mosb, in reading order. A room imports only rooms above it.
//!
//! Everything above [`http`] is pure and synchronous: no clock, environment, file or network.
//! What is fuzzed ends with [`registry`]: the rooms below take most of the time of a build.

pub mod canonical;
pub mod report;

pub mod api;
pub mod ignition;
pub mod image;
pub mod render;

pub mod plan;

pub mod payload;

pub mod containerfile;

pub mod http;

pub mod fetch;

pub mod registry;

#[cfg(not(fuzzing))]
pub mod exec;

#[cfg(not(fuzzing))]
pub mod backend;

#[cfg(not(fuzzing))]
pub mod status;

#[cfg(not(fuzzing))]
pub mod bootstrap;

#[cfg(not(fuzzing))]
pub mod controller;

#[cfg(not(fuzzing))]
pub mod telemetry;

#[cfg(not(fuzzing))]
pub mod cli;
