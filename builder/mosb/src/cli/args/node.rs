//! What runs on a machine. Credentials are named by their files, never typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// One of the parts.
#[derive(Debug, Subcommand)]
pub enum Node {
    /// Reports which images the machine runs, has staged and may go back to
    ///
    /// Example:
    ///
    ///   mosb node report -o json
    #[command(verbatim_doc_comment)]
    Report(ReportNode),
    /// Brings an image and its kernel arguments to the machine, so that its next reboot applies them
    ///
    /// Nothing is done if the machine has them staged. If it runs them, another image that is staged is removed. The tool
    /// runs in a unit of the machine, mosb-stage-….service, which goes on if this program is killed.
    ///
    /// Example:
    ///
    ///   mosb node stage --target '{"image":"registry.example.com/os/worker@sha256:…"}'
    #[command(verbatim_doc_comment)]
    Stage(StageOnNode),
    /// Reboots the machine into an image, once for each attempt
    ///
    /// Stages the image if it is not staged, gives the user core its SSH keys and its password, and does not return before
    /// the reboot. Run again after it with the same attempt, it succeeds if the machine runs the image, or else reports why
    /// it does not.
    ///
    /// Example:
    ///
    ///   mosb node apply --target '{"image":"registry.example.com/os/worker@sha256:…"}' --attempt 1
    #[command(verbatim_doc_comment)]
    Apply(ApplyOnNode),
    /// Lists the files of the booted image that the machine hides
    ///
    /// An update keeps each entry of /etc that differs from the one in the booted /usr/etc, so no later image can change
    /// it. For each such entry of the image, this prints the path and how it differs: removed, type, content, target,
    /// mode, owner. What only the machine has is not listed, and contents are not printed. Nothing is changed.
    ///
    /// Example:
    ///
    ///   mosb node drift | grep /etc/systemd/
    #[command(verbatim_doc_comment)]
    Drift,
    /// Lets the next image bring files that the machine's first config wrote
    ///
    /// A machine that Ignition installed has the files of its config in /etc, where they hide those of every later image.
    /// Each file, directory, link, unit and enablement link that is still as the config left it stops being a change of
    /// the machine. What was edited since, and what the machine's own config wrote, stays and is printed with how it
    /// differs. The running /etc is not touched: this takes effect when a staged image is finalized at a shutdown.
    ///
    /// Examples:
    ///
    ///   mosb node adopt --dry-run
    ///   mosb node adopt --config user-data.ign
    #[command(verbatim_doc_comment)]
    Adopt(AdoptOnNode),
}

/// `mosb node adopt`.
#[derive(Debug, Args)]
pub struct AdoptOnNode {
    /// Only print what would be adopted and what would stay
    #[arg(long)]
    pub dry_run: bool,
    /// The config that the machine was made from, an Ignition config or a MachineConfig; without it, the machine's own record
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `mosb node report`.
#[derive(Debug, Args)]
pub struct ReportNode {
    /// Where the container's termination message goes, if it is there
    #[arg(long, value_name = "FILE", default_value = "/dev/termination-log")]
    pub termination_log: PathBuf,
}

/// `mosb node stage`.
#[derive(Debug, Args)]
pub struct StageOnNode {
    /// What the machine should run: a JSON object with image (REPO@DIGEST), and config, machinePart and liveFrom if it has them
    #[arg(long, value_name = "JSON")]
    pub target: String,
    /// Logins for the image's repository, as auth.json has them; only the pull of this image sees them
    #[arg(long, value_name = "FILE")]
    pub auth: Option<PathBuf>,
    /// Mirrors, CAs and proxy, as a roll-out writes them; only the pull of this image uses them
    #[arg(long, value_name = "FILE")]
    pub pull_settings: Option<PathBuf>,
    /// What the machine needs beside the image, as JSON: kernel arguments, and the SSH keys and the password hash of core.
    /// The target has its digest
    #[arg(long, value_name = "FILE")]
    pub machine_part: Option<PathBuf>,
    /// Where the report goes.
    #[command(flatten)]
    pub report: ReportNode,
}

/// `mosb node apply`.
#[derive(Debug, Args)]
pub struct ApplyOnNode {
    /// What it applies.
    #[command(flatten)]
    pub stage: StageOnNode,
    /// Which try of the target this is; each reboots the machine once
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: u32,
    /// Never reboots: a target that needs a reboot is an error, and nothing is changed
    #[arg(long)]
    pub no_reboot: bool,
    /// Before the reboot, adopt what the machine's own record says its first config wrote, as mosb node adopt does
    #[arg(long, conflicts_with = "no_reboot")]
    pub adopt: bool,
}
