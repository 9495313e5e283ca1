//! Plans that are cached between the passes that create a workload, each with the inputs of its
//! pod.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::lookups::CachedPlan;

/// There are never as many builds in preparation, because those have priority.
const MAX_CACHED_PLANS: usize = 64;

/// Plans by key, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct CachedPlans(Mutex<VecDeque<(String, Arc<CachedPlan>)>>);

impl CachedPlans {
    pub fn get(&self, key: &str) -> Option<Arc<CachedPlan>> {
        let plans = self.lock();
        let (_, plan) = plans.iter().find(|(of, _)| of == key)?;
        Some(Arc::clone(plan))
    }

    /// Sets or removes the plan of a key, and returns the one before.
    pub fn replace(&self, key: &str, plan: Option<Arc<CachedPlan>>) -> Option<Arc<CachedPlan>> {
        let mut plans = self.lock();
        let at = plans.iter().position(|(of, _)| of == key);
        let before = at.and_then(|at| plans.remove(at));
        plans.extend(plan.map(|plan| (key.to_owned(), plan)));
        if plans.len() > MAX_CACHED_PLANS {
            plans.pop_front();
        }
        before.map(|(_, plan)| plan)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<(String, Arc<CachedPlan>)>> {
        self.0.lock().expect("it is not poisoned: queues don't panic")
    }
}
