//! Between a build and its service, on a real API server: approval, checks, also own ones, an
//! override, a rejection.

use serde_json::{Value, json};

use crate::test_cluster::{BUILD, Cluster, SOON};
use mosb_tests::wait;

/// Status, reason and message of a condition of the pool's MachineOSConfig.
fn condition(cluster: &Cluster, kind: &str) -> Option<(String, String, String)> {
    let config = cluster.config();
    let conditions = config["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|one| one["type"] == kind)?;
    let text = |key: &str| found[key].as_str().unwrap().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

#[track_caller]
pub fn wait_condition(cluster: &Cluster, kind: &str, status: &str, reason: &str) -> String {
    wait(&format!("{kind} {status} {reason}"), SOON, || {
        let (is, why, message) = condition(cluster, kind)?;
        (is == status && why == reason).then_some(message)
    })
}

pub fn annotate(cluster: &Cluster, key: &str, value: &str) {
    let change = json!({ "metadata": { "annotations": { key: value } } });
    cluster.patch(&format!("machineosconfig/{}", cluster.pool), &change);
}

fn in_service(cluster: &Cluster) -> String {
    cluster.config()["status"]["currentImagePullSpec"].as_str().unwrap_or_default().to_owned()
}

/// The stages that `mosb builds` shows, the newest first.
fn stages(cluster: &Cluster) -> Vec<Value> {
    let list = cluster.mosb(&["builds", &cluster.pool, "-o", "json"]).ok().json();
    list["builds"].as_array().unwrap().iter().map(|build| build["stage"].clone()).collect()
}

#[test]
fn image_passes_checks_and_approval_before_service() {
    let mut cluster = Cluster::new("promotion");
    let pool = cluster.pool.clone();
    let rendered = cluster.render("one");
    cluster.opt_in(None);
    annotate(&cluster, "mosb.dev/promote", "manual");
    cluster.start();

    // It is built, and awaits approval.
    cluster.wait_status("awaiting-approval");
    assert_eq!(in_service(&cluster), "");
    let message = wait_condition(&cluster, "ImageInService", "False", "AwaitingApproval");
    assert!(message.contains(&format!("mosb approve {pool} ")), "{message}");
    assert_eq!(cluster.mosb(&["wait", &pool, "--timeout", "30s"]).code(), Some(2));
    let table = cluster.node.kubectl(&["get", "machineosbuilds"]).ok().text();
    assert!(table.contains("STAGE") && table.contains("checked"), "{table}");
    assert_eq!(stages(&cluster), ["checked"]);
    cluster.assert_events(&[("MachineOSConfig", "ImageHeld")]);
    let wrong = format!("{}@sha256:{}", message.split('@').next().unwrap(), "0".repeat(64));
    let refused = cluster.mosb(&["approve", &pool, &wrong]);
    assert_eq!(refused.code(), Some(2), "{refused:?}");
    let approved = cluster.mosb(&["approve", &pool, "--reason", "CHG-1", "-o", "json"]).ok().json();
    let first = cluster.image_after("");
    let digest = first.split('@').nth(1).unwrap();
    assert!(approved["build"].as_str().unwrap().ends_with(digest), "{approved}");
    let decisions = cluster.config()["metadata"]["annotations"]["mosb.dev/approvals"].to_string();
    let by = approved["by"].as_str().unwrap();
    assert!(!by.is_empty() && decisions.contains(by) && decisions.contains("CHG-1"), "{decisions}");
    wait_condition(&cluster, "ImageInService", "True", "InService");
    wait("its stage", SOON, || (stages(&cluster) == ["in-service"]).then_some(()));

    // A check keeps the next one out, also after a restart, until it is overridden; then it awaits
    // approval, too. No machine boots the base of the tests.
    annotate(&cluster, "mosb.dev/checks", "bootable=block");
    cluster.render("two");
    cluster.wait_status("checks-failed");
    let message = wait_condition(&cluster, "ImageChecked", "False", "ChecksFailed");
    assert!(message.contains("bootable"), "{message}");
    cluster.stop();
    cluster.start();
    cluster.wait_status("checks-failed");
    assert_eq!(in_service(&cluster), first);
    let digest = message.split(['@', ':']).nth(2).unwrap();
    annotate(&cluster, "mosb.dev/override-check", &format!("bootable@sha256:{digest}"));
    wait_condition(&cluster, "ImageChecked", "True", "Overridden");
    cluster.wait_status("awaiting-approval");
    cluster.mosb(&["approve", &pool]).ok();
    let second = cluster.image_after(&first);
    assert!(second.contains(digest), "{second}");

    // A rejected one stays out; what was in service needs no approval.
    annotate(&cluster, "mosb.dev/checks", "bootable=off");
    cluster.render("three");
    cluster.wait_status("awaiting-approval");
    cluster.mosb(&["reject", &pool, "--reason", "it loops"]).ok();
    let message = wait_condition(&cluster, "ImageInService", "False", "ImageRejected");
    assert!(message.contains("it loops"), "{message}");
    annotate(&cluster, "mosb.dev/promote", "automatic");
    cluster.wait_status("image-rejected");
    assert_eq!(in_service(&cluster), second);
    annotate(&cluster, "mosb.dev/promote", "manual");
    cluster.wants(&rendered);
    assert_eq!(cluster.image_after(&second), first);
    let refused = cluster.mosb(&["reject", &pool]);
    assert_eq!(refused.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("is in service"), "{refused:?}");
}

/// A check of the pool's own that looks for a file in the image itself.
fn own_check(file: &str) -> Value {
    let script = format!(
        "id -u; test ! -e /var/run/secrets/kubernetes.io || exit 9; echo \"looking in $IMAGE\"; cat {file}"
    );
    json!({ "checks": { "own": { "lint": {
        "command": ["/bin/sh", "-c", script, "lint", "$(IMAGE)"], "activeDeadlineSeconds": 300 } } } })
}

fn check_jobs(cluster: &Cluster) -> Vec<Value> {
    cluster.namespace.list_labelled("jobs", "mosb.dev/check=lint")
}

#[test]
fn own_check_in_image_decides_about_service() {
    let mut cluster = Cluster::new("own-check");
    let pool = cluster.pool.clone();
    cluster.settings_with(&own_check("/etc/story"));
    cluster.render("one");
    cluster.opt_in(None);
    cluster.start();
    let first = cluster.image_after("");
    wait("the end of its Job", SOON, || check_jobs(&cluster).is_empty().then_some(()));
    let log = cluster.mosb(&["logs", &pool]).ok().text();
    let digest = first.split('@').nth(1).unwrap();
    for line in ["65532\n", &format!("@{digest}\n"), "one"] {
        assert!(log.contains(line), "{line}: {log}");
    }

    // The controller is away when the Job of the next one ends.
    cluster.settings_with(&own_check("/etc/no-such-file"));
    cluster.render("two");
    wait("its Job", BUILD, || (!check_jobs(&cluster).is_empty()).then_some(()));
    assert_eq!(stages(&cluster)[0], "checking");
    cluster.stop();
    wait("the end of its Job", BUILD, || {
        check_jobs(&cluster)[0]["status"]["failed"].as_u64().filter(|failed| *failed == 1)
    });
    cluster.start();
    cluster.wait_status("checks-failed");
    let message = wait_condition(&cluster, "ImageChecked", "False", "ChecksFailed");
    for part in ["lint: it ended with exit code 1", "/etc/no-such-file"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(in_service(&cluster), first);
    wait("the end of its Job", SOON, || check_jobs(&cluster).is_empty().then_some(()));
    let log = cluster.mosb(&["logs", &pool]).ok().text();
    assert!(log.contains("no-such-file"), "{log}");

    let held = wait_condition(&cluster, "ImageInService", "False", "ChecksFailed");
    let (_, overridden) = held.split_once("mosb.dev/override-check=").unwrap();
    annotate(&cluster, "mosb.dev/override-check", overridden);
    let second = cluster.image_after(&first);
    assert!(overridden.contains(second.split('@').nth(1).unwrap()), "{second} {overridden}");
    wait_condition(&cluster, "ImageChecked", "True", "Overridden");
    assert!(check_jobs(&cluster).is_empty(), "it is not made again");
}
