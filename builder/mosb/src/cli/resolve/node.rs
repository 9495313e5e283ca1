//! The validated arguments of `mosb node`.

use std::path::PathBuf;

use crate::cli::Result;
use crate::cli::args::{Node, StageOnNode};
use crate::cli::error::Error;
use crate::cli::resolve::Job;
use mosb_node::RebootPolicy;
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
    Stage(NodeInput),
    Apply { input: NodeInput, attempt: u32, policy: RebootPolicy },
}

/// What a machine is brought to.
#[derive(Debug)]
pub struct NodeInput {
    pub target: NodeTarget,
    pub auth: Option<PathBuf>,
    pub pull_settings: Option<PathBuf>,
    pub machine_part: Option<PathBuf>,
}

/// Validates the arguments.
///
/// # Errors
/// `--target` is no target.
pub fn node(typed: Node) -> Result<Job> {
    let (work, termination_log) = match typed {
        Node::Report(report) => (NodeWork::Report, report.termination_log),
        Node::Stage(stage) => {
            let termination_log = stage.report.termination_log.clone();
            (NodeWork::Stage(input(stage)?), termination_log)
        }
        Node::Apply(apply) => {
            let termination_log = apply.stage.report.termination_log.clone();
            let policy = if apply.no_reboot {
                RebootPolicy::Forbidden
            } else {
                RebootPolicy::Allowed { adopts: apply.adopt }
            };
            let input = input(apply.stage)?;
            (NodeWork::Apply { input, attempt: apply.attempt, policy }, termination_log)
        }
        Node::Drift => return Ok(Job::Drift),
        Node::Adopt(adopt) => {
            return Ok(Job::Adopt { config: adopt.config, is_dry_run: adopt.dry_run });
        }
    };
    Ok(Job::Node(Box::new(NodeCommand { work, termination_log })))
}

fn input(typed: StageOnNode) -> Result<NodeInput, Error> {
    let StageOnNode { target: text, auth, pull_settings, machine_part, .. } = typed;
    Ok(NodeInput { target: target(&text)?, auth, pull_settings, machine_part })
}

fn target(text: &str) -> Result<NodeTarget, Error> {
    serde_json::from_str(text).map_err(|error| {
        Error::Usage(format!(
            "--target: {error}; want a JSON object such as {{\"image\":\"HOST/REPO@sha256:…\"}}"
        ))
    })
}
