//! The cluster-wide settings that the manifests have.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::manifest::{Manifest, Manifests};
use super::super::secrets::{Secrets, data};
use super::ValidationOptions;
use mosb_api::cluster_settings::CONFIG_KEY;
use mosb_api::{ClusterObjects, ClusterSettings, labels};
use mosb_types::Finding;

/// The settings for all pools: ConfigMap `mosb-config`, merged over the cluster's own objects.
pub(super) fn read(
    manifests: &Manifests,
    secrets: &Secrets<'_>,
    options: &ValidationOptions,
    problems: &mut Vec<Finding>,
    notices: &mut Vec<Finding>,
) -> ClusterSettings {
    several(manifests, problems);
    let mut settings = ClusterSettings::default();
    if let Some(map) = manifests.settings.first() {
        let text = map.object.data.as_ref().and_then(|data| data.get(CONFIG_KEY));
        match ClusterSettings::parse(text.map_or("", String::as_str)) {
            Ok(read) => settings = read,
            Err(error) => {
                let finding = Finding::from(&error);
                problems.push(finding.object(map.origin.clone()));
            }
        }
    }
    let controller_config = manifests.controller_config().map(|config| &config.raw);
    let mirror_sets: Vec<Value> = manifests.mirror_sets.iter().map(|set| set.raw.clone()).collect();
    let image_config = manifests.image_configs.first();
    let (mut settings, odd) = settings.merged(&ClusterObjects {
        controller_config,
        operator_images: None,
        os_images: None,
        mirror_sets: &mirror_sets,
        image_config: image_config.map(|config| &config.raw),
    });
    notices.extend(odd);
    let object = &mut settings.registry_sources.object;
    if let Some(config) = image_config.filter(|_| !object.is_empty()) {
        *object = format!("{object} ({})", config.origin);
    }
    let Some(proxy) = settings.proxy.clone() else {
        return settings;
    };
    let Some(name) = proxy.secret.clone() else {
        return settings;
    };
    match secrets.find(&name, problems) {
        Some(secret) => {
            let data = data(secret).into_iter().map(|(key, value)| (key, value.0));
            match proxy.with_secret(&data.collect()) {
                Ok(proxy) => settings.proxy = Some(proxy),
                Err(error) => problems.push(Finding::from(&error)),
            }
        }
        None => {
            let why = "; add it, as new machines need the proxy to pull their image";
            let missing = secrets.missing(&name, why, "ConfigMap mosb-config: proxy.secret");
            let list = if options.registries { problems } else { notices };
            list.push(missing);
        }
    }
    settings
}

fn several(manifests: &Manifests, problems: &mut Vec<Finding>) {
    let named = manifests.named_controller_configs();
    let more = manifests.settings.iter().skip(1).map(|map| ("ConfigMap", &map.origin));
    let more = more.chain(named.skip(1).map(|config| ("ControllerConfig", &config.origin)));
    let images = manifests.image_configs.iter().skip(1);
    let more = more.chain(images.map(|config| ("Image cluster", &config.origin)));
    for (kind, origin) in more {
        let message = format!("there is another {kind} like this; keep one of them");
        problems.push(Finding::new("duplicate-name", message).object(origin.clone()));
    }
    let text = |set: &Manifest<()>, path: &str| {
        set.raw.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut first = BTreeMap::new();
    for set in &manifests.mirror_sets {
        let (kind, name) = (text(set, "/kind"), text(set, "/metadata/name"));
        let place = set.place(&kind, &name, "metadata.name");
        if let Some(other) = first.insert((kind, name), &set.origin) {
            let message = format!("another one has this name ({other}); keep one of them");
            problems.push(Finding::new("duplicate-name", message).object(place));
        }
    }
}

/// The release in the ControllerConfig.
pub(super) fn release(manifests: &Manifests) -> Option<String> {
    let metadata = &manifests.controller_config()?.object.metadata;
    let release = metadata.annotation(labels::RELEASE_IMAGE_VERSION)?;
    Some(release.to_owned())
}
