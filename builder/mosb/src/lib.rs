//! The program: the command line, the commands that need no controller, and logging.

pub mod bootstrap;
pub mod cli;
pub mod telemetry;
