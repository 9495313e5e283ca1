//! Direct builds on a real API server whose tag the registry has already: the image of a person is taken,
//! one with other contents is not, and neither is any for a rebuild.

use std::fs;

use serde_json::{Value, json};

use crate::test_cluster::{BUILD, Cluster, SOON, state};
use mosb_tests::{Mosb, base_image, wait};

/// `mosb build` or `mosb plan` by hand, for the push repository of the cluster.
fn by_hand(cluster: &Cluster, mosb: &Mosb, command: &str, rendered: &str) -> Value {
    let config = cluster.node.get(&format!("machineconfig/{rendered}"));
    let file = mosb.home().join(format!("{rendered}.yaml"));
    fs::write(&file, config.to_string()).unwrap();
    let registry = cluster.node.registry();
    let made = mosb.run([
        command.to_owned(),
        file.display().to_string(),
        format!("--output={}", cluster.push),
        "--build-on=every-config".to_owned(),
        format!("--authfile={}", registry.authfile().display()),
        format!("--cert-dir={}", registry.certificates().display()),
        "-ojson".to_owned(),
    ]);
    made.ok().json()
}

fn has_job(build: &Value) -> bool {
    build["status"]["builder"]["job"].is_object()
}

#[test]
fn image_pushed_by_hand_needs_no_job() {
    let mut cluster = Cluster::new("existing");
    let (pool, mosb) = (cluster.pool.clone(), Mosb::new());
    cluster.render("one");
    cluster.opt_in(None);
    cluster.start();
    // Its Job records the tree of the base.
    let first = cluster.image_after("");
    assert!(has_job(&cluster.current()));
    wait("the record of the tree", SOON, || {
        let map = cluster.namespace.find("configmap/mosb-base-trees")?;
        map["data"].as_object().filter(|data| !data.is_empty()).map(drop)
    });

    // The next one is pushed before the controller sees its config.
    cluster.stop();
    let rendered = cluster.render("two");
    let built = by_hand(&cluster, &mosb, "build", &rendered);
    cluster.start();
    let second = cluster.image_after(&first);
    assert_eq!(built["image"], second.as_str());
    let build = cluster.current();
    assert_eq!((state(&build), has_job(&build)), ("Succeeded".to_owned(), false), "{build:#}");
    assert_eq!(build["spec"]["machineConfig"]["name"], rendered.as_str());
    let message = cluster.message(&build, "Succeeded");
    assert!(message.contains("already"), "{message}");
    let annotations = &build["metadata"]["annotations"];
    assert!(annotations["mosb.dev/checked"].is_string(), "{annotations:#}");
    wait("its row of mosb builds", SOON, || {
        let list = cluster.mosb(&["builds", &pool, "-o", "json"]).ok().json();
        let newest = &list["builds"][0];
        let shown = [&newest["image"], &newest["found"], &newest["stage"]];
        (shown == [&json!(second), &json!(true), &json!("in-service")]).then_some(())
    });

    // A rebuild makes it, although it is there.
    cluster.mosb(&["rebuild", &pool]).ok();
    let name = format!("machineosbuild/{}", build["metadata"]["name"].as_str().unwrap());
    let again = cluster.node.wait(&name, BUILD, |again| {
        again["metadata"]["uid"] != build["metadata"]["uid"] && state(again) == "Succeeded"
    });
    assert!(has_job(&again), "{again:#}");
    assert_eq!(again["status"]["digestedImagePushSpec"], second.as_str());

    // Under the tags of the third, there is something else.
    cluster.stop();
    let rendered = cluster.render("three");
    let planned = by_hand(&cluster, &mosb, "plan", &rendered);
    let other = base_image().reference("base");
    for tag in planned["tags"].as_array().unwrap() {
        let tag = tag.as_str().unwrap();
        cluster.node.registry().push(&other, &format!("{pool}:{tag}"));
    }
    cluster.start();
    let third = cluster.image_after(&second);
    assert_eq!(cluster.file(&third, "/etc/story"), "three");
    assert!(has_job(&cluster.current()));
}
