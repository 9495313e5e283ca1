//! Writes that the cluster rejects permanently, as an admission policy or a quota does. The
//! MachineOSConfig reports the rejection and does not change again, retries are limited, and the
//! controller continues once the writes are allowed.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fault_cluster::{FaultCluster, cluster, condition, ends, ours, text};
use crate::fault_stories::story::{Pool, Seen};
use mosb_tests::wait;

/// A controller's start and its lookups, on a busy machine.
const SOON: Duration = Duration::from_secs(180);
/// For this long nothing may change. It is longer than the first three retry delays of a rejected
/// write.
const STILL: Duration = Duration::from_secs(20);
/// The most attempts at a write: the three retries, and those that earlier changes triggered.
const TRIES: usize = 10;

const STATUS: &str = "refused-status";
/// The resource that the policy protects, for each pool.
const REFUSED: [(&str, &str); 3] =
    [(STATUS, "machineconfigpools"), ("refused-job", "jobs"), ("alone-refused-pod", "pods")];
const POLICY_MESSAGE: &str = "not while this test runs";

/// Creates an admission policy like those of cluster administrators.
fn forbid(cluster: &FaultCluster) {
    let resources = json!([
        { "apiGroups": ["machineconfiguration.openshift.io"], "apiVersions": ["v1"],
          "operations": ["UPDATE"], "resources": ["machineconfigpools/status"] },
        { "apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"] },
        { "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] },
    ]);
    let is_meant = REFUSED.map(|(pool, kind)| {
        format!(
            "(request.resource.resource == '{kind}' && object.metadata.name.contains('{pool}'))"
        )
    });
    let policy = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "refused" },
        "spec": { "matchConstraints": { "resourceRules": resources },
            "validations": [{ "expression": format!("!({})", is_meant.join(" || ")), "message": POLICY_MESSAGE, "reason": "Forbidden" }] } });
    let binding = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "refused" }, "spec": { "policyName": "refused", "validationActions": ["Deny"] } });
    for (object, of) in [(&policy, "policies"), (&binding, "policybindings")] {
        cluster.make(&format!("{ADMISSION}/validatingadmission{of}"), object);
    }
    until_it_is(cluster, 403);
}

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

fn allow(cluster: &FaultCluster) {
    for of in ["policybindings", "policies"] {
        cluster.delete(&format!("{ADMISSION}/validatingadmission{of}/refused"));
    }
    until_it_is(cluster, 200);
}

/// Waits until the API server applies the policy, which takes effect after a delay.
fn until_it_is(cluster: &FaultCluster, code: u16) {
    let status = format!("{}/status?dryRun=All", ours("machineconfigpools", STATUS));
    let nothing = json!({ "status": { "readyMachineCount": 7 } });
    wait("what the API server answers", SOON, || {
        let (answered, _) = cluster.proxy.api().ask("PATCH", &status, Some(&nothing));
        (answered == code).then_some(())
    });
}

/// The state that must not change while a write is rejected.
#[derive(Debug, PartialEq)]
struct Still {
    config: Value,
    events: usize,
    writes: Vec<String>,
}

impl Still {
    fn of(cluster: &FaultCluster, pool: &str) -> Self {
        let events = format!("/api/v1/events?fieldSelector=involvedObject.name={pool}");
        let (_, events) = cluster.proxy.api().ask("GET", &events, None);
        Self {
            config: Seen::of(cluster).pool(pool).config,
            events: events["items"].as_array().unwrap().len(),
            writes: cluster.proxy.written(pool),
        }
    }
}

fn is_reported(pool: &Pool) -> bool {
    condition(&pool.config, "Blocked").is_some_and(|blocked| {
        blocked["reason"] == "Rejected" && text(&blocked["message"]).contains(POLICY_MESSAGE)
    })
}

#[test]
fn a_rejected_write_is_reported_and_pauses() {
    let cluster = &*cluster();
    for (pool, _) in REFUSED {
        cluster.proxy.follow(pool, &[]);
        cluster.pool(pool, ends::ONE);
    }
    forbid(cluster);
    let controller = cluster.controller();
    let mut ended = BTreeSet::new();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for (pool, _) in REFUSED {
            cluster.make(&ours("machineosconfigs", ""), &cluster.config(pool));
        }
        let mut until = |pool: &str, what: &str, fits: &dyn Fn(&Pool) -> bool| {
            wait(&format!("{pool}: {what}"), SOON, || {
                let found = Seen::of(cluster).pool(pool);
                cluster.kubelet(&found.runners, &mut ended);
                fits(&found).then_some(())
            });
        };
        for (pool, _) in REFUSED {
            until(pool, "that it is blocked", &is_reported);
        }
        // The image is built and in service although the pool's status cannot report it. The
        // MachineOSConfig still reports the rejected write.
        until(STATUS, "its image", &|pool| {
            let image = text(&pool.config["status"]["currentImagePullSpec"]);
            image.ends_with(&cluster.images[0]) && pool.runners.is_empty() && is_reported(pool)
        });

        let all = || REFUSED.map(|(pool, _)| Still::of(cluster, pool));
        // The last event of a rejected write follows its condition.
        let before = wait("that nothing more is written", SOON, || {
            let before = all();
            sleep(Duration::from_secs(2));
            (all() == before).then_some(before)
        });
        sleep(STILL);
        let after = all();
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after);
        }
        let log = controller.log();
        for (pool, _) in REFUSED {
            let begins = format!("warning: {pool}: ");
            let tries = log
                .lines()
                .filter(|line| line.starts_with(&begins) && line.contains(POLICY_MESSAGE));
            let tries = tries.count();
            assert!((2..=TRIES).contains(&tries), "{pool}: {tries}");
        }

        allow(cluster);
        for (pool, _) in REFUSED {
            // The next retry is up to two minutes away; a change of the object ends the wait.
            let news = json!({ "metadata": { "annotations": { "somebody": "mended it" } } });
            cluster.change(&ours("machineosconfigs", pool), &news);
            until(pool, "its image", &|pool| {
                pool.serves(ends::ONE) && condition(&pool.config, "Blocked").is_none()
            });
            assert_eq!(Seen::of(cluster).pool(pool).builds.len(), 1, "{pool}");
        }
    }));
    if let Err(why) = outcome {
        println!("log of the controller:\n{}", controller.log());
        std::panic::resume_unwind(why);
    }
}
