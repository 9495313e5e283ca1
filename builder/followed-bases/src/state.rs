//! Where a pool and its base stand. The condition, the log and the metric are functions of it.

use std::fmt;

use super::snapshot::{NotFollowed, SeenBase};
use super::streams::{Newest, StreamName};
use mosb_api::AnnotationError;
use mosb_cluster::status::camel_case;
use mosb_plan::plan::BaseRelease;
use mosb_reconcile::Problem;

/// Condition type of a MachineOSConfig: whether there is a newer base.
pub const NEWER_BASE: &str = "NewerBase";
/// The API takes 32,768; a message may quote what somebody wrote.
const MAX_MESSAGE_CHARS: usize = 4096;

/// Where a pool and its base stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseState {
    /// The pool does not follow its base.
    Off,
    BadAnnotation(AnnotationError),
    NotFollowed(NotFollowed),
    LookingUp,
    /// The registry's answer.
    Unknown(Problem),
    Current {
        stream: StreamName,
        base: Box<SeenBase>,
    },
    /// The stream names an older image.
    MovedBack {
        stream: StreamName,
        base: Box<SeenBase>,
        newest: Box<Newest>,
    },
    Newer {
        stream: StreamName,
        base: Box<SeenBase>,
        newest: Box<Newest>,
        next: Next,
    },
}

/// What becomes of a newer base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A person decides.
    Reported,
    /// It is recorded, and built on.
    Built,
    /// Nothing until the hold ends.
    Held,
    /// The release of OpenShift names another base one day.
    Release,
}

impl BaseState {
    /// Whether a newer base is known; none if that is unknown.
    pub fn is_newer(&self) -> Option<bool> {
        match self {
            Self::Newer { .. } => Some(true),
            Self::Current { .. } | Self::MovedBack { .. } => Some(false),
            Self::Off
            | Self::BadAnnotation(_)
            | Self::NotFollowed(_)
            | Self::LookingUp
            | Self::Unknown(_) => None,
        }
    }

    /// Status, reason and message of the condition; none for states that have no condition.
    pub fn condition(&self) -> Option<(&'static str, String, String)> {
        let (status, reason) = match self {
            Self::Off | Self::LookingUp => return None,
            Self::BadAnnotation(_) => ("Unknown", "BadAnnotation".to_owned()),
            Self::NotFollowed(NotFollowed::NoBase) => ("Unknown", "NoBase".to_owned()),
            Self::NotFollowed(NotFollowed::Pinned(_)) => ("Unknown", "NoTag".to_owned()),
            Self::NotFollowed(NotFollowed::Overridden(_)) => ("Unknown", "OSOverridden".to_owned()),
            Self::NotFollowed(NotFollowed::Settings(_, problem)) | Self::Unknown(problem) => {
                ("Unknown", camel_case(&problem.reason))
            }
            Self::Current { .. } => ("False", "UpToDate".to_owned()),
            Self::MovedBack { .. } => ("False", "TagMovedBack".to_owned()),
            Self::Newer { next, .. } => {
                let reason = match next {
                    Next::Reported => "Newer",
                    Next::Built => "Building",
                    Next::Held => "Held",
                    Next::Release => "ReleaseDecides",
                };
                ("True", reason.to_owned())
            }
        };
        Some((status, reason, self.to_string().chars().take(MAX_MESSAGE_CHARS).collect()))
    }
}

/// `sha256:… (version 41.1, made 2026-01-02T03:04:05Z)`.
fn described(digest: impl fmt::Display, release: &BaseRelease) -> String {
    match release.to_string().as_str() {
        "" => digest.to_string(),
        known => format!("{digest} ({known})"),
    }
}

impl fmt::Display for BaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let both =
            |f: &mut fmt::Formatter<'_>, stream: &StreamName, base: &SeenBase, newest: &Newest| {
                write!(
                    f,
                    "{stream} is {}, and the image in service was built on {}",
                    described(newest.image.digest(), &newest.release),
                    described(base.image.digest(), &base.release)
                )
            };
        match self {
            Self::Off => f.write_str("the base is not followed"),
            Self::BadAnnotation(error) => error.fmt(f),
            Self::NotFollowed(NotFollowed::NoBase) => f.write_str(
                "the base of the image in service is not known; it is followed once mosb has built an image",
            ),
            Self::NotFollowed(NotFollowed::Pinned(base)) => write!(
                f,
                "the base is named by digest, {}, which does not move; name it by a tag, or set baseStream in ConfigMap mosb-config to one",
                base.name
            ),
            Self::NotFollowed(NotFollowed::Overridden(base)) => write!(
                f,
                "a MachineConfig of the pool sets osImageURL to {}, which is not in the repository of baseStream; take osImageURL out, or remove baseStream",
                base.name
            ),
            Self::NotFollowed(NotFollowed::Settings(_, problem)) | Self::Unknown(problem) => {
                f.write_str(&problem.message)
            }
            Self::LookingUp => f.write_str("asking for the newest base"),
            Self::Current { stream, base } => write!(
                f,
                "{stream} is the base of the image in service, {}",
                described(base.image.digest(), &base.release)
            ),
            Self::MovedBack { stream, base, newest } => {
                both(f, stream, base, newest)?;
                f.write_str("; it moved back, and is not followed; to go back to it, use `mosb base update --to`")
            }
            Self::Newer { stream, base, newest, next } => {
                both(f, stream, base, newest)?;
                f.write_str(match next {
                    Next::Reported => "; to build on it, use `mosb base update`",
                    Next::Built => "; an image is built on it",
                    Next::Held => "; the base is held: to build on it, use `mosb base update`",
                    Next::Release => "; the release of the cluster decides its base, so nothing is built: update the cluster",
                })
            }
        }
    }
}
