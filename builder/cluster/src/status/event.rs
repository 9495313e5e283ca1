//! Events. Each is emitted once.

use data_encoding::HEXLOWER;
use sha2::Digest as _;

use crate::words;
use mosb_api::{API_VERSION, Metadata, shortened};
use mosb_reconcile::write::{Event, EventKind, Regarding};

/// An object of the API group of machine configuration.
pub fn regarding(kind: &'static str, metadata: &Metadata) -> Regarding {
    let (name, uid) = (metadata.name.clone(), metadata.uid().to_owned());
    Regarding { api_version: API_VERSION, kind, name, uid }
}

pub fn regarding_node(metadata: &Metadata) -> Regarding {
    Regarding { api_version: "v1", ..regarding("Node", metadata) }
}

/// What happened: the reason of an event as the API spells it, and its kind.
macro_rules! event_reasons {
    ($($(#[$doc:meta])* $variant:ident = $kind:ident $word:literal,)+) => {
        words! {
            /// What happened.
            pub enum EventReason {
                $($(#[$doc])* $variant = $word,)+
            }
        }

        impl EventReason {
            pub fn kind(self) -> EventKind {
                match self {
                    $(Self::$variant => EventKind::$kind,)+
                }
            }
        }
    };
}

event_reasons! {
    /// A build's first Job is made.
    BuildStarted = Normal "BuildStarted",
    BuildPreparing = Normal "BuildPreparing",
    BuildBuilding = Normal "BuildBuilding",
    /// The registry has the image.
    BuildCompleted = Normal "BuildCompleted",
    BuildDeleted = Normal "BuildDeleted",
    BuildFailed = Warning "BuildFailed",
    /// Superseded.
    BuildInterrupted = Warning "BuildInterrupted",
    JobCreated = Normal "JobCreated",
    JobStarted = Normal "JobStarted",
    JobCompleted = Normal "JobCompleted",
    /// Deleted by us or by another client.
    JobDeleted = Normal "JobDeleted",
    /// It ended without an image.
    JobFailed = Warning "JobFailed",
    /// The MachineOSConfig has another build.
    ConfigReconciled = Normal "ConfigReconciled",
    /// The MachineOSConfig can't be built.
    ConfigReconcileFailed = Warning "ConfigReconcileFailed",
    ConfigDeleted = Normal "ConfigDeleted",
    /// A built image is kept out of service.
    ImageHeld = Warning "ImageHeld",
    /// A built image comes into service although it could not be signed.
    ImageNotSigned = Warning "ImageNotSigned",
    /// A prepared base that is recorded is not in the registry, and is made again.
    PreparedBaseMissing = Warning "PreparedBaseMissing",
    /// The tag of the pool's base names a newer image.
    NewerBase = Normal "NewerBase",
    /// The pool is built on another base from now on.
    BaseRecorded = Normal "BaseRecorded",
    /// A user requested a rebuild.
    RebuildRequested = Normal "RebuildRequested",
    /// The pool's builds work again.
    BuildRecovered = Normal "BuildRecovered",
    /// The pool has no image of its config.
    BuildDegraded = Warning "BuildDegraded",
    /// The pool has another rendered config.
    PoolConfigChanged = Normal "PoolConfigChanged",
    /// An image that was built elsewhere is in service.
    PreBuiltImageSeeded = Normal "PreBuiltImageSeeded",
    /// The MachineConfig that brought it was deleted.
    PreBuiltImageMissing = Warning "PreBuiltImageMissing",
    /// A rendered config is made.
    RenderedConfigGenerated = Normal "RenderedConfigGenerated",
    /// An administrator's MachineConfig overrides the base of a rendered config.
    OsImageUrlOverridden = Normal "OSImageURLOverridden",
    /// The image is staged on a machine.
    NodeStaged = Normal "NodeStaged",
    /// A machine is cordoned and drained for an image.
    NodeSlotGiven = Normal "NodeSlotGiven",
    /// Its drain is cancelled, and the machine is uncordoned.
    NodeDrainCancelled = Normal "NodeDrainCancelled",
    /// A drained machine reboots into the image.
    NodeRebooting = Normal "NodeRebooting",
    /// A machine rebooted without a try to boot the image.
    NodeRetried = Warning "NodeRetried",
    /// A machine runs the image and is Ready.
    NodeUpdated = Normal "NodeUpdated",
    /// A machine can't follow its pool.
    NodeDegraded = Warning "NodeDegraded",
    /// The pool's machines begin to get an image.
    RolloutStarted = Normal "RolloutStarted",
    /// All machines of the pool run the image.
    RolloutCompleted = Normal "RolloutCompleted",
    /// Nothing new is begun.
    RolloutBlocked = Warning "RolloutBlocked",
    /// What blocked the roll-out is over.
    RolloutUnblocked = Normal "RolloutUnblocked",
    /// Boot images of machine sets can't be kept.
    BootImageUpdateFailed = Warning "BootImageUpdateFailed",
    /// They can be kept again.
    BootImageUpdateRecovered = Normal "BootImageUpdateRecovered",
    /// Boot images in use are older than the limit.
    BootImagesTooOld = Warning "BootImagesTooOld",
    /// None is any more.
    BootImagesNewEnough = Normal "BootImagesNewEnough",
    /// The CA in user data of new machines expires soon.
    BootImageUserDataExpiring = Warning "BootImageUserDataExpiring",
    /// None does any more.
    BootImageUserDataRenewed = Normal "BootImageUserDataRenewed",
    /// A deleted MachineOSConfig asked for the stock image, and its pool does not bring it to the
    /// machines.
    StockSkipped = Warning "StockSkipped",
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
    let hex = HEXLOWER.encode(&hash[..8]);
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
            (ImageHeld, "ImageHeld", Warning),
            (ImageNotSigned, "ImageNotSigned", Warning),
            (PreparedBaseMissing, "PreparedBaseMissing", Warning),
            (NewerBase, "NewerBase", Normal),
            (BaseRecorded, "BaseRecorded", Normal),
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
