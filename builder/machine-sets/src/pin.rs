//! The pin of a set: an annotation that keeps its image. Pure.

use std::cmp::Ordering;

use super::judge::Judgement;
use super::obstacle::Failure;
use mosb_boot_image::Release;
use mosb_cluster::cluster_cache::SeenObject;

/// Annotation of a set: `always`, or a release.
pub const PIN: &str = "mosb.dev/boot-image-pin";
/// Its value without an end.
pub const ALWAYS: &str = "always";

/// Until when an image stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pin {
    /// Until it is unpinned.
    Always,
    /// Until the images to follow are newer than this release.
    Until(Release),
}

/// The pin of a set.
pub(super) fn read(set: &SeenObject) -> Result<Option<Pin>, Failure> {
    match set.annotation(PIN) {
        None => Ok(None),
        Some(ALWAYS) => Ok(Some(Pin::Always)),
        Some(text) => text.parse().map(|release| Some(Pin::Until(release))).map_err(|error| {
            Failure::new("bad-pin", format!("annotation {PIN}: {error}, or {ALWAYS}"))
        }),
    }
}

impl Pin {
    /// Until when it holds; none if it is over. A release that can't be compared holds.
    pub fn holds(&self, judgement: &Judgement<'_>) -> Option<String> {
        let Self::Until(pinned) = self else {
            return Some("until it is unpinned".to_owned());
        };
        let images = judgement.stream.images_of(judgement.architecture);
        let artifacts = images.into_iter().flat_map(|images| images.artifacts.values());
        let releases = artifacts.filter_map(|one| one.release.as_deref()?.parse::<Release>().ok());
        let is_newer = |release: Release| release.compare(pinned) == Some(Ordering::Greater);
        let mut newer = releases.map(is_newer);
        (!newer.any(|newer| newer)).then(|| format!("until images newer than {pinned}"))
    }
}
