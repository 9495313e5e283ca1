//! `mosb boot-images`: the arguments of the commands that use a cluster.

use clap::{Args, Subcommand};

use super::cluster::Cluster;

/// The commands of `mosb boot-images` that use a cluster.
#[derive(Debug, Subcommand)]
pub enum BootImagesInCluster {
    /// Lists the selected machine sets, the boot image of each, and why it isn't the newest
    ///
    /// Example:
    ///
    ///   mosb boot-images status -o json
    #[command(verbatim_doc_comment)]
    Status(Sets),
    /// Shows what the controller would change, and why it leaves the other sets alone
    ///
    /// It needs no controller: try settings with it before deploy/boot-images is installed. Stubs are not read.
    ///
    /// Example:
    ///
    ///   mosb boot-images plan
    #[command(verbatim_doc_comment)]
    Plan(Sets),
    /// Lists the boot images that a machine set had, oldest first
    ///
    /// Example:
    ///
    ///   mosb boot-images history machineset.machine.openshift.io/worker-a
    #[command(verbatim_doc_comment)]
    History(OneSet),
    /// Puts an earlier boot image back, and pins the set to it
    ///
    /// A set of Cluster API gets its earlier template back. The machines of a MachineDeployment are then replaced, unless its
    /// strategy is OnDelete: on a terminal, it asks before that.
    ///
    /// Examples:
    ///
    ///   mosb boot-images restore machineset.machine.openshift.io/worker-a
    ///   mosb boot-images restore tenant/machinedeployment.cluster.x-k8s.io/workers --to 1 --until 9.6.20260210-0
    #[command(verbatim_doc_comment)]
    Restore(RestoreSet),
    /// Keeps the boot image that a machine set has
    ///
    /// Sets the annotation mosb.dev/boot-image-pin.
    ///
    /// Example:
    ///
    ///   mosb boot-images pin machineset.machine.openshift.io/worker-a
    #[command(verbatim_doc_comment)]
    Pin(PinSet),
    /// Lets the boot image of a machine set follow the release again
    ///
    /// A set that mosb gave up because another writer kept replacing its image is tried again, too.
    ///
    /// Example:
    ///
    ///   mosb boot-images unpin machineset.machine.openshift.io/worker-a
    #[command(verbatim_doc_comment)]
    Unpin(OneSet),
    /// Prints the Roles for the user-data Secrets of the selected sets, as a List for kubectl apply
    ///
    /// Each Role names its Secrets. Without it, a set whose stub must be converted is left alone.
    ///
    /// Example:
    ///
    ///   mosb boot-images rbac | kubectl apply -f -
    #[command(verbatim_doc_comment)]
    Rbac(Sets),
}

/// A command about all selected sets.
#[derive(Debug, Args)]
pub struct Sets {
    #[command(flatten)]
    pub cluster: Cluster,
}

/// A command about one set.
#[derive(Debug, Args)]
pub struct OneSet {
    /// The machine set
    #[arg(value_name = "[NAMESPACE/]KIND.GROUP/NAME")]
    pub set: String,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// `mosb boot-images pin`.
#[derive(Debug, Args)]
pub struct PinSet {
    /// The machine set
    #[arg(value_name = "[NAMESPACE/]KIND.GROUP/NAME")]
    pub set: String,
    /// The pin ends when the release has images newer than this one [default: it stays until `unpin`]
    #[arg(long, value_name = "RELEASE")]
    pub until: Option<String>,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// `mosb boot-images restore`.
#[derive(Debug, Args)]
pub struct RestoreSet {
    /// The machine set
    #[arg(value_name = "[NAMESPACE/]KIND.GROUP/NAME")]
    pub set: String,
    /// The number in `mosb boot-images history` [default: the last other image]
    #[arg(long, value_name = "N")]
    pub to: Option<usize>,
    /// The pin ends when the release has images newer than this one [default: it stays until `unpin`]
    #[arg(long, value_name = "RELEASE")]
    pub until: Option<String>,
    /// Don't ask
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub cluster: Cluster,
}
