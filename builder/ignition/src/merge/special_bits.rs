//! Removes setuid, setgid and sticky from modes of specs in which they have no effect.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::version::SpecVersion;

/// The lists whose entries have modes.
const LISTS: [&str; 2] = ["files", "directories"];
const PERMISSIONS: u64 = 0o777;

/// The files and directories whose mode so far has bits that its spec drops.
#[derive(Debug, Default)]
pub(super) struct SpecialBits(BTreeSet<(&'static str, String)>);

impl SpecialBits {
    /// Notes the modes of a config that is merged over those before.
    pub fn note(&mut self, config: &Value, version: SpecVersion) {
        for list in LISTS {
            let entries = config["storage"][list].as_array().into_iter().flatten();
            for entry in entries {
                let (Some(mode), Some(path)) = (entry["mode"].as_u64(), entry["path"].as_str())
                else {
                    continue;
                };
                let dropped = version < SpecVersion::V3_6 && mode & !PERMISSIONS != 0;
                if dropped {
                    self.0.insert((list, path.to_owned()));
                } else if !self.0.is_empty() {
                    self.0.remove(&(list, path.to_owned()));
                }
            }
        }
    }

    /// Removes these bits from the merged config, where they would have an effect.
    pub fn drop_from(&self, config: &mut Value) {
        if self.0.is_empty() {
            return;
        }
        for list in LISTS {
            let entries = config.pointer_mut(&format!("/storage/{list}"));
            let entries = entries.and_then(Value::as_array_mut).into_iter().flatten();
            for entry in entries {
                let path = entry["path"].as_str().unwrap_or_default().to_owned();
                if let Some(mode) = entry["mode"].as_u64()
                    && self.0.contains(&(list, path))
                {
                    entry["mode"] = (mode & PERMISSIONS).into();
                }
            }
        }
    }
}
