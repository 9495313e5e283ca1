//! The controller on a real node, with builds that are Pods of their own.

use serde_json::json;

use crate::test_cluster::{Cluster, FAILS, state};

const SLOW: &str = "FROM configs AS final\nRUN sleep 6; echo ran > /etc/ran\n";

/// The same story as with Jobs, and never a Job.
#[test]
fn images_are_built_without_a_job() {
    let mut cluster = Cluster::new("pods");
    let pool = cluster.pool.clone();
    cluster.render("one");
    cluster.opt_in_by("custom-pod-builder", None);
    cluster.start();

    // Directly.
    let first = cluster.image_after("");
    assert_eq!(cluster.file(&first, "/etc/story"), "one");
    let build = cluster.current();
    let name = build["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(build["status"]["builder"], json!({ "imageBuilderType": "custom-pod-builder" }));
    let (start, end) = (&build["status"]["buildStart"], &build["status"]["buildEnd"]);
    assert!(start.as_str() < end.as_str(), "{start} {end}");
    cluster.nothing_is_left_of(&name);

    // With instructions; its Pod is evicted, then deleted, and the image comes all the same.
    cluster.opt_in(Some(SLOW));
    let build = cluster.building();
    let uid = |cluster: &Cluster| {
        let pod = cluster.namespace.find(&format!("pod/build-{build}"))?;
        let going = pod["metadata"]["deletionTimestamp"].is_string();
        (!going).then(|| pod["metadata"]["uid"].as_str().unwrap().to_owned())
    };
    let before = uid(&cluster).expect("the Pod that runs");
    cluster.evict(&build);
    cluster.another(|| uid(&cluster), &before);
    assert_eq!(cluster.building(), build);
    let before = uid(&cluster).expect("the Pod that runs");
    let pod = format!("build-{build}");
    cluster.namespace.kubectl(&["delete", "pod", &pod, "--wait=false"]).ok();
    cluster.another(|| uid(&cluster), &before);
    let second = cluster.image_after(&first);
    assert_eq!(cluster.file(&second, "/etc/ran"), "ran\n");
    cluster.nothing_is_left_of(&build);

    // Which can fail; its Pod stays.
    cluster.opt_in(Some(FAILS));
    cluster.wait_for_pool_condition("BuildFailed");
    let failed = cluster.current();
    assert_eq!(state(&failed), "Failed");
    let message = cluster.message(&failed, "Failed");
    assert!(message.contains("what went wrong"), "{message}");
    let logs = cluster.mosb(&["logs", &pool]).ok().text();
    assert!(logs.contains("what went wrong"), "{logs}");

    // Nobody wants images any more.
    let name = failed["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.node.kubectl(&["delete", "machineosconfig", &pool, "--wait=false"]).ok();
    cluster.wait_deleted(&format!("machineosconfig/{pool}"));
    cluster.wait_deleted(&format!("machineosbuild/{name}"));
    cluster.nothing_is_left_of(&name);
    let created = cluster.log().matches("creating job ").count();
    assert_eq!(created, 0, "a Job was made");
}
