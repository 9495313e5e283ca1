//! Finds the prepared and the last part in the graph of stages. Every pass reads each reference
//! once, as a text may have many stages.

use super::Error;
use super::stages::{Origin, Stage};

/// The stages at the ends of the two parts, by their index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub prepared: Option<usize>,
    pub last: Option<usize>,
}

/// Finds the parts.
///
/// # Errors
/// Two stages could be the prepared part; the final stage continues neither `configs` nor the
/// prepared part.
pub(super) fn parts(stages: &[Stage]) -> Result<Parts, Error> {
    let Some(last) = stages.last() else {
        return Ok(Parts { prepared: None, last: None });
    };
    let end = stages.len() - 1;
    let needs = needs_config(stages);
    let begins = beginnings(stages);
    let prepared = prepared(stages, &needs, &begins)?;
    let continues = if needs[end] { begins[end] == Origin::Configs } else { prepared == Some(end) };
    if !continues {
        return Err(Error::FinalStage { line: last.from.line, from: last.from.name.clone() });
    }
    if let Some(leading) = stages.first().filter(|stage| stage.is_leading())
        && !needs[end]
        && leading.instructions > 0
    {
        return Err(Error::Administrator {
            line: leading.lines.start,
            problem: "instructions before the first FROM continue configs, but the last stage does not; move them, or end with FROM configs".to_owned(),
        });
    }
    Ok(Parts { prepared, last: needs[end].then_some(end) })
}

/// For each stage, whether it reaches `configs` or `extract`.
pub(super) fn needs_config(stages: &[Stage]) -> Vec<bool> {
    let mut needs: Vec<bool> = Vec::with_capacity(stages.len());
    for stage in stages {
        let it_does = stage.references().any(|one| needed(&needs, &one.to));
        needs.push(it_does);
    }
    needs
}

/// Whether what a reference names needs the config.
pub(super) fn needed(needs: &[bool], origin: &Origin) -> bool {
    match origin {
        Origin::Configs | Origin::Extract => true,
        Origin::Stage(at) => needs.get(*at).copied().unwrap_or_default(),
        Origin::Base | Origin::Extensions | Origin::Image(_) => false,
    }
}

/// For each stage, what the first stage of its chain of `FROM` begins with.
pub(super) fn beginnings(stages: &[Stage]) -> Vec<Origin> {
    let mut begins: Vec<Origin> = Vec::with_capacity(stages.len());
    for stage in stages {
        let begin = match &stage.from.to {
            Origin::Stage(at) => begins.get(*at).cloned(),
            _ => None,
        };
        begins.push(begin.unwrap_or_else(|| stage.from.to.clone()));
    }
    begins
}

/// The one stage that comes `FROM base`, doesn't need the config, and is not part of another such
/// stage.
fn prepared(stages: &[Stage], needs: &[bool], begins: &[Origin]) -> Result<Option<usize>, Error> {
    let is_candidate = |at: &usize| begins[*at] == Origin::Base && !needs[*at];
    let candidates = (0..stages.len()).filter(is_candidate);
    let part_of_another = reached(stages, candidates.clone());
    let mut free = candidates.filter(|&at| !part_of_another[at]);
    match (free.next(), free.next()) {
        (Some(first), Some(second)) => Err(Error::Administrator {
            line: stages[second].from.line,
            problem: format!(
                "this stage and that of line {} both come FROM base and neither uses the other, so it is open on which of them the config is written; let this one begin with the other, or begin the one that is not part of the OS with an image of a registry",
                stages[first].from.line
            ),
        }),
        (one, _) => Ok(one),
    }
}

/// For each stage, whether one of these refers to it, directly or by other stages.
pub(super) fn reached(stages: &[Stage], from: impl Iterator<Item = usize>) -> Vec<bool> {
    let mut starts = vec![false; stages.len()];
    for at in from {
        starts[at] = true;
    }
    let mut reached = vec![false; stages.len()];
    // References point backwards only.
    for at in (0..stages.len()).rev() {
        if starts[at] || reached[at] {
            for reference in stages[at].references() {
                if let Origin::Stage(earlier) = reference.to {
                    reached[earlier] = true;
                }
            }
        }
    }
    reached
}
