//! What a decision consists of: questions, steps, the reason for both.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::log_archive::ArchiveLogs;
use super::lookup::Lookup;
use super::pool_reason::PoolReason;
use crate::status::Event;
use crate::workload::InputKind;
use mosb_build::JobMethod;
use mosb_image::{Digest, PinnedRef};
use mosb_plan::api::{
    Condition, ImageBuilderType, MachineOsBuild, MachineOsBuildStatus, MachineOsConfigSpec,
    MachineOsConfigStatus, PoolName,
};

/// What to do about a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What must be known first. Not empty: answer all of it, put the answers into the snapshot, decide again; there are no steps.
    pub lookups: Vec<Lookup>,
    /// What to change, in this order; the first error ends the round, but for events, which hinder nothing.
    pub actions: Vec<Action>,
    /// Why the pool is or isn't building.
    pub reason: PoolReason,
    /// When to decide again even if nothing changes.
    pub requeue_after: Option<Duration>,
}

/// One change. Done twice it ends where once does; done on an older view it is refused by its UID and resourceVersion.
///
/// A resourceVersion is that of the snapshot. Where an earlier step of the same decision wrote the same object, the version which that write
/// returned takes its place.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Create a MachineOSConfig for a pool that opted in by its label, owned by the pool, with the annotation `mosb.dev/made-for-label`.
    CreateConfig {
        /// Name, which is the pool's.
        name: String,
        /// UID of the pool.
        pool_uid: String,
        /// What it says.
        spec: MachineOsConfigSpec,
    },
    /// Change the spec of a MachineOSConfig that we made for a label.
    UpdateConfig {
        /// Its name.
        name: String,
        /// This very one.
        uid: String,
        /// As it was seen.
        resource_version: String,
        /// What it says now.
        spec: MachineOsConfigSpec,
    },
    /// Delete a MachineOSConfig that we made for a label.
    DeleteConfig {
        /// Its name.
        name: String,
        /// This very one.
        uid: String,
    },
    /// Create the MachineConfig that brings a pool its pre-built image, claimed.
    CreateComponent {
        /// The pool.
        pool: PoolName,
        /// The image.
        image: PinnedRef,
        /// Name of the MachineOSConfig that it serves.
        config: String,
    },
    /// Claim such a MachineConfig, and let it bring another image.
    UpdateComponent {
        /// Its name.
        name: String,
        /// This very one.
        uid: String,
        /// As it was seen.
        resource_version: String,
        /// The other image; none to leave the one that it has.
        image: Option<PinnedRef>,
        /// Name of the MachineOSConfig that it serves.
        config: String,
    },
    /// Delete such a MachineConfig.
    DeleteComponent {
        /// Its name.
        name: String,
        /// This very one.
        uid: String,
    },
    /// Create a MachineOSBuild: name, labels, annotations, owner, finalizer and spec are all in it.
    CreateBuild {
        /// The object; its status is empty.
        build: Box<MachineOsBuild>,
    },
    /// Replace the status of a MachineOSBuild.
    WriteBuildStatus {
        /// Its name.
        name: String,
        /// This very one.
        uid: String,
        /// As it was seen.
        resource_version: String,
        /// All of the status.
        status: Box<MachineOsBuildStatus>,
    },
    /// Change annotations of a MachineOSBuild.
    AnnotateBuild(Annotate),
    /// Delete a MachineOSBuild, in the foreground.
    DeleteBuild {
        /// Its name.
        name: String,
        /// This very one.
        uid: String,
    },
    /// Create what runs a build, suspended; an existing one is an error to decide about again.
    CreateWorkload {
        /// The build.
        build: String,
        /// This very one, the owner.
        build_uid: String,
        /// Which workload of the build it is, from 1.
        attempt: u32,
        /// What kind of object it is.
        builder: ImageBuilderType,
        /// What it is made for.
        method: JobMethod,
    },
    /// Create what a workload needs, owned by it; what exists already with this owner is left as it is.
    CreateInputs {
        /// The build.
        build: String,
        /// Its UID.
        build_uid: String,
        /// What kind of object the workload is.
        builder: ImageBuilderType,
        /// Name of the workload.
        workload: String,
        /// This very one, the owner.
        workload_uid: String,
        /// Which workload of the build it is.
        attempt: u32,
        /// What it is made for.
        method: JobMethod,
    },
    /// Let a workload begin.
    Unsuspend {
        /// What kind of object it is.
        builder: ImageBuilderType,
        /// Its name.
        name: String,
        /// This very one.
        uid: String,
        /// As it was seen.
        resource_version: String,
    },
    /// Keep what the pod of a build has said, in the place of what is kept of an earlier one. That it can't be kept hinders nothing.
    ArchiveLogs(Box<ArchiveLogs>),
    /// Delete a workload in the background; what it owns goes with it.
    DeleteWorkload {
        /// What kind of object it is.
        builder: ImageBuilderType,
        /// Its name.
        name: String,
        /// This very one.
        uid: String,
    },
    /// Delete a leftover that stands in the way of an input.
    DeleteInput {
        /// What it is.
        kind: InputKind,
        /// Its name.
        name: String,
        /// This very one.
        uid: String,
    },
    /// Change annotations of a MachineOSConfig.
    AnnotateConfig(Annotate),
    /// Replace the status of a MachineOSConfig.
    WriteConfigStatus {
        /// Its name.
        name: String,
        /// This very one.
        uid: String,
        /// As it was seen.
        resource_version: String,
        /// All of the status.
        status: Box<MachineOsConfigStatus>,
    },
    /// Replace the list of conditions of a pool, in which only our entry is another.
    WritePoolCondition {
        /// Name of the pool.
        name: String,
        /// This very one.
        uid: String,
        /// As it was seen.
        resource_version: String,
        /// All of them.
        conditions: Vec<Condition>,
    },
    /// Change annotations of a pool.
    AnnotatePool(Annotate),
    /// Note which image holds the tree of a base, in the ConfigMap `mosb-base-trees`.
    RecordBaseTree {
        /// Manifest of the base.
        base: Digest,
        /// Manifest of the image with its tree.
        image: Digest,
    },
    /// Tell something, once: an event of this name that exists already is left as it is.
    Event(Event),
}

/// A change of annotations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Annotate {
    /// Name of the object.
    pub name: String,
    /// This very one.
    pub uid: String,
    /// As it was seen.
    pub resource_version: String,
    /// Added or replaced.
    pub set: BTreeMap<String, String>,
    /// Taken away.
    pub remove: BTreeSet<String>,
}
