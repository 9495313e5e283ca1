//! The record of the images of a set. Pure.

use super::machine_set::MachineSet;
use super::snapshot::BootImageSnapshot;
use mosb_boot_image::{BootImage, History, NextWrite, SetGeneration, WriteAttempt};
use mosb_cluster::cluster_cache::{BootImageKind, SeenObject, object_key};

/// The object with the record of a set.
pub(super) fn find<'s>(
    set: MachineSet<'_>,
    snapshot: &'s BootImageSnapshot,
) -> Option<&'s SeenObject> {
    let key = object_key(&set.object.namespace, &set.reference().history_name());
    snapshot.get(BootImageKind::BootImageHistory, &key)
}

/// The record of a set; an empty one if there is none.
pub(super) fn read(set: MachineSet<'_>, snapshot: &BootImageSnapshot) -> History {
    let object = find(set, snapshot);
    object.map(|object| History::read(&object.status)).unwrap_or_default()
}

/// Whether this image may be written to the set.
pub(super) fn next_write(
    set: MachineSet<'_>,
    snapshot: &BootImageSnapshot,
    image: &BootImage,
) -> NextWrite {
    let SeenObject { uid, generation, .. } = set.object;
    let target = SetGeneration { uid: uid.clone(), generation: *generation };
    let is_unmade = snapshot.memory.is_unmade(uid);
    WriteAttempt::next(read(set, snapshot).attempt.as_ref(), image, target, is_unmade)
}
