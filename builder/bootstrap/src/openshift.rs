//! The output for OpenShift: validated MachineOSConfigs. OpenShift's own bootstrap renders the
//! pools and creates the other objects.

use serde_json::json;

use super::check::ValidatedInstall;
use super::file::{File, by_hand};
use super::manifest::Manifests;
use mosb_api::labels;

/// The MachineOSConfigs, for the manifest directory of the installer.
pub fn files(manifests: &Manifests, checked: &ValidatedInstall) -> Vec<File> {
    let mut files: Vec<File> = os_configs(manifests, checked).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// The MachineOSConfigs, with image references in the only form that a status can hold.
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
            // The status contains the image in service too.
            None => {
                if let Some(status) = config.raw.get("status") {
                    object["status"] = status.clone();
                }
            }
        }
        File::of_object(&object)
    })
}
