//! The writes to the API that are under way, so that the end of a Lease can wait for them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tokio::time::timeout;

/// The running writes: shared by each, and waited for at the end.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningWrites(Arc<RwLock<()>>);

impl RunningWrites {
    pub(super) async fn begin(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.0).read_owned().await
    }

    /// Waits until no write is running, at most for this time.
    pub(super) async fn ended(&self, limit: Duration) -> bool {
        timeout(limit, self.0.write()).await.is_ok()
    }
}
