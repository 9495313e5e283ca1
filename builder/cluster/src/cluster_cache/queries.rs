//! Values computed from several stores.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;

use super::ClusterCache;
use super::settings::{SettingsResult, Sources};
use crate::cluster_names::{
    IMAGE_CONFIG, OPERATOR_IMAGES, OPERATOR_NAMESPACE, OS_IMAGE_URL, OTHER_BUILDER, RENDERER,
};
use mosb_api::Metadata;
use mosb_api::cluster_settings::CONFIG_MAP;

impl ClusterCache {
    /// A ConfigMap that is watched by name.
    pub fn named(&self, name: &str) -> Option<Arc<ConfigMap>> {
        self.settings.get(name)?.get(name)
    }

    /// Whether the settings name this Secret, so that the lookups of every pool read it.
    pub fn settings_use_secret(&self, secret: &str) -> bool {
        self.settings().is_ok_and(|(settings, _)| {
            let proxy = settings.proxy.and_then(|proxy| proxy.secret);
            settings.global_pull_secret == secret || proxy.as_deref() == Some(secret)
        })
    }

    /// The Secret with the key that signs a pool's images, if that can be read.
    pub fn signing_secret(&self, config: &Metadata) -> Option<String> {
        let (settings, _) = self.settings().ok()?;
        settings.signing.secret_of(config).ok()?
    }

    /// Another builder that runs in the operator's namespace.
    pub fn other_builder(&self) -> Option<String> {
        let wanted = self.deployments.get(OTHER_BUILDER)?;
        (*wanted > 0).then(|| format!("Deployment {}/{OTHER_BUILDER}", self.operator_namespace))
    }

    /// Another renderer that runs, in this operator's namespace or in the default one.
    pub fn other_renderer(&self) -> Option<String> {
        let places = [&*self.operator_namespace, OPERATOR_NAMESPACE];
        let mut named = places.map(|namespace| format!("{namespace}/{RENDERER}")).into_iter();
        let here = self.deployments.get(RENDERER).is_some_and(|wanted| *wanted > 0);
        if here {
            return named.next().map(|name| format!("Deployment {name}"));
        }
        let wanted = |name: &String| self.renderers.get(name).is_some_and(|wanted| *wanted > 0);
        named.find(wanted).map(|name| format!("Deployment {name}"))
    }

    /// The settings of all builds: mosb's ConfigMap, overridden by the cluster's own objects.
    ///
    /// # Errors
    /// mosb's ConfigMap can't be read.
    pub fn settings(&self) -> SettingsResult {
        self.settings_cache.read(Sources {
            ours: self.named(CONFIG_MAP),
            images: self.named(OPERATOR_IMAGES),
            os_images: self.named(OS_IMAGE_URL),
            controller_config: self.controller_configs.get(RENDERER),
            mirror_sets: self.mirror_sets.iter().flat_map(|store| store.list()).collect(),
            image_config: self.image_configs.get(IMAGE_CONFIG),
        })
    }
}
