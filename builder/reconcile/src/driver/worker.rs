//! The workers of a controller: how many of its keys are reconciled at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A worker, while it is with a key. A pass gives it back while it waits for a lookup that leaves
/// the cluster, so that registries that hang don't take all of them.
#[derive(Debug, Default)]
pub struct Worker {
    workers: Option<Arc<Semaphore>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Worker {
    /// Waits for one of these.
    pub async fn acquire(workers: &Arc<Semaphore>) -> Self {
        let mut worker = Self { workers: Some(Arc::clone(workers)), permit: None };
        worker.reacquire().await;
        worker
    }

    /// Gives the worker to other keys.
    pub fn release(&mut self) {
        self.permit = None;
    }

    /// Waits for a worker if there is none after [`release`](Self::release).
    pub async fn reacquire(&mut self) {
        if let (Some(workers), None) = (&self.workers, &self.permit) {
            let permit = Arc::clone(workers).acquire_owned().await;
            self.permit = Some(permit.expect("it is never closed"));
        }
    }

    /// Awaits a lookup that leaves the cluster.
    pub async fn release_during<T>(&mut self, lookup: impl Future<Output = T>) -> T {
        self.release();
        let found = lookup.await;
        self.reacquire().await;
        found
    }
}
