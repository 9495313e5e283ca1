//! Upgrades configs of spec 3 to 3.5.0, as the translations in Ignition 2.26.0 do. Only fields
//! whose meaning changed between two versions are changed.
//!
//! The only change from 3.5.0 to 3.6.0 is the effect of setuid, setgid and sticky.
//! [`super::Merger`] handles it where a config is merged with one of 3.6.0; no other config becomes
//! one of 3.6.0.

use serde_json::{Map, Value};

use super::version::SpecVersion;
use mosb_types::Finding;

/// Upgrades a valid, normalized config to 3.5.0, unless it is newer. Returns a warning for each
/// field that is lost.
///
/// Fields that only became optional later (`storage.raid[].level`, `storage.links[].target`) need
/// no change: a config without them is invalid in the versions that require them.
pub(super) fn upgrade(config: &mut Value, from: SpecVersion) -> Vec<Finding> {
    let mut lost = Vec::new();
    let volumes = config.pointer_mut("/storage/luks");
    let volumes = volumes.and_then(Value::as_array_mut).into_iter().flatten();
    for (index, volume) in volumes.enumerate() {
        let Some(clevis) = volume.get_mut("clevis").and_then(Value::as_object_mut) else {
            continue;
        };
        match from {
            SpecVersion::V3_2 => set_custom_defaults(clevis),
            SpecVersion::V3_4 => lost.extend(drop_advertisements(clevis, index)),
            _ => {}
        }
    }
    if let Some(version) = config.pointer_mut("/ignition/version") {
        *version = from.max(SpecVersion::USUAL).as_str().into();
    }
    lost
}

/// Before 3.3.0 the default of these two fields was the empty string.
fn set_custom_defaults(clevis: &mut Map<String, Value>) {
    if let Some(custom) = clevis.get_mut("custom").and_then(Value::as_object_mut) {
        for field in ["config", "pin"] {
            custom.entry(field).or_insert_with(|| "".into());
        }
    }
}

/// Ignition's translation from 3.4.0 drops them, so no machine uses them.
fn drop_advertisements(clevis: &mut Map<String, Value>, volume: usize) -> Vec<Finding> {
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
