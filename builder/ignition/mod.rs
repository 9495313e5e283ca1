//! (the room is being built)
/// A config.
#[derive(Debug, Clone)]
pub struct Config;
/// An error.
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct Error;
