//! Whether the stores of all watches are up to date, and what is wrong with those that are not.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// After failing for this long a watch counts as not synced, and nothing is decided from its store.
pub const STALE_AFTER: Duration = Duration::from_secs(300);
/// A watch that has not failed for this long has recovered. No event confirms it: the next change
/// may be days away. Longer than the longest wait plus a request that times out.
pub const RECOVERED_AFTER: Duration = Duration::from_secs(90);

/// How often [`WatchHealth::wait_for_sync`] checks whether a watch has recovered.
pub const SYNC_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// State of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchState {
    /// The first list is not complete.
    Listing,
    /// The store is up to date.
    Current,
    /// The cluster does not serve the kind; the watch retries.
    NotServed,
    /// The watch failed; the store shows the last known state, if there was a list.
    Broken {
        /// Whether the kind was ever listed.
        listed: bool,
        /// The error of the API server.
        why: String,
    },
}

/// State of all watches, for `/readyz` and for everything that waits for the first sync.
#[derive(Debug)]
pub struct WatchHealth {
    watches: Mutex<BTreeMap<String, WatchEntry>>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct WatchEntry {
    state: WatchState,
    optional: bool,
    /// The first and the last failure since the watch was last healthy.
    failing: Option<(Instant, Instant)>,
}

impl WatchEntry {
    /// For how long the watch has been failing, if that is too long to trust its store.
    fn stale(&self) -> Option<Duration> {
        let (first, last) = self.failing?;
        let has_recovered = last.elapsed() > RECOVERED_AFTER;
        (!has_recovered && last - first >= STALE_AFTER).then(|| first.elapsed())
    }

    /// Why the store can't be trusted; none if it can.
    fn not_synced(&self) -> Option<String> {
        match &self.state {
            WatchState::Current => None,
            WatchState::Broken { listed: true, why } => {
                let stale = self.stale()?.as_secs();
                Some(format!("nothing new for {stale} s: {why}"))
            }
            WatchState::NotServed if self.optional => None,
            WatchState::Listing => Some("not listed yet".to_owned()),
            WatchState::NotServed => Some(
                "the API server does not serve this kind; install the CRDs (deploy/crds)"
                    .to_owned(),
            ),
            WatchState::Broken { why, .. } => Some(why.clone()),
        }
    }
}

impl Default for WatchHealth {
    fn default() -> Self {
        Self { watches: Mutex::default(), changed: watch::Sender::new(()) }
    }
}

impl WatchHealth {
    /// Registers a watch before its task runs, so that it counts as not synced from now on.
    pub fn register(&self, what: &str, optional: bool) {
        self.set(what, WatchState::Listing, optional);
    }

    pub fn set(&self, what: &str, state: WatchState, optional: bool) {
        let mut watches = self.lock();
        let failing = match &state {
            WatchState::Broken { .. } => {
                let now = Instant::now();
                let before = watches.get(what).and_then(|entry| entry.failing);
                let before = before.filter(|(_, last)| last.elapsed() <= RECOVERED_AFTER);
                Some((before.map_or(now, |(first, _)| first), now))
            }
            WatchState::Listing | WatchState::Current | WatchState::NotServed => None,
        };
        let entry = WatchEntry { state, optional, failing };
        watches.insert(what.to_owned(), entry);
        drop(watches);
        self.changed.send_replace(());
    }

    /// The watches that are not synced, one line each; nothing may be decided while there is one.
    pub fn not_synced(&self) -> Vec<String> {
        let watches = self.lock();
        let not_synced = |(what, entry): (&String, &WatchEntry)| {
            entry.not_synced().map(|why| format!("{what}: {why}"))
        };
        watches.iter().filter_map(not_synced).collect()
    }

    /// Why the store of this watch is not synced; none if it is.
    pub fn why_not_synced(&self, what: &str) -> Option<String> {
        self.lock().get(what).and_then(WatchEntry::not_synced)
    }

    /// Whether a watch has neither listed its objects nor failed.
    pub fn is_listing(&self) -> bool {
        self.lock().values().any(|entry| entry.state == WatchState::Listing)
    }

    /// The first of these watches that failed and may not have recovered, and why: changes may be
    /// unseen although its store counts as synced.
    pub fn failed_lately(&self, names: &[&str]) -> Option<String> {
        let watches = self.lock();
        names.iter().find_map(|what| match watches.get(*what) {
            Some(WatchEntry {
                state: WatchState::Broken { why, .. },
                failing: Some((_, last)),
                ..
            }) if last.elapsed() <= RECOVERED_AFTER => Some(format!("{what}: {why}")),
            _ => None,
        })
    }

    /// Whether the cluster serves the kind of this watch.
    pub fn is_served(&self, what: &str) -> bool {
        let watches = self.lock();
        let state = watches.get(what).map(|entry| &entry.state);
        matches!(state, Some(WatchState::Current | WatchState::Broken { listed: true, .. }))
    }

    /// Waits until all watches are synced.
    pub async fn wait_for_sync(&self) {
        let mut changed = self.changed.subscribe();
        while !self.not_synced().is_empty() {
            // A watch that recovered sends no event, so only time shows it.
            match timeout(SYNC_POLL_INTERVAL, changed.changed()).await {
                Ok(Ok(())) | Err(_) => {}
                // Can't happen: `self` owns the sender.
                Ok(Err(_)) => return,
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, WatchEntry>> {
        self.watches.lock().expect("it is not poisoned: maps and clones don't panic")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::advance;

    use super::*;

    #[test]
    fn watch_health_lists_what_is_not_synced() {
        let broken = |listed| WatchState::Broken { listed, why: "forbidden".to_owned() };
        for (what, state, optional, not_synced) in [
            ("listing", WatchState::Listing, false, true),
            ("current", WatchState::Current, false, false),
            ("a kind too few", WatchState::NotServed, false, true),
            ("a kind that may be missing", WatchState::NotServed, true, false),
            ("broken at once", broken(false), true, true),
            ("broken later", broken(true), false, false),
        ] {
            let watch_health = WatchHealth::default();
            watch_health.set("pools", state, optional);
            assert_eq!(!watch_health.not_synced().is_empty(), not_synced, "{what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_watch_is_in_doubt_until_recovered() {
        let watch_health = WatchHealth::default();
        for (what, state, is_in_doubt) in [
            ("pods", WatchState::Current, false),
            ("nodes", WatchState::Broken { listed: true, why: "away".to_owned() }, true),
        ] {
            watch_health.set(what, state, false);
            let failed = is_in_doubt.then(|| format!("{what}: away"));
            assert_eq!(watch_health.failed_lately(&["jobs", what]), failed);
        }
        advance(RECOVERED_AFTER).await;
        assert!(watch_health.failed_lately(&["nodes"]).is_some());
        advance(Duration::from_millis(1)).await;
        assert_eq!(watch_health.failed_lately(&["nodes"]), None);
    }

    #[tokio::test]
    async fn whoever_waits_learns_when_all_is_there() {
        let watch_health = Arc::new(WatchHealth::default());
        watch_health.set("pools", WatchState::Listing, false);
        let waiting = tokio::spawn({
            let watch_health = Arc::clone(&watch_health);
            async move { watch_health.wait_for_sync().await }
        });
        watch_health.set("configs", WatchState::Current, false);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        watch_health.set("pools", WatchState::Current, false);
        waiting.await.unwrap();
    }
}
