//! Lookups in registries, which no pass waits for. A pass asks, gets what is known, and goes on; the
//! answer enqueues its pool, and is kept for the passes that follow.
//!
//! Invariant: a registry that does not answer delays nothing but what needs its answer. All pools
//! share one worker, so a pass that waited would delay the machines of every other pool.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use mosb_reconcile::waits::after_error;
use mosb_types::ErrorClass;

/// For how long a good answer is not asked for again.
const FRESH: Duration = Duration::from_secs(10);
/// For how long a good answer counts while it is asked for again. One that is not good counts until
/// there is another one, so that a status does not change with each try.
const STALE: Duration = Duration::from_secs(30);
/// The lookups of a pool that are remembered: more than a decision asks for.
const MAX_PER_POOL: usize = 4;

/// What passes asked for, by pool. `Q` is the lookup with all that its answer depends on.
#[derive(Debug)]
pub(super) struct RegistryLookups<Q, A> {
    state: Arc<Mutex<State<Q, A>>>,
    answered: Arc<Notify>,
}

#[derive(Debug)]
struct State<Q, A> {
    pools: BTreeMap<String, Vec<Asked<Q, A>>>,
    /// Pools with an answer that no pass has seen.
    answered: BTreeSet<String>,
}

#[derive(Debug)]
struct Asked<Q, A> {
    lookup: Q,
    task: AbortOnDrop,
    last: Option<Answer<A>>,
    /// How often in a row the answer was not good.
    failures: u32,
}

#[derive(Debug)]
struct Answer<A> {
    answer: A,
    at: Instant,
    /// None if it is good.
    failure: Option<ErrorClass>,
}

/// A lookup that nobody asks for any more ends.
#[derive(Debug)]
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<Q, A> Default for RegistryLookups<Q, A> {
    fn default() -> Self {
        let state = State { pools: BTreeMap::new(), answered: BTreeSet::new() };
        Self { state: Arc::new(Mutex::new(state)), answered: Arc::default() }
    }
}

impl<Q, A> RegistryLookups<Q, A>
where
    Q: Clone + PartialEq + Send + 'static,
    A: Clone + Send + 'static,
{
    /// What is known about a lookup of this pool; none if there is no answer yet. Without a recent
    /// one, `look_up` begins, unless it is under way already or pauses after a failure. `failure`:
    /// what is wrong with an answer.
    pub fn ask(
        &self,
        pool: &str,
        lookup: &Q,
        failure: fn(&A) -> Option<ErrorClass>,
        look_up: impl Future<Output = A> + Send + 'static,
    ) -> Option<A> {
        let mut state = self.lock();
        let asked = state.pools.entry(pool.to_owned()).or_default();
        match asked.iter_mut().find(|one| one.lookup == *lookup) {
            Some(one) => {
                let is_running = !one.task.0.is_finished();
                if !is_running && one.is_due() {
                    one.task = self.begin(pool, lookup, failure, look_up);
                }
                one.last.as_ref().filter(|last| last.counts()).map(|last| last.answer.clone())
            }
            None => {
                if asked.len() == MAX_PER_POOL {
                    asked.remove(0);
                }
                let task = self.begin(pool, lookup, failure, look_up);
                asked.push(Asked { lookup: lookup.clone(), task, last: None, failures: 0 });
                None
            }
        }
    }

    fn begin(
        &self,
        pool: &str,
        lookup: &Q,
        failure: fn(&A) -> Option<ErrorClass>,
        look_up: impl Future<Output = A> + Send + 'static,
    ) -> AbortOnDrop {
        let (pool, lookup) = (pool.to_owned(), lookup.clone());
        let (state, answered) = (Arc::clone(&self.state), Arc::clone(&self.answered));
        AbortOnDrop(tokio::spawn(async move {
            let answer = look_up.await;
            let mut state = lock(&state);
            let mut asked = state.pools.get_mut(&pool).into_iter().flatten();
            let Some(one) = asked.find(|one| one.lookup == lookup) else {
                return;
            };
            let failure = failure(&answer);
            one.failures = if failure.is_some() { one.failures.saturating_add(1) } else { 0 };
            one.last = Some(Answer { answer, at: Instant::now(), failure });
            state.answered.insert(pool);
            drop(state);
            answered.notify_one();
        }))
    }

    /// Waits for an answer that no pass has seen. Returns its pool.
    pub async fn next_answered(&self) -> String {
        loop {
            let answered = self.answered.notified();
            if let Some(pool) = self.lock().answered.pop_first() {
                return pool;
            }
            answered.await;
        }
    }

    /// Ends all lookups of a pool.
    pub fn forget(&self, pool: &str) {
        self.lock().pools.remove(pool);
    }

    fn lock(&self) -> MutexGuard<'_, State<Q, A>> {
        lock(&self.state)
    }
}

fn lock<Q, A>(state: &Mutex<State<Q, A>>) -> MutexGuard<'_, State<Q, A>> {
    state.lock().expect("it is not poisoned: maps and clocks don't panic")
}

impl<Q, A> Asked<Q, A> {
    fn is_due(&self) -> bool {
        self.last.as_ref().is_none_or(|last| {
            let pause = last.failure.map(|class| after_error(class).wait(self.failures));
            last.at.elapsed() >= pause.unwrap_or(FRESH)
        })
    }
}

impl<A> Answer<A> {
    fn counts(&self) -> bool {
        self.failure.is_some() || self.at.elapsed() < STALE
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::{advance, timeout};

    use super::*;

    type Lookups = RegistryLookups<&'static str, Result<u32, ()>>;

    fn failure(answer: &Result<u32, ()>) -> Option<ErrorClass> {
        answer.is_err().then_some(ErrorClass::Transient)
    }

    /// The pool of the next answer; none if there is none for long.
    async fn answered(lookups: &Lookups) -> Option<String> {
        timeout(STALE, lookups.next_answered()).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_registry_that_hangs_delays_no_other_answer() {
        let lookups = Lookups::default();
        assert_eq!(lookups.ask("slow", &"image", failure, pending()), None);
        assert_eq!(lookups.ask("good", &"image", failure, ready(Ok(1))), None);
        assert_eq!(answered(&lookups).await.as_deref(), Some("good"));
        assert_eq!(lookups.ask("good", &"image", failure, pending()), Some(Ok(1)), "it is kept");
        assert_eq!(lookups.ask("slow", &"image", failure, ready(Ok(2))), None, "it is asked once");
        assert_eq!(answered(&lookups).await, None);
        lookups.forget("slow");
        assert_eq!(lookups.ask("slow", &"image", failure, ready(Ok(3))), None);
        assert_eq!(answered(&lookups).await.as_deref(), Some("slow"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_until_it_is_old_and_a_failure_until_the_next() {
        for (what, answer, asks_again, counts) in [
            ("good", Ok(1), FRESH, Some(STALE)),
            ("a failure", Err(()), Duration::from_millis(500), None),
        ] {
            let lookups = Lookups::default();
            lookups.ask("a", &"image", failure, ready(answer));
            assert_eq!(answered(&lookups).await.as_deref(), Some("a"), "{what}");
            let begun = Arc::<AtomicUsize>::default();
            let ask = || {
                let begun = Arc::clone(&begun);
                let never = async move {
                    begun.fetch_add(1, Ordering::Relaxed);
                    pending().await
                };
                lookups.ask("a", &"image", failure, never)
            };
            advance(asks_again - Duration::from_millis(1)).await;
            assert_eq!(ask(), Some(answer), "{what}");
            tokio::task::yield_now().await;
            assert_eq!(begun.load(Ordering::Relaxed), 0, "{what}");
            advance(Duration::from_millis(1)).await;
            assert_eq!(ask(), Some(answer), "{what}");
            tokio::task::yield_now().await;
            assert_eq!(begun.load(Ordering::Relaxed), 1, "{what}");
            advance(counts.unwrap_or(STALE * 100)).await;
            assert_eq!(ask(), counts.is_none().then_some(answer), "{what}");
            tokio::task::yield_now().await;
            assert_eq!(begun.load(Ordering::Relaxed), 1, "{what}: it is under way");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_that_keeps_failing_is_asked_less_often() {
        let lookups = Lookups::default();
        let mut times = Vec::new();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(600) {
            lookups.ask("a", &"image", failure, ready(Err(())));
            if timeout(Duration::ZERO, lookups.next_answered()).await.is_ok() {
                times.push(begun.elapsed());
            }
            advance(Duration::from_millis(250)).await;
        }
        assert!((10..25).contains(&times.len()), "{times:?}");
        for number in 0..10 {
            lookups.ask("a", &["b", "c", "d", "e", "f"][number % 5], failure, pending());
        }
        assert_eq!(lookups.lock().pools["a"].len(), MAX_PER_POOL, "others end");
    }
}
