//! The cluster-wide settings that the manifests have.

use super::super::manifest::Manifests;
use super::super::secrets::{Secrets, data};
use super::ValidationOptions;
use mosb_plan::api::cluster_settings::CONFIG_KEY;
use mosb_plan::api::{ClusterObjects, ClusterSettings, labels};
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
    let (mut settings, odd) = settings.merged(&ClusterObjects {
        controller_config,
        operator_images: None,
        os_images: None,
        mirror_sets: &manifests.mirror_sets,
        image_config: manifests.image_configs.first(),
    });
    notices.extend(odd);
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
    for (kind, origin) in more {
        let message = format!("there is another {kind} like this; keep one of them");
        problems.push(Finding::new("duplicate-name", message).object(origin.clone()));
    }
}

/// The release in the ControllerConfig.
pub(super) fn release(manifests: &Manifests) -> Option<String> {
    let metadata = &manifests.controller_config()?.object.metadata;
    let release = metadata.annotation(labels::RELEASE_IMAGE_VERSION)?;
    Some(release.to_owned())
}
