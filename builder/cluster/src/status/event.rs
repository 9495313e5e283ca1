//! Events. Each is emitted once.

use sha2::Digest as _;

use super::seed::PRE_BUILT_IMAGE_SEEDED;
use mosb_plan::api::{API_VERSION, Metadata, shortened};
use mosb_reconcile::write::{Event, EventKind, Regarding};

/// An object of the API group of machine configuration.
pub fn regarding(kind: &'static str, metadata: &Metadata) -> Regarding {
    let (name, uid) = (metadata.name.clone(), metadata.uid().to_owned());
    Regarding { api_version: API_VERSION, kind, name, uid }
}

pub fn regarding_node(metadata: &Metadata) -> Regarding {
    Regarding { api_version: "v1", ..regarding("Node", metadata) }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventReason {
    /// A build's first Job is made.
    BuildStarted,
    BuildPreparing,
    BuildBuilding,
    /// The registry has the image.
    BuildCompleted,
    BuildDeleted,
    BuildFailed,
    /// Superseded.
    BuildInterrupted,
    JobCreated,
    JobStarted,
    JobCompleted,
    /// Deleted by us or by another client.
    JobDeleted,
    /// It ended without an image.
    JobFailed,
    /// The MachineOSConfig has another build.
    ConfigReconciled,
    /// The MachineOSConfig can't be built.
    ConfigReconcileFailed,
    ConfigDeleted,
    /// A prepared base that is recorded is not in the registry, and is made again.
    PreparedBaseMissing,
    /// A user requested a rebuild.
    RebuildRequested,
    /// The pool's builds work again.
    BuildRecovered,
    /// The pool has no image of its config.
    BuildDegraded,
    /// The pool has another rendered config.
    PoolConfigChanged,
    /// An image that was built elsewhere is in service.
    PreBuiltImageSeeded,
    /// The MachineConfig that brought it was deleted.
    PreBuiltImageMissing,
    /// A rendered config is made.
    RenderedConfigGenerated,
    /// An administrator's MachineConfig overrides the base of a rendered config.
    OsImageUrlOverridden,
    /// The image is staged on a machine.
    NodeStaged,
    /// A machine is cordoned and drained for an image.
    NodeSlotGiven,
    /// Its drain is cancelled, and the machine is uncordoned.
    NodeDrainCancelled,
    /// A drained machine reboots into the image.
    NodeRebooting,
    /// A machine rebooted without a try to boot the image.
    NodeRetried,
    /// A machine runs the image and is Ready.
    NodeUpdated,
    /// A machine can't follow its pool.
    NodeDegraded,
    /// The pool's machines begin to get an image.
    RolloutStarted,
    /// All machines of the pool run the image.
    RolloutCompleted,
    /// Nothing new is begun.
    RolloutBlocked,
    /// What blocked the roll-out is over.
    RolloutUnblocked,
    /// Boot images of machine sets can't be kept.
    BootImageUpdateFailed,
    /// They can be kept again.
    BootImageUpdateRecovered,
    /// Boot images in use are older than the limit.
    BootImagesTooOld,
    /// None is any more.
    BootImagesNewEnough,
    /// The CA in user data of new machines expires soon.
    BootImageUserDataExpiring,
    /// None does any more.
    BootImageUserDataRenewed,
    /// A deleted MachineOSConfig asked for the stock image, and its pool does not bring it to the
    /// machines.
    StockSkipped,
}

impl EventReason {
    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BuildStarted => "BuildStarted",
            Self::BuildPreparing => "BuildPreparing",
            Self::BuildBuilding => "BuildBuilding",
            Self::BuildCompleted => "BuildCompleted",
            Self::BuildDeleted => "BuildDeleted",
            Self::BuildFailed => "BuildFailed",
            Self::BuildInterrupted => "BuildInterrupted",
            Self::JobCreated => "JobCreated",
            Self::JobStarted => "JobStarted",
            Self::JobCompleted => "JobCompleted",
            Self::JobDeleted => "JobDeleted",
            Self::JobFailed => "JobFailed",
            Self::ConfigReconciled => "ConfigReconciled",
            Self::ConfigReconcileFailed => "ConfigReconcileFailed",
            Self::ConfigDeleted => "ConfigDeleted",
            Self::PreparedBaseMissing => "PreparedBaseMissing",
            Self::RebuildRequested => "RebuildRequested",
            Self::BuildRecovered => "BuildRecovered",
            Self::BuildDegraded => "BuildDegraded",
            Self::PoolConfigChanged => "PoolConfigChanged",
            Self::PreBuiltImageSeeded => PRE_BUILT_IMAGE_SEEDED,
            Self::PreBuiltImageMissing => "PreBuiltImageMissing",
            Self::RenderedConfigGenerated => "RenderedConfigGenerated",
            Self::OsImageUrlOverridden => "OSImageURLOverridden",
            Self::NodeStaged => "NodeStaged",
            Self::NodeSlotGiven => "NodeSlotGiven",
            Self::NodeDrainCancelled => "NodeDrainCancelled",
            Self::NodeRebooting => "NodeRebooting",
            Self::NodeRetried => "NodeRetried",
            Self::NodeUpdated => "NodeUpdated",
            Self::NodeDegraded => "NodeDegraded",
            Self::RolloutStarted => "RolloutStarted",
            Self::RolloutCompleted => "RolloutCompleted",
            Self::RolloutBlocked => "RolloutBlocked",
            Self::RolloutUnblocked => "RolloutUnblocked",
            Self::BootImageUpdateFailed => "BootImageUpdateFailed",
            Self::BootImageUpdateRecovered => "BootImageUpdateRecovered",
            Self::BootImagesTooOld => "BootImagesTooOld",
            Self::BootImagesNewEnough => "BootImagesNewEnough",
            Self::BootImageUserDataExpiring => "BootImageUserDataExpiring",
            Self::BootImageUserDataRenewed => "BootImageUserDataRenewed",
            Self::StockSkipped => "StockSkipped",
        }
    }

    pub fn kind(self) -> EventKind {
        match self {
            Self::BuildFailed
            | Self::BuildInterrupted
            | Self::JobFailed
            | Self::ConfigReconcileFailed
            | Self::BuildDegraded
            | Self::PreBuiltImageMissing
            | Self::PreparedBaseMissing
            | Self::NodeRetried
            | Self::NodeDegraded
            | Self::RolloutBlocked
            | Self::BootImageUpdateFailed
            | Self::BootImagesTooOld
            | Self::BootImageUserDataExpiring
            | Self::StockSkipped => EventKind::Warning,
            Self::BuildStarted
            | Self::BuildPreparing
            | Self::BuildBuilding
            | Self::BuildCompleted
            | Self::BuildDeleted
            | Self::JobCreated
            | Self::JobStarted
            | Self::JobCompleted
            | Self::JobDeleted
            | Self::ConfigReconciled
            | Self::ConfigDeleted
            | Self::RebuildRequested
            | Self::BuildRecovered
            | Self::PoolConfigChanged
            | Self::PreBuiltImageSeeded
            | Self::RenderedConfigGenerated
            | Self::OsImageUrlOverridden
            | Self::NodeStaged
            | Self::NodeSlotGiven
            | Self::NodeDrainCancelled
            | Self::NodeRebooting
            | Self::NodeUpdated
            | Self::RolloutStarted
            | Self::RolloutCompleted
            | Self::RolloutUnblocked
            | Self::BootImageUpdateRecovered
            | Self::BootImagesNewEnough
            | Self::BootImageUserDataRenewed => EventKind::Normal,
        }
    }
}

/// Maximum characters of a note (events.k8s.io/v1).
const NOTE: usize = 1024;
/// Maximum length of the object's name in an event's name, which has 253 characters.
const OBJECT: usize = 253 - 17;

/// An event on an object. `edge` distinguishes repeated events, for example by the attempt number.
/// Its name is `<object>.<16 hex digits>`.
pub fn new_event(on: Regarding, reason: EventReason, edge: &str, note: impl Into<String>) -> Event {
    let id = format!("{}\n{}\n{edge}", on.uid, reason.as_str());
    let hash = sha2::Sha256::digest(id);
    let hex: String = hash.iter().take(8).map(|b| format!("{b:02x}")).collect();
    Event {
        name: format!("{}.{hex}", shortened(&on.name, OBJECT)),
        kind: reason.kind(),
        reason: reason.as_str(),
        note: note.into().chars().take(NOTE).collect(),
        on,
    }
}

#[cfg(test)]
mod tests {
    use EventKind::{Normal, Warning};
    use EventReason::*;

    use super::*;

    /// The reasons of the Machine Config Operator's builder, which others look for, and our own.
    #[test]
    fn each_reason_has_its_word_and_its_kind() {
        for (reason, word, kind) in [
            (BuildStarted, "BuildStarted", Normal),
            (BuildPreparing, "BuildPreparing", Normal),
            (BuildBuilding, "BuildBuilding", Normal),
            (BuildCompleted, "BuildCompleted", Normal),
            (BuildDeleted, "BuildDeleted", Normal),
            (BuildFailed, "BuildFailed", Warning),
            (BuildInterrupted, "BuildInterrupted", Warning),
            (JobCreated, "JobCreated", Normal),
            (JobStarted, "JobStarted", Normal),
            (JobCompleted, "JobCompleted", Normal),
            (JobDeleted, "JobDeleted", Normal),
            (JobFailed, "JobFailed", Warning),
            (ConfigReconciled, "ConfigReconciled", Normal),
            (ConfigReconcileFailed, "ConfigReconcileFailed", Warning),
            (ConfigDeleted, "ConfigDeleted", Normal),
            (PreparedBaseMissing, "PreparedBaseMissing", Warning),
            (RebuildRequested, "RebuildRequested", Normal),
            (BuildRecovered, "BuildRecovered", Normal),
            (BuildDegraded, "BuildDegraded", Warning),
            (PoolConfigChanged, "PoolConfigChanged", Normal),
            (PreBuiltImageSeeded, "PreBuiltImageSeeded", Normal),
            (PreBuiltImageMissing, "PreBuiltImageMissing", Warning),
            (RenderedConfigGenerated, "RenderedConfigGenerated", Normal),
            (OsImageUrlOverridden, "OSImageURLOverridden", Normal),
            (NodeStaged, "NodeStaged", Normal),
            (NodeSlotGiven, "NodeSlotGiven", Normal),
            (NodeDrainCancelled, "NodeDrainCancelled", Normal),
            (NodeRebooting, "NodeRebooting", Normal),
            (NodeRetried, "NodeRetried", Warning),
            (NodeUpdated, "NodeUpdated", Normal),
            (NodeDegraded, "NodeDegraded", Warning),
            (RolloutStarted, "RolloutStarted", Normal),
            (RolloutCompleted, "RolloutCompleted", Normal),
            (RolloutBlocked, "RolloutBlocked", Warning),
            (RolloutUnblocked, "RolloutUnblocked", Normal),
            (BootImageUpdateFailed, "BootImageUpdateFailed", Warning),
            (BootImageUpdateRecovered, "BootImageUpdateRecovered", Normal),
            (BootImagesTooOld, "BootImagesTooOld", Warning),
            (BootImagesNewEnough, "BootImagesNewEnough", Normal),
            (BootImageUserDataExpiring, "BootImageUserDataExpiring", Warning),
            (BootImageUserDataRenewed, "BootImageUserDataRenewed", Normal),
            (StockSkipped, "StockSkipped", Warning),
        ] {
            let metadata = Metadata { name: "worker-b".to_owned(), ..Metadata::default() };
            let on = regarding("MachineOSBuild", &metadata);
            let event = new_event(on, reason, "", "n".repeat(2000));
            assert_eq!((event.reason, event.kind), (word, kind));
            assert_eq!(event.note.len(), NOTE, "{word}");
        }
        assert_eq!((Normal.as_str(), Warning.as_str()), ("Normal", "Warning"));
    }
}
