//! May later images be pushed?

use tokio::sync::watch;

use super::explain::explain;
use super::report::{Check, Kind};
use super::{Push, Remedies};

/// Begins an upload and cancels it. Nothing where it is to stop before the registry has answered.
pub(super) async fn push(
    push: &Push,
    remedies: Remedies,
    stop: &mut watch::Receiver<bool>,
) -> Option<Check> {
    let begun = tokio::select! {
        begun = push.client.open_upload(&push.repo) => begun,
        _ = stop.wait_for(|stop| *stop) => return None,
    };
    let repo = &push.repo;
    Some(match begun {
        Ok(upload) => {
            let left = match upload.cancel().await {
                true => "was begun and cancelled",
                false => "was begun; the registry did not cancel it, and will drop it by itself",
            };
            Check::passed(Kind::Push, format!("an upload to {repo} {left}"))
        }
        Err(error) => explain(Kind::Push, &error, repo.host(), remedies),
    })
}
