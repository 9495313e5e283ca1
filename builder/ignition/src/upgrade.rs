//! What changes in meaning between one version of spec 3 and the next, as the published translations of Ignition
//! 2.26.0 do it. All other fields pass unchanged.
//!
//! The one change from 3.5.0 to 3.6.0 is that setuid, setgid and sticky mean something. It is made where a config is
//! merged with one of 3.6.0 ([`super::Merger`]); no other config becomes one of 3.6.0.

use serde_json::{Map, Value};

use super::version::SpecVersion;
use mosb_types::Finding;

/// Brings a valid config, made of known fields, from its version to 3.5.0, unless it is newer. Tells what is lost on the way.
///
/// Fields that the later versions merely made optional (`storage.raid[].level`, `storage.links[].target`) change
/// nothing: a config without them is refused in the version that demands them.
pub(super) fn upgrade(config: &mut Value, from: SpecVersion) -> Vec<Finding> {
    let mut lost = Vec::new();
    let volumes = config.pointer_mut("/storage/luks");
    let volumes = volumes.and_then(Value::as_array_mut).into_iter().flatten();
    for (index, volume) in volumes.enumerate() {
        let Some(clevis) = volume.get_mut("clevis").and_then(Value::as_object_mut) else {
            continue;
        };
        match from {
            SpecVersion::V3_2 => say_custom(clevis),
            SpecVersion::V3_4 => lost.extend(lose_advertisements(clevis, index)),
            _ => {}
        }
    }
    if let Some(version) = config.pointer_mut("/ignition/version") {
        *version = from.max(SpecVersion::USUAL).as_str().into();
    }
    lost
}

/// Before 3.3.0 these two were no optional fields: unsaid was empty.
fn say_custom(clevis: &mut Map<String, Value>) {
    if let Some(custom) = clevis.get_mut("custom").and_then(Value::as_object_mut) {
        for field in ["config", "pin"] {
            custom.entry(field).or_insert_with(|| "".into());
        }
    }
}

/// The translation from 3.4.0 forgets them, so that no machine would heed one either.
fn lose_advertisements(clevis: &mut Map<String, Value>, volume: usize) -> Vec<Finding> {
    let servers = clevis.get_mut("tang").and_then(Value::as_array_mut);
    let lost = servers.into_iter().flatten().enumerate().filter_map(|(index, server)| {
        server.as_object_mut()?.remove("advertisement")?;
        let message =
            "Ignition loses it in a config of spec 3.4.0; write the config for 3.5.0 to keep it";
        let field = format!("storage.luks[{volume}].clevis.tang[{index}].advertisement");
        Some(Finding::new("lost-field", message).object(field))
    });
    lost.collect()
}
