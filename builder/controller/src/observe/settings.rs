//! The settings of all builds, parsed again only when one of their sources changed.

use std::sync::{Arc, Mutex, MutexGuard};

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;

use super::RENDERER;
use crate::cluster_cache::{ClusterCache, OPERATOR_IMAGES};
use mosb_plan::api::cluster_settings::{CONFIG_KEY, CONFIG_MAP};
use mosb_plan::api::{ClusterObjects, ClusterSettings, ClusterSettingsError};
use mosb_types::Finding;

/// Name of the `Image` object of OpenShift's configuration.
pub const IMAGE_CONFIG: &str = "cluster";

/// The settings, and warnings about them.
type SettingsResult = Result<(ClusterSettings, Vec<Finding>), ClusterSettingsError>;

/// The last result, and the objects that it was read from.
#[derive(Debug, Default)]
pub struct SettingsCache(Mutex<Option<(Sources, SettingsResult)>>);

impl SettingsCache {
    fn get(&self, sources: &Sources) -> Option<SettingsResult> {
        let last = self.lock();
        let (of, read) = last.as_ref()?;
        of.is_same(sources).then(|| read.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Sources, SettingsResult)>> {
        self.0.lock().expect("nobody panics while holding it: comparing and cloning don't")
    }
}

/// The objects that the settings are read from.
#[derive(Debug)]
struct Sources {
    ours: Option<Arc<ConfigMap>>,
    images: Option<Arc<ConfigMap>>,
    controller_config: Option<Arc<Value>>,
    mirror_sets: Vec<Arc<Value>>,
    image_config: Option<Arc<Value>>,
}

impl Sources {
    /// Whether they are the same allocations: the cache replaces an object when it changes.
    fn is_same(&self, others: &Self) -> bool {
        let maps = |sources: &Self| {
            [&sources.ours, &sources.images].map(|map| map.as_ref().map(Arc::as_ptr))
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
        let images = self.images.as_ref();
        let images = images.and_then(|map| serde_json::to_value(&**map).ok());
        let mirror_sets: Vec<Value> = self.mirror_sets.iter().map(|set| (**set).clone()).collect();
        Ok(settings.merged(&ClusterObjects {
            controller_config: self.controller_config.as_deref(),
            operator_images: images.as_ref(),
            mirror_sets: &mirror_sets,
            image_config: self.image_config.as_deref(),
        }))
    }
}

impl ClusterCache {
    /// The settings of all builds: mosb's ConfigMap, overridden by the cluster's own objects.
    ///
    /// # Errors
    /// mosb's ConfigMap can't be read.
    pub fn settings(&self) -> SettingsResult {
        let sources = Sources {
            ours: self.named(CONFIG_MAP),
            images: self.named(OPERATOR_IMAGES),
            controller_config: self.controller_configs.get(RENDERER),
            mirror_sets: self.mirror_sets.iter().flat_map(|store| store.list()).collect(),
            image_config: self.image_configs.get(IMAGE_CONFIG),
        };
        let known = self.settings_cache.get(&sources);
        known.unwrap_or_else(|| {
            let read = sources.read();
            *self.settings_cache.lock() = Some((sources, read.clone()));
            read
        })
    }
}
