//! How the Lease stays ours, and how it is lost.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease as Object;
use tokio::time::{Instant, sleep, timeout};

use super::Lease;
use crate::Error;

impl Lease {
    /// Renews it until it is lost.
    pub async fn renew_until_lost(&self) -> Error {
        // The object of the last renewal: only this controller writes it while it holds the Lease.
        let mut seen = None;
        loop {
            // If the last renewal was slow, the next one comes sooner.
            let since = self.renewed().map(|at| at.elapsed()).unwrap_or_default();
            sleep(self.times.renew.saturating_sub(since)).await;
            loop {
                let Some(remaining) = self.remaining().filter(|left| !left.is_zero()) else {
                    return self.lost();
                };
                let begun = Instant::now();
                match timeout(remaining, self.renew(&mut seen)).await {
                    Ok(Ok(None)) => {
                        *self.renewed() = Some(begun);
                        break;
                    }
                    Ok(Ok(Some(holder))) => {
                        // No writes from now on.
                        *self.renewed() = None;
                        return self.lost_error(format!("{holder} holds it"));
                    }
                    Ok(Err(error @ Error::ClusterRestored { .. })) => return error,
                    Ok(Err(error)) => {
                        tracing::warn!("not renewed: {error}");
                        sleep(Duration::from_secs(1).min(self.times.renew)).await;
                    }
                    Err(_) => {}
                }
            }
        }
    }

    /// Renews it once; returns the holder if that is another one. If somebody else wrote it, this
    /// conflicts, and the next call reads it.
    async fn renew(&self, seen: &mut Option<Object>) -> Result<Option<String>, Error> {
        let known = match seen.take() {
            Some(object) => Some(object),
            None => {
                let get = self.api.get_opt(&self.name).await;
                get.map_err(Error::api(self.object(), "get"))?
            }
        };
        let Some(mut object) = known else {
            return Ok(Some("nobody".to_owned()));
        };
        self.check_version(&object)?;
        let before = object.spec.take().unwrap_or_default();
        if before.holder_identity.as_deref() != Some(&self.identity) {
            let holder = before.holder_identity.unwrap_or_default();
            return Ok(Some(if holder.is_empty() { "nobody".to_owned() } else { holder }));
        }
        object.spec = Some(self.spec_after(Some(&before)));
        let replaced = self.replace(&object).await;
        let replaced = replaced.map_err(Error::api(self.object(), "update"))?;
        self.check_version(&replaced)?;
        *seen = Some(replaced);
        Ok(None)
    }
}
