//! The arguments of `ignition`.

use std::path::PathBuf;

use clap::Args;

use super::cluster::Cluster;

/// `mosb ignition`.
#[derive(Debug, Args)]
pub struct Ignition {
    /// The pool
    pub pool: String,
    /// A build of `mosb builds` whose image the machine boots [default: the one in service]
    #[arg(long, value_name = "NAME")]
    pub build: Option<String>,
    /// An Ignition config of the machine's own, such as its address and hostname, that takes precedence; - is stdin
    #[arg(long, value_name = "FILE")]
    pub merge: Option<PathBuf>,
    #[command(flatten)]
    pub cluster: Cluster,
}
