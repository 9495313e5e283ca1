//! `--checks FILE`: the settings of a cluster in a file, ConfigMap `mosb-config` or its `config.yaml`.

use std::path::Path;

use tokio::task::spawn_blocking;

use super::Result;
use super::error::Error;
use super::input::{FILE_LIMIT, Input};
use mosb_api::ClusterSettings;
use mosb_api::cluster_settings::CONFIG_KEY;
use mosb_api::yaml::{self, YamlError};

/// Reads the settings.
///
/// # Errors
/// The file can't be read, or has no valid settings.
pub async fn read(file: &Path) -> Result<ClusterSettings> {
    let file = Input::File(file.to_owned());
    let read = spawn_blocking(move || settings(&file)).await;
    read.map_err(Error::stopped("reading"))?
}

fn settings(file: &Input) -> Result<ClusterSettings> {
    let bytes = file.bytes("settings", FILE_LIMIT)?;
    let not_text = |_| Error::NotText { file: file.to_string(), what: "settings" };
    let text = String::from_utf8(bytes).map_err(not_text)?;
    let object = match yaml::parse_one(text.as_bytes()) {
        Ok(object) => Some(object).filter(|object| object["kind"] == "ConfigMap"),
        Err(YamlError::Empty) => None,
        Err(source) => return Err(Error::Yaml { file: file.to_string(), source }.into()),
    };
    let text = match &object {
        Some(map) => map["data"][CONFIG_KEY].as_str().unwrap_or_default(),
        None => text.as_str(),
    };
    Ok(ClusterSettings::parse(text)?)
}
