//! `mosb node`: what runs on a machine. The parts of a roll-out end with a report of the machine, also
//! if they failed: on stdout, and as the termination message of their container. Credentials are named by
//! their files, never typed.

pub mod report;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::task::spawn_blocking;

use super::print_failure;
use mosb_api::rollout::{MachinePart, NodeReport, NodeTarget, ReportError};
use mosb_commands::arguments::usage;
use mosb_commands::context::Session;
use mosb_commands::output::Object;
use mosb_commands::page::Page;
use mosb_commands::settings::Format;
use mosb_commands::{ExitCode, Failure, Result};
use mosb_node::{
    Adoption, DesiredState, Difference, Drift, Error, Host, PullAccess, RebootPolicy,
    read_machine_part,
};
use report::MachineReport;

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

#[derive(Debug, Args)]
pub struct AdoptOnNode {
    /// Only print what would be adopted and what would stay
    #[arg(long)]
    pub dry_run: bool,
    /// The config that the machine was made from, an Ignition config or a MachineConfig; without it, the machine's own record
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ReportNode {
    /// Confirms the image that the machine runs, once the checks of its boot succeeded: from then on the machine does not
    /// leave it by itself
    #[arg(long)]
    pub confirm: bool,
    /// Where the container's termination message goes, if it is there
    #[arg(long, value_name = "FILE", default_value = "/dev/termination-log")]
    pub termination_log: PathBuf,
}

#[derive(Debug, Args)]
pub struct StageOnNode {
    /// What the machine should run: a JSON object with image (REPO@DIGEST), and config, machinePart, liveFrom and verify if it
    /// has them
    #[arg(long, value_name = "JSON", value_parser = target)]
    pub target: NodeTarget,
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
    /// Reboot the user space alone, without a boot of the kernel, where bootc and ostree can do that; otherwise reboot as
    /// usual, and report why
    #[arg(long, conflicts_with = "no_reboot")]
    pub soft_reboot: bool,
}

fn target(text: &str) -> Result<NodeTarget> {
    serde_json::from_str(text).or_else(|error| {
        usage(format!(
            "--target: {error}; want a JSON object such as {{\"image\":\"HOST/REPO@sha256:…\"}}"
        ))
    })
}

impl Node {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        match self {
            Self::Drift => session.print(&NodeDrift(drift().await?)),
            Self::Adopt(typed) => session.print(&NodeAdoption(adopt(&typed).await?)),
            Self::Report(typed) => report(&typed, Work::Report, session).await,
            Self::Stage(typed) => report(&typed.report, Work::Stage(&typed), session).await,
            Self::Apply(typed) => report(&typed.stage.report, Work::Apply(&typed), session).await,
        }
    }
}

/// What is done on this machine.
enum Work<'a> {
    Report,
    Stage(&'a StageOnNode),
    Apply(&'a ApplyOnNode),
}

/// Runs a part to its end; one that reboots the machine ends with it. Prints the report of the machine, also
/// if the part failed.
async fn report(typed: &ReportNode, work: Work<'_>, session: &Session) -> Result<ExitCode> {
    let (mut report, error) = match Host::open() {
        Ok(host) => {
            let worked = work.run(&host).await;
            let (report, error) = mosb_node::report(&host, typed.confirm && worked.is_ok()).await;
            (report, worked.err().or(error))
        }
        Err(error) => (NodeReport::default(), Some(error)),
    };
    let failure = error.map(|error| {
        let code = error.exit_code().map(|code| code as u8);
        let failure = Failure::from(error);
        let code = code.unwrap_or_else(|| failure.exit_code(false));
        (failure, code)
    });
    report.error = failure.as_ref().map(|(failure, _)| ReportError {
        code: failure.code().to_owned(),
        message: failure.message(),
    });
    write_termination_message(&typed.termination_log, &report);
    session.print(&MachineReport::from(report))?;
    Ok(failure.map_or(0, |(failure, code)| {
        // The report on stdout has it too.
        print_failure(&failure, Format::Text, code);
        code
    }))
}

/// Which files of its image the machine hides.
///
/// # Errors
/// This machine did not boot an image, or one of its files can't be read.
async fn drift() -> Result<Drift> {
    let compared = spawn_blocking(|| mosb_node::drift(&Host::open()?)).await;
    Ok(compared.map_err(mosb_commands::error::Error::stopped("comparing"))??)
}

/// Lets the next image bring what the machine's first config wrote; a dry run only reports it.
///
/// # Errors
/// This machine did not boot an image, its config is not known, or a file can't be read or written.
async fn adopt(typed: &AdoptOnNode) -> Result<Adoption> {
    Ok(mosb_node::adopt(&Host::open()?, typed.config.as_deref(), typed.dry_run).await?)
}

impl Work<'_> {
    async fn run(&self, host: &Host) -> Result<(), Error> {
        match self {
            Self::Report => Ok(()),
            Self::Stage(typed) => {
                let (access, part) = typed.read()?;
                mosb_node::stage(host, &typed.desired(&access, part.as_ref())).await
            }
            Self::Apply(typed) => {
                let policy = if typed.no_reboot {
                    RebootPolicy::Forbidden
                } else {
                    RebootPolicy::Allowed { adopts: typed.adopt, may_be_soft: typed.soft_reboot }
                };
                let (access, part) = typed.stage.read()?;
                let desired = typed.stage.desired(&access, part.as_ref());
                mosb_node::apply(host, &desired, typed.attempt, policy).await
            }
        }
    }
}

impl StageOnNode {
    /// Reads the files.
    fn read(&self) -> Result<(PullAccess, Option<MachinePart>), Error> {
        let access = PullAccess::read(self.auth.as_deref(), self.pull_settings.as_deref())?;
        let part = read_machine_part(self.machine_part.as_deref(), &self.target)?;
        Ok((access, part))
    }

    fn desired<'a>(
        &'a self,
        access: &'a PullAccess,
        part: Option<&'a MachinePart>,
    ) -> DesiredState<'a> {
        DesiredState { target: &self.target, part, access }
    }
}

fn write_termination_message(file: &Path, report: &NodeReport) {
    // It exists in a container only, and stdout has the report too.
    let written = OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(file)
        .and_then(|mut file| file.write_all(report.to_json().as_bytes()));
    if let Err(error) = written {
        tracing::debug!(%error, "no termination message");
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct NodeDrift(pub Drift);

impl Object for NodeDrift {
    const KIND: &'static str = "NodeDrift";

    fn text(&self) -> String {
        let Self(shown) = self;
        let mut page = Page::default();
        for hidden in &shown.paths {
            let differences: Vec<_> = hidden.differences.iter().map(|one| word(*one)).collect();
            page.line(&format!("{} {}", differences.join(","), hidden.path));
        }
        if shown.omitted > 0 {
            page.line(&format!("… and {} more", shown.omitted));
        }
        page.into_text()
    }
}

fn word(difference: Difference) -> &'static str {
    match difference {
        Difference::Removed => "removed",
        Difference::Type => "type",
        Difference::Content => "content",
        Difference::Target => "target",
        Difference::Mode => "mode",
        Difference::Owner => "owner",
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct NodeAdoption(pub Adoption);

impl Object for NodeAdoption {
    const KIND: &'static str = "NodeAdoption";

    fn text(&self) -> String {
        let Self(shown) = self;
        let mut page = Page::default();
        for path in &shown.adopted {
            page.line(&format!("adopted {path}"));
        }
        for kept in &shown.kept {
            let differences: Vec<_> = kept.differences.iter().map(|one| word(*one)).collect();
            page.line(&format!("kept {} {}", differences.join(","), kept.path));
        }
        for finding in &shown.undecided {
            page.line(&format!("undecided {finding}"));
        }
        if shown.omitted > 0 {
            page.line(&format!("… and {} more", shown.omitted));
        }
        page.into_text()
    }
}
