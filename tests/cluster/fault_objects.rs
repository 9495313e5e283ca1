//! Invalid objects. Each one gets a condition whose message names the remedy, and other pools are
//! not affected.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fault_cluster::{FaultCluster, cluster, condition, ends, in_namespace, ours, text};
use crate::fault_stories::story::{Pool, Seen};
use mosb_tests::wait;

/// A controller's start and its lookups, on a busy machine.
const SOON: Duration = Duration::from_secs(180);

pub struct Hostile<'w> {
    pub cluster: &'w FaultCluster,
    pub ended: BTreeSet<String>,
}

impl Hostile<'_> {
    /// Creates a pool with the rendered config of this number, and a MachineOSConfig for it.
    pub fn opt_in(&self, pool: &str, number: u32, change: impl FnOnce(&mut Value)) {
        self.cluster.pool(pool, number);
        self.ask(pool, change);
    }

    fn ask(&self, pool: &str, change: impl FnOnce(&mut Value)) {
        let mut config = self.cluster.config(pool);
        change(&mut config);
        self.cluster.make(&ours("machineosconfigs", ""), &config);
    }

    /// Waits until the pool matches `fits`. Its Jobs finish only if `ends` is set.
    #[track_caller]
    pub fn until(
        &mut self,
        pool: &str,
        ends: bool,
        what: &str,
        fits: impl Fn(&Pool) -> bool,
    ) -> Pool {
        let mut last = Value::Null;
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait(what, SOON, || {
                let found = Seen::of(self.cluster).pool(pool);
                if ends {
                    self.cluster.kubelet(&found.runners, &mut self.ended);
                }
                last = found.config.clone();
                fits(&found).then_some(found)
            })
        }));
        found.unwrap_or_else(|_| panic!("{pool}: {what}: {last:#}"))
    }

    /// Waits until a MachineOSConfig is blocked for this reason with a message that contains all
    /// words.
    #[track_caller]
    pub fn is_blocked(&mut self, config: &str, reason: &str, words: &[&str]) -> Pool {
        let matches = |pool: &Pool| {
            condition(&pool.config, "Blocked").is_some_and(|one| {
                let message = text(&one["message"]);
                one["reason"] == reason && words.iter().all(|word| message.contains(word))
            })
        };
        self.until(config, false, &format!("{reason} {words:?}"), matches)
    }

    /// Waits until the pool's image is in service and the Blocked condition, which is removed last,
    /// is false.
    #[track_caller]
    pub fn serves(&mut self, pool: &str) -> Pool {
        let is_free = |pool: &Pool| condition(&pool.config, "Blocked").is_none();
        let fits = |pool: &Pool| pool.serves(ends::ONE) && is_free(pool);
        self.until(pool, true, "its image", fits)
    }

    /// Replaces a Secret by one of type Opaque.
    fn make_opaque(&self, name: &str) {
        self.cluster.delete(&format!("{}/{name}", in_namespace("secrets")));
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": { "name": name }, "stringData": { "password": "x" } });
        self.cluster.make(&in_namespace("secrets"), &secret);
    }

    fn make_good(&self, name: &str) {
        self.cluster.delete(&format!("{}/{name}", in_namespace("secrets")));
        self.cluster.make(&in_namespace("secrets"), &self.cluster.secret(name));
    }
}

#[test]
fn each_hostile_object_ends_in_a_condition() {
    let cluster = &*cluster();
    let controller = cluster.controller();
    let mut hostile = Hostile { cluster, ended: BTreeSet::new() };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pools_and_configs(&mut hostile);
        secrets(&mut hostile);
        refused_questions(&mut hostile);
        rendered_configs(&mut hostile);
        long_names(&mut hostile);
        // A valid pool is not affected by the invalid objects.
        hostile.opt_in("hostile-none", ends::ONE, |_| {});
        hostile.serves("hostile-none");
    }));
    if let Err(why) = outcome {
        println!("log of the controller:\n{}", controller.log());
        std::panic::resume_unwind(why);
    }
    assert!(!controller.log().contains("panicked"), "{}", controller.log());
}

fn pools_and_configs(hostile: &mut Hostile<'_>) {
    let cluster = hostile.cluster;
    hostile.ask("hostile-missing", |_| {});
    hostile.is_blocked("hostile-missing", "NoPool", &["hostile-missing"]);

    // The CRD allows only one MachineOSConfig for each pool, but a second one may be older than
    // that rule.
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/machineosconfigs.machineconfiguration.openshift.io";
    let (_, strict) = cluster.proxy.api().ask("GET", crd, None);
    let mut lenient = strict["spec"]["versions"].clone();
    let schema = lenient[0]["schema"]["openAPIV3Schema"].as_object_mut();
    schema.unwrap().remove("x-kubernetes-validations");
    cluster.change(crd, &json!({ "spec": { "versions": lenient } }));
    cluster.pool("hostile-two", ends::ONE);
    let mut second = cluster.config("hostile-two");
    second["metadata"]["name"] = json!("hostile-second");
    wait("the second one", SOON, || {
        let collection = ours("machineosconfigs", "");
        let (code, _) = cluster.proxy.api().ask("POST", &collection, Some(&second));
        (code == 201).then_some(())
    });
    cluster.change(crd, &json!({ "spec": { "versions": strict["spec"]["versions"] } }));
    hostile.ask("hostile-two", |_| {});
    hostile.is_blocked("hostile-second", "Rivals", &["hostile-two"]);
    hostile.serves("hostile-two");

    // A pool that is deleted during its build.
    hostile.opt_in("hostile-deleted", ends::NEVER, |_| {});
    hostile.until("hostile-deleted", false, "a Job that runs", Pool::runs);
    cluster.delete(&ours("machineconfigpools", "hostile-deleted"));
    hostile.is_blocked("hostile-deleted", "NoPool", &["hostile-deleted"]);
    let is_over = |pool: &Pool| pool.builds.is_empty() && pool.runners.is_empty();
    hostile.until("hostile-deleted", false, "nothing that is built", is_over);

    // The maximum number of Containerfiles: the build uses the one for the architecture of the
    // machines.
    let of = |arch: &str| json!({ "containerfileArch": arch, "content": format!("FROM configs AS final\nRUN echo {arch}\n") });
    hostile.opt_in("hostile-four", ends::ONE, |config| {
        config["spec"]["containerFile"] = ["ARM64", "AMD64", "PPC64LE", "S390X"].map(of).into();
    });
    hostile.until("hostile-four", false, "a Job that runs", Pool::runs);
    let maps = cluster.all(&in_namespace("configmaps"));
    let has = |map: &Value, word: &str| {
        text(&map["metadata"]["name"]).contains("hostile-four")
            && map["data"].to_string().contains(word)
    };
    assert!(maps.iter().any(|map| has(map, "echo AMD64")), "{maps:#?}");
    assert!(!maps.iter().any(|map| has(map, "echo ARM64")));
    hostile.serves("hostile-four");
}

fn secrets(hostile: &mut Hostile<'_>) {
    hostile.make_opaque("opaque");
    hostile.opt_in("hostile-secret", ends::ONE, |config| {
        config["spec"]["renderedImagePushSecret"]["name"] = json!("opaque");
    });
    hostile.is_blocked("hostile-secret", "InvalidInput", &["secret opaque", "Opaque"]);
    hostile.make_good("opaque");
    hostile.serves("hostile-secret");

    // The Secret is changed during the build: first to an unusable one, then back.
    hostile.make_good("rotated");
    hostile.opt_in("hostile-rotated", ends::ONE, |config| {
        config["spec"]["renderedImagePushSecret"]["name"] = json!("rotated");
    });
    hostile.until("hostile-rotated", false, "a Job that runs", Pool::runs);
    hostile.make_opaque("rotated");
    let has_condition = |pool: &Pool| condition(&pool.config, "Blocked").is_some();
    let blocked = hostile.until("hostile-rotated", true, "a condition", has_condition);
    let message = condition(&blocked.config, "Blocked").unwrap()["message"].to_string();
    assert!(message.contains("rotated"), "{message}");
    hostile.make_good("rotated");
    let served = hostile.serves("hostile-rotated");
    assert_eq!(served.builds.len(), 1, "it is not built again");
}

/// A registry refuses to report whether it has the image in a status. That does not mean that the
/// image is missing.
fn refused_questions(hostile: &mut Hostile<'_>) {
    const POOL: &str = "hostile-refused";
    let cluster = hostile.cluster;
    hostile.make_good("refused");
    hostile.opt_in(POOL, ends::ONE, |config| {
        config["spec"]["renderedImagePushSecret"]["name"] = json!("refused");
    });
    hostile.serves(POOL);
    cluster.renders(POOL, ends::TWO);
    let second = hostile.until(POOL, true, "its second image", |pool| pool.serves(ends::TWO));
    let uids = |pool: &Pool| -> BTreeSet<String> {
        let builds = pool.builds.iter();
        builds.map(|build| text(&build["metadata"]["uid"]).to_owned()).collect()
    };

    let mut wrong = cluster.secret("refused");
    let logins = text(&wrong["stringData"][".dockerconfigjson"]);
    let logins = logins.replace("\"auth\":\"", "\"auth\":\"eDp4");
    wrong["stringData"][".dockerconfigjson"] = json!(logins);
    let secret = format!("{}/refused", in_namespace("secrets"));
    cluster.change(&secret, &json!({ "stringData": wrong["stringData"] }));
    let first = format!("rendered-{POOL}-{:032x}", ends::ONE);
    let back = json!({ "spec": { "configuration": { "name": first } } });
    cluster.change(&ours("machineconfigpools", POOL), &back);
    let words = ["the registry refused it (401", "it is unknown whether the image exists"];
    let blocked = hostile.is_blocked(POOL, "Rejected", &words);
    assert_eq!(uids(&blocked), uids(&second), "nothing is deleted or built");
    let in_service = |pool: &Pool| pool.config["status"]["currentImagePullSpec"].clone();
    assert_eq!(in_service(&blocked), in_service(&second));

    hostile.make_good("refused");
    let served = hostile.serves(POOL);
    assert_eq!(uids(&served), uids(&second), "taken again, not built again");
}

fn rendered_configs(hostile: &mut Hostile<'_>) {
    let cluster = hostile.cluster;
    hostile.opt_in("hostile-broken", ends::NEVER, |_| {});
    hostile.until("hostile-broken", false, "a Job that runs", Pool::runs);
    let name = "rendered-hostile-broken-00000000000000000000000000000bad";
    cluster.wants("hostile-broken", name, &json!({ "ignition": { "version": "9.9.9" } }));
    hostile.is_blocked("hostile-broken", "InvalidInput", &[name, "9.9.9"]);
    let is_over = |pool: &Pool| pool.runners.is_empty();
    hostile.until("hostile-broken", false, "no Job for the superseded config", is_over);
    cluster.renders("hostile-broken", ends::ONE);
    hostile.serves("hostile-broken");

    hostile.opt_in("hostile-gone", ends::ONE, |_| {});
    hostile.serves("hostile-gone");
    let missing = "rendered-hostile-gone-0000000000000000000000000000dead";
    let wants = json!({ "spec": { "configuration": { "name": missing } } });
    cluster.change(&ours("machineconfigpools", "hostile-gone"), &wants);
    let blocked = hostile.is_blocked("hostile-gone", "Problem", &[missing]);
    let image = text(&blocked.config["status"]["currentImagePullSpec"]);
    assert!(image.contains("sha256"), "the one before is in service");
}

fn long_names(hostile: &mut Hostile<'_>) {
    // The name of its rendered config has 253 characters.
    let long = format!("hostile-{}", "l".repeat(203));
    hostile.opt_in(&long, ends::ONE, |_| {});
    hostile.serves(&long);
}
