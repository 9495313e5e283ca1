//! What proves that the image of a set is one of a stream. Pure.

use std::collections::BTreeSet;

use super::history;
use super::machine_set::MachineSet;
use super::snapshot::BootImageSnapshot;
use mosb_boot_image::Proof;
use mosb_plan::api::cluster_settings::BootImageSettings;

/// Annotation of a set: an administrator vouches for its image.
const IS_STOCK: &str = "mosb.dev/boot-image-is-stock";

/// The administrator's list, the images that mosb saw in this set as those of a stream, and the annotation.
///
/// The images of the present golden ConfigMap prove nothing: a set that has an image of an earlier
/// one would not be listed there, and one that has an image of this one needs no change.
pub(super) fn proof(
    set: MachineSet<'_>,
    snapshot: &BootImageSnapshot,
    settings: &BootImageSettings,
) -> Proof {
    let mut images: BTreeSet<String> = settings.stock_images.iter().cloned().collect();
    images.extend(history::read(set, snapshot).stock_images().map(str::to_owned));
    let vouched = set.object.annotation(IS_STOCK) == Some("true");
    Proof { images, vouched }
}
