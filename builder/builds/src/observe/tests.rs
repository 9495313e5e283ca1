use super::*;
use crate::snapshot::SeenComponent;
use kube::api::ObjectMeta;
use mosb_api::MachineOsConfig;
use mosb_cluster::cluster_cache::{ManagedObject, SeenNode};
use mosb_cluster::cluster_names::OTHER_BUILDER;
use mosb_reconcile::watch::WatchState;
use mosb_workload::{BuildNodes, MachineRole};
use serde_json::{Value, json};

fn fill<T: serde::de::DeserializeOwned + PartialEq>(
    store: &mosb_cluster::cluster_cache::IndexedStore<T>,
    objects: Vec<Value>,
) {
    store.replace(objects.into_iter().map(|value| {
        let name = value["metadata"]["name"].as_str().unwrap().to_owned();
        (name, serde_json::from_value(value).unwrap())
    }));
}

fn config(name: &str, pool: &str) -> Value {
    json!({ "metadata": { "name": name, "uid": format!("uid-{name}") }, "spec": {
        "machineConfigPool": { "name": pool }, "renderedImagePushSecret": { "name": format!("push-{name}") } } })
}

fn pool(name: &str, node_role: &str, labels: Value) -> Value {
    json!({ "metadata": { "name": name, "labels": labels }, "spec": {
        "configuration": { "name": format!("rendered-{name}") },
        "nodeSelector": { "matchLabels": { node_role: "" } } } })
}

fn cache() -> ClusterCache {
    let cache = ClusterCache::empty("mosb");
    fill::<MachineOsConfig>(
        &cache.configs,
        vec![config("worker", "worker"), config("old", "worker"), config("infra", "infra")],
    );
    fill(
        &cache.pools,
        vec![
            pool("worker", "worker", json!({})),
            pool("infra", "infra", json!({})),
            pool("edge", "edge", json!({ labels::LAYERING_ENABLED: "" })),
        ],
    );
    cache
}

#[test]
fn a_change_wakes_those_whom_it_concerns() {
    let cache = cache();
    let settings =
        json!({ "proxy": { "httpProxy": "http://proxy.example:3128", "secret": "proxy" } });
    let map = json!({ "metadata": { "name": "mosb-config" }, "data": { "config.yaml": settings.to_string() } });
    fill(&cache.settings["mosb-config"], vec![map]);
    let text = str::to_owned;
    for (what, cause, want) in [
        ("nobody", Trigger::Unrelated, &[][..]),
        ("what serves one", Trigger::ManagedObject(text("worker")), &["worker"]),
        ("a rival too", Trigger::Config(text("worker"), text("worker")), &["old", "worker"]),
        ("one that is gone", Trigger::Config(text("gone"), text("edge")), &["gone"]),
        ("a pool", Trigger::Pool(text("infra")), &["infra"]),
        ("a pool without a config", Trigger::Pool(text("edge")), &["edge"]),
        (
            "the rendered config of a pool",
            Trigger::MachineConfig(text("rendered-infra"), None),
            &["infra"],
        ),
        ("another MachineConfig", Trigger::MachineConfig(text("99-x"), None), &[]),
        ("a push secret", Trigger::Secret(text("push-infra")), &["infra"]),
        (
            "everybody's pull secret",
            Trigger::Secret(text("global-pull-secret-copy")),
            &["infra", "old", "worker"],
        ),
        ("the proxy's secret", Trigger::Secret(text("proxy")), &["infra", "old", "worker"]),
        ("another secret", Trigger::Secret(text("x")), &[]),
        ("all", Trigger::All, &["edge", "infra", "old", "worker"]),
    ] {
        let woken: Vec<String> = affected_keys(&cache, &cause).into_iter().collect();
        assert_eq!(woken, want, "{what}");
    }
}

/// Component MachineConfigs: name, claim.
fn components(cache: &ClusterCache, components: &[(&str, &str)]) {
    cache.machine_configs.replace(components.iter().map(|(name, claim)| {
        let meta = json!({ "name": name, "uid": name, "resourceVersion": "7", "annotations": {
            labels::PRE_BUILT_IMAGE: format!("image of {name}"), labels::SERVES: claim } });
        ((*name).to_owned(), serde_json::from_value(meta).unwrap())
    }));
}

#[test]
fn a_component_belongs_to_its_pool_and_to_who_claimed_it() {
    let cache = cache();
    let (worker, edge) = ("10-prebuiltimage-osimageurl-worker", "10-prebuildimage-osimageurl-edge");
    components(&cache, &[(worker, ""), (edge, "infra"), ("99-x", "infra")]);
    let seen = |key: &str| {
        let seen = observe(&cache, key, Facts::default()).components;
        let one = |one: SeenComponent| (one.name, one.claim, one.is_wanted, one.is_claim_good);
        seen.into_iter().map(one).collect::<Vec<_>>()
    };
    let of_edge = (edge.to_owned(), Some("infra".to_owned()), false, false);
    assert_eq!(seen("worker"), [(worker.to_owned(), None, true, false)]);
    for key in ["infra", "edge"] {
        assert_eq!(seen(key), std::slice::from_ref(&of_edge), "{key}");
    }
    let claim = Some("infra".to_owned());
    for (name, claim, want) in [(worker, None, &["old", "worker"][..]), (edge, claim, &["infra"])] {
        let woken = affected_keys(&cache, &Trigger::MachineConfig(name.to_owned(), claim));
        assert_eq!(woken.into_iter().collect::<Vec<_>>(), want, "{name}");
    }
    components(&cache, &[(worker, "old")]);
    let seen = observe(&cache, "worker", Facts::default()).components;
    assert!(seen[0].is_claim_good);
}

#[test]
fn a_pool_has_the_pre_built_images_of_all_that_it_was_rendered_from() {
    let cache = cache();
    let mut infra = pool("infra", "infra", json!({}));
    let own = "10-prebuiltimage-osimageurl-infra";
    let inherited = "10-prebuildimage-osimageurl-worker";
    let sources = json!([{ "name": "00-worker" }, { "name": inherited }, { "name": own }]);
    infra["spec"]["configuration"]["source"] = sources;
    fill(&cache.pools, vec![infra]);
    components(&cache, &[("00-worker", ""), (inherited, "worker")]);
    let seen = observe(&cache, "infra", Facts::default());
    assert_eq!(seen.prebuilt, [format!("image of {inherited}")].into());
    assert_eq!(seen.lost_components, [own]);
}

#[test]
fn a_snapshot_holds_what_serves_the_config_and_nothing_else() {
    let cache = cache();
    let ours = |name: &str, config: &str, owner: &str| {
        json!({ "metadata": { "name": name, "uid": format!("uid-{name}"),
            "labels": { labels::EPHEMERAL_BUILD_OBJECT: "", labels::MACHINE_OS_CONFIG: config, labels::MACHINE_OS_BUILD: "worker-b" },
            "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "build-worker-b", "uid": owner, "controller": false }] } })
    };
    fill(
        &cache.builds,
        vec![
            json!({ "metadata": { "name": "worker-b", "uid": "b" }, "spec": { "machineOSConfig": { "name": "worker" } } }),
            json!({ "metadata": { "name": "infra-b", "uid": "c" }, "spec": { "machineOSConfig": { "name": "infra" } } }),
        ],
    );
    fill(
        &cache.jobs,
        vec![
            json!({ "metadata": { "name": "build-worker-b", "uid": "j", "labels": { labels::MACHINE_OS_CONFIG: "worker" } } }),
            json!({ "metadata": { "name": "build-unlabelled", "uid": "k", "ownerReferences": [
                { "apiVersion": "v1", "kind": "MachineOSBuild", "name": "worker-b", "uid": "b", "controller": true }] } }),
            json!({ "metadata": { "name": "build-infra-b", "uid": "l", "labels": { labels::MACHINE_OS_CONFIG: "infra" } } }),
        ],
    );
    fill(
        &cache.pods,
        vec![
            json!({ "metadata": { "name": "p", "labels": { labels::MACHINE_OS_CONFIG: "worker" }, "ownerReferences": [
                { "apiVersion": "batch/v1", "kind": "Job", "name": "build-worker-b", "uid": "j", "controller": true }] } }),
            json!({ "metadata": { "name": "build-worker-c", "uid": "m", "ownerReferences": [
                { "apiVersion": "v1", "kind": "MachineOSBuild", "name": "worker-b", "uid": "b", "controller": true }] } }),
        ],
    );
    let metas = |objects: Vec<Value>| objects.into_iter().map(|o| o["metadata"].clone());
    for (store, objects) in [
        (
            &cache.secrets,
            vec![
                ours("final-worker-b", "worker", "j"),
                json!({ "metadata": { "name": "push-worker" } }),
            ],
        ),
        (&cache.roles, vec![ours("r", "infra", "l")]),
    ] {
        store.replace(metas(objects).map(|meta| {
            let meta: ObjectMeta = serde_json::from_value(meta).unwrap();
            (meta.name.clone().unwrap(), ManagedObject::from(meta))
        }));
    }
    let seen = observe(&cache, "worker", Facts::default());
    assert_eq!(seen.rivals, ["old"]);
    assert_eq!(seen.builds.len(), 1);
    let workloads: Vec<_> =
        seen.workloads.iter().map(|seen| (seen.workload.to_string(), seen.pods.len())).collect();
    assert_eq!(
        workloads,
        [
            ("Job build-unlabelled".to_owned(), 0),
            ("Job build-worker-b".to_owned(), 1),
            ("Pod build-worker-c".to_owned(), 0)
        ]
    );
    let inputs: Vec<_> =
        seen.inputs.iter().map(|input| (input.kind, &*input.name, &*input.workload_uid)).collect();
    assert_eq!(inputs, [(InputKind::Secret, "final-worker-b", "j")]);
    assert_eq!(seen.label, None);
    let edge = observe(&cache, "edge", Facts::default());
    assert_eq!((edge.config.is_none(), edge.label), (true, Some(LabelOptIn::default())));
    // A watch that failed lately may not show pods that exist.
    assert_eq!((seen.broken_watch, seen.workloads[0].quiet), (None, Duration::MAX));
    let broken = WatchState::Broken { listed: true, why: "away".to_owned() };
    cache.watch_health.set("pods", broken, false);
    let seen = observe(&cache, "worker", Facts::default());
    assert_eq!(seen.broken_watch.as_deref(), Some("pods: away"));
    assert!(seen.workloads.iter().all(|one| one.quiet.is_zero()));
}

#[test]
fn a_pool_has_the_platforms_of_its_own_nodes() {
    let cache = cache();
    let node = |roles: &[&str], architecture: &str| {
        let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let fixed = [("kubernetes.io/os", "linux"), ("kubernetes.io/arch", architecture)];
        let roles = roles.iter().map(|role| (*role, ""));
        let labels = fixed.into_iter().chain(roles).map(pair).collect();
        SeenNode { name: String::new(), uid: String::new(), labels }
    };
    cache.nodes.replace([
        ("a".to_owned(), node(&["worker"], "amd64")),
        ("b".to_owned(), node(&["worker", "infra"], "arm64")),
        ("c".to_owned(), node(&[], "s390x")),
        // It counts for both of its pools.
        ("d".to_owned(), node(&["infra", "edge"], "ppc64le")),
    ]);
    for (pool, want) in [
        ("worker", &["linux/amd64"][..]),
        ("infra", &["linux/arm64", "linux/ppc64le"]),
        ("edge", &["linux/ppc64le"]),
    ] {
        let seen = observe(&cache, pool, Facts::default());
        let platforms: Vec<String> = seen.pool_platforms.keys().map(ToString::to_string).collect();
        assert_eq!(platforms, want, "{pool}");
    }
}

/// A pool of this name that selects nodes by this label, seen beside a worker and a control-plane node.
fn build_nodes(pool_name: &str, label: &str, settings: &str) -> (bool, BuildNodes) {
    let cache = ClusterCache::empty("mosb");
    let map = json!({ "metadata": { "name": "mosb-config" }, "data": { "config.yaml": settings } });
    fill(&cache.settings["mosb-config"], vec![map]);
    fill(&cache.pools, vec![pool(pool_name, label, json!({}))]);
    let nodes = [
        ("a", &["node-role.kubernetes.io/worker", "linux"][..]),
        ("b", &["node-role.kubernetes.io/control-plane", "linux", "new"]),
        ("c", &["node-role.kubernetes.io/master", "linux", "old"]),
    ];
    cache.nodes.replace(nodes.map(|(name, labels)| {
        let labels = labels.iter().map(|key| ((*key).to_owned(), String::new()));
        let (name, uid) = (name.to_owned(), name.to_owned());
        let node = SeenNode { name, uid, labels: labels.collect() };
        (node.name.clone(), node)
    }));
    let pool = cache.pools.get(pool_name).unwrap();
    let is_control_plane = nodes::machine_role(&cache, &pool) != MachineRole::Other;
    (is_control_plane, nodes::build_nodes(&cache, &pool))
}

#[test]
fn a_pool_of_control_plane_nodes_is_built_on_them_by_default() {
    let on_them = |exists| (true, BuildNodes::ControlPlane { exists });
    let worker = "node-role.kubernetes.io/worker";
    for (what, pool, label, settings, want) in [
        ("workers", "worker", worker, "", (false, BuildNodes::Any)),
        ("all are", "infra", "new", "", on_them(true)),
        ("all are, by the old label", "infra", "old", "", on_them(true)),
        ("some are", "all", "linux", "", (false, BuildNodes::Any)),
        ("no node", "infra", "none", "", (false, BuildNodes::Any)),
        ("the name", "master", "linux", "", on_them(true)),
        ("the name, and no node", "master", "none", "", on_them(false)),
        ("the name, and only workers", "master", worker, "", on_them(false)),
        (
            "the settings name others",
            "master",
            "new",
            "job: {controlPlane: {nodeSelector: {builders: trusted}}}",
            (true, BuildNodes::Selected([("builders".to_owned(), "trusted".to_owned())].into())),
        ),
        (
            "the settings say any",
            "master",
            "none",
            "job: {controlPlane: {nodeSelector: {}}}",
            (true, BuildNodes::Selected(BTreeMap::new())),
        ),
    ] {
        assert_eq!(build_nodes(pool, label, settings), want, "{what}");
    }
}

#[test]
fn a_pool_of_the_control_plane_uses_its_own_trees() {
    let cache = ClusterCache::empty("mosb");
    fill(
        &cache.pools,
        ["master", "worker", "infra"].map(|name| pool(name, name, json!({}))).into(),
    );
    let push = |text: &str| text.parse::<RepoRef>().unwrap();
    let (own, base) = (push("quay.io/acme/os"), Digest::of(b"base"));
    let control_plane = BuildNodes::ControlPlane { exists: true };
    let trees = [(&BuildNodes::Any, "of a worker"), (&control_plane, "of the control plane")];
    let data = trees.map(|(nodes, tree)| {
        (BaseTreeKey::new(&base, &own, nodes).data_key(), Digest::of(tree.as_bytes()).to_string())
    });
    let data: BTreeMap<_, _> = data.into();
    for (what, with, pool, push, want) in [
        ("workers", &data, "worker", &own, Some("of a worker")),
        ("another pool of workers", &data, "infra", &own, Some("of a worker")),
        ("the control plane", &data, "master", &own, Some("of the control plane")),
        ("another repository", &data, "worker", &push("quay.io/acme/os2"), None),
        (
            "only workers wrote",
            &data
                .clone()
                .into_iter()
                .filter(|(_, tree)| *tree == Digest::of(b"of a worker").to_string())
                .collect(),
            "master",
            &own,
            None,
        ),
    ] {
        let map = json!({ "metadata": { "name": BASE_TREES }, "data": with });
        fill(&cache.settings[BASE_TREES], vec![map]);
        let want = want.map(|tree| push.pinned(Digest::of(tree.as_bytes())));
        assert_eq!(recorded_tree(&cache, pool, push, &base), want, "{what}");
    }
}

#[test]
fn others_are_known_by_what_they_run() {
    let cache = cache();
    assert_eq!(cache.other_builder(), None);
    cache.deployments.replace([(OTHER_BUILDER.to_owned(), 0)]);
    assert_eq!(cache.other_builder(), None, "scaled to nothing");
    cache.deployments.replace([(OTHER_BUILDER.to_owned(), 1), (OPERATOR.to_owned(), 1)]);
    cache.daemon_sets.replace([(DAEMON.to_owned(), ())]);
    let cluster = cluster(&cache, Facts::default());
    assert_eq!(cluster.other_builder.as_deref(), Some("Deployment mosb/machine-os-builder"));
    assert!(cluster.machine_config_operator && cluster.machine_config_daemon);
}
