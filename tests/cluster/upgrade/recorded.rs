//! What an earlier version left, put into a new cluster.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::upgrade_cluster::{LONG, NAMESPACE, UpgradeCluster, text};
use crate::test_cluster::state;
use mosb_plan::api::yaml::{self, Limits};
use mosb_tests::{Layout, wait};

/// In this order each is made after its owner.
pub const KINDS: [&str; 10] = [
    "machineconfigpools",
    "machineconfigs",
    "machineosconfigs",
    "machineosbuilds",
    "jobs",
    "configmaps",
    "secrets",
    "serviceaccounts",
    "roles",
    "rolebindings",
];
/// The folder of the images that the builds ended with.
pub const IMAGES: &str = "images";

pub struct Recorded {
    folder: PathBuf,
    objects: Vec<Value>,
}

impl Recorded {
    pub fn read(folder: &Path) -> Self {
        let read = |kind: &&str| {
            let text = fs::read(folder.join(format!("{kind}.yaml"))).unwrap();
            yaml::parse_all(&text, Limits::LIST).unwrap()
        };
        Self { folder: folder.to_owned(), objects: KINDS.iter().flat_map(read).collect() }
    }

    pub fn images(&self) -> Layout {
        Layout::at(self.folder.join(IMAGES))
    }

    /// Makes all objects, with the UIDs that this cluster gives, and their statuses; Jobs come to
    /// where they were.
    pub fn load(&self, cluster: &UpgradeCluster) {
        let mut uids: BTreeMap<String, String> = BTreeMap::new();
        for recorded in &self.objects {
            let mut object = mapped(recorded, &uids);
            let old = object["metadata"].as_object_mut().unwrap().remove("uid");
            let status = object.as_object_mut().unwrap().remove("status");
            let arguments = ["create", "--output=json", "--filename=-"];
            let made = cluster.node.kubectl_with(&arguments, object.to_string().as_bytes());
            let made = made.ok().json();
            let new = text(&made["metadata"]["uid"]).to_owned();
            uids.insert(text(&old.unwrap()).to_owned(), new);
            if let Some(status) = status {
                self.patch(cluster, recorded, true, &json!({ "status": status }));
            }
        }
        // A build names its Job, which was made after it.
        for recorded in &self.objects {
            let annotations = &recorded["metadata"]["annotations"];
            let named = mapped(annotations, &uids);
            if named != *annotations {
                let change = json!({ "metadata": { "annotations": named } });
                self.patch(cluster, recorded, false, &change);
            }
        }
        let failed: Vec<&str> = self.builds("Failed");
        wait("the pods of all Jobs", LONG, || {
            (cluster.running().len() == cluster.all("jobs").len()).then_some(())
        });
        for (job, pod) in cluster.running() {
            let of = text(&job["metadata"]["ownerReferences"][0]["name"]);
            if failed.contains(&of) { cluster.end_badly(&job, &pod) } else { cluster.run(&pod) }
        }
    }

    /// The builds of which this is true.
    fn builds(&self, condition: &str) -> Vec<&str> {
        let builds = self.objects.iter();
        builds
            .filter(|one| one["kind"] == "MachineOSBuild" && state(one) == condition)
            .map(|build| text(&build["metadata"]["name"]))
            .collect()
    }

    fn patch(&self, cluster: &UpgradeCluster, object: &Value, status: bool, change: &Value) {
        assert!(
            object["metadata"]["namespace"].is_null()
                || object["metadata"]["namespace"] == NAMESPACE
        );
        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        cluster.patch(kind, name, status, change).ok();
    }
}

/// With the UIDs of this cluster.
fn mapped(value: &Value, uids: &BTreeMap<String, String>) -> Value {
    let mut text = value.to_string();
    for (old, new) in uids {
        text = text.replace(old, new);
    }
    serde_json::from_str(&text).unwrap()
}
