//! The part with the CRDs that OpenShift publishes, of the kinds in `deploy/crds`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::child::finish;
use crate::make::go;
use crate::parts::PUBLISHED_CRDS;

const MODULE: &str = "github.com/openshift/api";
/// Fields that are not in every cluster yet are in this variant of a CRD.
const ALL_FIELDS: &str = "-CustomNoUpgrade";

/// The plurals of the kinds.
pub const PUBLISHED_KINDS: [&str; 4] =
    ["machineconfigs", "machineconfigpools", "machineosbuilds", "machineosconfigs"];

/// Copies the CRDs from their Go module.
pub fn make(directory: &Path) {
    let module = format!("{MODULE}@v{}", PUBLISHED_CRDS.version());
    let mut download = go(["mod", "download", "-json", &module]);
    let answer = finish(download.current_dir(directory), &[]).ok().json();
    let folder = Path::new(answer["Dir"].as_str().unwrap())
        .join("machineconfiguration/v1/zz_generated.crd-manifests");
    for kind in PUBLISHED_KINDS {
        let file =
            |variant| folder.join(format!("0000_80_machine-config_01_{kind}{variant}.crd.yaml"));
        let found = [file(ALL_FIELDS), file("")].into_iter().find(|file| file.exists());
        let text =
            fs::read_to_string(found.unwrap_or_else(|| panic!("{kind}: {}", folder.display())));
        fs::write(directory.join(format!("{kind}.yaml")), text.unwrap()).unwrap();
    }
}

/// A CRD as it is published.
#[track_caller]
pub fn published_crd(kind: &str) -> Value {
    crd(&PUBLISHED_CRDS.directory(), kind)
}

/// The same of `deploy/crds`.
#[track_caller]
pub fn deployed_crd(kind: &str) -> Value {
    crd(&crate::repository().join("deploy/crds"), kind)
}

fn crd(folder: &Path, kind: &str) -> Value {
    let text = fs::read_to_string(folder.join(format!("{kind}.yaml"))).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}
