//! The settings of all builds, parsed again only when one of their sources changed.

use std::sync::{Arc, Mutex, MutexGuard};

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;

use mosb_api::cluster_settings::CONFIG_KEY;
use mosb_api::{ClusterObjects, ClusterSettings, ClusterSettingsError};
use mosb_types::Finding;

/// The settings, and warnings about them.
pub(super) type SettingsResult = Result<(ClusterSettings, Vec<Finding>), ClusterSettingsError>;

/// The last result, and the objects that it was read from.
#[derive(Debug, Default)]
pub(super) struct SettingsCache(Mutex<Option<(Sources, SettingsResult)>>);

impl SettingsCache {
    /// The settings of these objects.
    pub fn read(&self, sources: Sources) -> SettingsResult {
        let mut last = self.lock();
        match last.as_ref() {
            Some((of, read)) if of.is_same(&sources) => read.clone(),
            _ => {
                let read = sources.read();
                *last = Some((sources, read.clone()));
                read
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Sources, SettingsResult)>> {
        self.0.lock().expect("it is not poisoned: reading settings doesn't panic")
    }
}

/// The objects that the settings are read from.
#[derive(Debug)]
pub(super) struct Sources {
    pub ours: Option<Arc<ConfigMap>>,
    pub images: Option<Arc<ConfigMap>>,
    pub os_images: Option<Arc<ConfigMap>>,
    pub controller_config: Option<Arc<Value>>,
    pub mirror_sets: Vec<Arc<Value>>,
    pub image_config: Option<Arc<Value>>,
}

impl Sources {
    /// Whether they are the same allocations: the cache replaces an object when it changes.
    fn is_same(&self, others: &Self) -> bool {
        let maps = |sources: &Self| {
            [&sources.ours, &sources.images, &sources.os_images]
                .map(|map| map.as_ref().map(Arc::as_ptr))
        };
        let config = |sources: &Self| {
            [&sources.controller_config, &sources.image_config]
                .map(|config| config.as_ref().map(Arc::as_ptr))
        };
        let same = |(one, other): (&Arc<Value>, &Arc<Value>)| Arc::ptr_eq(one, other);
        maps(self) == maps(others)
            && config(self) == config(others)
            && self.mirror_sets.len() == others.mirror_sets.len()
            && self.mirror_sets.iter().zip(&others.mirror_sets).all(same)
    }

    fn read(&self) -> SettingsResult {
        let map = self.ours.as_ref();
        let text = map.and_then(|map| map.data.as_ref()?.get(CONFIG_KEY));
        let settings = match text {
            Some(text) => ClusterSettings::parse(text)?,
            None => ClusterSettings::default(),
        };
        let value = |map: &Option<Arc<ConfigMap>>| serde_json::to_value(&**map.as_ref()?).ok();
        let (images, os_images) = (value(&self.images), value(&self.os_images));
        let mirror_sets: Vec<Value> = self.mirror_sets.iter().map(|set| (**set).clone()).collect();
        Ok(settings.merged(&ClusterObjects {
            controller_config: self.controller_config.as_deref(),
            operator_images: images.as_ref(),
            os_images: os_images.as_ref(),
            mirror_sets: &mirror_sets,
            image_config: self.image_config.as_deref(),
        }))
    }
}
