//! Fills the cache: watches every kind, or lists each once.

use std::fmt::Debug;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _, try_join_all};
use kube::api::ListParams;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use super::trigger::Trigger;
use super::{ClusterCache, IndexedStore};
use crate::namespaces::Namespaces;
use mosb_reconcile::Error;
use mosb_reconcile::error::{is_forbidden, is_not_found};
use mosb_reconcile::watch::{
    Change, WatchHealth, WatchState, WatchedResource, for_watches, run_watch,
};

/// What a controller does beside building images.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tasks {
    pub rendering: bool,
    pub rolling_out: bool,
    pub keeping_boot_images: bool,
}

/// A kind of the API.
pub(super) trait WatchedKind:
    Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static> WatchedKind for K {}

/// Converts an object to its name and its cached fields.
pub(super) type Read<K, T> = fn(K) -> Option<(String, T)>;

/// Called once for each kind that is watched.
pub(super) trait ResourceVisitor {
    fn visit<K: WatchedKind, T: PartialEq + Send + Sync + 'static>(
        &mut self,
        watched: WatchedResource<K>,
        store: &Arc<IndexedStore<T>>,
        read: Read<K, T>,
        trigger: fn(&T) -> Trigger,
    );
}

impl ClusterCache {
    /// Lists every kind once, for commands that don't watch.
    ///
    /// # Errors
    /// A kind can't be listed, or a kind that must exist does not.
    pub async fn read(client: &Client, namespaces: &Namespaces) -> Result<Self, Error> {
        let cache = Self::new(namespaces);
        let mut lister = Lister::new(&cache);
        cache.for_each_resource(client, &mut lister);
        try_join_all(lister.lists).await?;
        Ok(cache)
    }

    /// Lists once what shows a roll-out: pools, their images, and machines. That needs fewer rights
    /// than [`read`](Self::read).
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_machines(client: &Client, namespaces: &Namespaces) -> Result<Self, Error> {
        let cache = Self::new(namespaces);
        let mut lister = Lister::new(&cache);
        cache.for_each_shown_resource(client, &mut lister);
        try_join_all(lister.lists).await?;
        Ok(cache)
    }

    /// Lists once pools, their images, and the settings.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_settings(client: &Client, namespaces: &Namespaces) -> Result<Self, Error> {
        let cache = Self::new(namespaces);
        let mut lister = Lister::new(&cache);
        cache.for_each_setting(client, &mut lister);
        try_join_all(lister.lists).await?;
        Ok(cache)
    }

    /// Lists once pools, their images, machines, and the settings: whatever names an image.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_images(client: &Client, namespaces: &Namespaces) -> Result<Self, Error> {
        let cache = Self::new(namespaces);
        let mut lister = Lister::new(&cache);
        cache.for_each_setting(client, &mut lister);
        cache.machines(client, &mut lister);
        try_join_all(lister.lists).await?;
        Ok(cache)
    }

    /// Lists once pools, the settings, and what boot images depend on.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_boot_images(client: &Client, namespaces: &Namespaces) -> Result<Self, Error> {
        let cache = Self { keeping_boot_images: true, ..Self::new(namespaces) };
        let mut lister = Lister::new(&cache);
        cache.for_each_setting(client, &mut lister);
        cache.golden_resource(client, &mut lister);
        try_join_all(lister.lists).await?;
        cache.boot_images.read(client).await?;
        Ok(cache)
    }

    /// Starts to watch the kinds of [`read_machines`](Self::read_machines).
    pub fn watch_machines(
        client: &Client,
        namespaces: &Namespaces,
        triggers: UnboundedSender<Trigger>,
    ) -> (Arc<Self>, JoinSet<()>) {
        let cache = Arc::new(Self::new(namespaces));
        let mut watcher = Watcher {
            watch_health: Arc::clone(&cache.watch_health),
            triggers,
            tasks: JoinSet::new(),
        };
        cache.for_each_shown_resource(client, &mut watcher);
        (cache, watcher.tasks)
    }

    /// Starts to watch every kind; the kinds that only one task needs only if this controller does it. The watches end when the returned set is dropped.
    pub fn watch(
        client: &Client,
        namespaces: &Namespaces,
        tasks: Tasks,
        triggers: UnboundedSender<Trigger>,
    ) -> (Arc<Self>, JoinSet<()>) {
        let Tasks { rendering, rolling_out, keeping_boot_images } = tasks;
        let client = &for_watches(client.clone(), &namespaces.own);
        let cache = Self::new(namespaces);
        let cache = Arc::new(Self { rendering, rolling_out, keeping_boot_images, ..cache });
        let mut watcher = Watcher {
            watch_health: Arc::clone(&cache.watch_health),
            triggers,
            tasks: JoinSet::new(),
        };
        cache.for_each_resource(client, &mut watcher);
        if keeping_boot_images {
            watcher.watch_health = Arc::clone(&cache.boot_images.watch_health);
            cache.golden_resource(client, &mut watcher);
            cache.boot_images.watch(client, &watcher.triggers, &mut watcher.tasks);
        }
        (cache, watcher.tasks)
    }
}

struct Watcher {
    watch_health: Arc<WatchHealth>,
    triggers: UnboundedSender<Trigger>,
    tasks: JoinSet<()>,
}

impl ResourceVisitor for Watcher {
    fn visit<K: WatchedKind, T: PartialEq + Send + Sync + 'static>(
        &mut self,
        watched: WatchedResource<K>,
        store: &Arc<IndexedStore<T>>,
        read: Read<K, T>,
        trigger: fn(&T) -> Trigger,
    ) {
        let triggers = self.triggers.clone();
        let on_change = move |change: &Change<T>| {
            let trigger = |object: &Option<Arc<T>>| object.as_deref().map(trigger);
            let (before, after) = (trigger(&change.before), trigger(&change.after));
            let before = before.filter(|before| Some(before) != after.as_ref());
            for trigger in before.into_iter().chain(after) {
                // Fails only when the program ends.
                let _ = triggers.send(trigger);
            }
        };
        let watch_health = Arc::clone(&self.watch_health);
        watch_health.register(&watched.what, watched.optional);
        self.tasks.spawn(run_watch(watched, watch_health, Arc::clone(store), read, on_change));
    }
}

struct Lister {
    watch_health: Arc<WatchHealth>,
    lists: Vec<BoxFuture<'static, Result<(), Error>>>,
}

impl Lister {
    fn new(cache: &ClusterCache) -> Self {
        Self { watch_health: Arc::clone(&cache.watch_health), lists: Vec::new() }
    }
}

impl ResourceVisitor for Lister {
    fn visit<K: WatchedKind, T: PartialEq + Send + Sync + 'static>(
        &mut self,
        watched: WatchedResource<K>,
        store: &Arc<IndexedStore<T>>,
        read: Read<K, T>,
        _: fn(&T) -> Trigger,
    ) {
        let (store, watch_health) = (Arc::clone(store), Arc::clone(&self.watch_health));
        let list = async move {
            let params = ListParams {
                label_selector: watched.config.label_selector,
                field_selector: watched.config.field_selector,
                ..ListParams::default()
            };
            match watched.api.list(&params).await {
                Ok(list) => {
                    store.replace(list.items.into_iter().filter_map(read));
                    watch_health.set(&watched.what, WatchState::Current, watched.optional);
                }
                Err(error)
                    if watched.optional && is_not_found(&error)
                        || watched.granted_apart && is_forbidden(&error) =>
                {
                    watch_health.set(&watched.what, WatchState::NotServed, watched.optional);
                }
                Err(error) => return Err(Error::api(watched.what, "list")(error)),
            }
            Ok(())
        };
        self.lists.push(list.boxed());
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::cluster_cache::{
        BootImageKind, CONTROLLER_WATCHES, MACHINES, NODE_JOBS, NODE_PODS, NODE_SECRETS,
        POOL_WATCHES, WORKLOAD_WATCHES,
    };

    #[tokio::test]
    async fn nothing_is_complete_before_the_first_watch_had_its_turn() {
        let everything = Tasks { rendering: true, rolling_out: true, keeping_boot_images: true };
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        let (cache, watches) = ClusterCache::watch(
            &client,
            &Namespaces::one("mosb"),
            everything,
            unbounded_channel().0,
        );
        // One task discovers versions and watches nothing.
        let builds = cache.watch_health.not_synced();
        let boot_images = cache.boot_images.watch_health.not_synced();
        assert_eq!(builds.len() + boot_images.len(), watches.len() - 1);
        let own = [MACHINES, NODE_JOBS, NODE_PODS, NODE_SECRETS].into_iter();
        for name in own.chain(POOL_WATCHES).chain(WORKLOAD_WATCHES).chain(CONTROLLER_WATCHES) {
            let is_it = |one: &String| one.starts_with(&format!("{name}: "));
            assert!(builds.iter().any(is_it), "{name} is the name of no watch: {builds:?}");
        }
        // A kind of boot images that can't be read keeps no image from being built.
        assert!(boot_images.len() > BootImageKind::ALL.len(), "{boot_images:?}");
        assert!(!builds.iter().any(|one| boot_images.contains(one)), "{builds:?}");
    }
}
