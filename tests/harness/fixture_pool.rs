//! A limited number of fixtures that are slow to create. One test uses each of them at a time, and
//! other tests wait.

use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A pool of at most this many fixtures. It creates one when no other one is free.
#[derive(Debug)]
pub struct FixturePool<T> {
    most: usize,
    make: fn() -> T,
    state: Mutex<State<T>>,
    returned: Condvar,
}

#[derive(Debug)]
struct State<T> {
    free: Vec<T>,
    made: usize,
}

/// A fixture in use. The drop returns it to the pool, also after a failed test, which must clean up
/// its objects.
#[derive(Debug)]
pub struct FixtureGuard<T: 'static> {
    pool: &'static FixturePool<T>,
    // `None` during its creation.
    one: Option<T>,
}

impl<T> FixturePool<T> {
    pub const fn new(most: usize, make: fn() -> T) -> Self {
        Self {
            most,
            make,
            state: Mutex::new(State { free: Vec::new(), made: 0 }),
            returned: Condvar::new(),
        }
    }

    /// Waits for a free fixture, or creates one.
    #[track_caller]
    pub fn acquire(&'static self) -> FixtureGuard<T> {
        let mut state = self.lock();
        while state.free.is_empty() && state.made == self.most {
            let woken = self.returned.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        let mut guard = FixtureGuard { pool: self, one: state.free.pop() };
        if guard.one.is_none() {
            state.made += 1;
            drop(state);
            guard.one = Some((self.make)());
        }
        guard
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for FixtureGuard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.one.as_ref().expect("it was made")
    }
}

impl<T> Drop for FixtureGuard<T> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        match self.one.take() {
            Some(one) => state.free.push(one),
            // The creation failed; the next test tries again.
            None => state.made -= 1,
        }
        self.pool.returned.notify_one();
    }
}
