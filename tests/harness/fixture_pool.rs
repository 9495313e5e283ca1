//! What takes long to make and is for one test at a time: a few are made, and tests wait for one.

use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// As many at most; each is made when a test needs one more than there are.
#[derive(Debug)]
pub struct Few<T> {
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

/// One of them, until it is dropped: also by a test that failed, whose remains must not disturb
/// other tests.
#[derive(Debug)]
pub struct Lent<T: 'static> {
    few: &'static Few<T>,
    // None while it is made.
    one: Option<T>,
}

impl<T> Few<T> {
    pub const fn new(most: usize, make: fn() -> T) -> Self {
        Self {
            most,
            make,
            state: Mutex::new(State { free: Vec::new(), made: 0 }),
            given_back: Condvar::new(),
        }
    }

    /// Waits for one.
    #[track_caller]
    pub fn lend(&'static self) -> Lent<T> {
        let mut state = self.lock();
        while state.free.is_empty() && state.made == self.most {
            let woken = self.given_back.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        let mut lent = Lent { few: self, one: state.free.pop() };
        if lent.one.is_none() {
            state.made += 1;
            drop(state);
            lent.one = Some((self.make)());
        }
        lent
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.one.as_ref().expect("it was made")
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        let mut state = self.few.lock();
        match self.one.take() {
            Some(one) => state.free.push(one),
            // It could not be made; the next test tries.
            None => state.made -= 1,
        }
        self.few.given_back.notify_one();
    }
}
