//! Watches the kinds in the version that the API server has, or lists each once.

use std::sync::Arc;

use futures_util::future::try_join_all;
use kube::core::DynamicObject;
use kube::runtime::watcher::Event;
use kube::{Api, Client};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::discovery::{ServedVersions, discover, resource};
use super::{BootImageCache, BootImageKind, SeenObject};
use crate::cluster_cache::IndexedStore;
use crate::cluster_cache::trigger::Trigger;
use mosb_reconcile::error::{Error, is_not_found};
use mosb_reconcile::waits::{DISCOVERY, FAILED_DISCOVERY};
use mosb_reconcile::watch::{WatchHealth, WatchState, WatchedResource, run_watch};

impl BootImageCache {
    /// Starts to watch every kind. A kind that is not served has no objects; one that is served
    /// and can't be listed is [`unread`](Self::unread).
    pub(in crate::cluster_cache) fn watch(
        &self,
        client: &Client,
        triggers: &UnboundedSender<Trigger>,
        tasks: &mut JoinSet<()>,
    ) {
        let (versions, served) = watch::channel(None);
        tasks.spawn(run_discovery(client.clone(), versions));
        for kind in BootImageKind::ALL {
            self.watch_health.register(&kind.to_string(), true);
            let watching = KindWatch {
                client: client.clone(),
                kind,
                store: Arc::clone(self.store(kind)),
                watch_health: Arc::clone(&self.watch_health),
                triggers: triggers.clone(),
            };
            tasks.spawn(watching.run(served.clone()));
        }
    }

    /// Lists every kind that is served once.
    ///
    /// # Errors
    /// A kind can't be listed.
    pub(in crate::cluster_cache) async fn read(&self, client: &Client) -> Result<(), Error> {
        let watch_health = &self.watch_health;
        let served = discover(client).await?;
        let lists = BootImageKind::ALL.into_iter().map(async |kind| {
            let what = kind.to_string();
            let Some(api) = api(client, kind, &served) else {
                watch_health.set(&what, WatchState::NotServed, true);
                return Ok(());
            };
            match api.list(&kube::api::ListParams::default()).await {
                Ok(list) => {
                    let items = list.items.into_iter();
                    self.store(kind).replace(items.filter_map(|object| seen(kind, object)));
                    watch_health.set(&what, WatchState::Current, true);
                    Ok(())
                }
                Err(error) if is_not_found(&error) => {
                    watch_health.set(&what, WatchState::NotServed, true);
                    Ok(())
                }
                Err(error) => Err(Error::api(what, "list")(error)),
            }
        });
        try_join_all(lists).await.map(drop)
    }
}

fn api(
    client: &Client,
    kind: BootImageKind,
    served: &ServedVersions,
) -> Option<Api<DynamicObject>> {
    let resource = resource(kind, served)?;
    Some(match kind.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    })
}

fn seen(kind: BootImageKind, object: DynamicObject) -> Option<(String, SeenObject)> {
    let object = SeenObject::new(kind, object)?;
    Some((object.key(), object))
}

/// Publishes the versions that are served, until the program ends.
async fn run_discovery(client: Client, versions: watch::Sender<Option<ServedVersions>>) {
    loop {
        let wait = match discover(&client).await {
            Ok(served) => {
                versions.send_if_modified(|before| {
                    let is_new = before.as_ref() != Some(&served);
                    *before = Some(served);
                    is_new
                });
                DISCOVERY
            }
            Err(error) => {
                tracing::warn!("{error}");
                FAILED_DISCOVERY
            }
        };
        sleep(wait).await;
    }
}

struct KindWatch {
    client: Client,
    kind: BootImageKind,
    store: Arc<IndexedStore<SeenObject>>,
    watch_health: Arc<WatchHealth>,
    triggers: UnboundedSender<Trigger>,
}

impl KindWatch {
    async fn run(self, mut versions: watch::Receiver<Option<ServedVersions>>) {
        loop {
            let served = versions.borrow_and_update().clone();
            // Before the first discovery, it counts as not listed.
            if let Some(served) = served {
                match api(&self.client, self.kind, &served) {
                    None => self.clear(),
                    Some(api) => {
                        let version = served.get(&self.kind).cloned();
                        tokio::select! {
                            () = self.watch(api) => {}
                            () = until_version_changes(&mut versions, self.kind, version) => {}
                        }
                        continue;
                    }
                }
            }
            if versions.changed().await.is_err() {
                return;
            }
        }
    }

    /// The objects were deleted with the kind.
    fn clear(&self) {
        for event in [Event::Init, Event::InitDone] {
            if !self.store.apply_event(event).is_empty() {
                self.trigger();
            }
        }
        self.watch_health.set(&self.kind.to_string(), WatchState::NotServed, true);
    }

    async fn watch(&self, api: Api<DynamicObject>) {
        let kind = self.kind;
        let what = kind.to_string();
        // It may have counted as not served, and what it has is not known yet.
        self.watch_health.register(&what, true);
        let watched = WatchedResource { optional: true, ..WatchedResource::new(what, api) };
        let (health, store) = (Arc::clone(&self.watch_health), Arc::clone(&self.store));
        let read = move |object| seen(kind, object);
        run_watch(watched, health, store, read, |_| self.trigger()).await;
    }

    fn trigger(&self) {
        // Fails only when the program ends.
        let _ = self.triggers.send(Trigger::BootImages);
    }
}

/// Waits until the kind has another version than this one.
async fn until_version_changes(
    versions: &mut watch::Receiver<Option<ServedVersions>>,
    kind: BootImageKind,
    version: Option<String>,
) {
    let is_other = |served: &Option<ServedVersions>| {
        served.as_ref().is_some_and(|served| served.get(&kind) != version.as_ref())
    };
    if versions.wait_for(is_other).await.is_err() {
        // No discovery runs any more: the program ends.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use mosb_reconcile::fake_api::{FakeAnswer, FakeApi};

    /// An API server with Clusters and MachineConfigurations, which lists no MachineConfigurations.
    fn client() -> Client {
        let group = |name: &str, version: &str, plural: &str| {
            json!({ "metadata": { "name": name }, "versions": [
                { "version": version, "resources": [{ "resource": plural }] }] })
        };
        let discovery = json!({ "items": [
            group("cluster.x-k8s.io", "v1beta2", "clusters"),
            group("operator.openshift.io", "v1", "machineconfigurations") ] });
        let api = FakeApi::new(move |request| match &*request.path {
            _ if request.query.contains("watch=true") => FakeAnswer::Never,
            "/apis" => discovery.clone().into(),
            path if path.contains("operator.openshift.io") => FakeAnswer::failure(403),
            _ => json!({ "metadata": { "resourceVersion": "1" }, "items": [] }).into(),
        });
        api.client
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_may_not_be_listed_is_not_taken_for_one_that_is_missing() {
        let (cache, mut tasks) = (BootImageCache::default(), JoinSet::new());
        cache.watch(&client(), &unbounded_channel().0, &mut tasks);
        while cache.watch_health.is_listing() {
            sleep(Duration::from_millis(10)).await;
        }
        let unread = cache.unread();
        let kinds: Vec<_> = unread.keys().copied().collect();
        assert_eq!(kinds, [BootImageKind::MachineConfiguration]);
        let why = &unread[&BootImageKind::MachineConfiguration];
        assert!(why.contains("403: said"), "{why}");
        assert!(cache.read(&client()).await.is_err());
    }
}
