//! What must not be there.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fault_world::{World, in_namespace, ours, text};

const SERVING: [&str; 6] = [
    "pods",
    "configmaps",
    "secrets",
    "serviceaccounts",
    "roles",
    "rolebindings",
];

/// What has lost its owner, Jobs of builds that have their image, and what is going away and does not go.
pub fn over(world: &World) -> Vec<String> {
    let configs = world.all(&ours("machineosconfigs", ""));
    let builds = world.all(&ours("machineosbuilds", ""));
    let jobs = world.all(&in_namespace("jobs"));
    let done = builds
        .iter()
        .filter(|build| build["status"]["digestedImagePushSpec"].is_string());
    let done: BTreeSet<&str> = done.map(uid).collect();
    let mut over = without_owner("machineosbuild", &builds, &configs);
    over.extend(without_owner("job", &jobs, &builds));
    let is_done = |job: &&Value| owners(job).any(|owner| done.contains(owner));
    over.extend(
        jobs.iter()
            .filter(is_done)
            .map(|job| format!("job {} of a build that is done", name(job))),
    );
    for kind in SERVING {
        let mut all = world.all(&in_namespace(kind));
        all.retain(|object| {
            let label = "machineconfiguration.openshift.io/ephemeral-build-object";
            !object["metadata"]["labels"][label].is_null()
        });
        over.extend(without_owner(kind, &all, &jobs));
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
    owners
        .into_iter()
        .flatten()
        .map(|owner| text(&owner["uid"]))
}

fn uid(object: &Value) -> &str {
    text(&object["metadata"]["uid"])
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

/// The UID of a Job's build, and which attempt at that it is.
pub fn attempt(job: &Value) -> (String, String) {
    let attempt = &job["metadata"]["annotations"]["mosb.dev/attempt"];
    let build = owners(job).next().unwrap_or_default();
    (build.to_owned(), text(attempt).to_owned())
}

/// But for one that somebody deleted before its build knew of it.
#[track_caller]
pub fn no_attempt_had_two_jobs(
    world: &World,
    pool: &str,
    deleted: &BTreeSet<(String, String)>,
) -> usize {
    let mut attempts = BTreeSet::new();
    let jobs = world.proxy.created(pool, "jobs");
    for job in &jobs {
        let attempt = attempt(job);
        let is_known = deleted.contains(&attempt);
        assert!(
            attempts.insert(attempt) || is_known,
            "{pool}: a second Job: {:#}\n{:#?}",
            job["metadata"],
            world.proxy.written(pool)
        );
    }
    jobs.len()
}
