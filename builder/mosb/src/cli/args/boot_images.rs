//! `mosb boot-images`: the arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `mosb boot-images`.
#[derive(Debug, Subcommand)]
pub enum BootImages {
    /// Prints the golden ConfigMap, with the images that new machines should start from, from the JSON of a stream
    ///
    /// For clusters without OpenShift, whose releases come with this ConfigMap. Fedora CoreOS publishes its streams at
    /// https://builds.coreos.fedoraproject.org/streams/stable.json. Printed as YAML, or as JSON (-o json). Needs no cluster.
    ///
    /// Example:
    ///
    ///   mosb boot-images golden --stream stable.json | kubectl apply --server-side -f -
    #[command(verbatim_doc_comment)]
    Golden(Golden),
    /// In a cluster.
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    InCluster(super::BootImagesInCluster),
}

/// `mosb boot-images golden`.
#[derive(Debug, Args)]
pub struct Golden {
    /// The stream's JSON as it is published (- for stdin)
    #[arg(long, value_name = "FILE")]
    pub stream: PathBuf,
    /// The namespace of mosb's controller, which reads the ConfigMap there only
    #[arg(long, value_name = "NAME", default_value = "mosb-system")]
    pub namespace: String,
    /// The OS release that the cluster runs; newer images of the stream wait [default: the stream's newest, so none waits]
    #[arg(long, value_name = "RELEASE")]
    pub release_version: Option<String>,
}
