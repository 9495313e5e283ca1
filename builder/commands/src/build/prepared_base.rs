//! The prepared base of a build by hand: given, remembered from an earlier build, or made now.

use std::path::Path;

use serde_json::json;

use super::buildah;
use super::inputs::Buildah;
use super::result::PreparedUse;
use super::verified_image::VerifiedImage;
use crate::Result;
use crate::context::CliContext;
use crate::settings::Settings;
use mosb_api::PoolName;
use mosb_build::buildah::ContainerBuild;
use mosb_build::resolve::{self, PlanContext, ResolvedDraft, ResolvedPrepared};
use mosb_build::{Built, Signing, resolve::Error as ResolveError};
use mosb_image::Digest;
use mosb_plan::containerfile::{render_prepared, split};
use mosb_plan::plan::{self, BuilderNodes, OwnParts, Prepared, PreparedInputs};
use mosb_registry::{Client, Destination, Error as RegistryError, Source, Target};
use mosb_types::{Finding, canonical_json};

/// The pool of the control plane. By hand, no node shows what others are of it.
const CONTROL_PLANE_POOL: &str = "master";

/// What a build is made on.
#[derive(Debug)]
pub enum On {
    /// The base: nothing must be run before the config, or everything at once.
    Base,
    /// A prepared base that was there before.
    Prepared(ResolvedPrepared),
    /// A prepared base that this command made.
    Made(ResolvedPrepared),
    /// A prepared base that must be made first.
    ToMake(Prepared),
}

impl On {
    /// What is printed; none for a build on the base.
    pub fn shown(&self) -> Option<PreparedUse> {
        let found = |prepared: &ResolvedPrepared, reused| PreparedUse {
            inputs: prepared.base.inputs.hex(),
            image: Some(prepared.base.image.image.clone()),
            reused,
        };
        match self {
            Self::Base => None,
            Self::Prepared(prepared) => Some(found(prepared, true)),
            Self::Made(prepared) => Some(found(prepared, false)),
            Self::ToMake(prepared) => {
                Some(PreparedUse { inputs: prepared.inputs.hex(), image: None, reused: false })
            }
        }
    }

    /// The images whose signatures were verified: those of the draft, and what it is built on.
    pub fn verified(&self, drafted: &ResolvedDraft) -> Vec<VerifiedImage> {
        let prepared = match self {
            Self::Prepared(prepared) | Self::Made(prepared) => prepared.accepted.as_ref(),
            Self::Base | Self::ToMake(_) => None,
        };
        drafted.accepted.iter().chain(prepared).map(VerifiedImage::from).collect()
    }
}

/// The prepared base of a draft.
///
/// # Errors
/// There can't be one.
pub fn prepared(drafted: &ResolvedDraft, nodes: BuilderNodes) -> Result<Prepared> {
    let config = drafted.draft.request().config.name().to_string();
    let prepared = drafted.draft.prepared(own(drafted)?, nodes);
    let prepared = prepared.map_err(|obstacle| plan::Error::Obstacle { config, obstacle });
    Ok(prepared.map_err(ResolveError::from)?)
}

/// The parts of the administrator's Containerfile.
fn own(drafted: &ResolvedDraft) -> Result<OwnParts> {
    Ok(split(drafted.draft.request())?.own_parts())
}

/// Finds what a draft is built on: the given image, else the one that an earlier build remembered for
/// the target. It records nothing.
///
/// # Errors
/// The given image is not there or something else; the registry doesn't answer.
pub async fn find(
    context: &CliContext,
    planning: PlanContext<'_>,
    drafted: &ResolvedDraft,
    given: Option<&Source>,
    target: Option<&Target>,
    warnings: &mut Vec<Finding>,
) -> Result<On> {
    if let Some(source) = given {
        if drafted.draft.reasons().is_empty() {
            let message = "nothing must be run for this config, so it does nothing";
            warnings.push(Finding::new("option-unused", message).object("--prepared"));
            return Ok(On::Base);
        }
        let prepared = prepared(drafted, BuilderNodes::Any)?;
        let client = client(context, source, target);
        let found = resolve::prepared_base(planning, client, &prepared, source).await?;
        return Ok(On::Prepared(found));
    }
    let prepared = match drafted.draft.prepared(own(drafted)?, BuilderNodes::Any) {
        Ok(prepared) => prepared,
        Err(obstacle) => {
            warnings.extend(obstacle.warning());
            return Ok(On::Base);
        }
    };
    let (Some(target), Some(records)) = (target, &context.prepared) else {
        return Ok(On::ToMake(prepared));
    };
    let pool = drafted.draft.request().config.pool();
    let source = match records.load(&key(pool, prepared.inputs, target)) {
        Ok(Some(source)) => source,
        Ok(None) => return Ok(On::ToMake(prepared)),
        Err(warning) => {
            warnings.push(warning);
            return Ok(On::ToMake(prepared));
        }
    };
    let client = client(context, &source, Some(target));
    match resolve::prepared_base(planning, client, &prepared, &source).await {
        Ok(found) => Ok(On::Prepared(found)),
        Err(error) if is_missing(&error) => {
            let message =
                format!("the prepared base {source} is not there any more, so it is made again");
            warnings.push(Finding::new("prepared-missing", message).object(source.to_string()));
            Ok(On::ToMake(prepared))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether the image does not exist any more.
fn is_missing(error: &ResolveError) -> bool {
    match error {
        ResolveError::Registry(RegistryError::NotFound { .. } | RegistryError::Layout { .. }) => {
            true
        }
        ResolveError::Registry(RegistryError::Io { source, .. }) => {
            source.kind() == std::io::ErrorKind::NotFound
        }
        // Its labels say something else than when it was recorded: the record is of no use.
        ResolveError::Plan(plan::Error::Prepared(_)) => true,
        _ => false,
    }
}

/// Makes a prepared base with buildah, pushes it to the target, and remembers it.
///
/// # Errors
/// buildah is missing or fails; errors of the target.
pub async fn make(
    context: &CliContext,
    prepared: &Prepared,
    drafted: &ResolvedDraft,
    (target, wanted): (&Target, &Buildah),
    signing: Option<Signing<'_>>,
    settings: &Settings,
) -> Result<(Built, Source)> {
    context.progress.step("making the prepared base with buildah");
    let made = ContainerBuild::of_prepared(prepared, render_prepared(prepared)?);
    let base = &drafted.base;
    let running = buildah::run(context, &made, base, target, signing, wanted, settings);
    let mut built = running.await?;
    let digest = *built.pushed.digest.value();
    let source = match target.destination() {
        Destination::Registry(repo) => Source::Registry(repo.pinned(digest).into()),
        Destination::Layout(dir) => {
            Source::Layout { dir: dir.clone(), tag: None, digest: Some(digest) }
        }
    };
    let pool = drafted.draft.request().config.pool();
    built.warnings.extend(remember(context, pool, prepared.inputs, target, &source));
    Ok((built, source))
}

/// Resolves a prepared base that was just made, from where it was pushed to.
///
/// # Errors
/// The target doesn't answer.
pub async fn resolve_made(
    context: &CliContext,
    planning: PlanContext<'_>,
    prepared: &Prepared,
    source: &Source,
) -> Result<ResolvedPrepared> {
    Ok(resolve::prepared_base(planning, &context.push, prepared, source).await?)
}

/// Remembers a prepared base for a target, and returns a warning if that isn't possible.
pub fn remember(
    context: &CliContext,
    pool: &PoolName,
    inputs: PreparedInputs,
    target: &Target,
    source: &Source,
) -> Option<Finding> {
    let source = match source {
        Source::Layout { dir, tag, digest } => {
            let dir = whole(dir);
            Source::Layout { dir, tag: tag.clone(), digest: *digest }
        }
        other => other.clone(),
    };
    context.prepared.as_ref()?.store(&key(pool, inputs, target), &source).err()
}

/// What a record is found by: where images go, what was run, and whether it was for the control
/// plane, which takes nothing that was made for other machines.
fn key(pool: &PoolName, inputs: PreparedInputs, target: &Target) -> Digest {
    let target = match target.destination() {
        Destination::Registry(repo) => repo.to_string(),
        Destination::Layout(dir) => format!("oci:{}", whole(dir).display()),
    };
    let mut key = json!({ "target": target, "inputs": inputs.hex() });
    if pool.as_str() == CONTROL_PLANE_POOL {
        key["pool"] = json!(CONTROL_PLANE_POOL);
    }
    Digest::of(&canonical_json(&key))
}

/// A path that means the same from every folder.
fn whole(dir: &Path) -> std::path::PathBuf {
    dir.canonicalize().or_else(|_| std::path::absolute(dir)).unwrap_or_else(|_| dir.to_owned())
}

/// The client that may read an image: in the repository that is pushed to, the one that pushes.
fn client<'c>(context: &'c CliContext, source: &Source, target: Option<&Target>) -> &'c Client {
    let repo = match source {
        Source::Registry(image) => Some(image.repo()),
        Source::Layout { .. } | Source::Dir(_) => None,
    };
    if repo.is_some() && repo == target.and_then(Target::repo) {
        &context.push
    } else {
        &context.pull
    }
}
