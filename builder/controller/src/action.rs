//! What a decision about a MachineOSConfig changes.

use std::collections::{BTreeMap, BTreeSet};

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

/// The result of [`decide`](crate::decide()) for one snapshot.
pub type Decision = super::decision::Decision<Lookup, Action, PoolReason>;

/// One change. Applying it twice has the result of applying it once. The UID and resourceVersion
/// make the API server reject an action that was decided on an outdated view.
///
/// A resourceVersion is that of the snapshot. If an earlier action of the same decision wrote the
/// same object, the executor uses the version that this write returned.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Create a MachineOSConfig for a pool that opted in by its label, owned by the pool, with the
    /// annotation `mosb.dev/made-for-label`.
    CreateConfig {
        /// Also the name of the pool.
        name: String,
        pool_uid: String,
        spec: MachineOsConfigSpec,
    },
    /// Change the spec of a MachineOSConfig that we made for a label.
    UpdateConfig {
        name: String,
        uid: String,
        resource_version: String,
        spec: MachineOsConfigSpec,
    },
    /// Delete a MachineOSConfig that we made for a label.
    DeleteConfig {
        name: String,
        uid: String,
    },
    /// Create and claim the MachineConfig that sets a pool's pre-built image.
    CreateComponent {
        pool: PoolName,
        image: PinnedRef,
        /// The MachineOSConfig that claims it.
        config: String,
    },
    /// Claim such a MachineConfig, and optionally set another image.
    UpdateComponent {
        name: String,
        uid: String,
        resource_version: String,
        /// `None` keeps the current image.
        image: Option<PinnedRef>,
        /// The MachineOSConfig that claims it.
        config: String,
    },
    DeleteComponent {
        name: String,
        uid: String,
    },
    /// Create a complete MachineOSBuild: name, labels, annotations, owner, finalizer and spec.
    CreateBuild {
        /// Its status is empty.
        build: Box<MachineOsBuild>,
    },
    /// Replace the status of a MachineOSBuild.
    WriteBuildStatus {
        name: String,
        uid: String,
        resource_version: String,
        status: Box<MachineOsBuildStatus>,
    },
    /// Change annotations of a MachineOSBuild.
    AnnotateBuild(Annotate),
    /// Delete a MachineOSBuild, in the foreground.
    DeleteBuild {
        name: String,
        uid: String,
    },
    /// Create the suspended workload of a build. If it exists already, the reconciler decides
    /// again.
    CreateWorkload {
        build: String,
        /// UID of the owner.
        build_uid: String,
        /// Attempt number, from 1.
        attempt: u32,
        builder: ImageBuilderType,
        method: JobMethod,
    },
    /// Create the inputs of a workload, owned by it. Existing inputs with this owner are not
    /// changed.
    CreateInputs {
        build: String,
        build_uid: String,
        builder: ImageBuilderType,
        workload: String,
        /// UID of the owner.
        workload_uid: String,
        /// Attempt number, from 1.
        attempt: u32,
        method: JobMethod,
    },
    Unsuspend {
        builder: ImageBuilderType,
        name: String,
        uid: String,
        resource_version: String,
    },
    /// Archive the logs of a build's pod, replacing those of an earlier attempt. A failure is only
    /// logged.
    ArchiveLogs(Box<ArchiveLogs>),
    /// Delete a workload in the background, with everything that it owns.
    DeleteWorkload {
        builder: ImageBuilderType,
        name: String,
        uid: String,
    },
    /// Delete a leftover object that has the name of an input.
    DeleteInput {
        kind: InputKind,
        name: String,
        uid: String,
    },
    /// Change annotations of a MachineOSConfig.
    AnnotateConfig(Annotate),
    /// Replace the status of a MachineOSConfig.
    WriteConfigStatus {
        name: String,
        uid: String,
        resource_version: String,
        status: Box<MachineOsConfigStatus>,
    },
    /// Replace the list of conditions of a pool, in which only our entry changes.
    WritePoolCondition {
        name: String,
        uid: String,
        resource_version: String,
        conditions: Vec<Condition>,
    },
    /// Change annotations of a pool.
    AnnotatePool(Annotate),
    /// Record which image holds the tree of a base, in the ConfigMap `mosb-base-trees`.
    RecordBaseTree {
        base: Digest,
        /// Manifest of the image with its tree.
        image: Digest,
    },
    /// Emit an event. An existing event of this name is not changed.
    Event(Event),
}

/// A change of annotations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Annotate {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub set: BTreeMap<String, String>,
    pub remove: BTreeSet<String>,
}
