//! Limits for concurrency and duration of lookups, so that a hanging registry delays only the pools
//! that use it, and memory for large manifests is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use mosb_reconcile::Problem;
use mosb_types::ErrorClass;

/// Reason of a [`Problem`]: a lookup timed out.
pub const LOOKUP_TIMEOUT: &str = "lookup-timeout";
/// Concurrent lookups per registry host.
const MAX_PER_HOST: usize = 4;
/// Concurrent plans. Each holds an unpacked manifest and config of its base, and the rendered
/// config.
const MAX_PLANS: usize = 8;
/// How long a plan counts as one of those. A registry that takes longer to answer has not sent much
/// yet, and of its plans there are at most four a host. Otherwise two registries that hang would stop
/// the plans of all pools.
pub const MAX_PLAN_HOLD: Duration = Duration::from_secs(5);
/// The share of those for pools that failed last, so that others are not starved.
const MAX_RETRIED_PLANS: usize = 4;
/// How long a worker waits for a permit before it continues with another pool.
const PERMIT_WAIT: Duration = Duration::from_millis(200);
/// Workers that may wait for the same permit: few, so that most of them stay available.
const MAX_WAITING: usize = 4;

/// The limits of all lookups of a controller.
#[derive(Debug)]
pub struct LookupLimits {
    timeout: Duration,
    plans: Slots,
    retried_plans: Slots,
    hosts: Mutex<BTreeMap<String, Slots>>,
}

/// Semaphores for running and for waiting lookups.
#[derive(Debug, Clone)]
struct Slots {
    free: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// Permits for a lookup, released on drop.
#[derive(Debug, Default)]
pub struct LookupPermit(BTreeMap<String, OwnedSemaphorePermit>);

/// Why a lookup has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupError {
    /// The limit is reached for these hosts, or for plans if the set is empty.
    Busy(BTreeSet<String>),
    Problem(Problem),
}

impl<E: Into<Problem>> From<E> for LookupError {
    fn from(error: E) -> Self {
        Self::Problem(error.into())
    }
}

impl LookupError {
    /// The problem to report.
    ///
    /// # Errors
    /// The hosts whose limit is reached.
    pub fn into_problem(self) -> Result<Problem, BTreeSet<String>> {
        match self {
            Self::Problem(problem) => Ok(problem),
            Self::Busy(hosts) => Err(hosts),
        }
    }
}

impl Slots {
    fn new(most: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(most)),
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
        }
    }

    async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(permit);
        }
        let _waiting = self.waiting.try_acquire().ok()?;
        let permit = timeout(PERMIT_WAIT, Arc::clone(&self.free).acquire_owned()).await;
        permit.ok().and_then(Result::ok)
    }
}

impl LookupLimits {
    /// `timeout` applies to each lookup.
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            plans: Slots::new(MAX_PLANS),
            retried_plans: Slots::new(MAX_RETRIED_PLANS),
            hosts: Mutex::default(),
        }
    }

    /// Acquires a permit for a plan. `is_retry`: the pool failed last.
    pub async fn plan(&self, is_retry: bool) -> Result<LookupPermit, LookupError> {
        let mut permit = LookupPermit::default();
        let again = is_retry.then_some(("again", &self.retried_plans));
        for (what, slots) in again.into_iter().chain([("plan", &self.plans)]) {
            let slot = slots.acquire().await;
            let slot = slot.ok_or(LookupError::Busy(BTreeSet::new()))?;
            permit.0.insert(what.to_owned(), slot);
        }
        Ok(permit)
    }

    /// Acquires permits for all of these hosts, in addition to those in `permit`.
    pub async fn hosts(
        &self,
        mut permit: LookupPermit,
        hosts: BTreeSet<String>,
    ) -> Result<LookupPermit, LookupError> {
        for host in &hosts {
            if permit.0.contains_key(host) {
                continue;
            }
            let slots = self.host(host);
            match slots.acquire().await {
                Some(slot) => drop(permit.0.insert(host.clone(), slot)),
                None => return Err(LookupError::Busy(hosts)),
            }
        }
        Ok(permit)
    }

    /// Waits for a permit for this host, for a lookup that no worker waits for.
    pub async fn wait_for_host(&self, host: &str) -> LookupPermit {
        let slots = self.host(host);
        let permit = slots.free.acquire_owned().await.expect("it is never closed");
        LookupPermit([(host.to_owned(), permit)].into())
    }

    /// Whether a lookup to these hosts would have to wait.
    pub fn are_busy(&self, hosts: &BTreeSet<String>) -> bool {
        let known = self.lock();
        let mut slots = hosts.iter().filter_map(|host| known.get(host));
        slots.any(|slots| slots.free.available_permits() == 0)
    }

    /// Runs a lookup with a time limit. `what` names it in the message.
    pub async fn with_timeout<T, E: From<Problem>>(
        &self,
        what: impl FnOnce() -> String,
        lookup: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.with_timeouts(1, what, lookup).await
    }

    /// Runs several lookups with the sum of their time limits.
    pub async fn with_timeouts<T, E: From<Problem>>(
        &self,
        lookups: u32,
        what: impl FnOnce() -> String,
        lookup: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let time = self.timeout * lookups;
        match timeout(time, lookup).await {
            Ok(found) => found,
            Err(_) => Err(Problem {
                class: ErrorClass::Transient,
                reason: LOOKUP_TIMEOUT.to_owned(),
                message: format!(
                    "{}: not answered within {} s; check whether the registry or the network is slow, or raise --lookup-timeout",
                    what(),
                    time.as_secs()
                ),
            }
            .into()),
        }
    }

    fn host(&self, host: &str) -> Slots {
        let mut hosts = self.lock();
        // Users can name any number of hosts, so remove unused entries.
        hosts.retain(|_, slots| Arc::strong_count(&slots.free) > 1);
        let slots = hosts.entry(host.to_owned());
        slots.or_insert_with(|| Slots::new(MAX_PER_HOST)).clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Slots>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a lookup that holds a permit at most for this time.
pub async fn while_held<T>(
    permit: LookupPermit,
    most: Duration,
    lookup: impl Future<Output = T>,
) -> T {
    let mut lookup = pin!(lookup);
    if let Ok(found) = timeout(most, &mut lookup).await {
        return found;
    }
    drop(permit);
    lookup.await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    async fn permit(limits: &LookupLimits, names: &[&str]) -> Result<LookupPermit, LookupError> {
        limits.hosts(LookupPermit::default(), hosts(names)).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_hangs_leaves_room_for_others() {
        let limits = LookupLimits::new(Duration::from_secs(60));
        let mut held = Vec::new();
        for _ in 0..MAX_PER_HOST {
            held.push(permit(&limits, &["slow.test"]).await.unwrap());
        }
        for (what, named, is_busy) in [
            ("the same", &["slow.test"][..], true),
            ("another", &["good.test"], false),
            ("one of two", &["good.test", "slow.test"], true),
        ] {
            let permit = permit(&limits, named).await;
            let busy = Err(LookupError::Busy(hosts(named)));
            assert_eq!(permit.map(drop) == busy, is_busy, "{what}");
            assert_eq!(limits.are_busy(&hosts(named)), is_busy, "{what}");
        }
        // Of many that wait only a few take a worker each.
        let waiting = (0..=MAX_WAITING).map(|_| async {
            let begun = tokio::time::Instant::now();
            assert!(permit(&limits, &["slow.test"]).await.is_err());
            begun.elapsed()
        });
        let waited = futures_util::future::join_all(waiting).await;
        assert_eq!(waited.iter().filter(|waited| **waited >= PERMIT_WAIT).count(), MAX_WAITING);
        held.pop();
        assert!(permit(&limits, &["slow.test"]).await.is_ok());
        drop(held);
        permit(&limits, &["good.test"]).await.unwrap();
        assert_eq!(limits.lock().len(), 1, "who is not asked is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn pools_that_failed_leave_room_for_plans_of_others() {
        let limits = LookupLimits::new(Duration::from_secs(60));
        let mut held = Vec::new();
        for _ in 0..MAX_RETRIED_PLANS {
            held.push(limits.plan(true).await.unwrap());
        }
        assert!(limits.plan(true).await.is_err());
        for _ in MAX_RETRIED_PLANS..MAX_PLANS {
            held.push(limits.plan(false).await.unwrap());
        }
        assert!(limits.plan(false).await.is_err(), "more than fit into memory");
        held.pop();
        assert!(limits.plan(false).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn plans_that_hang_leave_room_for_plans_of_others() {
        let limits = LookupLimits::new(Duration::from_secs(60));
        let mut hanging = Vec::new();
        for _ in 0..MAX_PLANS {
            let permit = limits.plan(false).await.unwrap();
            hanging.push(while_held(permit, MAX_PLAN_HOLD, std::future::pending::<()>()));
        }
        assert!(limits.plan(false).await.is_err());
        let hanging = timeout(MAX_PLAN_HOLD * 2, futures_util::future::join_all(hanging));
        let (ended, ()) = tokio::join!(hanging, async {
            tokio::time::sleep(MAX_PLAN_HOLD + PERMIT_WAIT).await;
            assert!(limits.plan(false).await.is_ok());
        });
        assert!(ended.is_err(), "they go on");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_without_an_end_is_ended() {
        let limits = LookupLimits::new(Duration::from_secs(60));
        let what = || "registry.test/os:1".to_owned();
        for lookups in [1, 4] {
            let begun = tokio::time::Instant::now();
            let never = std::future::pending();
            let ended: Result<(), Problem> = limits.with_timeouts(lookups, what, never).await;
            assert_eq!(begun.elapsed().as_secs(), u64::from(lookups) * 60);
            let problem = ended.unwrap_err();
            assert_eq!(problem.cause(), "lookup-timeout registry.test/os:1");
            assert_eq!(problem.class, ErrorClass::Transient);
        }
    }
}
