//! An image that was built with `mosb build`, of what a pool's MachineConfigs come to only later:
//! the change needs no Job, if a build recorded the tree of the base. Without that, or if the image
//! only says so, it does.

use std::fs;

use mosb_controller::builds::BaseTreeKey;
use mosb_controller::workload::BuildNodes;
use mosb_image::DiffId;
use mosb_image::layer::Layer;
use mosb_registry::{Client, Source, base_tree, tree_image};
use serde_json::{Value, json};

use crate::seed_kill::{M, NAMESPACE, SOON, SeedCluster, machine_config, stock};
use mosb_tests::buildah_fixture::block_on;
use mosb_tests::registry_fixture::options;
use mosb_tests::{Mosb, Node, base_image, run, wait};

/// An image with the label of another one, and nothing of what that has.
fn liar(node: &Node, mosb: &Mosb, inputs: &str) -> String {
    let layout = mosb.home().join("liar");
    let place = format!("oci:{}:x", layout.display());
    run("skopeo", ["copy", "--quiet", &base_image().reference("base"), &place]);
    let label = format!("--config.label=mosb.dev/inputs={inputs}");
    let image = format!("--image={}:x", layout.display());
    run("umoci", ["config", &label, &image]);
    let digest = run("skopeo", ["inspect", "--format={{.Digest}}", &place]).text();
    node.registry().push(&place, "acme/liar:x");
    let image = format!("acme/liar@{}", digest.trim());
    node.registry().repository(&image)
}

/// What `mosb build` makes of a pool's two MachineConfigs.
fn build(node: &Node, mosb: &Mosb) -> Value {
    let configs = mosb.home().join("configs");
    fs::create_dir(&configs).unwrap();
    for number in ["00", "50"] {
        let path = configs.join(format!("{number}.json"));
        fs::write(path, machine_config("known", number).to_string()).unwrap();
    }
    let configs = configs.to_str().unwrap();
    let rendered = mosb.run(["render", "--pool=known", "--os-image", &stock(node), configs]);
    let file = mosb.home().join("rendered.yaml");
    fs::write(&file, rendered.ok().stdout).unwrap();
    let registry = node.registry();
    let built = mosb.run([
        "build".to_owned(),
        file.display().to_string(),
        format!("--output={}", registry.repository("acme/known")),
        format!("--authfile={}", registry.authfile().display()),
        format!("--cert-dir={}", registry.certificates().display()),
        "-ojson".to_owned(),
    ]);
    built.ok().json()
}

/// Records the tree of the base, as a build in the cluster does.
fn record_tree(node: &Node) {
    let registry = node.registry();
    let mut options = options();
    options.credentials.authfile = Some(registry.authfile().to_owned());
    options.certs.cert_dir = Some(registry.certificates().to_owned());
    let client = Client::new(&options).unwrap();
    let source: Source = stock(node).parse().unwrap();
    let repo: Source = registry.repository("acme/os").parse().unwrap();
    let Source::Registry(repo) = repo else {
        panic!("a registry's");
    };
    let (base, image) = block_on(async {
        let base = client.resolve(&source, None).await.unwrap();
        let config: Value = serde_json::from_slice(&base.config_bytes).unwrap();
        let diff_ids = config["rootfs"]["diff_ids"].as_array().unwrap().iter();
        let layers = base.layers.iter().zip(diff_ids);
        let layer = |(blob, diff_id): (&mosb_registry::BlobRef, &Value)| Layer {
            media_type: blob.media_type.clone(),
            digest: blob.digest,
            size: blob.size,
            diff_id: diff_id.as_str().unwrap().parse::<DiffId>().unwrap(),
            annotations: blob.annotations.clone(),
        };
        let layers: Vec<Layer> = layers.map(layer).collect();
        let tree = base_tree::compute(&base.store, &layers).await.unwrap();
        let image = tree_image::push(&client, repo.repo(), &base.manifest, &tree).await;
        (base.manifest, image.unwrap())
    });
    let key = BaseTreeKey::new(&base, repo.repo(), &BuildNodes::Any);
    let data = json!({ key.data_key(): image });
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": { "name": "mosb-base-trees", "namespace": NAMESPACE } });
    node.apply(&map.to_string());
}

/// Takes the pool's configs away, with all its builds.
fn forget(cluster: &SeedCluster) {
    let delete = ["delete", "--wait=true", "--timeout=120s"];
    for object in ["machineosconfig/known", "machineconfig/50-known"] {
        cluster.node.kubectl(&[&delete[..], &[object]].concat()).ok();
    }
    wait("the end of all builds", SOON, || {
        cluster.node.list("machineosbuilds").is_empty().then_some(())
    });
}

#[track_caller]
fn assert_is_built(next: &Value, what: &str) {
    let annotations = &next["metadata"]["annotations"];
    assert_eq!(annotations["mosb.dev/method"], "direct", "{what}");
    assert!(annotations["mosb.dev/recognised"].is_null(), "{what}");
    assert_eq!(annotations["mosb.dev/inputs"].as_str().unwrap().len(), 64);
}

/// Seeds the pool with an image and changes it; the build that follows.
fn seed_and_change(cluster: &SeedCluster, image: &str) -> Value {
    cluster.apply("known", image);
    wait("the pool to be seeded", SOON, || cluster.is_seeded("known").then_some(()));
    let change = machine_config("known", "50");
    cluster.node.apply(&change.to_string());
    wait("the next build", SOON, || {
        let mut builds = cluster.node.list("machineosbuilds").into_iter();
        let label = format!("{M}/pre-built-image");
        builds.find(|build| build["metadata"]["labels"][&label].is_null())
    })
}

#[test]
fn a_change_within_the_seed_needs_no_job() {
    let cluster = SeedCluster::new();
    let mosb = Mosb::new();
    let built = build(&cluster.node, &mosb);
    let _controller = cluster.controller();

    let image = built["image"].as_str().unwrap();
    let next = seed_and_change(&cluster, image);
    assert_is_built(&next, "no tree is recorded, and the controller reads no base");
    forget(&cluster);
    record_tree(&cluster.node);

    let liar = liar(&cluster.node, &mosb, built["inputs"].as_str().unwrap());
    let next = seed_and_change(&cluster, &liar);
    assert_is_built(&next, "it only says so");

    forget(&cluster);
    is_recognised(&cluster, image);
}

/// The change makes a build without a Job, which has the image.
fn is_recognised(cluster: &SeedCluster, image: &str) {
    let next = seed_and_change(cluster, image);
    let annotations = &next["metadata"]["annotations"];
    assert_eq!(annotations["mosb.dev/recognised"], "true");
    assert!(annotations["mosb.dev/adopted-from"].is_string());
    let config = "machineosconfig/known";
    cluster.node.wait(config, SOON, |config| {
        let named = &config["metadata"]["annotations"][format!("{M}/current-machine-os-build")];
        *named == next["metadata"]["name"] && config["status"]["currentImagePullSpec"] == image
    });
    let build = format!("machineosbuild/{}", next["metadata"]["name"].as_str().unwrap());
    cluster.node.wait(&build, SOON, |build| build["status"]["digestedImagePushSpec"] == image);
    assert_eq!(cluster.node.list("jobs"), Vec::<Value>::new());
}
