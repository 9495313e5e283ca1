//! The program: the command line, and the commands of clusters, build pods and machines.

pub mod cli;
#[cfg(feature = "cluster")]
mod support_bundle;
