//! Finds a Containerfile that could run before the config is written, as none of its instructions
//! names anything of the config.

use super::split::{Part, Split, SplitStage};
use super::stages::{By, Origin};
use crate::plan::{BuildPlan, CURRENT_CONFIG};
use mosb_ignition as ignition;

/// How the administrator turns a `FROM configs` into a `FROM base`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The index of the stage that it is about.
    pub stage: usize,
    pub message: String,
}

/// The hint for a plan, if there is one. It only looks at names: a command may need the config
/// without naming a path of it.
pub fn hint(split: &Split, plan: &BuildPlan) -> Option<Hint> {
    let text = plan.request.containerfile.as_deref()?;
    if split.prepared.is_some() || split.undecided.is_some() || !split.can_use_base {
        return None;
    }
    let needing: Vec<&SplitStage> =
        split.stages.iter().filter(|one| one.part == Part::Last && one.needs_config).collect();
    let is_config = |to: &Origin| matches!(to, Origin::Configs | Origin::Extract);
    let mut reads = needing.iter().flat_map(|one| one.stage.references());
    if reads.any(|one| is_config(&one.to) && (one.by, &one.to) != (By::From, &Origin::Configs)) {
        return None;
    }
    let lines: Vec<&str> = text.lines().collect();
    let of_stages =
        needing.iter().flat_map(|one| &lines[one.stage.lines.start - 1..one.stage.lines.end - 1]);
    let mut instructions = of_stages.filter(|line| !line.trim_start().starts_with('#'));
    let names = ConfigNames::of(plan.ignition.as_ref());
    if instructions.any(|line| names.are_in(line)) {
        return None;
    }
    let stage = split.stages.iter().position(|one| one.stage.from.to == Origin::Configs)?;
    let how = match split.stages[stage].stage.from.line {
        0 => "write FROM base above it".to_owned(),
        line => format!("write FROM base in line {line}"),
    };
    let message = format!(
        "no instruction names a path of the config; if none needs the config, such as a repository of packages, {how}, and it runs before the config is written"
    );
    Some(Hint { stage, message })
}

/// The names by which an instruction could use the config.
struct ConfigNames<'a> {
    paths: Vec<&'a str>,
    units: Vec<&'a str>,
}

impl<'a> ConfigNames<'a> {
    fn of(config: Option<&'a ignition::Config>) -> Self {
        let storage = config.into_iter().map(|config| &config.storage);
        let files = storage.clone().flat_map(|storage| &storage.files).map(|file| &*file.path);
        let links = storage.clone().flat_map(|storage| &storage.links).map(|link| &*link.path);
        let directories = storage.flat_map(|storage| &storage.directories);
        let directories = directories.map(|directory| &*directory.path);
        let units = config.into_iter().flat_map(|config| &config.systemd.units);
        Self {
            paths: files.chain(links).chain(directories).chain([CURRENT_CONFIG]).collect(),
            units: units.map(|unit| &*unit.name).collect(),
        }
    }

    /// Whether a line names a path of the config, what is below it, a directory above it, or a unit.
    fn are_in(&self, line: &str) -> bool {
        let is_word = |c: char| c.is_alphanumeric() || "._@+/~-".contains(c);
        let mut rest = line;
        while let Some(start) = rest.find(is_word) {
            rest = &rest[start..];
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let (mut word, after) = rest.split_at(end);
            rest = after;
            let last = word.rsplit('/').next().unwrap_or_default();
            let is_unit = |unit: &&str| {
                *unit == last || unit.rsplit_once('.').is_some_and(|(stem, _)| stem == last)
            };
            if self.units.iter().any(is_unit) {
                return true;
            }
            if !word.starts_with('/') {
                continue;
            }
            // For a glob, use its directory.
            if after.starts_with(['*', '?', '[', '{', '$']) {
                word = &word[..word.rfind('/').unwrap_or_default()];
            }
            let word = word.trim_end_matches('/');
            if self.paths.iter().any(|path| is_within(path, word) || is_within(word, path)) {
                return true;
            }
        }
        false
    }
}

/// Whether a path is another one, or below it.
fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
#[path = "hint_tests.rs"]
mod tests;
