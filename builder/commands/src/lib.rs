//! The commands that need no cluster, and what all commands share: arguments, settings, output, errors.
//!
//! Input: parsed arguments and a [`Session`](context::Session). Output: a result on stdout, progress on
//! stderr, and an exit code. Invariant: nothing is decided here about images. Each command has a file or a
//! folder with its arguments, a `run` that calls the crates below, and the object that it prints.

pub mod arguments;
pub mod attachments;
pub mod bootstrap;
pub mod build;
pub mod bundle;
pub mod cache;
pub mod context;
pub mod diff;
pub mod error;
pub mod failure;
pub mod failure_bundle;
pub mod files;
pub mod input;
pub mod inspect;
pub mod installation;
pub mod keys;
pub mod layers;
pub mod manifests;
pub mod output;
pub mod output_folder;
pub mod page;
pub mod plan;
pub mod preflight;
pub mod progress;
pub mod render;
pub mod secret_input;
pub mod seed;
pub mod settings;
pub mod settings_file;
pub mod sign;
pub mod signals;
pub mod verify;

pub use failure::{Failure, Result};

/// The exit code of the program.
pub type ExitCode = u8;
