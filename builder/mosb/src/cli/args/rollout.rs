//! The arguments of `builds`, `nodes` and `rollout`.

use clap::{Args, Subcommand};

use super::cluster::Cluster;

/// `mosb builds`.
#[derive(Debug, Args)]
pub struct Builds {
    /// The pool [default: all pools]
    pub pool: Option<String>,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// `mosb nodes`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Nodes {
    /// The pool [default: all nodes]
    pub pool: Option<String>,
    #[command(flatten)]
    pub cluster: Cluster,
    #[command(subcommand)]
    pub what: Option<NodesOf>,
}

/// What else is listed or changed of nodes.
#[derive(Debug, Subcommand)]
pub enum NodesOf {
    /// Lists which files of their images the machines of a pool hide
    ///
    /// An update keeps each entry of /etc that a machine has otherwise than its image. The first 16 paths of each machine
    /// are listed, as it reported them in this boot; `mosb node drift` on the machine lists all.
    ///
    /// Example:
    ///
    ///   mosb nodes drift worker
    #[command(verbatim_doc_comment)]
    Drift(PoolNodes),
    /// Lets images bring the files that the first config of each machine wrote
    ///
    /// Sets the annotation mosb.dev/adopt on the MachineOSConfig. From then on, each machine adopts before it reboots for a
    /// roll-out what is still as its record of its config says, as `mosb node adopt` does. What was edited stays. Prints what
    /// the machines reported in this boot: what they would adopt, what stays, and which ones have no record. Those need
    /// `mosb node adopt --config FILE` in a pod on the machine.
    ///
    /// Examples:
    ///
    ///   mosb nodes adopt worker --dry-run
    ///   mosb nodes adopt worker
    #[command(verbatim_doc_comment)]
    Adopt(AdoptNodes),
}

/// `mosb nodes drift`.
#[derive(Debug, Args)]
pub struct PoolNodes {
    /// The pool
    pub pool: String,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// `mosb nodes adopt`.
#[derive(Debug, Args)]
pub struct AdoptNodes {
    /// The pool
    pub pool: String,
    /// Only print what the machines reported
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// `mosb rollout`.
#[derive(Debug, Subcommand)]
pub enum Rollout {
    /// Rolls out the image in service once, and takes a pin away
    ///
    /// Machines that failed to boot it try again, each with one reboot: correct the cause first. That writes to their Nodes.
    ///
    /// With mosb.dev/rollout: automatic on the MachineOSConfig, the roll-out happens by itself. The annotation mosb.dev/rollout-once
    /// is set until all machines run the image. On a terminal, it asks before machines reboot.
    ///
    /// Example:
    ///
    ///   mosb rollout start worker && mosb rollout status worker --watch
    #[command(verbatim_doc_comment)]
    Start(RolloutStart),
    /// Lets no other machine begin, and cancels drains
    ///
    /// Sets spec.paused of the MachineConfigPool. A machine whose reboot has begun is finished. Images are not staged either.
    ///
    /// Example:
    ///
    ///   mosb rollout pause worker
    #[command(verbatim_doc_comment)]
    Pause(RolloutPause),
    /// Goes on after a pause
    ///
    /// On a terminal, it asks before machines reboot.
    ///
    /// Example:
    ///
    ///   mosb rollout resume worker --yes
    #[command(verbatim_doc_comment)]
    Resume(RolloutStart),
    /// Goes back to an earlier image, and pins the pool to it
    ///
    /// The pool stays pinned until `mosb rollout start`, whatever is built meanwhile. On a terminal, it asks before machines
    /// reboot.
    ///
    /// Examples:
    ///
    ///   mosb rollout undo worker
    ///   mosb rollout undo worker --to stock
    #[command(verbatim_doc_comment)]
    Undo(RolloutUndo),
    /// Shows how far a pool's machines are
    ///
    /// Exit codes with --watch: 0 all machines run the image, or have staged it where nothing reboots; 1 machines failed;
    /// 2 somebody must change something first; 3 timed out. Without --watch: 0.
    ///
    /// Example:
    ///
    ///   mosb rollout status worker --watch --timeout 2h
    #[command(verbatim_doc_comment)]
    Status(RolloutStatus),
}

/// `mosb rollout start` and `resume`.
#[derive(Debug, Args)]
pub struct RolloutStart {
    /// The pool
    pub pool: String,
    /// Don't ask
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// `mosb rollout pause`.
#[derive(Debug, Args)]
pub struct RolloutPause {
    /// The pool
    pub pool: String,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// `mosb rollout undo`.
#[derive(Debug, Args)]
pub struct RolloutUndo {
    /// The pool
    pub pool: String,
    /// The image to go back to: a build of `mosb builds`, or the stock image [default: the last other one that machines ran]
    #[arg(long, value_name = "BUILD[@DIGEST]|stock[@DIGEST]")]
    pub to: Option<String>,
    /// Don't ask
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// `mosb rollout status`.
#[derive(Debug, Args)]
pub struct RolloutStatus {
    /// The pool
    pub pool: String,
    /// Follow it until it is done, or stopped
    #[arg(short, long)]
    pub watch: bool,
    /// The time limit of --watch: seconds, or with s, m, h
    #[arg(long, value_name = "TIME", default_value = "1h", requires = "watch")]
    pub timeout: String,
    #[command(flatten)]
    pub cluster: Cluster,
}
