//! Writes that the cluster refuses for good, as a policy or a quota does: the MachineOSConfig says so and stays as it is, nothing
//! is tried without end, and when they are allowed again all goes on where it was.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fault_stories::story::{Pool, Seen};
use crate::fault_world::{World, condition, ends, ours, text, world};
use mosb_tests::wait;

const SOON: Duration = Duration::from_secs(60);
/// For how long nothing may happen, which is longer than the first three waits of a write that is refused.
const STILL: Duration = Duration::from_secs(20);
/// Those three, and as many that were woken by what was written before.
const TRIES: usize = 10;

const STATUS: &str = "refused-status";
/// What is refused of each pool.
const REFUSED: [(&str, &str); 3] =
    [(STATUS, "machineconfigpools"), ("refused-job", "jobs"), ("alone-refused-pod", "pods")];
const SAID: &str = "not while this test runs";

/// A policy like those of a cluster's administrators.
fn forbid(world: &World) {
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
            "validations": [{ "expression": format!("!({})", is_meant.join(" || ")), "message": SAID, "reason": "Forbidden" }] } });
    let binding = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "refused" }, "spec": { "policyName": "refused", "validationActions": ["Deny"] } });
    for (object, of) in [(&policy, "policies"), (&binding, "policybindings")] {
        world.make(&format!("{ADMISSION}/validatingadmission{of}"), object);
    }
    until_it_is(world, 403);
}

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

fn allow(world: &World) {
    for of in ["policybindings", "policies"] {
        world.delete(&format!("{ADMISSION}/validatingadmission{of}/refused"));
    }
    until_it_is(world, 200);
}

/// The API server takes a policy into account a little later.
fn until_it_is(world: &World, code: u16) {
    let status = format!("{}/status?dryRun=All", ours("machineconfigpools", STATUS));
    let nothing = json!({ "status": { "readyMachineCount": 7 } });
    wait("what the API server answers", SOON, || {
        let (answered, _) = world.proxy.ask("PATCH", &status, Some(&nothing));
        (answered == code).then_some(())
    });
}

/// What must not change while a write is refused.
#[derive(Debug, PartialEq)]
struct Still {
    config: Value,
    events: usize,
    writes: Vec<String>,
}

impl Still {
    fn of(world: &World, pool: &str) -> Self {
        let events = format!("/api/v1/events?fieldSelector=involvedObject.name={pool}");
        let (_, events) = world.proxy.ask("GET", &events, None);
        Self {
            config: Seen::of(world).pool(pool).config,
            events: events["items"].as_array().unwrap().len(),
            writes: world.proxy.written(pool),
        }
    }
}

fn is_told(pool: &Pool) -> bool {
    condition(&pool.config, "Blocked").is_some_and(|blocked| {
        blocked["reason"] == "Problem" && text(&blocked["message"]).contains(SAID)
    })
}

#[test]
fn a_write_that_is_refused_is_told_and_not_tried_without_end() {
    let world = &*world();
    for (pool, _) in REFUSED {
        world.proxy.follow(pool, &[]);
        world.pool(pool, ends::ONE);
    }
    forbid(world);
    let controller = world.controller();
    let mut ended = BTreeSet::new();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for (pool, _) in REFUSED {
            world.make(&ours("machineosconfigs", ""), &world.config(pool));
        }
        let mut until = |pool: &str, what: &str, fits: &dyn Fn(&Pool) -> bool| {
            wait(&format!("{pool}: {what}"), SOON, || {
                let found = Seen::of(world).pool(pool);
                world.kubelet(&found.runners, &mut ended);
                fits(&found).then_some(())
            });
        };
        for (pool, _) in REFUSED {
            until(pool, "that it is blocked", &is_told);
        }
        // Its image is made and in service all the same; that its pool does not say so still stands there.
        until(STATUS, "its image", &|pool| {
            let image = text(&pool.config["status"]["currentImagePullSpec"]);
            image.ends_with(&world.images[0]) && pool.runners.is_empty() && is_told(pool)
        });

        let before = REFUSED.map(|(pool, _)| Still::of(world, pool));
        sleep(STILL);
        let after = REFUSED.map(|(pool, _)| Still::of(world, pool));
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after);
        }
        let said = controller.said();
        for (pool, _) in REFUSED {
            let begins = format!("warning: {pool}: ");
            let tries =
                said.lines().filter(|line| line.starts_with(&begins) && line.contains(SAID));
            let tries = tries.count();
            assert!((2..=TRIES).contains(&tries), "{pool}: {tries}");
        }

        allow(world);
        for (pool, _) in REFUSED {
            // It would be tried again within two minutes; news end the wait.
            let news = json!({ "metadata": { "annotations": { "somebody": "mended it" } } });
            world.change(&ours("machineosconfigs", pool), &news);
            until(pool, "its image", &|pool| {
                pool.serves(ends::ONE) && condition(&pool.config, "Blocked").is_none()
            });
            assert_eq!(Seen::of(world).pool(pool).builds.len(), 1, "{pool}");
        }
    }));
    if let Err(why) = outcome {
        println!("the controller said:\n{}", controller.said());
        std::panic::resume_unwind(why);
    }
}
