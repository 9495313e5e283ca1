//! Our own writes that the cache may not show yet, so that nothing is decided from a view that is
//! older than them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

/// After this time, a write that no watch event has confirmed no longer delays anything.
pub const OWN_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// The writes of the last seconds, of all controllers of this process.
#[derive(Debug)]
pub struct OwnWrites {
    writes: Mutex<Writes>,
    timeout: Duration,
}

impl Default for OwnWrites {
    fn default() -> Self {
        Self { writes: Mutex::default(), timeout: OWN_WRITE_TIMEOUT }
    }
}

#[derive(Debug, Default)]
struct Writes {
    /// When a write replaced a version, by the object's UID and that version.
    replaced: BTreeMap<(String, String), Instant>,
    /// When an object was created, and the UID of its owner, by its own UID.
    created: BTreeMap<String, (Instant, String)>,
}

impl OwnWrites {
    /// Writes that count until a view confirms them: see [`unseen`](Self::unseen).
    pub fn without_timeout() -> Self {
        Self { timeout: Duration::MAX, ..Self::default() }
    }

    /// Records that a write changed the object from the version `replaced` to `written`.
    pub fn record_write(&self, uid: &str, replaced: &str, written: &str) {
        if replaced != written {
            let replaced = (uid.to_owned(), replaced.to_owned());
            self.lock().replaced.insert(replaced, Instant::now());
        }
    }

    /// Records that an object was created for this owner.
    pub fn record_create(&self, uid: &str, owner_uid: &str) {
        let created = (Instant::now(), owner_uid.to_owned());
        self.lock().created.insert(uid.to_owned(), created);
    }

    /// Whether a view is older than one of our writes: it shows a version that a write replaced, or
    /// an owner without the object that was created for it. `view`: the UIDs and resourceVersions
    /// of all objects that it shows.
    pub fn is_stale<'v>(&self, view: impl IntoIterator<Item = (&'v str, &'v str)>) -> bool {
        let view: BTreeMap<&str, &str> = view.into_iter().collect();
        let mut writes = self.lock();
        // An object that was seen once may be deleted again.
        writes.created.retain(|uid, _| !view.contains_key(uid.as_str()));
        let mut replaced = writes.replaced.keys();
        replaced.any(|(uid, version)| view.get(uid.as_str()) == Some(&version.as_str()))
            || writes.created.values().any(|(_, owner)| view.contains_key(owner.as_str()))
    }

    /// The UIDs of the objects that a view shows in a version that a write replaced. Writes of all
    /// other objects are forgotten. `view`: as for [`is_stale`](Self::is_stale).
    pub fn unseen<'v>(
        &self,
        view: impl IntoIterator<Item = (&'v str, &'v str)>,
    ) -> BTreeSet<String> {
        let mut writes = self.lock();
        if writes.replaced.is_empty() {
            return BTreeSet::new();
        }
        let view = view.into_iter().map(|(uid, version)| (uid.to_owned(), version.to_owned()));
        let replaced = view.filter(|seen| writes.replaced.contains_key(seen));
        let unseen: BTreeSet<String> = replaced.map(|(uid, _)| uid).collect();
        writes.replaced.retain(|(uid, _), _| unseen.contains(uid));
        unseen
    }

    /// The writes that are recent enough to count.
    fn lock(&self) -> MutexGuard<'_, Writes> {
        let mut writes = self.writes.lock().expect("it is not poisoned: maps don't panic");
        let is_recent = |at: &Instant| at.elapsed() <= self.timeout;
        writes.replaced.retain(|_, at| is_recent(at));
        writes.created.retain(|_, (at, _)| is_recent(at));
        writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_view_is_stale_until_it_shows_our_writes() {
        let writes = OwnWrites::default();
        writes.record_write("config", "1", "2");
        writes.record_write("config", "2", "3");
        writes.record_write("pool", "1", "1");
        writes.record_create("build", "config");
        for (what, view, is_stale) in [
            ("before both writes", &[("config", "1"), ("build", "1")][..], true),
            ("between them", &[("config", "2"), ("build", "1")], true),
            ("after them", &[("config", "3"), ("build", "1")], false),
            ("after somebody else's write", &[("config", "4"), ("build", "1")], false),
            ("a write that changed nothing", &[("pool", "1")], false),
            ("something else", &[("node", "1")], false),
        ] {
            assert_eq!(writes.is_stale(view.iter().copied()), is_stale, "{what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_without_timeout_counts_until_it_is_seen() {
        let writes = OwnWrites::without_timeout();
        writes.record_write("a", "1", "2");
        writes.record_write("a", "2", "3");
        writes.record_write("b", "1", "2");
        tokio::time::advance(OWN_WRITE_TIMEOUT * 100).await;
        for (what, view, want) in [
            ("before the writes", &[("a", "1"), ("b", "1")][..], &["a", "b"][..]),
            ("between those of an object", &[("a", "2"), ("b", "2")], &["a"]),
            ("after them", &[("a", "3")], &[]),
            ("what was confirmed is forgotten", &[("a", "1"), ("b", "1")], &[]),
        ] {
            let unseen = writes.unseen(view.iter().copied());
            assert_eq!(unseen.iter().collect::<Vec<_>>(), want, "{what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_created_object_is_missed_until_it_was_seen_or_the_time_is_over() {
        let writes = OwnWrites::default();
        let is_stale =
            |view: &[(&'static str, &'static str)]| writes.is_stale(view.iter().copied());
        writes.record_create("job", "build");
        assert!(is_stale(&[("build", "1")]));
        assert!(!is_stale(&[("other", "1")]), "of another owner");
        assert!(!is_stale(&[("build", "1"), ("job", "1")]));
        assert!(!is_stale(&[("build", "1")]), "it was deleted");
        writes.record_create("job", "build");
        writes.record_write("build", "1", "2");
        tokio::time::advance(OWN_WRITE_TIMEOUT + Duration::from_millis(1)).await;
        assert!(!is_stale(&[("build", "1")]));
    }
}
