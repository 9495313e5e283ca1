//! The validated arguments of `mosb node`.

use std::path::PathBuf;

use crate::cli::Result;
use crate::cli::args::Node;
use crate::cli::error::Error;
use crate::cli::resolve::Job;
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
pub fn node(typed: Node) -> Result<Job> {
    let (work, termination_log) = match typed {
        Node::Report(report) => (NodeWork::Report, report.termination_log),
        Node::Stage(stage) => {
            let work = NodeWork::Stage { target: target(&stage.target)?, auth: stage.auth };
            (work, stage.report.termination_log)
        }
        Node::Apply(apply) => {
            let work = NodeWork::Apply {
                target: target(&apply.stage.target)?,
                auth: apply.stage.auth,
                attempt: apply.attempt,
            };
            (work, apply.stage.report.termination_log)
        }
        Node::Drift => return Ok(Job::Drift),
    };
    Ok(Job::Node(Box::new(NodeCommand { work, termination_log })))
}

fn target(text: &str) -> Result<NodeTarget, Error> {
    serde_json::from_str(text).map_err(|error| {
        Error::Usage(format!(
            "--target: {error}; want a JSON object such as {{\"image\":\"HOST/REPO@sha256:…\"}}"
        ))
    })
}
