//! A pool's base image becomes another one: directly built, with a prepared base, beside a pool that
//! stays, and to bases that can't be built on.

use serde_json::{Value, json};

use crate::test_cluster::build_pod::recorded;
use crate::test_cluster::{BUILD, Cluster, SOON};
use mosb_tests::{Compression, Image, Layout, PlainBase, Tree, condition, wait};

/// Instructions that need no config. Their result differs each time.
const OWN: &str = "FROM base\nRUN cp /proc/sys/kernel/random/uuid /usr/share/uuid\n";
const LAYER: &str = "/usr/share/second-layer";

/// The second base in the registry of a cluster, as a config names it.
fn second_base(cluster: &Cluster) -> String {
    let registry = cluster.node.registry();
    registry.push(&PlainBase::Second.image().reference("base"), "story-base:12.1");
    format!("{}:12.1", registry.repository("story-base"))
}

/// The layers of an image, and of a base in a layout.
fn layers(manifest: &Value) -> Vec<Value> {
    let layers = manifest["layers"].as_array().unwrap();
    layers.iter().map(|layer| layer["digest"].clone()).collect()
}

/// The image is one layer on this base.
#[track_caller]
fn assert_on(cluster: &Cluster, image: &str, base: PlainBase) {
    let (_, digest) = image.split_once('@').unwrap();
    let manifest = serde_json::from_reader(cluster.node.registry().blob(digest)).unwrap();
    let (found, layout) = (layers(&manifest), base.image());
    let want = layers(&layout.json(&layout.digest("base")));
    assert_eq!(found[..found.len() - 1], want, "{base:?}");
}

#[test]
fn a_pool_moves_to_another_base_and_back() {
    let mut cluster = Cluster::new("os-update");
    let pool = cluster.pool.clone();
    let second = second_base(&cluster);
    let stays = format!("{pool}-stays");
    cluster.create_pool(&stays);
    let on_first = cluster.render("one");
    cluster.opt_in(None);
    cluster.start();
    let first = cluster.image_after("");
    assert_on(&cluster, &first, PlainBase::First);

    // The same config on the other base is another image.
    cluster.render_on(&second, "one");
    let moved = cluster.image_after(&first);
    assert_on(&cluster, &moved, PlainBase::Second);
    assert_eq!(cluster.file(&moved, "/etc/story"), "one");
    assert_eq!(cluster.file(&moved, LAYER), "second\n");
    // And both at once.
    cluster.render_on(&second, "two");
    let changed = cluster.image_after(&moved);
    assert_on(&cluster, &changed, PlainBase::Second);
    assert_eq!(cluster.file(&changed, "/etc/story"), "two");

    // Another pool has the first base meanwhile. The tree of each base is known.
    cluster.pool_wants(&stays, &cluster.rename(&on_first, &stays));
    cluster.opt_in_pool(&stays, None);
    assert_on(&cluster, &cluster.pool_image(&stays, ""), PlainBase::First);
    let trees = cluster.namespace.get("configmap/mosb-base-trees");
    assert_eq!(trees["data"].as_object().unwrap().len(), 2, "{trees:#}");
    for kind in ["machineosconfig", "machineconfigpool"] {
        cluster.node.kubectl(&["delete", kind, &stays, "--wait=false"]).ok();
    }

    // Back: what was built is taken again.
    let builds = cluster.builds().len();
    cluster.wants(&on_first);
    let back = cluster.image_after(&changed);
    assert_eq!((back, cluster.builds().len()), (first.clone(), builds));

    no_image_is_built_on_a_bad_base(&cluster, &first, &on_first);
}

/// The image in service stays, and the pool says why there is no other.
fn no_image_is_built_on_a_bad_base(cluster: &Cluster, image: &str, rendered: &str) {
    let registry = cluster.node.registry();
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::create(directory.path());
    let tree = Tree::new().directory("etc", 0o755).file("etc/os-release", 0o644, "ID=test\n");
    let arm = Image::new().layer(Compression::Gzip, tree.tar()).architecture("arm64");
    layout.put("arm64", &arm);
    layout.put_index("index", &[arm]);
    for tag in ["arm64", "index"] {
        registry.push(&layout.reference(tag), &format!("bad-base:{tag}"));
    }
    let there = registry.repository("bad-base");
    let gone = format!("{there}@sha256:{}", "0".repeat(64));
    let cases = [
        (format!("{there}:none"), "none"),
        (gone, "sha256:000"),
        ("127.0.0.1:1/os/base:1".to_owned(), "127.0.0.1:1"),
        (format!("{there}:arm64"), "linux/arm64"),
        (format!("{there}:index"), "linux/arm64"),
    ];
    let builds = cluster.builds().len();
    for (base, word) in cases {
        cluster.render_on(&base, "bad");
        let config = wait(&format!("that {base} is refused"), SOON, || {
            let config = cluster.config();
            let conditions = config["status"]["conditions"].as_array()?;
            let blocked = conditions.iter().find(|one| one["type"] == "Blocked")?;
            let message = blocked["message"].as_str().unwrap();
            let is_this = blocked["status"] == "True" && message.contains(word);
            is_this.then(|| {
                println!("{base}: {}: {message}", blocked["reason"]);
                config.clone()
            })
        });
        assert_eq!(config["status"]["currentImagePullSpec"], image, "{base}");
        cluster.wants(rendered);
        cluster.node.wait(&format!("machineosconfig/{}", cluster.pool), SOON, |config| {
            !condition(config, "Blocked")
        });
    }
    assert_eq!(cluster.builds().len(), builds, "nothing was built");
}

#[test]
fn a_customised_pool_is_prepared_anew_on_another_base() {
    let mut cluster = Cluster::new("os-update-own");
    let second = second_base(&cluster);
    cluster.render("one");
    cluster.opt_in(Some(OWN));
    cluster.start();
    let first = cluster.image_after("");
    let uuid = cluster.file(&first, "/usr/share/uuid");
    let of_first = wait("the prepared base", SOON, || recorded(&cluster).pop());

    cluster.render_on(&second, "one");
    let moved = cluster.image_after(&first);
    assert_eq!(cluster.file(&moved, LAYER), "second\n");
    assert_eq!(cluster.file(&moved, "/etc/story"), "one");
    let anew = cluster.file(&moved, "/usr/share/uuid");
    assert_ne!(anew, uuid);
    let both = wait("both prepared bases", SOON, || {
        let both = recorded(&cluster);
        (both.len() == 2).then_some(both)
    });
    assert!(both.contains(&of_first), "{both:?}");

    // From now on each base has its own, and nothing is run.
    for (base, content, want) in [(Some(&second), "two", &anew), (None, "three", &uuid)] {
        let before = cluster.config()["status"]["currentImagePullSpec"].clone();
        match base {
            Some(base) => cluster.render_on(base, content),
            None => cluster.render(content),
        };
        let image = cluster.image_after(before.as_str().unwrap());
        assert_eq!(&cluster.file(&image, "/usr/share/uuid"), want);
        assert_eq!(cluster.file(&image, "/etc/story"), content);
    }
}

/// Machines apply changes of the config themselves, as beside a machine-config-daemon: only another
/// OS is another image, whoever moves it.
#[test]
fn only_another_base_builds_where_machines_apply_configs() {
    let mut cluster = Cluster::new("os-change");
    let pool = cluster.pool.clone();
    let registry = cluster.node.registry();
    let push = |base: PlainBase| registry.push(&base.image().reference("base"), "moves:stable");
    let moving = registry.repository("moves:stable");
    let second = second_base(&cluster);
    push(PlainBase::First);
    cluster.render_on(&moving, "one");
    cluster.opt_in(None);
    build_on(&cluster, "os-change");
    cluster.start();
    let first = cluster.image_after("");
    assert_on(&cluster, &first, PlainBase::First);

    // The tag moves, and a config comes that machines apply.
    push(PlainBase::Second);
    let adopted = adopted_for(&cluster, &cluster.render_on(&moving, "two"));
    assert_eq!(adopted["status"]["digestedImagePushSpec"], *first);
    let base = &adopted["metadata"]["annotations"]["mosb.dev/base"];
    let of_first = PlainBase::First.image().digest("base");
    assert!(base.as_str().unwrap().ends_with(&of_first), "{base}: not the base of its image");

    // The newer base is asked for: with the same config.
    cluster.mosb(&["base", "update", &pool]).ok();
    let updated = cluster.image_after(&first);
    assert_on(&cluster, &updated, PlainBase::Second);
    assert_eq!(cluster.file(&updated, "/etc/story"), "two");
    // And from then on configs are adopted on it.
    let adopted = adopted_for(&cluster, &cluster.render_on(&moving, "three"));
    assert_eq!(adopted["status"]["digestedImagePushSpec"], *updated);

    // Another osImageURL, with another config and without.
    let on_first = registry.repository(&format!("moves@{of_first}"));
    cluster.render_on(&on_first, "four");
    let both = cluster.image_after(&updated);
    assert_on(&cluster, &both, PlainBase::First);
    assert_eq!(cluster.file(&both, "/etc/story"), "four");
    cluster.render_on(&second, "four");
    let alone = cluster.image_after(&both);
    assert_on(&cluster, &alone, PlainBase::Second);
    assert_eq!(cluster.file(&alone, "/etc/story"), "four");

    // The same pool under the other policy.
    adopted_for(&cluster, &cluster.render_on(&second, "five"));
    build_on(&cluster, "every-config");
    let every = cluster.image_after(&alone);
    assert_eq!(cluster.file(&every, "/etc/story"), "five");
}

/// Sets which configs get an image.
fn build_on(cluster: &Cluster, value: &str) {
    let change = json!({ "metadata": { "annotations": { "mosb.dev/build-on": value } } });
    cluster.patch(&format!("machineosconfig/{}", cluster.pool), &change);
}

/// The build of this config, once it took over an image and is in service.
#[track_caller]
fn adopted_for(cluster: &Cluster, rendered: &str) -> Value {
    wait(&format!("a build that adopts an image for {rendered}"), BUILD, || {
        let build = cluster.current();
        let config = cluster.config();
        let is_it = build["spec"]["machineConfig"]["name"] == rendered
            && config["status"]["machineOSBuild"]["name"] == build["metadata"]["name"]
            && build["metadata"]["annotations"]["mosb.dev/adopted-from"].is_string();
        is_it.then_some(build)
    })
}
