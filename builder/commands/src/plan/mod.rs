//! `mosb plan`, and `mosb build --dry-run`.

mod checks;
mod text;
pub mod view;

use std::path::PathBuf;

use clap::Args;

use super::arguments::{self, one_stdin};
use super::build::buildah::{check_space, command_lines, container_build};
use super::build::inputs::Inputs;
use super::build::newer_base::newer_base;
use super::build::planned::{PlannedBuild, check_tag, complete, draft, planning};
use super::build::prepared_base::{self, On};
use super::context::Session;
use super::diff::{Operand, change, operand};
use super::settings::Format;
use super::{ExitCode, Result, output};
use mosb_api::image_checks::CheckResult;
use mosb_api::yaml;
use mosb_build::buildah::ContainerBuild;
use mosb_plan::plan::{BuildPlan, Method};
use mosb_plan::{containerfile, payload};
use mosb_registry::Target;
use view::{Plan, PlannedStage};

/// Shows what a build would do, and why, without doing it
///
/// Example:
///
///   mosb plan worker.yaml --base oci:fcos
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct PlanCommand {
    #[command(flatten)]
    pub inputs: Inputs,
    /// The target; part of the build name
    #[arg(long, value_name = "TARGET", value_parser = arguments::target)]
    pub output: Option<Target>,
    /// The config or image that machines have: shows what this one costs them
    #[arg(long, value_name = "CONFIG|IMAGE", value_parser = operand)]
    pub previous: Option<Operand>,
    /// Make the checks of a cluster, as far as they need none, with the settings in this file: ConfigMap mosb-config, or its config.yaml. Exit code 1 if one would keep the image out of service
    #[arg(long, value_name = "FILE")]
    pub checks: Option<PathBuf>,
}

/// Whether the programs that a build would run are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commands {
    Listed,
    Omitted,
}

impl PlanCommand {
    /// Rejects what can't be meant.
    ///
    /// # Errors
    /// [`Error::Usage`](super::error::Error::Usage).
    pub fn check(&self) -> Result<()> {
        check_previous("plan", &self.inputs, self.previous.as_ref())
    }

    pub async fn run(&self, session: &Session) -> Result<ExitCode> {
        self.print(session, Commands::Omitted).await
    }

    /// Makes a plan and prints it.
    ///
    /// # Errors
    /// As for a build, without the writes.
    pub async fn print(&self, session: &Session, listed: Commands) -> Result<ExitCode> {
        let (context, settings) = (&session.clients()?, &session.settings);
        let (target, options) = (self.output.as_ref(), self.inputs.buildah());
        let request = self.inputs.request(target);
        let on_step = |step: &str| context.progress.step(step);
        let planning = planning(context, &on_step);
        let drafted = draft(planning, &request).await?;
        let decided_names = drafted.decided_names.clone();
        let (given, mut warnings) = (self.inputs.prepared.as_ref(), Vec::new());
        // Containerfile and ConfigMaps run everything at once, on another machine.
        let runs_elsewhere = matches!(settings.format, Format::Containerfile | Format::Configmap);
        let on = if runs_elsewhere {
            On::Base
        } else {
            if let Some(target) = target {
                warnings.extend(check_tag(context, drafted.draft.request(), target).await?);
            }
            prepared_base::find(context, planning, &drafted, given, target, &mut warnings).await?
        };
        let to_make = match &on {
            On::ToMake(prepared) => Some(prepared.clone()),
            On::Base | On::Prepared(_) | On::Made(_) => None,
        };
        let prepared = on.shown();
        let verified = on.verified(&drafted);
        let completing = complete(planning, drafted, on, &request, &options, target).await?;
        let PlannedBuild { mut plan, tree, base_tree, base, buildah, prepared: lower } = completing;
        plan.warnings.extend(warnings);
        // The space of another machine is unknown.
        if !runs_elsewhere && buildah.is_some() {
            check_space(&plan, &options, settings)?;
        }
        let commands = match &plan.method {
            Method::LastPart(_) | Method::Containerfile(_) if listed == Commands::Listed => {
                let made = match &to_make {
                    Some(prepared) => ContainerBuild::of_prepared(prepared, ""),
                    None => container_build(&plan, lower.as_ref())?,
                };
                command_lines(&made, &base, &options, settings).await?
            }
            Method::LastPart(_)
            | Method::Containerfile(_)
            | Method::Prepared(_)
            | Method::Direct => Vec::new(),
        };
        context.progress.end();
        match settings.format {
            Format::Containerfile => output::print_text(&containerfile::render(&plan)?)?,
            Format::Configmap => output::print_text(&config_maps(&plan)?)?,
            format @ (Format::Text
            | Format::Json
            | Format::Yaml
            | Format::Name
            | Format::Markdown) => {
                let split = containerfile::split(&plan.request)?;
                let hint = containerfile::hint(&split, &plan);
                let stages = PlannedStage::all(&split, hint.as_ref(), &decided_names);
                let is_given = self.inputs.base.is_some();
                let change = match &self.previous {
                    Some(previous) => {
                        let change = change(context, previous, &plan, is_given).await?;
                        plan.warnings.extend(newer_base(context, previous).await);
                        Some(change)
                    }
                    None => None,
                };
                let mut shown =
                    Plan { verified, commands, stages, change, ..Plan::new(&plan, target, tree) };
                // On the tree of the prepared base, it may have turned out that all is run at once.
                if plan.prepared.is_some() || to_make.is_some() {
                    let has_last = split.last.is_some();
                    let method = if has_last { Method::LastPart } else { Method::Prepared };
                    shown.method = method(Vec::new()).as_str().to_owned();
                    shown.prepared = prepared;
                    shown.stages.iter_mut().for_each(PlannedStage::set_prepared_once);
                }
                if let Some(file) = &self.checks {
                    let platform = self.inputs.platform.as_ref();
                    shown.checks =
                        checks::checks(&plan, base_tree.as_ref(), platform, file).await?;
                }
                output::print(format, &shown)?;
                return Ok(shown.checks.iter().any(CheckResult::is_blocking).into());
            }
        }
        Ok(0)
    }
}

/// Checks the inputs of a command, and what machines have.
///
/// # Errors
/// [`Error::Usage`](super::error::Error::Usage).
pub fn check_previous(command: &str, inputs: &Inputs, previous: Option<&Operand>) -> Result<()> {
    let configs = [Some(&inputs.config), previous.and_then(Operand::config)].into_iter().flatten();
    one_stdin(
        configs,
        &format!("{command} - --previous -: stdin can be read once; give a file for one of them"),
    )?;
    inputs.check()
}

/// The payload as YAML documents, for `kubectl apply --server-side -f -`.
fn config_maps(plan: &BuildPlan) -> Result<String> {
    let text = match plan.method {
        Method::Containerfile(_) => Some(containerfile::render(plan)?),
        Method::LastPart(_) | Method::Prepared(_) | Method::Direct => None,
    };
    let maps = payload::config_maps(plan, text.as_deref(), None)?;
    let documents: Vec<String> =
        maps.iter().map(|map| format!("---\n{}", yaml::to_text(map))).collect();
    Ok(documents.concat())
}
