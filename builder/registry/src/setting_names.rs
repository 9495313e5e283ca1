//! What messages call the settings that a client obeys: the user's file, or the setting of a cluster
//! that a temporary file was made of, which the reader doesn't have.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names of settings in files that the reader doesn't have. Empty for files of the user.
#[derive(Debug, Clone, Default)]
pub struct SettingNames {
    /// By file: the setting that it was made of.
    pub files: BTreeMap<PathBuf, String>,
    /// The list of the registries that are allowed; no other one is.
    pub allowed: Option<String>,
    /// By prefix: the setting that blocks it.
    pub blocked: BTreeMap<String, String>,
}

impl SettingNames {
    pub(super) fn of_file(&self, file: &Path) -> String {
        self.files.get(file).cloned().unwrap_or_else(|| file.display().to_string())
    }
}
