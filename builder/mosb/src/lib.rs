//! The program: the command line, what it does without a controller, and its logs.

pub mod bootstrap;
pub mod cli;
pub mod telemetry;
