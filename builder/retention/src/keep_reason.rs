//! Why an image is not deleted.

use std::fmt;

/// Why an image stays in the registry. An image may have several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeepReason {
    /// Of the MachineOSConfig of this name.
    InService(String),
    /// The annotation `mosb.dev/rollout-build` or `mosb.dev/rollout-once` of that MachineOSConfig.
    Pinned(String),
    /// It was in service, and a roll-out may go back to it.
    History(String),
    /// The machine of this name booted it.
    Booted(String),
    Staged(String),
    /// The machine can go back to it by itself.
    Rollback(String),
    /// An object, as `node worker-1`, has its digest.
    Named(String),
    /// It is the base, the prepared base or the first of the live images of an image that is kept.
    NeededBy(String),
    /// A tag that is not one of its own builds.
    Tag(String),
    /// The index of this tag contains it.
    Index(String),
    /// A build that runs pushes this tag.
    Building(String),
    /// No build of this MachineOSConfig made it, as far as is known.
    NotMadeHere,
    /// One of so many newest.
    Newest(u16),
    /// Built in the last so many days.
    Young(u16),
}

impl fmt::Display for KeepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InService(config) => write!(f, "in service of {config}"),
            Self::Pinned(config) => write!(f, "{config} is pinned to it"),
            Self::History(config) => write!(f, "in the history of {config}"),
            Self::Booted(machine) => write!(f, "node {machine} booted it"),
            Self::Staged(machine) => write!(f, "node {machine} has staged it"),
            Self::Rollback(machine) => write!(f, "node {machine} can go back to it"),
            Self::Named(object) => write!(f, "{object} names it"),
            Self::NeededBy(image) => write!(f, "{image} is kept and names it"),
            Self::Tag(tag) => write!(f, "tag {tag}"),
            Self::Index(tag) => write!(f, "in the index of tag {tag}"),
            Self::Building(build) => write!(f, "build {build} runs and pushes its tag"),
            Self::NotMadeHere => f.write_str("not made by a build of this MachineOSConfig"),
            Self::Newest(keep) => write!(f, "one of the {keep} newest"),
            Self::Young(days) => write!(f, "younger than {days} days"),
        }
    }
}
