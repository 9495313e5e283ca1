//! The output for complete installations.

use std::path::Path;

use super::*;

/// Compares every file whole; `make golden` writes them anew.
fn same_files(folder: &Path, files: &[File]) {
    for file in files {
        let path = folder.join(&file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        expect_test::expect_file![path].assert_eq(std::str::from_utf8(&file.bytes).unwrap());
    }
}

#[test]
fn golden_three_pools_of_kubernetes() {
    let (folder, objects) = golden();
    let all = manifests(&objects);
    let output = kubernetes(&all).unwrap();
    same_files(&folder.join("kubernetes"), &output.files);
    let paths: Vec<&str> = output.files.iter().map(|file| &*file.path).collect();
    let notices = output.notices.iter().map(|it| format!("{}: {}", it.code, it.message));
    let reported: Vec<String> = notices.collect();
    let list = [paths.join("\n"), reported.join("\n")].join("\n\n") + "\n";
    expect_test::expect_file![folder.join("kubernetes.list")].assert_eq(&list);
    // Logins are nowhere but in machines' configs, and there only those that the machines need.
    for file in &output.files {
        let text = String::from_utf8(file.bytes.clone()).unwrap();
        assert!(!text.contains("hunter2"), "{}", file.path);
        assert_eq!(file.is_private, file.path.starts_with("ignition/"));
    }
}

#[test]
fn golden_three_pools_of_openshift() {
    let (folder, mut objects) = golden();
    // Its CRDs take no deeper repository.
    let infra = objects
        .iter_mut()
        .find(|it| it["kind"] == "MachineOSConfig" && it["metadata"]["name"] == "infra");
    let annotations = &mut infra.unwrap()["metadata"]["annotations"];
    annotations[labels::PRE_BUILT_IMAGE] =
        json!(format!("registry.example.com:5000/acme/infra@{DIGEST}"));
    let push_specs = objects.iter_mut().filter(|it| it["kind"] == "MachineOSConfig");
    push_specs.for_each(|it| {
        it["spec"]["renderedImagePushSpec"] = json!("registry.example.com:5000/acme/os:latest")
    });
    for secret in objects.iter_mut().filter(|it| it["kind"] == "Secret") {
        secret["metadata"]["namespace"] = json!("openshift-machine-config-operator");
    }
    let all = manifests(&objects);
    let checked = check(&all, &options(Cluster::Openshift)).unwrap();
    same_files(&folder.join("openshift"), &openshift::files(&all, &checked));
}

/// The controller renders the applied output to the same configs, and adopts them.
#[test]
fn rendering_the_applied_objects_changes_nothing() {
    let (_, objects) = golden();
    let output = kubernetes(&manifests(&objects)).unwrap();
    let applied = output.files.iter().filter(|file| file.path.ends_with(".yaml"));
    let applied: Vec<Value> = applied.map(|file| yaml::parse_one(&file.bytes).unwrap()).collect();
    let again = manifests(&applied);
    assert_eq!(again.pools.len(), 3);
    let base = "quay.io/fedora/fedora-coreos@sha256:3333333333333333333333333333333333333333333333333333333333333333";
    for pool in &again.pools {
        let mut object = pool.object.clone();
        object.metadata.uid = Some("given-by-the-api-server".to_owned());
        let request = Request {
            pool: object.metadata.name.parse().unwrap(),
            pool_object: Some(object.clone()),
            controller_config: None,
            pool_settings: Vec::new(),
            os_image: Some(base.to_owned()),
            extensions_image: None,
            pins: Default::default(),
            configs: again.configs.clone(),
            explain: false,
        };
        let name = &object.spec.configuration.name;
        let made = rendered(&request);
        assert_eq!(made.config.name().as_str(), name);
        let there = again.configs.iter().find(|one| one.name() == name).unwrap();
        assert_eq!(json!(there.config.spec), made.object["spec"], "{name}");
        let sources: Vec<&str> =
            object.spec.configuration.source.iter().map(|it| &*it.name).collect();
        assert!(sources.is_sorted());
    }
}

/// The command accepts its own output as input, and writes it again.
#[test]
fn its_own_output_comes_to_the_same() {
    let (_, objects) = golden();
    let first = kubernetes(&manifests(&objects)).unwrap();
    let written = first.files.iter().filter(|file| file.path.ends_with(".yaml"));
    let mut again: Vec<Value> = written.map(|file| yaml::parse_one(&file.bytes).unwrap()).collect();
    let is_unchanged = |it: &&Value| it["kind"] == "Secret" || it["kind"] == "ImageDigestMirrorSet";
    again.extend(objects.iter().filter(is_unchanged).cloned());
    let second = kubernetes(&manifests(&again)).unwrap();
    assert_eq!(first.files, second.files);
}

#[test]
fn another_machine_config_may_not_take_the_image_away() {
    let other = format!("quay.io/other/os@{DIGEST}");
    let spec = json!({ "osImageURL": other });
    for (what, name, want) in [
        (
            "after the component",
            "99-image",
            Some(("image-overridden", "f (document 4): 99-image: spec.osImageURL")),
        ),
        ("before it", "05-image", None),
    ] {
        let all = manifests(&[
            pool("worker"),
            os_config("worker"),
            secret("push"),
            config(name, "worker", spec.clone()),
        ]);
        let found = kubernetes(&all).err().map(codes).unwrap_or_default();
        let found = found.first().map(|(code, place)| (&**code, &**place));
        assert_eq!(found, want, "{what}");
    }
}

#[test]
fn an_older_component_is_rewritten_in_one_spelling() {
    let spec = json!({ "osImageURL": format!("quay.io/other/os@{DIGEST}") });
    let all = manifests(&[
        pool("worker"),
        pool("infra"),
        os_config("worker"),
        secret("push"),
        config("10-prebuildimage-osimageurl-worker", "worker", spec.clone()),
        config("10-prebuildimage-osimageurl-infra", "infra", spec),
    ]);
    let checked = check(&all, &options(Cluster::Kubernetes)).unwrap();
    let configs = kubernetes::configs(&all, &checked);
    let names: Vec<&str> = configs.all.iter().map(Component::name).collect();
    assert_eq!(names, ["10-prebuiltimage-osimageurl-infra", "10-prebuiltimage-osimageurl-worker"]);
    assert_eq!(configs.notices[0].code, "component-replaced");
}
