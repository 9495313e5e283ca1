//! The Roles that the controller needs for the stubs in use: each names its Secrets, because the
//! namespaces of machine sets also have Secrets that nobody but their owner should read. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::decide::decide;
use crate::machine_set::{MachineSet, SET_KINDS};
use crate::snapshot::BootImageSnapshot;
use crate::stub::{managed_secret, stub_secret};
use jiff::Timestamp;
use mosb_cluster::secret_ref::SecretRef;

/// Name of the Role and of its binding.
const NAME: &str = "mosb-boot-image-stubs";

/// A Role and a RoleBinding for each namespace with stubs of selected sets. The subject is the
/// controller's ServiceAccount, as `namespace` and `name`.
pub fn objects(snapshot: &BootImageSnapshot, account: (&str, &str)) -> Vec<Value> {
    let plan = decide(snapshot, Timestamp::UNIX_EPOCH);
    let selected: BTreeSet<&str> = plan.sets.iter().map(|set| &*set.set).collect();
    let sets = SET_KINDS.into_iter().flat_map(|kind| snapshot.list(kind));
    let sets = sets.filter_map(MachineSet::new);
    let stubs = sets.filter(|set| selected.contains(&*set.to_string()));
    // A name that is none is reported with its set.
    let stubs: BTreeSet<SecretRef> = stubs.filter_map(|set| stub_secret(set).ok()?).collect();
    let settings = snapshot.settings.as_ref();
    let managed = |one| settings.ok().and_then(|settings| managed_secret(settings, one));
    let mut rules: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    let managed: BTreeSet<SecretRef> = stubs.iter().filter_map(managed).collect();
    for (secrets, verbs) in [(&stubs, &["get", "update"][..]), (&managed, &["get"])] {
        let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for secret in secrets {
            names.entry(secret.namespace()).or_default().push(secret.name());
        }
        for (namespace, names) in names {
            rules.entry(namespace).or_default().push(json!({ "apiGroups": [""],
                "resources": ["secrets"], "resourceNames": names, "verbs": verbs }));
        }
    }
    let roles = rules.into_iter().flat_map(|(namespace, rules)| {
        let metadata = json!({ "name": NAME, "namespace": namespace });
        [
            json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": metadata, "rules": rules }),
            json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME },
                "subjects": [{ "kind": "ServiceAccount", "namespace": account.0, "name": account.1 }] }),
        ]
    });
    roles.collect()
}
