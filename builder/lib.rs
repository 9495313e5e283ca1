//! The rooms of mosb, in reading order. A room imports only rooms above it.
//!
//! Everything above [`http`] is pure and synchronous: no clock, environment, file or network.

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

pub mod exec;

pub mod backend;

pub mod status;

pub mod bootstrap;

pub mod controller;

pub mod telemetry;

pub mod cli;
