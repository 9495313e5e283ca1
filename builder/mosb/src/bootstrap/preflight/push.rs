//! Checks that later images can be pushed.

use tokio::sync::watch;

use super::explain::explain;
use super::report::{ImageCheck, Kind};
use super::{Push, Remedies};

/// Begins an upload and cancels it. Returns `None` if it must stop before the registry answers.
pub(super) async fn push(
    push: &Push,
    remedies: Remedies,
    stop: &mut watch::Receiver<bool>,
) -> Option<ImageCheck> {
    let begun = tokio::select! {
        begun = push.client.open_upload(&push.repo) => begun,
        _ = stop.wait_for(|stop| *stop) => return None,
    };
    let repo = &push.repo;
    Some(match begun {
        Ok(upload) => {
            let left = if upload.cancel().await {
                "was begun and cancelled"
            } else {
                "was begun; the registry did not cancel it, and will drop it by itself"
            };
            ImageCheck::passed(Kind::Push, format!("an upload to {repo} {left}"))
        }
        Err(error) => explain(Kind::Push, &error, repo.host(), remedies),
    })
}
