//! Versions of what lookups read beside a snapshot: if one changes, a decision is made again.

use std::collections::BTreeMap;

use crate::ClusterCache;
use crate::cluster_names::{IMAGE_CONFIG, OPERATOR_IMAGES, OS_IMAGE_URL, RENDERER};
use mosb_api::cluster_settings::CONFIG_MAP;
use mosb_api::{MachineConfigPool, MachineOsBuild, MachineOsConfig, labels};

/// resourceVersions or generations by object; `None` if there is none.
pub type Versions = BTreeMap<String, Option<String>>;

/// Versions of the objects that lookups for a MachineOSConfig read beside its snapshot.
pub fn versions(
    cache: &ClusterCache,
    config: Option<&MachineOsConfig>,
    pool: Option<&MachineConfigPool>,
    builds: &[MachineOsBuild],
) -> Versions {
    let mut versions = shared_versions(cache);
    if let Some(config) = config {
        let pull = config.spec.base_image_pull_secret.as_ref();
        let named =
            [Some(&config.spec.rendered_image_push_secret.name), pull.map(|pull| &pull.name)];
        versions.extend(named.into_iter().flatten().map(|name| secret(cache, name)));
        let signing = cache.signing_secret(&config.metadata);
        versions.extend(signing.map(|name| secret(cache, &name)));
    }
    let key = labels::RENDERED_IMAGE_PUSH_SECRET;
    let pushed_with = builds.iter().filter_map(|build| build.metadata.annotation(key));
    versions.extend(pushed_with.map(|name| secret(cache, name)));
    if let Some(pool) = pool {
        let name = &pool.spec.configuration.name;
        let rendered = cache.machine_configs.get(name);
        let version = rendered.and_then(|meta| meta.resource_version.clone());
        versions.insert(format!("machineconfig {name}"), version);
    }
    versions
}

/// Versions of what lookups for every pool read: the settings, and the Secrets that they name.
pub fn shared_versions(cache: &ClusterCache) -> Versions {
    let map = |name: &'static str| {
        let version = cache.named(name).and_then(|map| map.metadata.resource_version.clone());
        (format!("configmap {name}"), version)
    };
    let mut versions: Versions = [CONFIG_MAP, OPERATOR_IMAGES, OS_IMAGE_URL].map(map).into();
    let generation = |value: &serde_json::Value| Some(value["metadata"]["generation"].to_string());
    let controller_config = cache.controller_configs.get(RENDERER);
    let of_controller_config = controller_config.and_then(|value| generation(&value));
    versions.insert("controllerconfig".to_owned(), of_controller_config);
    for mirrors in cache.mirror_sets.iter().flat_map(|store| store.list()) {
        let metadata = &mirrors["metadata"];
        let name = format!("mirrors {} {}", metadata["name"], metadata["uid"]);
        versions.insert(name, generation(&mirrors));
    }
    let image_config = cache.image_configs.get(IMAGE_CONFIG);
    let of_image_config = image_config.and_then(|value| generation(&value));
    versions.insert("image cluster".to_owned(), of_image_config);
    if let Ok((settings, _)) = cache.settings() {
        let proxy = settings.proxy.and_then(|proxy| proxy.secret);
        let named = proxy.into_iter().chain([settings.global_pull_secret]);
        versions.extend(named.map(|name| secret(cache, &name)));
    }
    versions
}

fn secret(cache: &ClusterCache, name: &str) -> (String, Option<String>) {
    let seen = cache.secrets.get(name);
    let version = seen.and_then(|seen| seen.resource_version.clone());
    (format!("secret {name}"), version)
}
