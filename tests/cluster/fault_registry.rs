//! Registries that refuse, drip or say nothing: what hangs on them waits and says so, and nothing
//! else does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fault_cluster::{API, FaultCluster, cluster, condition, ends, ours, text};
use mosb_tests::{ServerAction, Web, ask, reply, wait};

const SOON: Duration = Duration::from_secs(60);

/// A registry that refuses each request in other words, as those do that number their answers, and
/// by another status, as an answer to HEAD has no words.
fn refusing() -> Web {
    let requests = AtomicUsize::new(0);
    Web::start(move |head, before| {
        let error = json!({ "errors": [{ "code": "UNAUTHORIZED", "message": format!("correlation {before}") }] });
        let challenge = ("www-authenticate", "Basic realm=\"test\"");
        let is_image = head.target.contains("/manifests/");
        let status =
            if is_image && requests.fetch_add(1, Ordering::SeqCst) % 2 == 1 { 403 } else { 401 };
        let answer = reply(status, &[challenge], error.to_string().as_bytes());
        vec![ServerAction::Send(answer)]
    })
}

fn object(cluster: &FaultCluster, path: &str) -> Value {
    cluster.proxy.ask("GET", path, None).1
}

/// How often an object was reported on by Events.
fn events(cluster: &FaultCluster, name: &str) -> usize {
    let events = format!("/api/v1/events?fieldSelector=involvedObject.name={name}");
    object(cluster, &events)["items"].as_array().unwrap().len()
}

/// Writes of statuses.
fn statuses(cluster: &FaultCluster, pool: &str) -> usize {
    let written = cluster.proxy.write_kinds(pool);
    written.iter().filter(|one| one.ends_with("/status")).count()
}

#[test]
fn a_refusal_in_other_words_each_time_is_reported_once_and_then_pauses() {
    let cluster = &*cluster();
    let registry = refusing();
    let (built, rendered) = ("refused-in-words", "refused-render");
    for pool in [built, rendered] {
        cluster.proxy.follow(pool, &[]);
    }
    cluster.pool_on(built, ends::ONE, &format!("{}/os:1", registry.address()));
    let part = json!({ "apiVersion": API, "kind": "MachineConfig",
        "metadata": { "name": "50-refused", "labels": {
            "refused": "yes", "machineconfiguration.openshift.io/role": rendered } },
        "spec": { "osImageURL": format!("{}/os:2", registry.address()) } });
    cluster.make(&ours("machineconfigs", ""), &part);
    let controller = cluster.controller_with(&["--render"]);
    // That, and the MachineConfigs, which have a watch of their own, are inputs too.
    wait("what is found out about nodes", SOON, || {
        let log = controller.log();
        log.contains("user namespaces of pods").then_some(())
    });
    cluster.make(&ours("machineosconfigs", ""), &cluster.config(built));
    let pool = json!({ "apiVersion": API, "kind": "MachineConfigPool", "metadata": { "name": rendered },
        "spec": { "machineConfigSelector": { "matchLabels": { "refused": "yes" } } } });
    cluster.make(&ours("machineconfigpools", ""), &pool);

    let blocked = ours("machineosconfigs", built);
    let degraded = ours("machineconfigpools", rendered);
    for (path, kind) in [(&blocked, "Blocked"), (&degraded, "RenderDegraded")] {
        wait(kind, SOON, || {
            let object = object(cluster, path);
            text(&condition(&object, kind)?["message"]).contains(&registry.address()).then_some(())
        });
    }
    let before = registry.seen().len();
    // What others write is no reason to ask again either.
    for count in 1..=20 {
        for pool in [built, rendered] {
            let status = format!("{}/status", ours("machineconfigpools", pool));
            let change = json!({ "status": { "machineCount": count } });
            cluster.change(&status, &change);
        }
    }
    // Three more looks at each, as many as there are after a pause, come to less than this.
    let few = before * 4;
    let written = [built, rendered].map(|pool| statuses(cluster, pool));
    // Only a change of the inputs ends the pause.
    let news = json!({ "metadata": { "annotations": { "somebody": "mended it" } } });
    cluster.change(&blocked, &news);
    let is_requested = || (registry.seen().len() > before).then_some(());
    wait("a request after the change", SOON, is_requested);
    wait("the new message in the status", SOON, || {
        (statuses(cluster, built) > written[0]).then_some(())
    });
    let requests = registry.seen().len();
    assert!(requests <= few, "{requests} requests, {before} for the first lookups");
    assert_eq!(written, [1, 1], "the status was written again: {}", controller.log());
    assert_eq!(events(cluster, built), 1);
}

/// A registry that answers with a byte of a manifest now and then: a stand-in, as no real one does
/// so on demand.
fn dripping() -> Web {
    Web::start(|head, _| {
        if !head.target.contains("/manifests/") {
            return vec![ServerAction::Send(reply(200, &[], b""))];
        }
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let begin =
            format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: 1000000\r\n\r\n");
        let drop =
            [ServerAction::Wait(Duration::from_millis(100)), ServerAction::Send(b" ".to_vec())];
        let drops = drop.iter().cycle().take(2400).cloned();
        std::iter::once(ServerAction::Send(begin.into_bytes())).chain(drops).collect()
    })
}

/// The pools whose manifest was asked for, in their order.
fn looked_up(registry: &Web) -> Vec<String> {
    let seen = registry.seen().into_iter();
    let named = seen.filter_map(|head| {
        let (name, _) = head.target.strip_prefix("/v2/")?.split_once("/manifests/")?;
        Some(name.to_owned())
    });
    named.collect()
}

#[test]
fn pools_on_a_registry_that_drips_are_blocked_and_hold_up_no_others() {
    // More than there are workers, and a limit in which all others must be done.
    const HANGING: usize = 20;
    const LIMIT: Duration = Duration::from_secs(8);
    let cluster = &*cluster();
    let registry = dripping();
    for number in 0..HANGING {
        let pool = format!("drips-{number:02}");
        let base = format!("{}/{pool}:1", registry.address());
        cluster.proxy.follow(&pool, &[]);
        cluster.pool_on(&pool, ends::ONE, &base);
        cluster.make(&ours("machineosconfigs", ""), &cluster.config(&pool));
    }
    let healthy = "drips-not";
    cluster.proxy.follow(healthy, &[]);
    cluster.pool(healthy, ends::ONE);
    let started = Instant::now();
    let limit = format!("{}s", LIMIT.as_secs());
    let controller = cluster.controller_with(&["--lookup-timeout", &limit]);
    let first = wait("lookups that hang", SOON, || {
        let looked_up = looked_up(&registry);
        (looked_up.len() >= 4).then(|| looked_up[0].clone())
    });
    let is_built = |pool: &str| !cluster.proxy.created(pool, "machineosbuilds").is_empty();

    let since = Instant::now();
    cluster.make(&ours("machineosconfigs", ""), &cluster.config(healthy));
    cluster.renders(&first, ends::TWO);
    for pool in [healthy, &*first] {
        wait(pool, SOON, || is_built(pool).then_some(()));
    }
    let waited = since.elapsed();
    assert!(waited < LIMIT, "{waited:?}: {}", controller.log());
    let rounds = 1 + (started.elapsed().as_secs() / LIMIT.as_secs()) as usize;
    let requests = looked_up(&registry).len();
    // The first had released its slot for another one.
    assert!(requests <= 4 * rounds + 1, "{requests} lookups in {rounds} rounds");

    let log = controller.log();
    let address = log.split("listening on ").nth(1).unwrap();
    let address = address.split_whitespace().next().unwrap();
    let get = |path: &str| ask(address, &format!("GET {path} HTTP/1.0")).unwrap();
    wait("the gauge of the oldest reconcile", SOON, || {
        let metrics = get("/metrics");
        let mut lines = metrics.lines();
        let age = lines.find_map(|line| line.strip_prefix("mosb_oldest_reconcile_seconds "))?;
        (age.parse::<f64>().unwrap() > 1.0).then_some(())
    });
    let message = wait("that a pool is blocked", SOON, || {
        (0..HANGING).find_map(|number| {
            let config = ours("machineosconfigs", &format!("drips-{number:02}"));
            let blocked = object(cluster, &config);
            Some(text(&condition(&blocked, "Blocked")?["message"]).to_owned())
        })
    });
    assert!(message.contains(&registry.address()), "{message}");
    assert!(message.contains("not answered within 8 s"), "{message}");
    let health = get("/healthz");
    assert!(health.contains(" 200 "), "{health}");
}
