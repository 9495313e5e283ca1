//! Checks that no objects are left over and that no attempt of a build ran twice.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fault_cluster::kubelet::{is_alone, runners};
use crate::fault_cluster::{FaultCluster, in_namespace, ours, text};
use crate::fault_stories::story::SERVING;

/// Lists objects without an owner, Jobs and Pods of builds that already have an image, and objects
/// whose deletion does not complete.
pub fn over(cluster: &FaultCluster) -> Vec<String> {
    let configs = cluster.all(&ours("machineosconfigs", ""));
    let builds = cluster.all(&ours("machineosbuilds", ""));
    let runners = runners(cluster);
    let done = builds.iter().filter(|build| build["status"]["digestedImagePushSpec"].is_string());
    let done: BTreeSet<&str> = done.map(uid).collect();
    let mut over = without_owner("machineosbuild", &builds, &configs);
    over.extend(without_owner("job or pod", &runners, &builds));
    let is_done = |runner: &&Value| owners(runner).any(|owner| done.contains(owner));
    over.extend(
        runners
            .iter()
            .filter(is_done)
            .map(|runner| format!("{} of a build that is done", name(runner))),
    );
    for kind in SERVING.into_iter().filter(|kind| *kind != "jobs") {
        let mut all = cluster.all(&in_namespace(kind));
        all.retain(|object| {
            let label = "machineconfiguration.openshift.io/ephemeral-build-object";
            !object["metadata"]["labels"][label].is_null() && !is_alone(object)
        });
        over.extend(without_owner(kind, &all, &runners));
    }
    over
}

fn without_owner(kind: &str, all: &[Value], owning: &[Value]) -> Vec<String> {
    let there: BTreeSet<&str> = owning.iter().map(uid).collect();
    let is_over = |object: &&Value| {
        object["metadata"]["deletionTimestamp"].is_string()
            || !owners(object).any(|owner| there.contains(owner))
    };
    all.iter()
        .filter(is_over)
        .map(|object| format!("{kind} {} is left over", name(object)))
        .collect()
}

fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().map(|owner| text(&owner["uid"]))
}

fn uid(object: &Value) -> &str {
    text(&object["metadata"]["uid"])
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

/// The UID of a runner's build, and the number of the attempt.
pub fn attempt(runner: &Value) -> (String, String) {
    let attempt = &runner["metadata"]["annotations"]["mosb.dev/attempt"];
    let build = owners(runner).next().unwrap_or_default();
    (build.to_owned(), text(attempt).to_owned())
}

/// Asserts that each attempt ran once, except for runners in `deleted`, and returns the number of
/// runners.
#[track_caller]
pub fn no_attempt_ran_twice(
    cluster: &FaultCluster,
    pool: &str,
    deleted: &BTreeSet<(String, String)>,
) -> usize {
    let mut attempts = BTreeSet::new();
    let runners = ["jobs", "pods"].map(|kind| cluster.proxy.created(pool, kind));
    let runners = runners.concat();
    for runner in &runners {
        let attempt = attempt(runner);
        let is_known = deleted.contains(&attempt);
        assert!(
            attempts.insert(attempt) || is_known,
            "{pool}: a second one: {:#}\n{:#?}",
            runner["metadata"],
            cluster.proxy.written(pool)
        );
    }
    runners.len()
}
