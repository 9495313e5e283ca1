//! The images that an administrator's Containerfile pulls from registries, so that its build gets
//! the logins for these and no others.
//!
//! The invariant: an image that can't be decided is an error with its line, never left out.

use std::collections::{BTreeMap, BTreeSet};

use super::administrator::instructions;
use super::error::Error;
use super::scan::{Mention, Scan, problem};
use super::stages::OWN_STAGES;
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
        for mention in scan.read(&instruction)? {
            let (name, stage) = match mention {
                Mention::From { image, stage } => (image, stage),
                Mention::CopyFrom(name) | Mention::MountFrom(name) => (name, None),
                Mention::Argument(_) => continue,
            };
            images.extend(image(&name, &stages).map_err(|what| problem(&instruction, &what))?);
            stages.extend(stage);
        }
    }
    Ok(images)
}

/// The image of a registry that a name is; none for a stage and for what is on this machine.
fn image(name: &str, stages: &[String]) -> Result<Option<ImageRef>, String> {
    let is_stage = |stage: &String| stage.eq_ignore_ascii_case(name);
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
