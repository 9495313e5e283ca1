//! Fixtures that are slow to make and used by one test at a time: a few are made, and tests wait
//! for one.

use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// At most this many fixtures; each is made when no other one is free.
#[derive(Debug)]
pub struct FixturePool<T> {
    most: usize,
    make: fn() -> T,
    state: Mutex<State<T>>,
    given_back: Condvar,
}

#[derive(Debug)]
struct State<T> {
    free: Vec<T>,
    made: usize,
}

/// One fixture. Dropping the guard returns it, also if the test failed: its objects must not
/// disturb other tests.
#[derive(Debug)]
pub struct FixtureGuard<T: 'static> {
    pool: &'static FixturePool<T>,
    // None while it is made.
    one: Option<T>,
}

impl<T> FixturePool<T> {
    pub const fn new(most: usize, make: fn() -> T) -> Self {
        Self {
            most,
            make,
            state: Mutex::new(State { free: Vec::new(), made: 0 }),
            given_back: Condvar::new(),
        }
    }

    /// Waits for a fixture that is free, or makes one.
    #[track_caller]
    pub fn acquire(&'static self) -> FixtureGuard<T> {
        let mut state = self.lock();
        while state.free.is_empty() && state.made == self.most {
            let woken = self.given_back.wait(state);
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
            // It could not be made; the next test tries.
            None => state.made -= 1,
        }
        self.pool.given_back.notify_one();
    }
}
