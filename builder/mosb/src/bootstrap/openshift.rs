//! What an OpenShift installation takes: MachineOSConfigs, checked. Its own bootstrap makes the rest, and renders and names by itself.

use serde_json::json;

use super::check::ValidatedInstall;
use super::file::{File, by_hand};
use super::manifest::Manifests;
use mosb_plan::api::labels;

/// The MachineOSConfigs, for the installer's directory of manifests.
pub fn files(manifests: &Manifests, checked: &ValidatedInstall) -> Vec<File> {
    let mut files: Vec<File> = os_configs(manifests, checked).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// The MachineOSConfigs with their images in the one form that a status can hold.
pub(super) fn os_configs<'a>(
    manifests: &'a Manifests,
    checked: &'a ValidatedInstall,
) -> impl Iterator<Item = File> + 'a {
    manifests.os_configs.iter().map(|config| {
        let name = &config.object.metadata.name;
        let mut object = by_hand(&config.raw);
        match checked.seeds.iter().find(|seed| seed.config == *name) {
            Some(seed) => {
                object["metadata"]["annotations"][labels::PRE_BUILT_IMAGE] =
                    json!(seed.image.to_string());
            }
            // What is in service is in the status, too.
            None => {
                if let Some(status) = config.raw.get("status") {
                    object["status"] = status.clone();
                }
            }
        }
        File::of_object(&object)
    })
}
