//! The rules that need the graph of stages: what a build refuses in the stages that it builds.

use super::Error;
use super::administrator::wrong;
use super::facts::AtLine;
use super::parts::Parts;
use super::stages::{Origin, Stage};
use crate::plan::is_root;
use mosb_api::labels;

/// The labels by which mosb knows its image.
const LABELS: [&str; 8] = [
    labels::IMAGE_MACHINE_CONFIG,
    labels::IMAGE_MACHINE_CONFIG_POOL,
    labels::IMAGE_BASE,
    labels::IMAGE_EXTENSIONS,
    labels::IMAGE_INPUTS,
    labels::IMAGE_FORMAT,
    labels::OCI_BASE_NAME,
    labels::OCI_BASE_DIGEST,
];

/// Checks the stages that are built.
///
/// # Errors
/// The first that the build would fail on.
pub(super) fn check(
    stages: &[Stage],
    is_built: &[bool],
    ends: &Parts,
    has_context: bool,
) -> Result<(), Error> {
    for (at, stage) in stages.iter().enumerate().filter(|(at, _)| is_built[*at]) {
        if let Some(error) = &stage.wrong {
            return Err(error.clone());
        }
        later_stage(stages, at)?;
        empty_stage(stages, at)?;
        if let Some(used) = stage.facts.context.first().filter(|_| !has_context) {
            return Err(Error::NoContext { line: used.line, what: used.to_string() });
        }
    }
    if let Some(end) = ends.prepared {
        root_at_end(stages, end)?;
    }
    if let Some(end) = ends.last {
        own_labels(stages, end)?;
    }
    Ok(())
}

/// A stage of a later line is none yet, so buildah looks for an image of that name.
fn later_stage(stages: &[Stage], at: usize) -> Result<(), Error> {
    for reference in stages[at].references() {
        let Origin::Image(image) = &reference.to else {
            continue;
        };
        let later = stages[at..].iter().find(|stage| stage.name.as_ref() == Some(image));
        if let Some(later) = later {
            let problem = format!(
                "{reference}: the stage {image} comes later, in line {}; move it up",
                later.from.line
            );
            return Err(wrong(reference.line, &problem));
        }
    }
    Ok(())
}

/// Nothing can be run in an empty image.
fn empty_stage(stages: &[Stage], at: usize) -> Result<(), Error> {
    let Some(line) = stages[at].facts.run_before_copy else {
        return Ok(());
    };
    let mut chain = chain(stages, at);
    let is_empty = match chain.next_back().map(|first| &first.from.to) {
        Some(Origin::Image(image)) => image == "scratch",
        _ => false,
    };
    let has_files = self::chain(stages, at).skip(1).any(|stage| stage.facts.copies);
    if is_empty && !has_files {
        let problem =
            "scratch has no shell and no program to run; copy one first, or begin with an image";
        return Err(wrong(line, problem));
    }
    Ok(())
}

/// The steps of mosb after the prepared part run as its user.
fn root_at_end(stages: &[Stage], end: usize) -> Result<(), Error> {
    let user = chain(stages, end).find_map(|stage| stage.facts.users.last());
    match user {
        Some(AtLine { line, text }) if !is_root(text) && !text.contains('$') => {
            let problem = format!(
                "USER {text}: the config is written after this part and as its user, which must be root; end it with USER root"
            );
            Err(wrong(*line, &problem))
        }
        _ => Ok(()),
    }
}

/// A label of mosb with another value makes the image one of something else.
fn own_labels(stages: &[Stage], end: usize) -> Result<(), Error> {
    let mut labels = chain(stages, end).flat_map(|stage| &stage.facts.labels);
    match labels.find(|label| LABELS.contains(&&*label.text)) {
        Some(AtLine { line, text }) => {
            let problem =
                format!("LABEL {text} is one of mosb's, which the image must have; leave it out");
            Err(wrong(*line, &problem))
        }
        None => Ok(()),
    }
}

/// A stage, and those that it begins with, to the first one.
fn chain(stages: &[Stage], at: usize) -> impl DoubleEndedIterator<Item = &Stage> {
    let mut chain = vec![&stages[at]];
    while let Some(Origin::Stage(before)) = chain.last().map(|stage| &stage.from.to) {
        chain.push(&stages[*before]);
    }
    chain.into_iter()
}
