//! Leader election: only the process that holds the Lease writes.
//!
//! Clocks of other machines are not trusted. The lease of another holder counts as expired if it
//! was not renewed for its duration *on this process's clock*. A lease that was released is taken
//! as soon as the watch reports it.

mod acquire;
mod gate;
mod renew;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;

use crate::Error;
use crate::error::describe;
use gate::RunningWrites;
pub use gate::gated;

/// How long cancelled writes may take to end.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Duration of the lease, and when it is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    /// After this time without a renewal, others may take it.
    pub duration: Duration,
    /// After this time without a renewal its holder stops, well before others may take it.
    pub deadline: Duration,
    /// Time between two renewals.
    pub renew: Duration,
}

impl Default for LeaseTimes {
    /// An API server may be down for less than the deadline without an effect.
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(60),
            deadline: Duration::from_secs(45),
            renew: Duration::from_secs(10),
        }
    }
}

/// The Lease, and our identity.
#[derive(Debug, Clone)]
pub struct Lease {
    api: Api<Object>,
    namespace: String,
    name: String,
    identity: String,
    times: LeaseTimes,
    /// When the request was sent that last renewed it: others may count from then.
    renewed: Arc<Mutex<Option<Instant>>>,
    /// The newest resourceVersion that the API server reported for it.
    newest: Arc<AtomicU64>,
    writes: RunningWrites,
}

impl Lease {
    /// A Lease of this name. Each process must have another identity.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
        times: LeaseTimes,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            times,
            renewed: Arc::default(),
            newest: Arc::default(),
            writes: RunningWrites::default(),
        }
    }

    /// The running writes that need it.
    fn writes(&self) -> &RunningWrites {
        &self.writes
    }

    /// Whether it is certainly ours now, even if this process was suspended for a while.
    pub fn is_held(&self) -> bool {
        self.remaining().is_some_and(|left| !left.is_zero())
    }

    /// For how long it is certainly ours.
    fn remaining(&self) -> Option<Duration> {
        let renewed = *self.renewed();
        renewed.map(|at| self.times.deadline.saturating_sub(at.elapsed()))
    }

    fn renewed(&self) -> MutexGuard<'_, Option<Instant>> {
        self.renewed.lock().expect("it is not poisoned: no code panics while it is locked")
    }

    fn object(&self) -> String {
        format!("lease {}/{}", self.namespace, self.name)
    }

    /// Records the version that the API server reports. Reads are consistent and sent one after
    /// another, and all objects of a cluster share one counter. A smaller number therefore means
    /// that the cluster's data was restored from a backup. Watches are then silent until the
    /// counter has reached the old value again, and the cache shows objects that may not exist.
    fn check_version(&self, object: &Object) -> Result<(), Error> {
        let version = object.metadata.resource_version.as_deref();
        let Some(now) = version.and_then(|version| version.parse().ok()) else {
            return Ok(());
        };
        let before = self.newest.fetch_max(now, Ordering::SeqCst);
        if now >= before {
            return Ok(());
        }
        *self.renewed() = None;
        Err(Error::ClusterRestored {
            name: format!("{}/{}", self.namespace, self.name),
            before,
            now,
        })
    }

    /// With the resourceVersion that was read, so that only one of two writers succeeds.
    async fn replace(&self, object: &Object) -> Result<Object, kube::Error> {
        let params = PostParams::default();
        self.api.replace(&self.name, &params, object).await
    }

    fn spec_after(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let ours = before.and_then(|spec| spec.holder_identity.as_deref()) == Some(&self.identity);
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.times.duration.as_secs()).ok(),
            acquire_time: before
                .filter(|_| ours)
                .and_then(|spec| spec.acquire_time.clone())
                .or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(transitions + i32::from(before.is_some() && !ours)),
            ..LeaseSpec::default()
        }
    }

    /// The error if it is no longer held.
    pub fn lost(&self) -> Error {
        let is_expired = self.renewed().is_some();
        self.lost_error(if is_expired {
            format!("not renewed for {} s", self.times.deadline.as_secs())
        } else {
            "it is not held any more".to_owned()
        })
    }

    fn lost_error(&self, why: String) -> Error {
        Error::LostLease { name: format!("{}/{}", self.namespace, self.name), why }
    }

    /// Releases it, so that the next controller need not wait. Writes are refused from now on; the
    /// running ones have ended.
    pub async fn release(&self) {
        *self.renewed() = None;
        if !self.writes.ended(RELEASE_TIMEOUT).await {
            tracing::warn!("{}: not released: a write is still running", self.object());
            return;
        }
        let released: Result<(), kube::Error> = async {
            let Some(mut object) = self.api.get_opt(&self.name).await? else {
                return Ok(());
            };
            let spec = object.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(&self.identity) {
                return Ok(());
            }
            spec.holder_identity = Some(String::new());
            self.replace(&object).await.map(drop)
        }
        .await;
        if let Err(error) = released {
            // It expires by itself.
            tracing::warn!("{}: not released: {}", self.object(), describe(&error));
        }
    }
}

#[cfg(any(test, feature = "test"))]
impl Lease {
    /// Marks it as just renewed.
    pub fn hold_for_test(&self) {
        *self.renewed() = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use hyper::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tower::{BoxError, service_fn};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_lease_is_held_for_its_duration_after_the_renewal_request() {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        let lease = Lease::new(client, "mosb-system", "x", "us", LeaseTimes::default());
        assert!(!lease.is_held(), "nobody asked for it");
        lease.hold_for_test();
        let second = Duration::from_secs(1);
        tokio::time::advance(lease.times.deadline - second).await;
        assert!(lease.is_held());
        tokio::time::advance(second).await;
        assert!(!lease.is_held(), "another one may have it soon");
    }

    /// A fake API server: the Lease has these versions, one for each request.
    fn server_of(versions: &[&str]) -> Client {
        let versions: Mutex<VecDeque<String>> =
            Mutex::new(versions.iter().map(|version| (*version).to_owned()).collect());
        let answer = move |request: Request<Body>| {
            let mut left = versions.lock().unwrap();
            let version = left.pop_front().expect("no more requests than versions");
            let object = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": { "name": "x", "resourceVersion": version },
                "spec": { "holderIdentity": "us", "leaseDurationSeconds": 60 },
            });
            drop(request);
            let body = Body::from(object.to_string().into_bytes());
            async move { Ok::<_, BoxError>(Response::new(body)) }
        };
        Client::new(service_fn(answer), "mosb-system")
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_is_restored_in_time_ends_the_program() {
        let of = |versions: &[&str]| {
            Lease::new(server_of(versions), "mosb-system", "x", "us", LeaseTimes::default())
        };
        // Read and taken, read again and renewed, then renewed from what was written.
        let lease = of(&["7", "8", "8", "9", "12", "4"]);
        lease.acquire().await.unwrap();
        let ended = lease.renew_until_lost().await;
        let is_restored =
            |error: &Error| matches!(error, Error::ClusterRestored { before: 12, now: 4, .. });
        assert!(is_restored(&ended), "{ended}");
        assert!(!lease.is_held());
        // Waiting for the Lease detects it too.
        let waiting = of(&["12", "4"]);
        let ended = waiting.acquire().await.unwrap_err();
        assert!(is_restored(&ended), "{ended}");
        // Versions that are not numbers are not compared.
        of(&["b", "a"]).acquire().await.unwrap();
    }

    #[test]
    fn a_holder_stops_before_another_begins() {
        let times = LeaseTimes::default();
        assert!(times.renew < times.deadline && times.deadline < times.duration);
    }
}
