//! `mosb node`: what runs on a machine. The parts of a roll-out end with a report of the machine, also
//! if they failed: on stdout, and as the termination message of their container.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use tokio::task::spawn_blocking;

use crate::cli::resolve::{NodeCommand, NodeInput, NodeWork};
use crate::cli::{self, ExitCode, Failure, Result, objects};
use mosb_node::{DesiredState, Error, Host, PullAccess, read_machine_part};
use mosb_plan::api::rollout::{MachinePart, NodeReport, ReportError};

/// The end of a part.
#[derive(Debug)]
pub struct NodeOutcome {
    pub report: objects::NodeReport,
    /// Why it failed, and its exit code.
    pub failure: Option<(Failure, ExitCode)>,
}

/// Runs a part to its end; one that reboots the machine ends with it.
pub async fn node(command: &NodeCommand) -> NodeOutcome {
    let (mut report, error) = match Host::open() {
        Ok(host) => {
            let worked = work(&host, &command.work).await;
            let (report, error) = mosb_node::report(&host).await;
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
    write_termination_message(&command.termination_log, &report);
    NodeOutcome { report: objects::NodeReport::from(&report), failure }
}

/// Which files of its image the machine hides.
///
/// # Errors
/// This is no machine that booted an image, or one of its files can't be read.
pub async fn drift() -> Result<objects::NodeDrift> {
    let compared = spawn_blocking(|| mosb_node::drift(&Host::open()?)).await;
    let drift = compared.map_err(cli::error::Error::stopped("comparing"))??;
    Ok(objects::NodeDrift::from(&drift))
}

/// Lets the next image bring what the machine's first config wrote; with `is_dry_run`, only reports
/// it.
///
/// # Errors
/// This is no machine that booted an image, its config is not known, or a file can't be read or
/// written.
pub async fn adopt(config: Option<&Path>, is_dry_run: bool) -> Result<objects::NodeAdoption> {
    let adoption = mosb_node::adopt(&Host::open()?, config, is_dry_run).await?;
    Ok(objects::NodeAdoption::new(&adoption, is_dry_run))
}

async fn work(host: &Host, work: &NodeWork) -> Result<(), Error> {
    match work {
        NodeWork::Report => Ok(()),
        NodeWork::Stage(input) => {
            let read = Read::new(input)?;
            mosb_node::stage(host, &read.desired(input)).await
        }
        NodeWork::Apply { input, attempt, policy } => {
            let read = Read::new(input)?;
            mosb_node::apply(host, &read.desired(input), *attempt, *policy).await
        }
    }
}

/// The files of a command.
struct Read {
    access: PullAccess,
    part: Option<MachinePart>,
}

impl Read {
    fn new(input: &NodeInput) -> Result<Self, Error> {
        let access = PullAccess::read(input.auth.as_deref(), input.pull_settings.as_deref())?;
        let part = read_machine_part(input.machine_part.as_deref(), &input.target)?;
        Ok(Self { access, part })
    }

    fn desired<'a>(&'a self, input: &'a NodeInput) -> DesiredState<'a> {
        DesiredState { target: &input.target, part: self.part.as_ref(), access: &self.access }
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
