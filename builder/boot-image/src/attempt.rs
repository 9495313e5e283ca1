//! The last write of an image to a set, and whether it may be written again. It bounds the writes
//! of one image, however fast another writer puts its own back.

use serde::{Deserialize, Serialize};

use crate::BootImage;

/// How often one image is written before another writer of the set is left alone.
pub const MAX_COUNT: u32 = 3;

/// An image that mosb writes: recorded before the write, so that a write whose image nobody sees,
/// because another writer replaces it at once, counts like any other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WriteAttempt {
    /// The text of a [`BootImage`].
    pub boot_image_ref: String,
    /// How often mosb wrote it: more than once if another writer puts its own back.
    pub count: u32,
    /// The version of the set that it is written to.
    #[serde(flatten)]
    pub target: SetGeneration,
}

/// A set as long as nobody changes its spec.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SetGeneration {
    pub uid: String,
    pub generation: i64,
}

/// Whether an image may be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextWrite {
    /// Now: it is recorded.
    Allowed,
    /// After this is recorded.
    Record(WriteAttempt),
    /// Another writer replaced it so often that mosb stops writing it.
    Contended,
}

impl WriteAttempt {
    /// Whether mosb may write this image to the set, after `last`.
    ///
    /// A write gives the set the next generation, and a revert the one after. So the last write was
    /// not made if the set, without the image, is at most one generation further, or if the caller
    /// knows it (`is_unmade`).
    pub fn next(
        last: Option<&Self>,
        image: &BootImage,
        target: SetGeneration,
        is_unmade: bool,
    ) -> NextWrite {
        let record = |count, target| {
            let boot_image_ref = image.as_str().to_owned();
            NextWrite::Record(Self { boot_image_ref, count, target })
        };
        let Some(last) = last.filter(|one| one.boot_image_ref == image.as_str()) else {
            return record(1, target);
        };
        let before = &last.target;
        if *before == target {
            return NextWrite::Allowed;
        }
        let is_unmade = is_unmade
            || before.uid == target.uid
                && before.generation.checked_add(1) == Some(target.generation);
        match last.count {
            count if is_unmade => record(count, target),
            count if count < MAX_COUNT => record(count + 1, target),
            _ => NextWrite::Contended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(generation: i64) -> SetGeneration {
        SetGeneration { uid: "u".to_owned(), generation }
    }

    #[test]
    fn writes_count_once_and_end_after_three() {
        let new = "new".parse().unwrap();
        let attempt =
            |count, target| WriteAttempt { boot_image_ref: "new".to_owned(), count, target };
        let other = SetGeneration { uid: "v".to_owned(), generation: 3 };
        for (what, last, target, want) in [
            ("the first write", None, at(3), NextWrite::Record(attempt(1, at(3)))),
            ("recorded, not written", Some((1, at(3))), at(3), NextWrite::Allowed),
            (
                "recorded, and another field changed before the write",
                Some((1, at(3))),
                at(4),
                NextWrite::Record(attempt(1, at(4))),
            ),
            (
                "written, and put back",
                Some((1, at(3))),
                at(5),
                NextWrite::Record(attempt(2, at(5))),
            ),
            (
                "written, and the set created anew",
                Some((1, at(3))),
                other.clone(),
                NextWrite::Record(attempt(2, other)),
            ),
            ("the last write", Some((3, at(7))), at(7), NextWrite::Allowed),
            ("the last write is put back", Some((3, at(7))), at(9), NextWrite::Contended),
            ("a spoilt count", Some((u32::MAX, at(7))), at(9), NextWrite::Contended),
            (
                "a spoilt generation",
                Some((1, at(i64::MAX))),
                at(1),
                NextWrite::Record(attempt(2, at(1))),
            ),
        ] {
            let last = last.map(|(count, target)| attempt(count, target));
            // After a restart.
            let read = serde_json::from_value(serde_json::to_value(&last).unwrap()).unwrap();
            assert_eq!(last, read);
            assert_eq!(
                WriteAttempt::next(last.as_ref(), &new, target.clone(), false),
                want,
                "{what}"
            );
            // Known not to be made: the count stays, whatever else changed.
            let next = WriteAttempt::next(last.as_ref(), &new, target, true);
            match (last, next) {
                (Some(last), NextWrite::Record(next)) => {
                    assert_eq!(next.count, last.count, "{what}")
                }
                (last, next) => assert!(last.is_none() || next == NextWrite::Allowed, "{what}"),
            }
        }
        // The next release begins anew.
        let last = attempt(3, at(7));
        let next = WriteAttempt::next(Some(&last), &"newer".parse().unwrap(), at(9), true);
        assert!(matches!(next, NextWrite::Record(WriteAttempt { count: 1, .. })));
    }
}
