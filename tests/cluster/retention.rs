//! Old images of a pool are deleted from the registry, and all that something names stay.

use serde_json::{Value, json};

use crate::test_cluster::{BUILD, Cluster, SOON};
use mosb_tests::{Mosb, wait};

/// The digest in a reference.
fn digest(image: &str) -> &str {
    image.split_once('@').unwrap().1
}

/// What `mosb images` says.
fn images(cluster: &Cluster, arguments: &[&str]) -> Value {
    let all = [&["images"], arguments, &[&*cluster.pool, "-o", "json"]].concat();
    cluster.mosb(&all).ok().json()
}

/// The state of an image, and why it is kept.
fn state(list: &Value, image: &str) -> (String, String) {
    let mut all = list["images"].as_array().unwrap().iter();
    let found = all.find(|one| one["image"] == image);
    let found = found.unwrap_or_else(|| panic!("{image} is not in {list:#}"));
    let reasons: Vec<_> =
        found["reasons"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    (found["state"].as_str().unwrap().to_owned(), reasons.join(", "))
}

fn is_there(cluster: &Cluster, image: &str) -> bool {
    cluster.node.registry().has(image)
}

/// Gives an image another tag.
fn tag(cluster: &Cluster, image: &str, tag: &str) {
    let registry = cluster.node.registry();
    let directory = tempfile::tempdir().unwrap();
    let place = format!("oci:{}:x", directory.path().display());
    let inside = |image: &str| image.split_once('/').unwrap().1.to_owned();
    registry.pull(&inside(image), &place);
    registry.push(&place, &format!("{}:{tag}", inside(&cluster.push)));
}

fn sign(cluster: &Cluster, images: &[String]) {
    let (mosb, registry) = (Mosb::new(), cluster.node.registry());
    let key = mosb.home().join("os.key").display().to_string();
    mosb.run(["keys", "new", &key]).ok();
    let (authfile, certificates) = (registry.authfile(), registry.certificates());
    let login =
        ["--authfile", authfile.to_str().unwrap(), "--cert-dir", certificates.to_str().unwrap()];
    for image in images {
        mosb.run([&["sign", image, "--sign-key", &key], &login[..]].concat()).ok();
        assert_eq!(signatures(cluster, image), 2, "{image}");
    }
}

/// How many of the tags there are that the digest of an image gives to what is attached to it.
fn signatures(cluster: &Cluster, image: &str) -> usize {
    let (repository, digest) = image.split_once('@').unwrap();
    let tag = digest.replace(':', "-");
    let tags = ["", ".sig", ".att"].map(|end| format!("{repository}:{tag}{end}"));
    tags.iter().filter(|tag| is_there(cluster, tag)).count()
}

/// A machine of the pool, which no kubelet runs.
fn machine(cluster: &Cluster, annotations: &Value) {
    let node = json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": format!("{}-machine", cluster.pool),
            "labels": { &cluster.pool: "", "kubernetes.io/os": "linux" }, "annotations": annotations },
        "spec": { "unschedulable": true } });
    cluster.node.apply(&node.to_string());
}

#[test]
fn old_image_goes_and_named_ones_stay() {
    let mut cluster = Cluster::new("retention");
    let pool = cluster.pool.clone();
    let own = json!({ "spec": { "nodeSelector": { "matchLabels": { &pool: "" } } } });
    cluster.patch(&format!("machineconfigpool/{pool}"), &own);
    machine(&cluster, &json!({}));
    cluster.opt_in(None);
    cluster.start();
    let first_config = cluster.render("1");
    let mut built = vec![cluster.image_after("")];
    for content in ["2", "3", "4", "5"] {
        cluster.render(content);
        built.push(cluster.image_after(built.last().unwrap()));
    }
    // Nobody knows what the machine booted.
    let list = images(&cluster, &["prune", "--keep", "2", "--days", "0"]);
    assert!(list["held"].as_str().unwrap().contains(&pool), "{list:#}");
    machine(&cluster, &json!({ "machineconfiguration.openshift.io/currentImage": built[1] }));
    // Somebody's own tag.
    tag(&cluster, &built[2], "golden");

    let limits = ["--keep", "2", "--days", "0"];
    let list = images(&cluster, &[&["list"], &limits[..]].concat());
    for (image, want, why) in [
        (&built[0], "deletable", ""),
        (&built[1], "kept", "machine"),
        (&built[2], "kept", "tag golden"),
        (&built[3], "kept", "newest"),
        (&built[4], "kept", "in service"),
    ] {
        let (state, reasons) = state(&list, image);
        assert!(state == want && reasons.contains(why), "{image}: {state}, {reasons}");
    }
    let dry = images(&cluster, &[&["prune", "--dry-run"], &limits[..]].concat());
    assert_eq!((&dry["images"], &dry["prune"]), (&list["images"], &json!(false)));
    assert!(is_there(&cluster, &built[0]), "it was a dry run");

    sign(&cluster, &built[..2]);
    let pruned = images(&cluster, &[&["prune"], &limits[..]].concat());
    assert_eq!(state(&pruned, &built[0]).0, "deleted", "{pruned:#}");
    assert!(!is_there(&cluster, &built[0]));
    assert_eq!(signatures(&cluster, &built[0]), 0, "they go with their image");
    assert_eq!(signatures(&cluster, &built[1]), 2, "the signature, and the list of referrers");
    for image in &built[1..] {
        assert!(is_there(&cluster, image), "{image}");
    }
    let again = images(&cluster, &["list"]);
    assert_eq!(again["images"].as_array().unwrap().len(), 4, "{again:#}");

    // The pool goes back to a config whose image was deleted.
    cluster.wants(&first_config);
    let back = cluster.image_after(&built[4]);
    assert_eq!(digest(&back), digest(&built[0]), "the same inputs give the same bytes");
    assert!(is_there(&cluster, &back));

    // From now on the controller does it.
    cluster.settings_with(&json!({ "retention": { "keep": 1, "days": 0 } }));
    wait("the images that nothing names to be deleted", BUILD, || {
        (!is_there(&cluster, &built[3]) && !is_there(&cluster, &built[4])).then_some(())
    });
    for image in [&built[1], &built[2], &back] {
        assert!(is_there(&cluster, image), "{image}\n{}", cluster.log());
    }
    let condition = wait("the condition", SOON, || {
        let config = cluster.config();
        let mut all = config["status"]["conditions"].as_array()?.iter();
        all.find(|one| one["type"] == "ImageRetention" && one["status"] == "True").cloned()
    });
    assert_eq!(condition["reason"], "Current");
    // A second cluster deletes images there too.
    tag(&cluster, &back, &format!("mosb-owner-{}", "0".repeat(32)));
    cluster.render("6");
    cluster.image_after(&back);
    wait("the repository to be shared", BUILD, || {
        let config = cluster.config();
        let mut all = config["status"]["conditions"].as_array()?.iter();
        all.find(|one| one["reason"] == "Held" && one["message"].to_string().contains("mosb-owner"))
            .map(drop)
    });
    assert!(is_there(&cluster, &back));
}
