//! The validated arguments of `mosb node`.

use std::path::PathBuf;

use crate::cli::Result;
use crate::cli::args::Node;
use crate::cli::error::Error;
use mosb_plan::api::rollout::NodeTarget;

/// A part of a roll-out on this machine.
#[derive(Debug)]
pub struct NodeCommand {
    pub work: NodeWork,
    pub termination_log: PathBuf,
}

/// What is done on this machine.
#[derive(Debug)]
pub enum NodeWork {
    Report,
    Stage { target: NodeTarget, auth: Option<PathBuf> },
    Apply { target: NodeTarget, auth: Option<PathBuf>, attempt: u32 },
}

/// Validates the arguments.
///
/// # Errors
/// `--target` is no target.
pub fn node(typed: Node) -> Result<NodeCommand> {
    Ok(match typed {
        Node::Report(report) => {
            NodeCommand { work: NodeWork::Report, termination_log: report.termination_log }
        }
        Node::Stage(stage) => NodeCommand {
            work: NodeWork::Stage { target: target(&stage.target)?, auth: stage.auth },
            termination_log: stage.report.termination_log,
        },
        Node::Apply(apply) => NodeCommand {
            work: NodeWork::Apply {
                target: target(&apply.stage.target)?,
                auth: apply.stage.auth,
                attempt: apply.attempt,
            },
            termination_log: apply.stage.report.termination_log,
        },
    })
}

fn target(text: &str) -> Result<NodeTarget, Error> {
    serde_json::from_str(text).map_err(|error| {
        Error::Usage(format!(
            "--target: {error}; want a JSON object such as {{\"image\":\"HOST/REPO@sha256:…\"}}"
        ))
    })
}
