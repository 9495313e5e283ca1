//! Every way in which an installation can be wrong.

use super::*;

#[test]
fn problems_are_reported_with_their_place() {
    let image = |text: String| {
        let annotations = json!({ labels::PRE_BUILT_IMAGE: text });
        with(os_config("worker"), "/metadata/annotations", annotations)
    };
    let hex = &DIGEST["sha256:".len()..];
    let annotation = "metadata.annotations.machineconfiguration.openshift.io/pre-built-image";
    let repo = "registry.example.com/acme/os";
    for (what, config, code, field) in [
        (
            "no annotation",
            with(os_config("worker"), "/metadata/annotations", json!({})),
            "pre-built-image-missing",
            annotation,
        ),
        ("empty", image(String::new()), "pre-built-image-missing", annotation),
        ("a tag only", image(format!("{repo}:v1")), "pre-built-image-reference", annotation),
        ("no host", image(format!("acme/os@{DIGEST}")), "pre-built-image-reference", annotation),
        (
            "short",
            image(format!("{repo}@sha256:{}", &hex[1..])),
            "pre-built-image-reference",
            annotation,
        ),
        (
            "no hex",
            image(format!("{repo}@sha256:{}", "g".repeat(64))),
            "pre-built-image-reference",
            annotation,
        ),
        (
            "upper case",
            image(format!("{repo}@sha256:{}", "A".repeat(64))),
            "pre-built-image-reference",
            annotation,
        ),
        (
            "md5",
            image(format!("{repo}@md5:{}", &hex[32..])),
            "pre-built-image-reference",
            annotation,
        ),
        ("another pool", os_config("infra"), "unknown-pool", "spec.machineConfigPool.name"),
        (
            "no name of a pool",
            os_config("Worker"),
            "bad-machine-os-config",
            "spec.machineConfigPool.name",
        ),
        (
            "not the pool's name",
            with(os_config("worker"), "/metadata/name", json!("mine")),
            "bad-machine-os-config",
            "metadata.name",
        ),
        (
            "builder",
            with(os_config("worker"), "/spec/imageBuilder", Value::Null),
            "bad-machine-os-config",
            "spec.imageBuilder.imageBuilderType",
        ),
        (
            "push spec",
            with(os_config("worker"), "/spec/renderedImagePushSpec", json!("host/os:v1")),
            "bad-machine-os-config",
            "spec.renderedImagePushSpec",
        ),
        (
            "no name of a Secret",
            with(os_config("worker"), "/spec/renderedImagePushSecret/name", json!("Push Secret")),
            "bad-machine-os-config",
            "spec.renderedImagePushSecret.name",
        ),
        (
            "no instruction",
            with(
                os_config("worker"),
                "/spec/containerFile",
                json!([{ "containerfileArch": "NoArch", "content": "FRO scratch\n" }]),
            ),
            "bad-machine-os-config",
            "spec.containerFile",
        ),
        (
            "two for one architecture",
            with(
                os_config("worker"),
                "/spec/containerFile",
                json!([{ "content": "RUN a" }, { "containerfileArch": "NoArch", "content": "RUN b" }]),
            ),
            "bad-machine-os-config",
            "spec.containerFile",
        ),
        (
            "no push secret",
            with(os_config("worker"), "/spec/renderedImagePushSecret", json!({})),
            "bad-machine-os-config",
            "spec.renderedImagePushSecret.name",
        ),
        (
            "another secret",
            with(os_config("worker"), "/spec/renderedImagePushSecret/name", json!("none")),
            "missing-secret",
            "spec.renderedImagePushSecret",
        ),
        (
            "another pull secret",
            with(os_config("worker"), "/spec/baseImagePullSecret", json!({ "name": "none" })),
            "missing-secret",
            "spec.baseImagePullSecret",
        ),
        (
            "Containerfile",
            with(
                os_config("worker"),
                "/spec/containerFile",
                json!([{ "content": "x".repeat(4097) }]),
            ),
            "bad-machine-os-config",
            "spec.containerFile",
        ),
    ] {
        let name = config["metadata"]["name"].as_str().unwrap().to_owned();
        let all = manifests(&[pool("worker"), secret("push"), config]);
        let found = codes(check(&all, &options(Cluster::Kubernetes)).unwrap_err());
        let place = format!("f (document 3): MachineOSConfig {name}: {field}");
        assert!(found.contains(&(code.to_owned(), place)), "{what}: {found:?}");
    }
}

#[test]
fn a_pull_secret_that_is_named_must_be_there() {
    let settings = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "mosb-config" },
        "data": { "config.yaml": "globalPullSecret: pulll\nbaseOSContainerImage: registry.example.com/os:1" } });
    let all = [pool("worker"), secret("push"), os_config("worker"), settings];
    let found = codes(check(&manifests(&all), &options(Cluster::Kubernetes)).unwrap_err());
    let want = ("missing-secret", "ConfigMap mosb-config: globalPullSecret");
    assert_eq!(found, [(want.0.to_owned(), want.1.to_owned())]);
    let all = [&all[..], &[secret("pulll")]].concat();
    assert!(check(&manifests(&all), &options(Cluster::Kubernetes)).is_ok());
}

#[test]
fn a_pull_secret_that_should_not_be_it_is_reported() {
    let own = json!({ "name": "own" });
    let config = with(os_config("worker"), "/spec/baseImagePullSecret", own);
    let label = json!({ labels::PULL_SECRET: "true" });
    let permitted = with(secret("own"), "/metadata/labels", label);
    let login = |user: &str| {
        let login = json!({ "username": user, "password": "hunter2" });
        json!({ "auths": { "registry.example.com": login } }).to_string()
    };
    let as_user = |user: &str| {
        let data = json!({ ".dockerconfigjson": login(user) });
        with(permitted.clone(), "/stringData", data)
    };
    let unpermitted = ["no-base-image", "pull-secret-not-permitted", "push-login"];
    for (what, own, want) in [
        ("as it is", secret("own"), &unpermitted[..]),
        ("it says so", permitted.clone(), &["no-base-image", "push-login"]),
        ("another login", as_user("puller"), &["no-base-image"]),
        ("the login that pushes", as_user("u"), &["no-base-image", "push-login"]),
    ] {
        let all = manifests(&[pool("worker"), secret("push"), own, config.clone()]);
        let checked = check(&all, &options(Cluster::Kubernetes)).unwrap();
        let codes: Vec<&str> = checked.notices.iter().map(|it| &*it.code).collect();
        assert_eq!(codes, want, "{what}");
    }
}

#[test]
fn several_objects_are_judged_together() {
    let seeded = |mut config: Value| {
        config["metadata"]["annotations"] = json!({});
        config["status"] = json!({ "conditions": [{ "type": "Seeded", "status": "True", "reason": "PreBuiltImageSeeded" }] });
        config
    };
    let built = with(
        os_config("worker"),
        "/metadata/annotations",
        json!({ labels::CURRENT_MACHINE_OS_BUILD: "worker-1" }),
    );
    let both = |image: &str| {
        let annotations =
            json!({ labels::CURRENT_MACHINE_OS_BUILD: "worker-1", labels::PRE_BUILT_IMAGE: image });
        with(os_config("worker"), "/metadata/annotations", annotations)
    };
    let missing = with(os_config("infra"), "/metadata/annotations", json!({}));
    let pools = [pool("worker"), pool("infra"), secret("push")];
    for (what, more, want) in [
        ("none", vec![], &["no-machine-os-config"][..]),
        (
            "two for a pool",
            vec![os_config("worker"), os_config("worker")],
            &["duplicate-name", "pool-twice"],
        ),
        (
            "one of two has none",
            vec![os_config("worker"), missing.clone()],
            &["pre-built-image-missing"],
        ),
        (
            "two problems",
            vec![missing, os_config("other")],
            &["pre-built-image-missing", "unknown-pool"],
        ),
        ("a pool twice", vec![os_config("worker"), pool("worker")], &["duplicate-name"]),
        ("in service", vec![seeded(os_config("worker")), os_config("infra")], &[]),
        ("has a build", vec![built, os_config("infra")], &[]),
        (
            "an image, and a build of a cluster that does not exist",
            vec![both(&format!("registry.example.com/acme/os@{DIGEST}"))],
            &["pre-built-image-not-used"],
        ),
        (
            "the same with a tag",
            vec![both("registry.example.com/acme/os:1")],
            &["pre-built-image-reference", "pre-built-image-not-used"],
        ),
    ] {
        let all = manifests(&[pools.to_vec(), more].concat());
        let found = match check(&all, &options(Cluster::Kubernetes)) {
            Ok(checked) => {
                let pools: Vec<_> = checked.seeds.iter().map(|seed| seed.pool.as_str()).collect();
                assert_eq!(pools, ["infra"], "{what}");
                let is_reported = checked.notices.iter().any(|it| it.code == "already-seeded");
                assert!(is_reported, "{what}");
                Vec::new()
            }
            Err(error) => codes(error),
        };
        let found: Vec<&str> = found.iter().map(|(code, _)| &**code).collect();
        assert_eq!(found, want, "{what}");
    }
}

#[test]
fn each_kind_of_cluster_accepts_its_own_settings() {
    let deep = format!("registry.example.com/acme/team/os@{DIGEST}");
    let annotations = json!({ labels::PRE_BUILT_IMAGE: deep });
    let deep = with(os_config("worker"), "/metadata/annotations", annotations);
    let release =
        json!({ "kind": "ControllerConfig", "metadata": { "name": "machine-config-controller" } });
    let deep_push = with(
        os_config("worker"),
        "/spec/renderedImagePushSpec",
        json!("registry.example.com/acme/team/os:latest"),
    );
    for (what, cluster, objects, want) in [
        ("pushed deep", Cluster::Kubernetes, vec![pool("worker"), deep_push.clone()], None),
        (
            "pushed deep",
            Cluster::Openshift,
            vec![pool("worker"), deep_push],
            Some("bad-machine-os-config"),
        ),
        ("deep", Cluster::Kubernetes, vec![pool("worker"), deep.clone()], None),
        ("deep", Cluster::Openshift, vec![pool("worker"), deep], Some("pre-built-image-nested")),
        ("the release's pool", Cluster::Openshift, vec![os_config("worker")], None),
        (
            "the release's pool",
            Cluster::Kubernetes,
            vec![os_config("worker")],
            Some("unknown-pool"),
        ),
        (
            "all of a release",
            Cluster::Openshift,
            vec![os_config("worker"), release],
            Some("unknown-pool"),
        ),
    ] {
        let all = manifests(&[objects, vec![secret("push")]].concat());
        let found = check(&all, &options(cluster)).err().map(codes).unwrap_or_default();
        assert_eq!(found.first().map(|(code, _)| &**code), want, "{what} {cluster:?}");
    }
}

#[test]
fn without_a_registry_check_secrets_may_come_later() {
    let all = manifests(&[pool("worker"), os_config("worker")]);
    let options = ValidationOptions { registries: false, ..options(Cluster::Kubernetes) };
    let checked = check(&all, &options).unwrap();
    assert!(checked.seeds[0].push_secret.is_none());
    let codes: Vec<&str> = checked.notices.iter().map(|it| &*it.code).collect();
    assert_eq!(codes, ["no-base-image", "missing-secret"]);
    // Nobody else reports it then.
    let text =
        r#"{"auths":{"registry.example.com":{"auth":"hunter2"},"other.example":{"auth":"b"}}}"#;
    let unreadable = with(
        secret("global-pull-secret-copy"),
        "/stringData",
        json!({ ".dockerconfigjson": text }),
    );
    let all = manifests(&[pool("worker"), os_config("worker"), secret("push"), unreadable]);
    for (registries, want) in [(true, None), (false, Some("registry.example.com"))] {
        let options = ValidationOptions { registries, pull_secret: None, ..options };
        let checked = check(&all, &options).unwrap();
        let found = checked.notices.iter().find(|it| it.code == "bad-registry-secret");
        let named = found.map(|it| it.message.split('"').nth(1).unwrap());
        assert_eq!(named, want);
        assert!(!format!("{found:?}").contains("hunter2"));
    }
}

#[test]
fn machines_of_openshift_have_the_clusters_logins_alone() {
    let with_own = with(os_config("worker"), "/spec/baseImagePullSecret", json!({ "name": "own" }));
    let namespaced = |name: &str, namespace: &str| {
        let mut secret = secret(name);
        secret["metadata"]["namespace"] = json!(namespace);
        secret
    };
    let ours = "openshift-machine-config-operator";
    for (cluster, want) in [
        (Cluster::Openshift, "secret pull-secret"),
        (Cluster::Kubernetes, "secret own and secret pull-secret"),
    ] {
        let all = manifests(&[
            pool("worker"),
            with_own.clone(),
            namespaced("push", ours),
            namespaced("own", ours),
            namespaced("pull-secret", "openshift-config"),
        ]);
        let checked = check(&all, &options(cluster)).unwrap();
        assert_eq!(checked.seeds[0].pull.name, want);
    }
}

#[test]
fn two_secrets_with_one_name_are_ambiguous() {
    let namespaced =
        |namespace: &str| with(secret("push"), "/metadata/namespace", json!(namespace));
    let ours = "openshift-machine-config-operator";
    for (what, cluster, secrets, want) in [
        ("the same twice", Cluster::Kubernetes, [secret("push"), secret("push")], true),
        (
            "one of them without a namespace",
            Cluster::Openshift,
            [namespaced(ours), secret("push")],
            true,
        ),
        (
            "one of them elsewhere",
            Cluster::Openshift,
            [namespaced("default"), namespaced(ours)],
            false,
        ),
    ] {
        // Named twice, reported once.
        let own = json!({ "name": "push" });
        let config = with(os_config("worker"), "/spec/baseImagePullSecret", own);
        let all = manifests(&[vec![pool("worker"), config], secrets.to_vec()].concat());
        let found = check(&all, &options(cluster)).err().map(codes);
        let place = "f (document 4): Secret push: metadata.name".to_owned();
        let wanted = want.then(|| vec![("duplicate-name".to_owned(), place)]);
        assert_eq!(found, wanted, "{what}");
    }
}
