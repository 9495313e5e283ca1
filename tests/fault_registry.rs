//! Registries that refuse, drip or say nothing: what hangs on them waits and says so, and nothing else does.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fault_world::{API, World, condition, ends, ours, text, world};
use crate::harness::{Act, Web, reply, wait};

const SOON: Duration = Duration::from_secs(60);

/// A registry that refuses each request in other words, as those do that number their answers.
fn refusing() -> Web {
    Web::start(|_, before| {
        let error = json!({ "errors": [{ "code": "UNAUTHORIZED", "message": format!("correlation {before}") }] });
        let challenge = ("www-authenticate", "Basic realm=\"test\"");
        vec![Act::Send(reply(
            401,
            &[challenge],
            error.to_string().as_bytes(),
        ))]
    })
}

fn object(world: &World, path: &str) -> Value {
    world.proxy.ask("GET", path, None).1
}

/// How often an object was reported on by Events.
fn events(world: &World, name: &str) -> usize {
    let events = format!("/api/v1/events?fieldSelector=involvedObject.name={name}");
    object(world, &events)["items"].as_array().unwrap().len()
}

/// Writes of statuses.
fn statuses(world: &World, pool: &str) -> usize {
    let written = world.proxy.deeds(pool);
    written
        .iter()
        .filter(|one| one.ends_with("/status"))
        .count()
}

#[test]
fn a_refusal_in_other_words_each_time_is_reported_once_and_then_pauses() {
    let world = &*world();
    let registry = refusing();
    let (built, rendered) = ("refused-in-words", "refused-render");
    for pool in [built, rendered] {
        world.proxy.follow(pool, &[]);
    }
    let controller = world.controller_with(&["--render"]);
    world.pool_on(built, ends::ONE, &format!("{}/os:1", registry.address()));
    world.make(&ours("machineosconfigs", ""), &world.config(built));
    let part = json!({ "apiVersion": API, "kind": "MachineConfig",
        "metadata": { "name": "50-refused", "labels": { "refused": "yes" } },
        "spec": { "osImageURL": format!("{}/os:2", registry.address()) } });
    world.make(&ours("machineconfigs", ""), &part);
    let pool = json!({ "apiVersion": API, "kind": "MachineConfigPool", "metadata": { "name": rendered },
        "spec": { "machineConfigSelector": { "matchLabels": { "refused": "yes" } } } });
    world.make(&ours("machineconfigpools", ""), &pool);

    let blocked = ours("machineosconfigs", built);
    let degraded = ours("machineconfigpools", rendered);
    for (path, kind) in [(&blocked, "Blocked"), (&degraded, "RenderDegraded")] {
        wait(kind, SOON, || {
            let object = object(world, path);
            text(&condition(&object, kind)?["message"])
                .contains("correlation")
                .then_some(())
        });
    }
    let before = registry.seen().len();
    // What others write is no reason to ask again either.
    for count in 1..=20 {
        for pool in [built, rendered] {
            let status = format!("{}/status", ours("machineconfigpools", pool));
            let change = json!({ "status": { "machineCount": count } });
            world.change(&status, &change);
        }
    }
    // Three more looks at each, as many as there are after a pause, come to less than this.
    let few = before * 4;
    let written = [built, rendered].map(|pool| statuses(world, pool));
    // Only a change of the inputs ends the pause.
    let news = json!({ "metadata": { "annotations": { "somebody": "mended it" } } });
    world.change(&blocked, &news);
    let is_asked = || (registry.seen().len() > before).then_some(());
    wait("a look after the news", SOON, is_asked);
    wait("the registry's new words", SOON, || {
        (statuses(world, built) > written[0]).then_some(())
    });
    let asked = registry.seen().len();
    assert!(
        asked <= few,
        "{asked} requests, {before} for the first looks"
    );
    assert_eq!(written, [1, 1], "the old words stay: {}", controller.said());
    assert_eq!(events(world, built), 1);
}
