//! The machine set that a command names. Pure.

use crate::boot_images::machine_set::{MachineSet, SET_KINDS};
use crate::boot_images::snapshot::BootImageSnapshot;
use mosb_boot_image::{SetQuery, SetRef, SetRefError};

/// The one set that `[[NAMESPACE/]KIND[.GROUP]/]NAME` means.
pub(super) fn find<'s>(
    snapshot: &'s BootImageSnapshot,
    text: &str,
) -> Result<MachineSet<'s>, SetRefError> {
    let objects = SET_KINDS.into_iter().flat_map(|kind| snapshot.list(kind));
    let sets: Vec<MachineSet<'s>> = objects.filter_map(MachineSet::new).collect();
    let references: Vec<SetRef> = sets.iter().map(|set| set.reference()).collect();
    let query: SetQuery = text.parse()?;
    let found = query.find(&references)?;
    let set = sets.into_iter().find(|set| set.reference() == *found);
    set.ok_or_else(|| SetRefError::Missing(text.to_owned()))
}
