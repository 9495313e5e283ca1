//! Which of the administrator's stages run before the config is written, and which after it.
//!
//! A stage needs the config if it reaches `configs` or `extract` by `FROM`, `COPY --from` or `RUN
//! --mount=…from=`. The *prepared part* is the stage that comes `FROM base` without needing the
//! config, with what it reaches. The *last part* is the final stage, if it needs the config, with
//! what it reaches.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::administrator::wrong;
use super::names::extensions_image;
use super::parts::{Parts, beginnings, needed, needs_config, parts, reached};
use super::stages::{OWN_STAGES, Origin, Reference, Stage, Stages, read};
use super::{Error, stage_rules};
use crate::plan::{BuildRequest, ContextPath, OwnInstructions, OwnLast, OwnParts, SEALED};

/// The name of the prepared part's last stage, if the administrator gave it none.
const PREPARED: &str = "mosb-prepared";

/// Build arguments that a `RUN` sees without an `ARG`.
const PREDEFINED: [&str; 8] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "FTP_PROXY",
    "ftp_proxy",
    "NO_PROXY",
    "no_proxy",
];

/// An administrator's Containerfile in its parts.
#[derive(Debug, Default)]
pub struct Split {
    pub prepared: Option<PreparedStages>,
    pub last: Option<LastStages>,
    /// All stages, in the order of the text.
    pub stages: Vec<SplitStage>,
    /// Whether a stage refers to mosb's stage `base`.
    pub uses_base: bool,
    /// Whether its names allow that a stage refers to `base`.
    pub(super) can_use_base: bool,
    /// Why a reference is known in the build only. Then all stages are the last part.
    pub undecided: Option<Error>,
    /// Build arguments that no stage declares.
    pub(super) unused_arguments: Vec<String>,
}

/// What runs before the config is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedStages {
    /// The text of its stages, in their order. It refers to nothing else but images and mosb's
    /// stages `base` and `extensions`.
    pub text: String,
    /// The same without comments and line breaks.
    pub canonical: String,
    /// The name of its last stage, on which the config is written.
    pub name: String,
    /// The build arguments that can affect it.
    pub build_args: BTreeMap<String, String>,
    /// What it takes of the build context.
    pub context: Vec<ContextPath>,
}

/// What runs on the base with the config, the stage `configs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastStages {
    /// The text of its stages, in their order. It may refer to all of mosb's own stages, and has
    /// again the stages that both parts reach.
    pub text: String,
    /// The same without these stages, for a build that runs both parts at once.
    pub(super) rest: String,
    /// The first line that needs mosb's stage `base`.
    pub needs_base: Option<usize>,
    /// The first line that needs the last stage of the prepared part.
    pub needs_prepared: Option<usize>,
}

/// A stage, and when it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitStage {
    pub stage: Stage,
    pub part: Part,
    /// The reference that puts it into its part; none for an unused stage.
    pub reason: Option<Reference>,
    /// Whether it reaches `configs` or `extract`.
    pub needs_config: bool,
}

/// When a stage runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StagePart")]
pub enum Part {
    Prepared,
    Last,
    Both,
    // No stage that is built refers to it.
    Unused,
}

/// The parts of a request's Containerfile; nothing without one.
///
/// # Errors
/// A text that can't be built; two stages that could be the prepared part; a last stage that
/// continues neither `configs` nor the prepared part; with `base`, a name that two stages have, or a
/// stage that is named by its number; a sealed base that nothing seals again.
pub fn split(request: &BuildRequest) -> Result<Split, Error> {
    let Some(text) = &request.containerfile else {
        return Ok(Split::default());
    };
    let has_extensions = extensions_image(request).is_some();
    let platform = &request.base.config.platform;
    let stages = read(text, &request.build_args, platform, has_extensions)?;
    let split = split_stages(text, &request.build_args, stages, request.context.is_some())?;
    if split.last.is_none() && request.base.is_said_to_be_sealed() {
        return Err(Error::Sealed { image: request.base.image.clone(), label: SEALED });
    }
    Ok(split)
}

/// A last stage that begins with an image is known for another one, whatever the others are.
fn last_begins(last: &Stage, begins: &[Origin]) -> Result<(), Error> {
    match begins.last() {
        Some(Origin::Image(_)) if last.wrong.is_none() => {
            Err(Error::FinalStage { line: last.from.line, from: last.from.name.clone() })
        }
        _ => Ok(()),
    }
}

fn split_stages(
    text: &str,
    build_args: &BTreeMap<String, String>,
    found: Stages,
    has_context: bool,
) -> Result<Split, Error> {
    let Stages { stages, undecided, number } = found;
    let uses_base = stages.iter().flat_map(Stage::references).any(|one| one.to == Origin::Base);
    let names = check_names(&stages, number);
    let can_use_base = names.is_ok();
    if uses_base {
        undecided.clone().map_or(Ok(()), Err)?;
        names?;
    }
    let end = stages.len().checked_sub(1);
    if let Some(last) = stages.last() {
        last_begins(last, &beginnings(&stages))?;
        let reached = reached(&stages, end.into_iter());
        let mut built = stages.iter().zip(&reached).filter(|(_, is_built)| **is_built);
        let wrong = built.find_map(|(stage, _)| stage.wrong.as_ref()).or(last.wrong.as_ref());
        wrong.cloned().map_or(Ok(()), Err)?;
    }
    let ends = match undecided {
        // All that follows a reference that isn't known could be needed.
        Some(_) => Parts { prepared: None, last: end },
        None => parts(&stages)?,
    };
    let members = |end: Option<usize>| {
        let mut members = reached(&stages, end.into_iter());
        end.into_iter().for_each(|end| members[end] = true);
        members
    };
    let in_prepared = members(ends.prepared);
    let surely_last = members(ends.last);
    let is_built: Vec<bool> =
        in_prepared.iter().zip(&surely_last).map(|(prepared, last)| *prepared || *last).collect();
    stage_rules::check(&stages, &is_built, &ends, has_context)?;
    let in_last = if undecided.is_some() { vec![true; stages.len()] } else { surely_last };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let prepared = ends.prepared.map(|end| PreparedStages {
        text: prepared_text(&lines, &stages, &in_prepared, end),
        canonical: selected(&stages, &in_prepared).map(|stage| &*stage.canonical).collect(),
        name: prepared_name(&stages[end]).to_owned(),
        build_args: used_arguments(&stages, &in_prepared, build_args),
        context: selected(&stages, &in_prepared)
            .flat_map(|stage| stage.facts.context.clone())
            .collect(),
    });
    let texts = |is_in: &dyn Fn(usize) -> bool| -> String {
        let stages = stages.iter().enumerate().filter(|(at, _)| is_in(*at));
        stages.map(|(_, stage)| joined(&lines, &stage.lines)).collect()
    };
    let line_of = |origin: Origin| {
        let mut of_last = selected(&stages, &in_last).flat_map(Stage::references);
        of_last.find(|one| one.to == origin).map(|one| one.line)
    };
    let needs_base = line_of(Origin::Base);
    let needs_prepared = ends.prepared.and_then(|end| line_of(Origin::Stage(end)));
    let last = ends.last.map(|_| match prepared {
        Some(_) => LastStages {
            text: texts(&|at| in_last[at]),
            rest: texts(&|at| in_last[at] && !in_prepared[at]),
            needs_base,
            needs_prepared,
        },
        // Nothing is left out, so that the build stays what it was.
        None => {
            let text = || text.to_owned();
            LastStages { text: text(), rest: text(), needs_base, needs_prepared }
        }
    });
    let part = |at: usize| match (in_prepared[at], in_last[at]) {
        (true, true) => Part::Both,
        (true, false) => Part::Prepared,
        (false, true) => Part::Last,
        (false, false) => Part::Unused,
    };
    let needs = needs_config(&stages);
    let first_uses = first_uses(&stages, &in_prepared, &in_last);
    let is_end = |at| ends.prepared == Some(at) || ends.last == Some(at);
    let placed = stages.iter().enumerate().map(|(at, stage)| SplitStage {
        part: part(at),
        reason: if is_end(at) {
            let config = stage.references().find(|one| needed(&needs, &one.to));
            Some(config.unwrap_or(&stage.from).clone())
        } else {
            first_uses[at].cloned()
        },
        needs_config: needs[at],
        stage: stage.clone(),
    });
    let all = vec![true; stages.len()];
    let used = used_arguments(&stages, &all, build_args);
    let unused = build_args.keys().filter(|name| !used.contains_key(*name)).cloned();
    let unused_arguments = unused.collect();
    let stages = placed.collect();
    Ok(Split { prepared, last, stages, uses_base, can_use_base, undecided, unused_arguments })
}

/// For each stage, the first reference to it from a stage that is built.
fn first_uses<'a>(
    stages: &'a [Stage],
    in_prepared: &[bool],
    in_last: &[bool],
) -> Vec<Option<&'a Reference>> {
    let mut uses = vec![None; stages.len()];
    for (at, stage) in stages.iter().enumerate() {
        for reference in stage.references().filter(|_| in_prepared[at] || in_last[at]) {
            if let Origin::Stage(used) = reference.to {
                uses[used].get_or_insert(reference);
            }
        }
    }
    uses
}

fn selected<'a>(stages: &'a [Stage], which: &'a [bool]) -> impl Iterator<Item = &'a Stage> {
    stages.iter().zip(which).filter(|(_, is_in)| **is_in).map(|(stage, _)| stage)
}

fn prepared_name(stage: &Stage) -> &str {
    stage.name.as_deref().unwrap_or(PREPARED)
}

/// The text of the prepared stages. The last one, on which the config is written, gets a name if it
/// has none.
fn prepared_text(lines: &[&str], stages: &[Stage], which: &[bool], end: usize) -> String {
    let mut out = String::new();
    for (at, stage) in stages.iter().enumerate().filter(|(at, _)| which[*at]) {
        if at != end || stage.name.is_some() {
            out += &joined(lines, &stage.lines);
            continue;
        }
        out += &joined(lines, &(stage.lines.start..stage.from_lines.start));
        out += &format!("FROM {} AS {PREPARED}\n", stage.from_arguments);
        out += &joined(lines, &(stage.from_lines.end..stage.lines.end));
    }
    out
}

/// Lines of a text, counted from 1, with an end of the last one.
fn joined(lines: &[&str], which: &Range<usize>) -> String {
    let mut text = lines[which.start - 1..which.end - 1].concat();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// The build arguments that stages declare, or see without declaring them.
fn used_arguments(
    stages: &[Stage],
    which: &[bool],
    build_args: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let declared = selected(stages, which).flat_map(|stage| &stage.arguments).map(String::as_str);
    let names: BTreeSet<&str> = declared.chain(PREDEFINED).collect();
    let used = build_args.iter().filter(|(name, _)| names.contains(name.as_str()));
    used.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The stages of a text that refers to `base` are put into another order and beside other stages of
/// mosb, so a name must mean one stage only, and numbers mean nothing.
fn check_names(stages: &[Stage], number: Option<usize>) -> Result<(), Error> {
    let mut names: BTreeSet<String> = OWN_STAGES.map(str::to_owned).into();
    names.insert(PREPARED.to_owned());
    for stage in stages {
        if let Some(name) = &stage.name
            && !names.insert(name.to_ascii_lowercase())
        {
            let problem = format!(
                "another stage has the name {name}, and the Containerfile refers to base; rename this stage"
            );
            return Err(wrong(stage.from.line, &problem));
        }
    }
    let problem = "a stage is named by its number, which depends on what mosb adds for the stage base; give that stage a name, and write that";
    number.map_or(Ok(()), |line| Err(wrong(line, problem)))
}

impl Split {
    /// What runs before the config is written, and what after it.
    pub fn own_parts(&self) -> OwnParts {
        let prepared = self.prepared.clone().map(|prepared| {
            let PreparedStages { text, canonical, name, build_args, context } = prepared;
            OwnInstructions { text, canonical, name, build_args, context }
        });
        let last = match &self.last {
            None => OwnLast::Nothing,
            Some(LastStages { needs_prepared: Some(line), .. }) => {
                OwnLast::NeedsPrepared { line: *line }
            }
            Some(LastStages { needs_base: Some(line), .. }) => OwnLast::NeedsBase { line: *line },
            Some(_) => OwnLast::OnConfigs,
        };
        OwnParts { prepared, last }
    }
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "split_facts_tests.rs"]
mod facts_tests;

#[cfg(test)]
#[path = "split_property_tests.rs"]
mod property_tests;
