//! How much is looked up at once, and for how long: so that a registry that hangs delays only who needs it, and what large
//! manifests cost in memory has an end.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::super::question::{LOOKUP_TIMEOUT, Problem};
use mosb_types::ErrorClass;

/// Lookups at once for each registry host.
const PER_HOST: usize = 4;
/// Plans at once: each holds a manifest and a config of its base, unpacked, and the rendered config.
const PLANS: usize = 8;
/// Those of them for pools that failed last, so that a pool which never failed finds room.
const PLANS_AGAIN: usize = 4;
/// For so long a worker waits for room. Then it goes on with another pool.
const PATIENCE: Duration = Duration::from_millis(200);
/// Workers that wait for the same room: enough that it is never empty, and few of all.
const WAITING: usize = 4;

/// The limits of all lookups of a controller.
#[derive(Debug)]
pub struct LookupLimits {
    timeout: Duration,
    plans: Places,
    plans_again: Places,
    hosts: Mutex<BTreeMap<String, Places>>,
}

/// Places for so many lookups at once, and for so many that wait.
#[derive(Debug, Clone)]
struct Places {
    free: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// Room for a lookup, until it is dropped.
#[derive(Debug, Default)]
pub struct Room(BTreeMap<String, OwnedSemaphorePermit>);

/// Why a lookup has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// As many lookups as may be at once are under way: of these hosts, or plans at all where none is named.
    Busy(BTreeSet<String>),
    /// It went wrong.
    Problem(Problem),
}

impl<E: Into<Problem>> From<E> for Unanswered {
    fn from(error: E) -> Self {
        Self::Problem(error.into())
    }
}

impl Places {
    fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), waiting: Arc::new(Semaphore::new(WAITING)) }
    }

    async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(permit);
        }
        let _waiting = self.waiting.try_acquire().ok()?;
        let permit = timeout(PATIENCE, Arc::clone(&self.free).acquire_owned()).await;
        permit.ok().and_then(Result::ok)
    }
}

impl LookupLimits {
    /// With this time for each lookup.
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            plans: Places::new(PLANS),
            plans_again: Places::new(PLANS_AGAIN),
            hosts: Mutex::default(),
        }
    }

    /// Room for a plan, of a pool that failed last or not.
    pub async fn plan(&self, is_again: bool) -> Result<Room, Unanswered> {
        let mut room = Room::default();
        let again = is_again.then_some(("again", &self.plans_again));
        for (what, places) in again.into_iter().chain([("plan", &self.plans)]) {
            let permit = places.acquire().await;
            let permit = permit.ok_or(Unanswered::Busy(BTreeSet::new()))?;
            room.0.insert(what.to_owned(), permit);
        }
        Ok(room)
    }

    /// Room for a lookup that asks all of these hosts, of which it may have some already.
    pub async fn hosts(&self, mut room: Room, hosts: BTreeSet<String>) -> Result<Room, Unanswered> {
        for host in &hosts {
            if room.0.contains_key(host) {
                continue;
            }
            let places = self.host(host);
            match places.acquire().await {
                Some(permit) => drop(room.0.insert(host.clone(), permit)),
                None => return Err(Unanswered::Busy(hosts)),
            }
        }
        Ok(room)
    }

    /// Whether a lookup that asks these hosts would find no room now.
    pub fn are_busy(&self, hosts: &BTreeSet<String>) -> bool {
        let known = self.lock();
        let mut places = hosts.iter().filter_map(|host| known.get(host));
        places.any(|places| places.free.available_permits() == 0)
    }

    /// Ends a lookup when its time is over. `what` names it, for the message.
    pub async fn within<T>(
        &self,
        what: impl FnOnce() -> String,
        lookup: impl Future<Output = Result<T, Unanswered>>,
    ) -> Result<T, Unanswered> {
        self.within_several(1, what, lookup).await
    }

    /// Ends so many lookups when the time of all of them is over.
    pub async fn within_several<T>(
        &self,
        lookups: u32,
        what: impl FnOnce() -> String,
        lookup: impl Future<Output = Result<T, Unanswered>>,
    ) -> Result<T, Unanswered> {
        let time = self.timeout * lookups;
        match timeout(time, lookup).await {
            Ok(found) => found,
            Err(_) => Err(Unanswered::Problem(Problem {
                class: ErrorClass::Transient,
                reason: LOOKUP_TIMEOUT.to_owned(),
                message: format!(
                    "{}: not answered within {} s; look whether the registry, or what lies between, is slow, or give more time with --lookup-timeout",
                    what(),
                    time.as_secs()
                ),
            })),
        }
    }

    fn host(&self, host: &str) -> Places {
        let mut hosts = self.lock();
        // Who names a host decides how many there are: those that nobody asks are forgotten.
        hosts.retain(|_, places| Arc::strong_count(&places.free) > 1);
        let places = hosts.entry(host.to_owned());
        places.or_insert_with(|| Places::new(PER_HOST)).clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Places>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until there may be room for a lookup, other each time: what waits together does not come back together.
pub fn busy_pause() -> Duration {
    // The standard library's own seed.
    let random = RandomState::new().build_hasher().finish();
    Duration::from_millis(250 + random % 500)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    async fn room(limits: &LookupLimits, names: &[&str]) -> Result<Room, Unanswered> {
        limits.hosts(Room::default(), hosts(names)).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_hangs_leaves_room_for_others() {
        let limits = LookupLimits::new(Duration::from_secs(60));
        let mut held = Vec::new();
        for _ in 0..PER_HOST {
            held.push(room(&limits, &["slow.test"]).await.unwrap());
        }
        for (what, named, is_busy) in [
            ("the same", &["slow.test"][..], true),
            ("another", &["good.test"], false),
            ("one of two", &["good.test", "slow.test"], true),
        ] {
            let room = room(&limits, named).await;
            let busy = Err(Unanswered::Busy(hosts(named)));
            assert_eq!(room.map(drop) == busy, is_busy, "{what}");
            assert_eq!(limits.are_busy(&hosts(named)), is_busy, "{what}");
        }
        // Of many that wait only a few take a worker each.
        let waiting = (0..=WAITING).map(|_| async {
            let begun = tokio::time::Instant::now();
            assert!(room(&limits, &["slow.test"]).await.is_err());
            begun.elapsed()
        });
        let waited = futures_util::future::join_all(waiting).await;
        assert_eq!(waited.iter().filter(|waited| **waited >= PATIENCE).count(), WAITING);
        held.pop();
        assert!(room(&limits, &["slow.test"]).await.is_ok());
        drop(held);
        room(&limits, &["good.test"]).await.unwrap();
        assert_eq!(limits.lock().len(), 1, "who is not asked is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn pools_that_failed_leave_room_for_plans_of_others() {
        let limits = LookupLimits::new(Duration::from_secs(60));
        let mut held = Vec::new();
        for _ in 0..PLANS_AGAIN {
            held.push(limits.plan(true).await.unwrap());
        }
        assert!(limits.plan(true).await.is_err());
        for _ in PLANS_AGAIN..PLANS {
            held.push(limits.plan(false).await.unwrap());
        }
        assert!(limits.plan(false).await.is_err(), "more than fit into memory");
        held.pop();
        assert!(limits.plan(false).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_without_an_end_is_ended() {
        let limits = LookupLimits::new(Duration::from_secs(60));
        let what = || "registry.test/os:1".to_owned();
        for lookups in [1, 4] {
            let begun = tokio::time::Instant::now();
            let never = std::future::pending();
            let ended: Result<(), _> = limits.within_several(lookups, what, never).await;
            assert_eq!(begun.elapsed().as_secs(), u64::from(lookups) * 60);
            let Err(Unanswered::Problem(problem)) = ended else {
                panic!("{ended:?}");
            };
            assert_eq!(problem.cause(), "lookup-timeout registry.test/os:1");
            assert_eq!(problem.class, ErrorClass::Transient);
        }
    }
}
