//! The images that an administrator's Containerfile pulls from registries, so that its build gets
//! the logins for these and no others.
//!
//! The invariant: an image that can't be decided is an error with its line, never left out.

use std::collections::{BTreeMap, BTreeSet};

use super::Error;
use super::administrator::instructions;
use super::rules::check;
use super::scan::{Mention, Scan, Unknown, problem};
use super::stages::OWN_STAGES;
use crate::plan::ContextPath;
use mosb_image::{ImageRef, Platform};

/// Names of images that no registry is asked for (containers-transports(5)).
const LOCAL_TRANSPORTS: [&str; 6] =
    ["containers-storage:", "dir:", "docker-archive:", "docker-daemon:", "oci-archive:", "oci:"];

/// The images of registries that a Containerfile names in `FROM`, `COPY --from` and `RUN
/// --mount=…from=`, built with these arguments for this platform.
///
/// # Errors
/// What can't be built, as [`check`](super::check) says; an image that can't be decided, or whose
/// name lacks the registry.
pub fn images(
    text: &str,
    build_args: &BTreeMap<String, String>,
    platform: &Platform,
) -> Result<BTreeSet<ImageRef>, Error> {
    let mut scan = Scan::new(build_args, platform);
    let mut stages: Vec<String> = OWN_STAGES.map(str::to_owned).into();
    let mut images = BTreeSet::new();
    for instruction in instructions(text)? {
        instruction.check()?;
        for mention in scan.read(&instruction).map_err(Unknown::into_error)? {
            let (name, stage) = match mention {
                Mention::From { image, stage } => (image, stage),
                Mention::CopyFrom(named) | Mention::MountFrom { named, .. } => (named.name, None),
                Mention::Argument(_) | Mention::Context(_) | Mention::Absent => continue,
            };
            images.extend(image(&name, &stages).map_err(|what| problem(&instruction, &what))?);
            stages.extend(stage);
        }
    }
    Ok(images)
}

/// What a Containerfile copies or mounts of its build context; nothing of a text that can't be built.
pub fn context_paths(
    text: &str,
    build_args: &BTreeMap<String, String>,
    platform: &Platform,
) -> Vec<ContextPath> {
    let mut scan = Scan::new(build_args, platform);
    let mut paths = Vec::new();
    for instruction in instructions(text).unwrap_or_default() {
        // What is not known is an error of the stages.
        let mentions = scan.read(&instruction).unwrap_or_default();
        paths.extend(mentions.into_iter().filter_map(|mention| match mention {
            Mention::Context(path) => Some(path),
            _ => None,
        }));
    }
    paths
}

/// Checks a text for a cluster, where no build has a context, by itself.
///
/// # Errors
/// As [`check`]; a use of the build context.
pub fn check_in_cluster(text: &str) -> Result<(), Error> {
    check(text)?;
    // Which one is used depends on neither.
    let platform = Platform::new("linux", "amd64", None).expect("the name of a platform");
    match context_paths(text, &BTreeMap::new(), &platform).first() {
        Some(used) => Err(Error::NoContext { line: used.line, what: used.to_string() }),
        None => Ok(()),
    }
}

/// The image of a registry that a name is; none for a stage and for what is on this machine.
fn image(name: &str, stages: &[String]) -> Result<Option<ImageRef>, String> {
    let is_stage = |stage: &String| stage == name;
    let is_number = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    let is_local = LOCAL_TRANSPORTS.iter().any(|transport| name.starts_with(transport));
    if name == "scratch" || is_number || is_local || stages.iter().any(is_stage) {
        return Ok(None);
    }
    let name = name.strip_prefix("docker://").unwrap_or(name);
    name.parse().map(Some).map_err(|error| format!("image {error}"))
}

#[cfg(test)]
#[path = "images_tests.rs"]
mod tests;
