//! Everything that is decided before anything is done. A module imports only modules above it.
//!
//! Pure and synchronous: no clock, environment, file or network.

pub mod plan;

pub mod image_checks;

pub mod payload;

pub mod containerfile;
