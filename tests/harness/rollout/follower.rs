//! Follows a collection of the API: what there is, then each change, until it is dropped.

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::node::{Api, Event, PAUSE, read_changes};

/// What a follower reports.
#[derive(Debug)]
pub enum Followed {
    /// What there is: at the beginning, and again if a watch ended without a change.
    All(Vec<Value>),
    Is(Value),
    Deleted(Value),
}

/// A thread that follows a collection.
#[derive(Debug)]
pub struct Follower {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    connection: Mutex<Option<TcpStream>>,
}

impl Shared {
    fn connection(&self) -> MutexGuard<'_, Option<TcpStream>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

impl Follower {
    /// Follows what a target selects (`/api/v1/nodes?`). A watch that ends goes on where it was.
    pub fn start(
        api: Arc<Api>,
        target: &str,
        mut report: impl FnMut(Followed) + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let (own, target) = (Arc::clone(&shared), target.to_owned());
        let thread = thread::spawn(move || {
            let mut since = None;
            while !own.is_stopped() {
                since = follow(&api, &target, since, &own, &mut report);
                thread::sleep(PAUSE);
            }
        });
        Self { shared, thread: Some(thread) }
    }
}

/// One watch. Returns the version at which the next one begins; none if it begins with a list.
fn follow(
    api: &Api,
    target: &str,
    since: Option<String>,
    shared: &Shared,
    report: &mut impl FnMut(Followed),
) -> Option<String> {
    let mut since = match since {
        Some(since) => since,
        None => {
            let (all, since) = api.list_at(target)?;
            report(Followed::All(all));
            since
        }
    };
    let Some(watch) = api.open_watch(target, &since) else {
        return Some(since);
    };
    *shared.connection() = watch.try_clone().ok();
    if shared.is_stopped() {
        return Some(since);
    }
    let mut has_changes = false;
    read_changes(
        watch,
        || None,
        |event| {
            let (Event::Is(object) | Event::Deleted(object)) = &event else {
                return None;
            };
            has_changes = true;
            if let Some(version) = object["metadata"]["resourceVersion"].as_str() {
                version.clone_into(&mut since);
            }
            match event {
                Event::Is(object) => report(Followed::Is(object)),
                Event::Deleted(object) => report(Followed::Deleted(object)),
                Event::List(_) => {}
            }
            None::<()>
        },
    );
    // One that ended at once may have been refused, because the version is too old.
    has_changes.then_some(since)
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        if let Some(connection) = self.shared.connection().take() {
            // It may be closed already.
            connection.shutdown(Shutdown::Both).ok();
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !thread::panicking()
        {
            panic!("a follower panicked");
        }
    }
}
