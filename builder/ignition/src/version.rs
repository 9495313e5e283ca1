//! The supported versions of the Ignition spec.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use mosb_types::Finding;

use crate::error::Error;

/// A stable version of spec 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpecVersion {
    V3_0,
    V3_1,
    V3_2,
    V3_3,
    V3_4,
    V3_5,
    V3_6,
}

impl SpecVersion {
    /// All of them, oldest first.
    pub const ALL: [Self; 7] =
        [Self::V3_0, Self::V3_1, Self::V3_2, Self::V3_3, Self::V3_4, Self::V3_5, Self::V3_6];

    /// The version that configs are upgraded to, unless they are newer: older machines reject newer
    /// versions.
    pub const USUAL: Self = Self::V3_5;

    /// The value of `ignition.version`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V3_0 => "3.0.0",
            Self::V3_1 => "3.1.0",
            Self::V3_2 => "3.2.0",
            Self::V3_3 => "3.3.0",
            Self::V3_4 => "3.4.0",
            Self::V3_5 => "3.5.0",
            Self::V3_6 => "3.6.0",
        }
    }
}

impl fmt::Display for SpecVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SpecVersion {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self, Error> {
        if let Some(version) = Self::ALL.into_iter().find(|v| v.as_str() == s) {
            return Ok(version);
        }
        let older = matches!(s.split('.').next(), Some("1" | "2"));
        Err(if older {
            Error::OldSpec { found: s.to_owned() }
        } else {
            Error::UnknownSpec {
                found: s.to_owned(),
                accepted: Self::ALL.map(Self::as_str).join(", "),
            }
        })
    }
}

/// A stable version of spec 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpecV2 {
    V2_0,
    V2_1,
    V2_2,
    V2_3,
    V2_4,
}

/// The version of a config that can be merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spec {
    /// Translated to spec 3.
    V2(SpecV2),
    V3(SpecVersion),
}

impl Spec {
    /// All of them, oldest first.
    pub const ALL: [Self; 12] = [
        Self::V2(SpecV2::V2_0),
        Self::V2(SpecV2::V2_1),
        Self::V2(SpecV2::V2_2),
        Self::V2(SpecV2::V2_3),
        Self::V2(SpecV2::V2_4),
        Self::V3(SpecVersion::V3_0),
        Self::V3(SpecVersion::V3_1),
        Self::V3(SpecVersion::V3_2),
        Self::V3(SpecVersion::V3_3),
        Self::V3(SpecVersion::V3_4),
        Self::V3(SpecVersion::V3_5),
        Self::V3(SpecVersion::V3_6),
    ];

    /// The value of `ignition.version`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2(SpecV2::V2_0) => "2.0.0",
            Self::V2(SpecV2::V2_1) => "2.1.0",
            Self::V2(SpecV2::V2_2) => "2.2.0",
            Self::V2(SpecV2::V2_3) => "2.3.0",
            Self::V2(SpecV2::V2_4) => "2.4.0",
            Self::V3(version) => version.as_str(),
        }
    }
}

impl From<SpecV2> for Spec {
    fn from(version: SpecV2) -> Self {
        Self::V2(version)
    }
}

impl From<SpecVersion> for Spec {
    fn from(version: SpecVersion) -> Self {
        Self::V3(version)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Spec {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|spec| spec.as_str() == s);
        found.ok_or_else(|| Error::UnknownSpec {
            found: s.to_owned(),
            accepted: Self::ALL.map(Self::as_str).join(", "),
        })
    }
}

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

#[cfg(test)]
mod tests {
    use mosb_types::Diagnostic as _;

    use super::*;

    #[test]
    fn a_version_is_read_as_it_is_printed() {
        for version in SpecVersion::ALL {
            assert_eq!(version.to_string().parse::<SpecVersion>().unwrap(), version);
        }
    }

    #[test]
    fn version_to_be_merged_round_trips() {
        for spec in Spec::ALL {
            assert_eq!(spec.to_string().parse::<Spec>().unwrap(), spec);
        }
        assert!(Spec::ALL.is_sorted());
        let error = "2.5.0".parse::<Spec>().unwrap_err();
        assert_eq!(error.code(), "unknown-ignition-spec");
        let message = error.to_string();
        assert!(message.contains("2.0.0, 2.1.0"), "{message}");
    }

    #[test]
    fn errors_for_other_versions_have_a_remedy() {
        for (found, want) in [
            ("2.2.0", "old-ignition-spec"),
            ("2.4.0-experimental", "old-ignition-spec"),
            ("1.0.0", "old-ignition-spec"),
            ("3.7.0", "unknown-ignition-spec"),
            ("3.6.0-experimental", "unknown-ignition-spec"),
            ("3.5.0-experimental", "unknown-ignition-spec"),
            ("3.5", "unknown-ignition-spec"),
            ("03.5.0", "unknown-ignition-spec"),
            ("", "unknown-ignition-spec"),
        ] {
            let error = found.parse::<SpecVersion>().unwrap_err();
            assert_eq!(error.code(), want, "{found:?}");
            let message = error.to_string();
            let remedy = if want == "old-ignition-spec" {
                "render the config first"
            } else {
                "3.0.0, 3.1.0"
            };
            assert!(message.contains(remedy), "{found:?}: {message}");
        }
    }
}
