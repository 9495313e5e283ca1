//! The program: the command line, and the commands that need no controller.

pub mod bootstrap;
pub mod cli;
pub mod support_bundle;
