//! The ways to build.

pub mod buildah;
