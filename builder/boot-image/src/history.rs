//! The boot images that a machine set had: `status` of its BootImageHistory.
//!
//! It is a record. Deleting it harms nothing but memory: what was there can't be restored or count
//! as an image of a stream any more, and a rival is found anew.

use std::borrow::Cow;

use data_encoding::HEXLOWER;
use mosb_types::Diagnostic;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::attempt::WriteAttempt;
use crate::{BootImage, SetRef};

/// The most entries: an object of the API, of which a cluster may have thousands, stays small.
const MAX_DETAILS: usize = 20;
const MAX_NAME_LEN: usize = 253;

/// The images of a set, the oldest first. The first entry is the image that mosb found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct History {
    pub machine_resource_reference: SetReference,
    pub details: Vec<HistoryDetail>,
    /// The pin of the set, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<String>,
    /// The last write of an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<WriteAttempt>,
}

/// The set that a history is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SetReference {
    pub name: String,
    pub kind: String,
    /// Without a version.
    pub api_group: String,
}

/// One image of a set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryDetail {
    /// When the set was seen with it: RFC 3339.
    #[serde(alias = "updateTime")]
    pub updated_time: String,
    /// The text of a [`BootImage`].
    pub boot_image_ref: String,
    /// Name of the machine template that has the image; of Cluster API only.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template: String,
    /// The release of the image, if it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// Whether the image is known to be of a stream: the golden ConfigMap named it while the set
    /// had it, or mosb was about to replace it when an administrator put it back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stock: bool,
    /// How often mosb wrote the image. 0 is one that was found, or put back.
    pub count: u32,
}

/// Why an entry can't be restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(class = InvalidInput)]
#[non_exhaustive]
pub enum RestoreError {
    #[error("no earlier image is recorded; set one by hand, and pin it")]
    #[diagnostic(code = "no-earlier-image")]
    NoEarlier,
    #[error("there is no entry {number}; the history has 1 to {last}")]
    #[diagnostic(code = "no-such-entry")]
    NoEntry { number: usize, last: usize },
}

impl History {
    /// An empty history of a set.
    pub fn new(set: &SetRef) -> Self {
        Self { machine_resource_reference: SetReference::of(set), ..Self::default() }
    }

    /// Reads `status`. One that can't be read counts as empty, and is written anew.
    pub fn read(status: &Value) -> Self {
        serde_json::from_value(status.clone()).unwrap_or_default()
    }

    /// The history with an image that was found in the set and is about to be replaced, so that it
    /// can be restored. `None` if it is recorded already.
    #[must_use]
    pub fn with_found(&self, detail: HistoryDetail) -> Option<Self> {
        if self.details.iter().any(|old| old.is_same(&detail)) {
            return None;
        }
        Some(self.with(HistoryDetail { count: 0, ..detail }))
    }

    /// The history with an image of a stream that is seen in the set, whoever set it. `None` if it
    /// is recorded already.
    #[must_use]
    pub fn with_stock(&self, detail: HistoryDetail) -> Option<Self> {
        let attempt = self.attempt.as_ref();
        let attempt = attempt.filter(|one| one.boot_image_ref == detail.boot_image_ref);
        let count = attempt.map_or(0, |one| one.count);
        let mut history = self.clone();
        let Some(newest) = history.details.last_mut().filter(|newest| newest.is_same(&detail))
        else {
            return Some(self.with(HistoryDetail { stock: true, count, ..detail }));
        };
        newest.stock = true;
        newest.count = newest.count.max(count);
        (history != *self).then_some(history)
    }

    /// What is in the set now, as far as mosb has seen.
    pub fn newest(&self) -> Option<&HistoryDetail> {
        self.details.last()
    }

    /// The images that are of a stream.
    pub fn stock_images(&self) -> impl Iterator<Item = &str> {
        let stock = self.details.iter().filter(|one| one.stock);
        stock.map(|one| &*one.boot_image_ref)
    }

    /// The entry with this number, from 1 (the image that was found); without a number, the one
    /// before the newest.
    ///
    /// # Errors
    /// There is none.
    pub fn entry_to_restore(&self, number: Option<usize>) -> Result<&HistoryDetail, RestoreError> {
        let last = self.details.len();
        let Some(number) = number else {
            let earlier = last.checked_sub(2).and_then(|index| self.details.get(index));
            return earlier.ok_or(RestoreError::NoEarlier);
        };
        let entry = number.checked_sub(1).and_then(|index| self.details.get(index));
        entry.ok_or(RestoreError::NoEntry { number, last })
    }

    /// With a new entry, and without the oldest but the first.
    fn with(&self, detail: HistoryDetail) -> Self {
        let mut history = self.clone();
        history.details.push(detail);
        let surplus = history.details.len().saturating_sub(MAX_DETAILS);
        history.details.drain(1..=surplus);
        history
    }
}

impl HistoryDetail {
    pub fn new(image: &BootImage, time: &str) -> Self {
        Self {
            boot_image_ref: image.as_str().to_owned(),
            updated_time: time.to_owned(),
            ..Self::default()
        }
    }

    /// Whether it is the same image in the same template.
    fn is_same(&self, other: &Self) -> bool {
        (&self.boot_image_ref, &self.template) == (&other.boot_image_ref, &other.template)
    }
}

impl SetReference {
    pub fn of(set: &SetRef) -> Self {
        Self {
            name: set.name.clone(),
            kind: set.kind.kind().to_owned(),
            api_group: set.kind.group().to_owned(),
        }
    }
}

impl SetRef {
    /// The name of the set's BootImageHistory, in the same namespace: `NAME.KIND.GROUP`, because
    /// sets of two kinds may have one name.
    pub fn history_name(&self) -> String {
        let suffix = format!(".{}", self.kind);
        let longest = MAX_NAME_LEN - suffix.len();
        let mut name = Cow::Borrowed(&*self.name);
        if name.len() > longest {
            let hash = Sha256::digest(name.as_bytes());
            let hash = HEXLOWER.encode(&hash[..5]);
            let start = name.get(..longest - hash.len() - 1).unwrap_or_default();
            name = format!("{}-{hash}", start.trim_end_matches(['-', '.'])).into();
        }
        format!("{name}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SetKind;
    use proptest::prelude::*;
    use serde_json::json;

    fn image(text: &str) -> BootImage {
        text.parse().unwrap()
    }

    fn detail(text: &str) -> HistoryDetail {
        HistoryDetail::new(&image(text), "2026-11-25T10:00:00Z")
    }

    fn set(name: &str) -> SetRef {
        SetRef { namespace: None, kind: SetKind::MachineDeployment, name: name.to_owned() }
    }

    fn images(history: &History) -> Vec<String> {
        let text = |one: &HistoryDetail| format!("{} {}", one.boot_image_ref, one.count);
        history.details.iter().map(text).collect()
    }

    /// With the record of so many writes of an image.
    fn attempted(history: History, image: &str, count: u32) -> History {
        let target = crate::SetGeneration::default();
        let boot_image_ref = image.to_owned();
        History { attempt: Some(WriteAttempt { boot_image_ref, count, target }), ..history }
    }

    #[test]
    fn found_image_is_first_and_written_ones_follow() {
        let history = History::new(&set("a"));
        let history = history.with_found(detail("old")).unwrap();
        assert_eq!(history.with_found(detail("old")), None);
        let history = attempted(history, "new", 1).with_stock(detail("new")).unwrap();
        assert_eq!(history.with_stock(detail("new")), None, "seen again after a restart");
        assert_eq!(history.with_found(detail("old")), None, "put back by another writer");
        assert_eq!(images(&history), ["old 0", "new 1"]);
        assert_eq!(history.stock_images().collect::<Vec<_>>(), ["new"]);
        // Restored: an entry of its own. Nobody but the administrator wrote it.
        let restored = history.with_stock(detail("old")).unwrap();
        assert_eq!(images(&restored), ["old 0", "new 1", "old 0"]);
        assert_eq!(restored.with_stock(detail("old")), None);
        assert_eq!(restored.stock_images().collect::<Vec<_>>(), ["new", "old"]);
        // The same image in another template can't be restored by the name of the first.
        let other = HistoryDetail { template: "b".to_owned(), ..detail("new") };
        assert_eq!(images(&history.with_found(other).unwrap()), ["old 0", "new 1", "new 0"]);
    }

    /// Proof that it is of a stream, and not that mosb wrote it.
    #[test]
    fn earlier_image_is_stock_and_was_not_written() {
        let found = History::new(&set("a")).with_stock(detail("same")).unwrap();
        assert_eq!(images(&found), ["same 0"]);
        assert_eq!(found.stock_images().collect::<Vec<_>>(), ["same"]);
        assert_eq!(found.with_stock(detail("same")), None);
        // It was of no stream that is known when it was found.
        let found = History::new(&set("a")).with_found(detail("same")).unwrap();
        assert_eq!(found.stock_images().count(), 0);
        let known = found.with_stock(detail("same")).unwrap();
        assert_eq!((images(&known), known.stock_images().count()), (vec!["same 0".to_owned()], 1));
        // Another writer replaced it, and mosb wrote it again.
        let written = attempted(known, "same", 2).with_stock(detail("same")).unwrap();
        assert_eq!(images(&written), ["same 2"]);
    }

    #[test]
    fn what_is_seen_has_count_of_the_writes() {
        let history = History::new(&set("a")).with_found(detail("old")).unwrap();
        let history = attempted(history, "new", 2).with_stock(detail("new")).unwrap();
        assert_eq!(images(&history), ["old 0", "new 2"]);
        assert_eq!(history.with_stock(detail("new")), None);
        let history = attempted(history, "new", 3).with_stock(detail("new")).unwrap();
        assert_eq!(images(&history), ["old 0", "new 3"]);
        // The count begins anew after `unpin`, and what was recorded stays.
        assert_eq!(attempted(history, "new", 1).with_stock(detail("new")), None);
    }

    #[test]
    fn an_entry_is_restored_by_its_number() {
        let mut history = History::new(&set("a")).with_found(detail("a")).unwrap();
        let chosen = |history: &History, number: Option<usize>| {
            let entry = history.entry_to_restore(number);
            entry.map(|one| one.boot_image_ref.clone()).map_err(|error| error.code())
        };
        assert_eq!(chosen(&history, None), Err("no-earlier-image"));
        history = history.with_stock(detail("b")).unwrap();
        history = history.with_stock(detail("c")).unwrap();
        for (number, want) in [
            (None, Ok("b")),
            (Some(1), Ok("a")),
            (Some(3), Ok("c")),
            (Some(0), Err("no-such-entry")),
            (Some(4), Err("no-such-entry")),
        ] {
            assert_eq!(chosen(&history, number), want.map(str::to_owned), "{number:?}");
        }
    }

    #[test]
    fn the_wire_form_is_that_of_the_api() {
        let history = History::new(&set("a")).with_found(detail("ami-1")).unwrap();
        let want = json!({
            "machineResourceReference": { "name": "a", "kind": "MachineDeployment", "apiGroup": "cluster.x-k8s.io" },
            "details": [{ "updatedTime": "2026-11-25T10:00:00Z", "bootImageRef": "ami-1", "count": 0 }],
        });
        assert_eq!(serde_json::to_value(&history).unwrap(), want);
        assert_eq!(History::read(&want), history);
        let theirs = json!({
            "machineResourceReference": { "name": "a", "kind": "MachineSet", "apiGroup": "machine.openshift.io/v1beta1" },
            "details": [{ "updateTime": "t", "bootImageRef": "ami-1" }],
        });
        let read = History::read(&theirs);
        assert_eq!(read.details[0].updated_time, "t");
        for odd in [json!(null), json!({ "details": 1 }), json!([])] {
            assert_eq!(History::read(&odd), History::default(), "{odd}");
        }
    }

    #[test]
    fn name_of_history_is_that_of_one_set() {
        let mut names: Vec<String> = SetKind::ALL
            .map(|kind| SetRef { namespace: None, kind, name: "a".to_owned() }.history_name())
            .into();
        assert_eq!(names[0], "a.machineset.machine.openshift.io");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), SetKind::ALL.len());
        let long = [set(&"x".repeat(253)), set(&format!("{}y", "x".repeat(252)))];
        let long = long.map(|set| set.history_name());
        assert!(long.iter().all(|name| name.len() == MAX_NAME_LEN), "{long:?}");
        assert_ne!(long[0], long[1]);
    }

    proptest! {
        #[test]
        fn it_is_bounded_and_what_was_found_stays(images in prop::collection::vec("[a-d]{1,2}", 0..60)) {
            let mut history = History::new(&set("a")).with_found(detail("first")).unwrap();
            for image in &images {
                history = history.with_stock(detail(image)).unwrap_or(history);
            }
            prop_assert!(history.details.len() <= MAX_DETAILS);
            prop_assert_eq!(&*history.details[0].boot_image_ref, "first");
            if let Some(last) = images.last() {
                prop_assert_eq!(&history.newest().unwrap().boot_image_ref, last);
            }
            let read = History::read(&serde_json::to_value(&history).unwrap());
            prop_assert_eq!(read, history);
        }
    }
}
