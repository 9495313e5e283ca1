//! The images that a pool had in service: what a roll-out may go back to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use super::PinnedBuild;
use crate::api::{Metadata, RenderedName, labels};
use mosb_image::PinnedRef;

/// The most entries: an annotation has little space, and older images are rarely in a registry.
const ENTRIES: usize = 10;
/// The most bytes that are read.
const LIMIT: usize = 16 * 1024;

/// The images that a pool had in service, newest first (annotation `mosb.dev/history` of its
/// MachineOSConfig). A rebuild makes a MachineOSBuild of the same name with another digest, so the
/// builds alone don't show them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History(Vec<HistoryEntry>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// Name of the MachineOSBuild.
    pub build: String,
    pub image: PinnedRef,
    pub config: RenderedName,
    /// When the image came into service.
    pub since: Time,
}

impl History {
    /// The record of a MachineOSConfig. One that can't be read counts as empty: it is written anew
    /// from what is in service.
    pub fn of(config: &Metadata) -> Self {
        let text = config.annotation(labels::HISTORY).filter(|text| text.len() <= LIMIT);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The record with an image that is in service now; none if it is the newest already.
    #[must_use]
    pub fn with(&self, entry: HistoryEntry) -> Option<Self> {
        let is_same = |old: &HistoryEntry| old.build == entry.build && old.image == entry.image;
        if self.0.first().is_some_and(is_same) {
            return None;
        }
        let older = self.0.iter().filter(|old| !is_same(old)).cloned();
        let entries: Vec<HistoryEntry> =
            std::iter::once(entry.clone()).chain(older).take(ENTRIES).collect();
        Some(Self(entries))
    }

    /// Newest first.
    pub fn entries(&self) -> &[HistoryEntry] {
        &self.0
    }

    /// The entry that a pin names.
    pub fn find(&self, pin: &PinnedBuild) -> Option<&HistoryEntry> {
        self.0.iter().find(|one| one.build == pin.name && one.image.digest() == pin.digest)
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a history is JSON")
    }
}

impl HistoryEntry {
    pub fn pin(&self) -> PinnedBuild {
        PinnedBuild { name: self.build.clone(), digest: self.image.digest() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;
    use mosb_image::Digest;

    fn entry(build: &str, image: &str) -> HistoryEntry {
        HistoryEntry {
            build: build.to_owned(),
            image: format!("reg.example/os@{}", Digest::of(image.as_bytes())).parse().unwrap(),
            config: format!("rendered-worker-{}", "0".repeat(32)).parse().unwrap(),
            since: Time(Timestamp::from_second(1).unwrap()),
        }
    }

    #[test]
    fn a_rebuild_is_a_new_entry_and_what_comes_back_moves_to_the_front() {
        let history = History::default().with(entry("worker-0", "a")).unwrap();
        assert_eq!(history.with(entry("worker-0", "a")), None);
        let history = history.with(entry("worker-0", "b")).unwrap();
        let history = history.with(entry("worker-0", "a")).unwrap();
        let images: Vec<Digest> = history.entries().iter().map(|one| one.image.digest()).collect();
        assert_eq!(images, [Digest::of(b"a"), Digest::of(b"b")]);
        let pin = entry("worker-0", "b").pin();
        assert_eq!(history.find(&pin).map(HistoryEntry::pin), Some(pin));
        let other = entry("worker-0", "c").pin();
        assert_eq!(history.find(&other), None);
    }

    #[test]
    fn the_record_is_bounded_and_an_unreadable_one_is_empty() {
        let mut history = History::default();
        for number in 0..20 {
            history = history.with(entry("worker-0", &number.to_string())).unwrap();
        }
        assert_eq!(history.entries().len(), ENTRIES);
        let config = |value: String| Metadata {
            annotations: [(labels::HISTORY.to_owned(), value)].into(),
            ..Metadata::default()
        };
        assert_eq!(History::of(&config(history.to_json())), history);
        for wrong in ["{}".to_owned(), "[1]".to_owned(), " ".repeat(LIMIT + 1)] {
            assert_eq!(History::of(&config(wrong)), History::default());
        }
    }
}
