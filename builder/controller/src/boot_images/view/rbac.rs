//! The Roles that the controller needs for the stubs in use: each names its Secrets, because the
//! namespaces of machine sets also have Secrets that nobody but their owner should read. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::boot_images::decide::decide;
use crate::boot_images::machine_set::{MachineSet, SET_KINDS};
use crate::boot_images::snapshot::BootImageSnapshot;
use jiff::Timestamp;

/// Name of the Role and of its binding.
const NAME: &str = "mosb-boot-image-stubs";

/// A Role and a RoleBinding for each namespace with stubs of selected sets. The subject is the
/// controller's ServiceAccount, as `namespace` and `name`.
pub(super) fn objects(snapshot: &BootImageSnapshot, account: (&str, &str)) -> Vec<Value> {
    let plan = decide(snapshot, Timestamp::UNIX_EPOCH);
    let selected: BTreeSet<&str> = plan.sets.iter().map(|set| &*set.set).collect();
    let sets = SET_KINDS.into_iter().flat_map(|kind| snapshot.list(kind));
    let sets = sets.filter_map(MachineSet::new);
    let mut stubs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for set in sets.filter(|set| selected.contains(&*set.to_string())) {
        if let Ok(Some((namespace, name))) = set.stub() {
            stubs.entry(namespace).or_default().insert(name);
        }
    }
    let roles = stubs.into_iter().flat_map(|(namespace, names)| {
        let metadata = json!({ "name": NAME, "namespace": namespace });
        [
            json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": metadata,
                "rules": [{ "apiGroups": [""], "resources": ["secrets"], "resourceNames": names,
                    "verbs": ["get", "update"] }] }),
            json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME },
                "subjects": [{ "kind": "ServiceAccount", "namespace": account.0, "name": account.1 }] }),
        ]
    });
    roles.collect()
}
