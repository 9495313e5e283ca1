//! An image that was built with `mosb build`, of what a pool's MachineConfigs come to only later: the change needs no Job. One that
//! only says so does.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Mosb, Node, base_image, run, wait};
use crate::seed_kill::{M, SOON, World, machine_config, stock};

/// An image with the label of another one, and nothing of what that has.
fn liar(node: &Node, mosb: &Mosb, inputs: &str) -> String {
    let layout = mosb.home().join("liar");
    let place = format!("oci:{}:x", layout.display());
    run(
        "skopeo",
        ["copy", "--quiet", &base_image().reference("base"), &place],
    );
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
    let rendered = mosb.run([
        "render",
        "--pool=known",
        "--os-image",
        &stock(node),
        configs,
    ]);
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

/// Seeds the pool with an image and changes it; the build that follows.
fn seed_and_change(world: &World, image: &str) -> Value {
    world.apply("known", image);
    wait("the pool to be seeded", SOON, || {
        world.is_seeded("known").then_some(())
    });
    let change = machine_config("known", "50");
    world.node.apply(&change.to_string());
    wait("the next build", SOON, || {
        let builds = world.node.get(&["machineosbuilds"]);
        let mut builds = builds["items"].as_array().unwrap().iter();
        let label = format!("{M}/pre-built-image");
        builds
            .find(|build| build["metadata"]["labels"][&label].is_null())
            .cloned()
    })
}

#[test]
fn a_change_that_the_image_was_made_of_needs_no_job() {
    let world = World::new();
    let mosb = Mosb::new();
    let built = build(&world.node, &mosb);
    let _controller = world.controller();

    let liar = liar(&world.node, &mosb, built["inputs"].as_str().unwrap());
    let next = seed_and_change(&world, &liar);
    let annotations = &next["metadata"]["annotations"];
    assert_eq!(annotations["mosb.dev/inputs"].as_str().unwrap().len(), 64);
    assert_eq!(annotations["mosb.dev/method"], "direct", "it is built");
    let delete = ["delete", "--wait=true", "--timeout=30s"];
    for object in ["machineosconfig/known", "machineconfig/50-known"] {
        world.node.kubectl(&[&delete[..], &[object]].concat()).ok();
    }
    wait("the end of all builds", SOON, || {
        let builds = world.node.get(&["machineosbuilds"]);
        (builds["items"] == json!([])).then_some(())
    });

    let image = built["image"].as_str().unwrap();
    let next = seed_and_change(&world, image);
    let annotations = &next["metadata"]["annotations"];
    assert_eq!(annotations["mosb.dev/recognised"], "true");
    assert!(annotations["mosb.dev/adopted-from"].is_string());
    let config = "machineosconfig/known";
    world.node.wait(config, SOON, |config| {
        let named = &config["metadata"]["annotations"][format!("{M}/current-machine-os-build")];
        *named == next["metadata"]["name"] && config["status"]["currentImagePullSpec"] == image
    });
    let build = format!(
        "machineosbuild/{}",
        next["metadata"]["name"].as_str().unwrap()
    );
    world.node.wait(&build, SOON, |build| {
        build["status"]["digestedImagePushSpec"] == image
    });
    let jobs = world.node.get(&["jobs", "--all-namespaces"]);
    assert_eq!(jobs["items"], json!([]));
}
