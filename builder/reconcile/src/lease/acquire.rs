//! How the Lease becomes ours.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::watcher::watch_object;
use tokio::time::{Instant, sleep, timeout};

use super::Lease;
use crate::Error;
use crate::error::is_conflict;

impl Lease {
    /// Waits until it is ours.
    ///
    /// # Errors
    /// The API server forbids it; other errors are retried.
    pub async fn acquire(&self) -> Result<(), Error> {
        let mut seen: Option<(LeaseSpec, Instant)> = None;
        let mut logged_holder = None;
        loop {
            let begun = Instant::now();
            let spec = match self.try_acquire(seen.as_ref()).await {
                Ok(None) => {
                    *self.renewed() = Some(begun);
                    return Ok(());
                }
                Ok(Some(spec)) => spec,
                Err(error @ Error::ClusterRestored { .. }) => return Err(error),
                Err(error) if matches!(error.status_code(), Some(401 | 403 | 404)) => {
                    return Err(error);
                }
                Err(error) => {
                    tracing::warn!("{error}");
                    sleep(self.times.renew.min(Duration::from_secs(2))).await;
                    continue;
                }
            };
            if logged_holder != spec.holder_identity {
                let holder = spec.holder_identity.as_deref().unwrap_or_default();
                tracing::info!("{}: held by {holder}; waiting", self.object());
                logged_holder.clone_from(&spec.holder_identity);
            }
            // A renewal restarts the time.
            let since = match seen {
                Some((before, since)) if before == spec => since,
                _ => Instant::now(),
            };
            let runs_out = since + duration_of(&spec, self.times.duration);
            seen = Some((spec, since));
            // At the latest when the lease expires; a change is reported earlier.
            let left = runs_out.saturating_duration_since(Instant::now());
            let changed = timeout(left, self.until_changed(&seen)).await;
            tracing::debug!(changed = changed.is_ok(), "{}: looking again", self.object());
        }
    }

    /// Waits until the Lease differs from the observed one.
    async fn until_changed(&self, seen: &Option<(LeaseSpec, Instant)>) {
        let mut stream = pin!(watch_object(self.api.clone(), &self.name));
        while let Some(event) = stream.next().await {
            match event {
                Ok(object) => {
                    let spec = object.and_then(|object| object.spec);
                    if spec.as_ref() != seen.as_ref().map(|(spec, _)| spec) {
                        return;
                    }
                }
                Err(error) => {
                    tracing::debug!("{}: {error}", self.object());
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    /// Takes it if possible and returns none, else its spec.
    async fn try_acquire(
        &self,
        seen: Option<&(LeaseSpec, Instant)>,
    ) -> Result<Option<LeaseSpec>, Error> {
        let get = self.api.get_opt(&self.name).await;
        let Some(mut object) = get.map_err(Error::api(self.object(), "get"))? else {
            let object = Object {
                metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
                spec: Some(self.spec_after(None)),
            };
            return match self.api.create(&PostParams::default(), &object).await {
                Ok(created) => self.check_version(&created).map(|()| None),
                Err(error) if is_conflict(&error) => Ok(Some(LeaseSpec::default())),
                Err(error) => Err(Error::api(self.object(), "create")(error)),
            };
        };
        self.check_version(&object)?;
        let spec = object.spec.clone().unwrap_or_default();
        let seen = seen.map(|(spec, since)| (spec, since.elapsed()));
        if !may_take(&spec, &self.identity, seen, self.times.duration) {
            return Ok(Some(spec));
        }
        object.spec = Some(self.spec_after(Some(&spec)));
        match self.replace(&object).await {
            Ok(replaced) => self.check_version(&replaced).map(|()| None),
            Err(error) if is_conflict(&error) => Ok(Some(spec)),
            Err(error) => Err(Error::api(self.object(), "update")(error)),
        }
    }
}

fn duration_of(spec: &LeaseSpec, default: Duration) -> Duration {
    let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok());
    seconds.map_or(default, Duration::from_secs)
}

/// Whether the Lease is free, ours, or was seen unchanged for its duration.
fn may_take(
    spec: &LeaseSpec,
    identity: &str,
    seen: Option<(&LeaseSpec, Duration)>,
    default: Duration,
) -> bool {
    match spec.holder_identity.as_deref() {
        None | Some("") => true,
        Some(holder) if holder == identity => true,
        Some(_) => seen.is_some_and(|(before, unchanged_for)| {
            before == spec && unchanged_for >= duration_of(spec, default)
        }),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    #[test]
    fn a_lease_is_taken_when_it_is_free_or_ran_out_before_our_eyes() {
        let spec = |holder: Option<&str>, renewed: i64| LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        };
        let theirs = spec(Some("them"), 1);
        let seconds = Duration::from_secs;
        for (what, now, seen, want) in [
            ("nobody's", spec(None, 1), None, true),
            ("given back", spec(Some(""), 1), None, true),
            ("ours", spec(Some("us"), 1), None, true),
            ("of long ago by its clock, just seen", theirs.clone(), None, false),
            ("seen shortly", theirs.clone(), Some((&theirs, seconds(14))), false),
            ("seen long enough", theirs.clone(), Some((&theirs, seconds(15))), true),
            ("renewed meanwhile", spec(Some("them"), 2), Some((&theirs, seconds(99))), false),
        ] {
            assert_eq!(may_take(&now, "us", seen, seconds(60)), want, "{what}");
        }
    }
}
