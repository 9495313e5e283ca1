//! A client whose writes end with the Lease: a write is sent only while the Lease is ours, and
//! cancelled when the Lease expires.
//!
//! An action may be several requests, and the process may be suspended between two of them. So each
//! request is checked, and not only each action. Reads are always sent.

use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tokio::time::timeout;
use tower::{BoxError, service_fn};

use super::Lease;

/// The same client, for writes that need the Lease.
pub fn gated(client: Client, lease: &Lease, namespace: &str) -> Client {
    let lease = lease.clone();
    let service = service_fn(move |request: Request<Body>| {
        let (client, lease) = (client.clone(), lease.clone());
        async move { send(&client, &lease, request).await }
    });
    Client::new(service, namespace)
}

async fn send(
    client: &Client,
    lease: &Lease,
    request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(client.send(request).await?);
    }
    let _under_way = lease.writes().begin().await;
    let left = lease.remaining().filter(|left| !left.is_zero());
    let Some(left) = left else {
        return Err(lease.lost().into());
    };
    match timeout(left, client.send(request)).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(lease.lost().into()),
    }
}

/// The writes that are under way: shared by each, so that the end of a Lease can wait for them.
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

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
    use serde_json::json;
    use tokio::time::{Instant, advance, sleep};

    use super::*;
    use crate::lease::LeaseTimes;

    /// A client of a fake API server that answers after a time or never, its Lease, and the
    /// requests that the server got.
    fn fake_cluster(takes: Option<Duration>) -> (Client, Lease, Arc<Mutex<Vec<Method>>>) {
        let sent: Arc<Mutex<Vec<Method>>> = Arc::default();
        let server = {
            let sent = Arc::clone(&sent);
            service_fn(move |request: Request<Body>| {
                sent.lock().unwrap().push(request.method().clone());
                async move {
                    match takes {
                        Some(takes) => sleep(takes).await,
                        None => pending().await,
                    }
                    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" } });
                    Ok::<_, BoxError>(Response::new(Body::from(object.to_string().into_bytes())))
                }
            })
        };
        let client = Client::new(server, "mosb-system");
        let lease = Lease::new(client.clone(), "mosb-system", "x", "us", LeaseTimes::default());
        (gated(client, &lease, "mosb-system"), lease, sent)
    }

    fn maps(client: &Client) -> Api<ConfigMap> {
        Api::default_namespaced(client.clone())
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_written_without_the_lease_and_everything_can_be_read() {
        let (client, lease, sent) = fake_cluster(Some(Duration::ZERO));
        let maps = maps(&client);
        let new = ConfigMap::default();
        let change = Patch::Merge(json!({}));
        for is_held in [false, true, false] {
            if is_held {
                lease.hold_for_test()
            } else {
                advance(LeaseTimes::default().deadline).await
            }
            sent.lock().unwrap().clear();
            let writes = [
                maps.create(&PostParams::default(), &new).await.is_ok(),
                maps.replace("x", &PostParams::default(), &new).await.is_ok(),
                maps.patch("x", &PatchParams::default(), &change).await.is_ok(),
                maps.delete("x", &DeleteParams::default()).await.is_ok(),
            ];
            assert_eq!(writes, [is_held; 4]);
            assert_eq!(sent.lock().unwrap().len(), if is_held { 4 } else { 0 });
            maps.get("x").await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_under_way_is_broken_off_when_the_lease_ends() {
        let (client, lease, sent) = fake_cluster(None);
        lease.hold_for_test();
        let began = Instant::now();
        let error =
            maps(&client).create(&PostParams::default(), &ConfigMap::default()).await.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), LeaseTimes::default().deadline.as_secs());
        assert_eq!(*sent.lock().unwrap(), [Method::POST]);
        let why = crate::error::describe(&error);
        assert!(why.contains("lease mosb-system/x: lost, not renewed for 45 s"), "{why}");
    }

    #[tokio::test]
    async fn a_write_without_the_lease_says_why() {
        let (client, _, _) = fake_cluster(Some(Duration::ZERO));
        let error = maps(&client).delete("x", &DeleteParams::default()).await.unwrap_err();
        let why = crate::error::describe(&error);
        assert!(why.contains("lease mosb-system/x: lost, it is not held any more"), "{why}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_given_back_waits_for_the_writes_under_way() {
        let takes = Duration::from_secs(3);
        let (client, lease, _) = fake_cluster(Some(takes));
        lease.hold_for_test();
        let writing = tokio::spawn({
            let maps = maps(&client);
            async move { maps.delete("x", &DeleteParams::default()).await }
        });
        // Until the request is sent.
        sleep(Duration::from_secs(1)).await;
        assert!(!lease.writes().ended(Duration::from_secs(1)).await);
        let began = Instant::now();
        assert!(lease.writes().ended(takes).await);
        assert!(began.elapsed() <= takes);
        writing.await.unwrap().unwrap();
    }
}
