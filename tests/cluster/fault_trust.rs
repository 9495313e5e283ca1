//! Who may write one thing gets no more by it: a MachineOSConfig's author no other's logins, a
//! build's sidecar no other's result.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::fault_cluster::{
    FaultCluster, M, NAMESPACE, cluster, condition, ends, in_namespace, kubelet, ours, text,
};
use crate::fault_objects::Hostile;
use crate::fault_stories::story::Pool;
use mosb_tests::wait;

/// A controller's start and its lookups, on a busy machine.
const SOON: Duration = Duration::from_secs(180);
const TEAMS: &str = "another-teams-push";

/// A Secret with which the registry can be reached, and two others.
fn of_another_team(cluster: &FaultCluster) -> Value {
    let mut logins = cluster.node.registry().docker_config();
    for host in ["named.test", "elsewhere.test"] {
        logins["auths"][host] = json!({ "auth": STANDARD.encode(format!("{host}:password")) });
    }
    let mut secret = cluster.secret(TEAMS);
    secret["stringData"][".dockerconfigjson"] = json!(logins.to_string());
    secret
}

/// The registries that the pod of a Job may log in to for its pulls.
fn pulls_from(cluster: &FaultCluster, job: &str) -> BTreeSet<String> {
    let name = job.replacen("build-", "base-", 1);
    let (code, secret) =
        cluster.proxy.api().ask("GET", &format!("{}/{name}", in_namespace("secrets")), None);
    assert_eq!(code, 200, "{name}");
    let config = STANDARD.decode(text(&secret["data"][".dockerconfigjson"])).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    config["auths"].as_object().unwrap().keys().cloned().collect()
}

fn with_controller(test: impl FnOnce(&mut Hostile<'_>)) {
    let cluster = &*cluster();
    let controller = cluster.controller();
    let mut hostile = Hostile { cluster, ended: BTreeSet::new() };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&mut hostile)));
    if let Err(why) = outcome {
        println!("log of the controller:\n{}", controller.log());
        std::panic::resume_unwind(why);
    }
}

#[test]
fn a_pool_pulls_with_its_own_secret_only() {
    with_controller(|hostile| {
        let cluster = hostile.cluster;
        let pool = "trust-pulls";
        cluster.make(&in_namespace("secrets"), &of_another_team(cluster));
        hostile.opt_in(pool, ends::ONE, |_| {});
        let served = hostile.serves(pool);
        let image = served.config["status"]["currentImagePullSpec"].clone();

        // As after an upgrade: what is in service stays, though it could not be built any more.
        let names = json!({ "spec": { "baseImagePullSecret": { "name": TEAMS } } });
        cluster.change(&ours("machineosconfigs", pool), &names);
        let is_seen = |pool: &Pool| {
            pool.config["status"]["observedGeneration"] == pool.config["metadata"]["generation"]
        };
        let rested = hostile.until(pool, false, "that it was seen", is_seen);
        assert!(condition(&rested.config, "Blocked").is_none(), "{:#}", rested.config);
        assert_eq!(rested.builds.len(), 1, "nothing is built");

        let content =
            "FROM named.test/tools AS tools\nFROM configs AS final\nCOPY --from=tools /a /b\n";
        let wants = json!({ "spec": { "containerFile": [{ "containerfileArch": "NoArch", "content": content }] } });
        cluster.change(&ours("machineosconfigs", pool), &wants);
        let blocked = hostile.is_blocked(
            pool,
            "InvalidInput",
            &[TEAMS, "mosb.dev/pull-secret=true", "pullSecrets"],
        );
        assert_eq!(blocked.config["status"]["currentImagePullSpec"], image);
        assert_eq!(blocked.builds.len(), 1);

        let is_reported = json!({ "metadata": { "labels": { "mosb.dev/pull-secret": "true" } } });
        cluster.change(&format!("{}/{TEAMS}", in_namespace("secrets")), &is_reported);
        let runs = hostile.until(pool, false, "a Job that runs", Pool::runs);
        let registry = cluster.node.registry().host_port.clone();
        let job = text(&runs.runners[0]["metadata"]["name"]);
        assert_eq!(pulls_from(cluster, job), [registry, "named.test".to_owned()].into());
        hostile.serves(pool);
    });
}

#[test]
fn a_sidecar_speaks_for_its_own_build_alone() {
    with_controller(|hostile| {
        let cluster = hostile.cluster;
        let [forger, victim] = ["trust-forger", "trust-victim"];
        for pool in [forger, victim] {
            hostile.opt_in(pool, ends::NEVER, |_| {});
        }
        let [forging, victims] =
            [forger, victim].map(|pool| hostile.until(pool, false, "a Job that runs", Pool::runs));
        let build = |pool: &Pool| text(&pool.builds[0]["metadata"]["name"]).to_owned();
        let job = &victims.runners[0];
        let name = build(&victims);
        let result = json!({ "jobUid": job["metadata"]["uid"], "build": name, "outcome": "Succeeded",
            "digest": cluster.images[1], "method": "direct" });
        let owner = json!({ "apiVersion": "batch/v1", "kind": "Job", "uid": job["metadata"]["uid"],
            "name": job["metadata"]["name"] });
        let victims_config = json!({ format!("{M}/machine-os-config"): victim });
        let forged = json!({
            "metadata": { "labels": victims_config, "annotations": victims_config },
            "data": { "result.json": result.to_string(), "digest": cluster.images[1] },
        });

        // With exactly what the forger's sidecar has.
        let sidecar = format!("--as=system:serviceaccount:{NAMESPACE}:build-{}", build(&forging));
        let patch = format!("--patch={forged}");
        let patches = |build: &str| {
            let map = format!("configmap/digest-{build}");
            let words = ["patch", &map, "--namespace", NAMESPACE, &sidecar, "--type=merge", &patch];
            cluster.node.kubectl(&words)
        };
        patches(&build(&forging)).ok();
        let refused = patches(&name).stderr;
        assert!(refused.contains("forbidden"), "{refused}");
        // Where the API server does not ask who names an owner, its sidecar may do this, too.
        let owned = json!({ "metadata": { "ownerReferences": [owner] } });
        let map = format!("{}/digest-{}", in_namespace("configmaps"), build(&forging));
        cluster.change(&map, &owned);

        // As any user with the right to create ConfigMaps: with our labels and no owner.
        let labels = json!({ "mosb.dev/result": "", format!("{M}/machine-os-config"): victim,
            format!("{M}/machine-os-build"): name, format!("{M}/on-cluster-layering"): "",
            format!("{M}/ephemeral-build-object"): "" });
        let free = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "forged", "labels": labels },
            "data": forged["data"] });
        cluster.make(&in_namespace("configmaps"), &free);

        // The victim's own end is what counts, and comes after: whatever was believed would have
        // been in service before.
        let runners = kubelet::runners(cluster);
        let is_victims = |uid: &str| job["metadata"]["uid"] == uid;
        let started = kubelet::started_runners(cluster, &runners, is_victims);
        wait("that it ends", SOON, || {
            started[0].ends(cluster, kubelet::End::Made(0)).then_some(())
        });
        let served = hostile.until(victim, false, "its image", |pool| pool.serves(ends::NEVER));
        let conditions = &served.builds[0]["status"];
        assert!(conditions.to_string().contains(&cluster.images[0]), "{conditions:#}");
        assert_eq!(served.builds.len(), 1, "it is not built again");
    });
}
