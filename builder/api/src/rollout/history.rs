//! The images that a pool had in service, and which of them its machines ran: what a roll-out may go
//! back to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::PinnedBuild;
use crate::{Metadata, RenderedName, labels};
use mosb_image::{Digest, PinnedRef};

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
    /// Digest of the machine part of the config; none if the build does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_part: Option<Digest>,
    /// The annotation `mosb.dev/live-from` of the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_from: Option<Digest>,
    /// When the image came into service.
    pub since: Time,
    /// When it last became what machines ran, or were brought to. None if they never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<Time>,
    /// When new machines could boot it: a machine of the pool ran it well, or the pool had no machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<Time>,
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
        let newest = self.0.first().filter(|newest| is_same(newest));
        if newest.is_some_and(|newest| {
            (newest.machine_part, newest.live_from) == (entry.machine_part, entry.live_from)
        }) {
            return None;
        }
        let (same, older): (Vec<_>, Vec<_>) = self.0.iter().cloned().partition(is_same);
        let (ran, confirmed) =
            same.into_iter().next().map(|old| (old.ran, old.confirmed)).unwrap_or_default();
        let newest = HistoryEntry { ran, confirmed, ..entry.clone() };
        Some(Self::bounded(std::iter::once(newest).chain(older).collect()))
    }

    /// The record in which `entry` is what the machines ran last, with its machine part; none if it is
    /// already. An image that was never in service is added behind the newest.
    #[must_use]
    pub fn with_ran(&self, entry: &HistoryEntry, now: Timestamp) -> Option<Self> {
        let is_same =
            |old: &&mut HistoryEntry| old.build == entry.build && old.image == entry.image;
        let last = self.last_ran().first().copied().cloned();
        let is_it = |last: &HistoryEntry| {
            last.pin() == entry.pin() && last.machine_part == entry.machine_part
        };
        if last.as_ref().is_some_and(is_it) {
            return None;
        }
        // Later than all others, whatever the clock shows.
        let after = |ran: Time| ran.0.checked_add(SignedDuration::from_secs(1)).unwrap_or(ran.0);
        let last = last.and_then(|last| last.ran).map(after);
        let ran = Some(Time(last.map_or(now, |last| last.max(now))));
        let mut entries = self.0.clone();
        match entries.iter_mut().find(is_same) {
            Some(old) => (old.ran, old.machine_part) = (ran, entry.machine_part),
            None => entries.insert(1.min(entries.len()), HistoryEntry { ran, ..entry.clone() }),
        }
        Some(Self::bounded(entries))
    }

    /// The record in which these images are confirmed; none if they all are.
    #[must_use]
    pub fn with_confirmed(
        &self,
        is_confirmed: impl Fn(&HistoryEntry) -> bool,
        now: Timestamp,
    ) -> Option<Self> {
        let mut newer = self.clone();
        for entry in &mut newer.0 {
            if entry.confirmed.is_none() && is_confirmed(entry) {
                entry.confirmed = Some(Time(now));
            }
        }
        (newer != *self).then_some(newer)
    }

    /// The newest image that is confirmed.
    pub fn newest_confirmed(&self) -> Option<&HistoryEntry> {
        self.0.iter().find(|one| one.confirmed.is_some())
    }

    /// The entries that machines ran, the last one first.
    pub fn last_ran(&self) -> Vec<&HistoryEntry> {
        let mut ran: Vec<&HistoryEntry> = self.0.iter().filter(|one| one.ran.is_some()).collect();
        ran.sort_by_key(|one| std::cmp::Reverse(one.ran.as_ref().map(|time| time.0)));
        ran
    }

    /// Whether another entry has space without the removal of one.
    pub fn has_space(&self) -> bool {
        self.0.len() < ENTRIES
    }

    /// Without the oldest entries; the two that machines ran last stay.
    fn bounded(entries: Vec<HistoryEntry>) -> Self {
        let mut history = Self(entries);
        while history.0.len() > ENTRIES {
            let last: Vec<PinnedBuild> =
                history.last_ran().into_iter().take(2).map(HistoryEntry::pin).collect();
            let oldest = history.0.iter().rposition(|one| !last.contains(&one.pin()));
            history.0.remove(oldest.expect("there are more than two entries"));
        }
        history
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

    fn entry(build: &str, image: &str) -> HistoryEntry {
        HistoryEntry {
            build: build.to_owned(),
            image: format!("reg.example/os@{}", Digest::of(image.as_bytes())).parse().unwrap(),
            config: format!("rendered-worker-{}", "0".repeat(32)).parse().unwrap(),
            machine_part: None,
            live_from: None,
            since: Time(Timestamp::from_second(1).unwrap()),
            ran: None,
            confirmed: None,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ran(history: &History) -> Vec<&str> {
        history.last_ran().into_iter().map(|one| &*one.build).collect()
    }

    #[test]
    fn newest_confirmed_image_is_found() {
        let history = History::default().with(entry("a", "a")).unwrap();
        let history = history.with(entry("b", "b")).unwrap();
        assert_eq!(history.newest_confirmed(), None);
        let confirm = |history: &History, build: &'static str, second| {
            history.with_confirmed(|one| one.build == build, at(second))
        };
        let history = confirm(&history, "a", 5).unwrap();
        assert_eq!(history.newest_confirmed().map(|one| &*one.build), Some("a"));
        assert_eq!(confirm(&history, "a", 6), None, "its time stays");
        // The image in service again is confirmed still.
        let again = history.with(entry("a", "a")).unwrap();
        assert!(again.entries()[0].confirmed.is_some());
        let history = confirm(&history, "b", 7).unwrap();
        assert_eq!(history.newest_confirmed().map(|one| &*one.build), Some("b"));
    }

    #[test]
    fn newest_entry_is_first_at_any_clock() {
        let history = History::default().with(entry("a", "a")).unwrap();
        let history = history.with(entry("b", "b")).unwrap();
        assert!(ran(&history).is_empty());
        let history = history.with_ran(&entry("a", "a"), at(9)).unwrap();
        assert_eq!(history.with_ran(&entry("a", "a"), at(10)), None);
        let history = history.with_ran(&entry("b", "b"), at(3)).unwrap();
        assert_eq!(ran(&history), ["b", "a"]);
        let history = history.with_ran(&entry("a", "a"), at(3)).unwrap();
        assert_eq!(ran(&history), ["a", "b"]);
        // What comes into service again was run all the same.
        let history = history.with(entry("a", "a")).unwrap();
        assert_eq!(ran(&history), ["a", "b"]);
        // One that was never in service is not the newest.
        let history = history.with_ran(&entry("c", "c"), at(20)).unwrap();
        assert_eq!(ran(&history), ["c", "a", "b"]);
        assert_eq!(history.entries()[0].build, "a");
    }

    #[test]
    fn what_machines_ran_last_stays_in_the_record() {
        let mut history = History::default();
        for number in 0..3 {
            let entry = entry("old", &number.to_string());
            history = history.with(entry.clone()).unwrap();
            history = history.with_ran(&entry, at(number)).unwrap();
        }
        for number in 0..20 {
            history = history.with(entry("new", &number.to_string())).unwrap();
        }
        assert_eq!(history.entries().len(), ENTRIES);
        assert!(!history.has_space());
        let last = history.last_ran().into_iter().map(|one| one.image.digest());
        assert_eq!(last.collect::<Vec<_>>(), [Digest::of(b"2"), Digest::of(b"1")]);
    }

    #[test]
    fn rebuild_adds_an_entry_and_rollback_moves_one() {
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
    fn newest_machine_part_of_build_is_recorded_once() {
        let before = entry("worker-0", "a");
        let part = Some(Digest::of(b"part"));
        let after = HistoryEntry { machine_part: part, ..before.clone() };
        let history = History::default().with(before.clone()).unwrap();
        let history = history.with_ran(&before, at(1)).unwrap();
        // The same image was built again, and now has the part.
        let newer = history.with(after.clone()).unwrap();
        assert_eq!((newer.entries().len(), newer.with(after.clone())), (1, None));
        assert_eq!(newer.find(&before.pin()).unwrap().machine_part, part);
        assert_eq!(ran(&newer), ["worker-0"]);
        // It became known what its machines need.
        let newer = history.with_ran(&after, at(2)).unwrap();
        assert_eq!((newer.entries().len(), newer.with_ran(&after, at(3))), (1, None));
        assert_eq!(newer.find(&before.pin()).unwrap().machine_part, part);
    }

    #[test]
    fn live_part_is_recorded_beside_older_records() {
        let old = entry("a", "a");
        let live = HistoryEntry { live_from: Some(Digest::of(b"z")), ..old.clone() };
        let history = History::default().with(old.clone()).unwrap();
        assert!(!history.to_json().contains("live"));
        assert_eq!(history.with(old), None);
        let newer = history.with(live.clone()).unwrap();
        assert_eq!((newer.entries().len(), newer.with(live)), (1, None));
        assert_eq!(serde_json::from_str::<History>(&newer.to_json()).unwrap(), newer);
    }

    #[test]
    fn record_is_bounded_and_unreadable_one_is_empty() {
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
