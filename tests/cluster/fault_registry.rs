//! Registries that reject requests, answer slowly or do not answer. Pools that depend on such a
//! registry wait and report it; other pools are not affected.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fault_cluster::{API, FaultCluster, cluster, condition, ends, ours, text};
use mosb_tests::{ServerAction, Web, ask, reply, wait};

/// A controller's start and its lookups, on a busy machine.
const SOON: Duration = Duration::from_secs(180);

/// A registry that rejects every request with a different message, like registries that add a
/// correlation id. It also alternates between two status codes, because an answer to HEAD has no
/// body.
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
    cluster.proxy.api().ask("GET", path, None).1
}

/// Counts the Event objects about an object.
fn events(cluster: &FaultCluster, name: &str) -> usize {
    let events = format!("/api/v1/events?fieldSelector=involvedObject.name={name}");
    object(cluster, &events)["items"].as_array().unwrap().len()
}

/// Counts the status writes for a pool.
fn statuses(cluster: &FaultCluster, pool: &str) -> usize {
    let written = cluster.proxy.write_kinds(pool);
    written.iter().filter(|one| one.ends_with("/status")).count()
}

#[test]
fn refusals_in_other_words_are_reported_once() {
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
    // Facts about nodes are an input too, and so are MachineConfigs, which have a separate watch.
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
    // Status writes of other clients do not cause a new lookup.
    for count in 1..=20 {
        for pool in [built, rendered] {
            let status = format!("{}/status", ours("machineconfigpools", pool));
            let change = json!({ "status": { "machineCount": count } });
            cluster.change(&status, &change);
        }
    }
    // Three more reconciles of each pool, as many as follow a pause, cause fewer requests than
    // this.
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

/// A stand-in for a slow registry: it sends a manifest one byte at a time. A real registry does not
/// do this on demand.
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

/// The pools whose manifest was requested, in order.
fn looked_up(registry: &Web) -> Vec<String> {
    let seen = registry.seen().into_iter();
    let named = seen.filter_map(|head| {
        let (name, _) = head.target.strip_prefix("/v2/")?.split_once("/manifests/")?;
        Some(name.to_owned())
    });
    named.collect()
}

#[test]
fn registries_that_drip_hold_up_no_others() {
    // There are more pools than workers, and more than may be planned at once, although only a few
    // of each registry are. All other pools must finish within the limit.
    const REGISTRIES: usize = 4;
    const HANGING: usize = 20;
    const LIMIT: Duration = Duration::from_secs(30);
    let cluster = &*cluster();
    let registries: Vec<Web> = (0..REGISTRIES).map(|_| dripping()).collect();
    let looked_up = || -> Vec<String> { registries.iter().flat_map(looked_up).collect() };
    for number in 0..HANGING {
        let pool = format!("drips-{number:02}");
        let base = format!("{}/{pool}:1", registries[number % REGISTRIES].address());
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
        let looked_up = looked_up();
        (looked_up.len() >= 4 * REGISTRIES).then(|| looked_up[0].clone())
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
    let requests = looked_up().len();
    // The first pool released its slot to another one.
    assert!(requests <= 4 * REGISTRIES * rounds + 1, "{requests} lookups in {rounds} rounds");

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
    assert!(registries.iter().any(|one| message.contains(&one.address())), "{message}");
    assert!(message.contains("not answered within 30 s"), "{message}");
    let health = get("/healthz");
    assert!(health.contains(" 200 "), "{health}");
}
