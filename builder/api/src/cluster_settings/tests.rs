use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use mosb_image::signature_policy::Requirement;

const PEM: &str = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";

fn pem(text: &str) -> Value {
    json!(STANDARD.encode(text))
}

#[test]
fn nothing_is_required() {
    for text in ["", "\n", "{}", "job: {}"] {
        assert_eq!(ClusterSettings::parse(text), Ok(ClusterSettings::default()), "{text:?}");
    }
    assert_eq!(ClusterSettings::default().global_pull_secret, "global-pull-secret-copy");
}

#[test]
fn problems_are_reported_with_their_path() {
    for (text, field, problem) in [
        ("baseOSContainerimage: x", "baseOSContainerimage", "unknown field"),
        ("job: {tolerations: [{}, {keys: x}]}", "job.tolerations[1].keys", "unknown field"),
        ("job: {tolerations: [{}]}", "job.tolerations[0].key", "want a key"),
        (
            "job: {tolerations: [{key: a, operator: In}]}",
            "job.tolerations[0].operator",
            "want Equal",
        ),
        (
            "job: {tolerations: [{key: a, effect: None}]}",
            "job.tolerations[0].effect",
            "want NoSchedule",
        ),
        (
            "job: {tolerations: [{operator: Exists, value: a}]}",
            "job.tolerations[0].value",
            "no value",
        ),
        (
            "job: {tolerations: [{key: a, tolerationSeconds: 1}]}",
            "job.tolerations[0].tolerationSeconds",
            "NoExecute",
        ),
        (
            "job: {resources: {imageBuild: {limits: {memory: 1 GB}}}}",
            "job.resources.imageBuild.limits.memory",
            "want a quantity",
        ),
        (
            "job: {activeDeadlineSeconds: {direct: 0}}",
            "job.activeDeadlineSeconds.direct",
            "at least 1",
        ),
        (
            "job: {activeDeadlineSeconds: {direct: -1}}",
            "job.activeDeadlineSeconds.direct",
            "invalid value",
        ),
        ("job: {runRetries: 11}", "job.runRetries", "at most 10"),
        ("job: {storageDriver: btrfs}", "job.storageDriver", "unknown variant"),
        ("job: {userNamespaces: maybe}", "job.userNamespaces", "unknown variant"),
        ("job: {imagePullSecrets: [A]}", "job.imagePullSecrets[0]", "not a name"),
        ("job: {priorityClassName: ''}", "job.priorityClassName", "not a name"),
        ("job: {labels: {'a b': c}}", "job.labels.a b", "the API takes"),
        ("job: {nodeSelector: {a: 'b c'}}", "job.nodeSelector.a", "the API takes"),
        ("rollout: {stagingPerRegistry: 0}", "rollout.stagingPerRegistry", "1 to 100"),
        ("rollout: {stagingPerRegistry: 101}", "rollout.stagingPerRegistry", "1 to 100"),
        ("retention: {keep: 0}", "retention.keep", "1 to 1000"),
        ("retention: {days: 3651}", "retention.days", "0 to 3650"),
        ("rollout: {nodeTimeoutMinutes: 4}", "rollout.nodeTimeoutMinutes", "5 to 1440"),
        ("rollout: {nodeTimeoutMinutes: 1441}", "rollout.nodeTimeoutMinutes", "5 to 1440"),
        ("rollout: {maxUnavailable: 1}", "rollout.maxUnavailable", "unknown field"),
        ("rolloutPolicies: {p: {ring: []}}", "rolloutPolicies.p.ring", "unknown field"),
        ("rolloutPolicies: {p: {rings: [{}]}}", "rolloutPolicies.p.rings[0]", "exactly one of"),
        (
            "rolloutPolicies: {p: {rings: [{count: 1, percent: 1}]}}",
            "rolloutPolicies.p.rings[0]",
            "exactly one of",
        ),
        (
            "rolloutPolicies: {p: {rings: [{percent: 101}]}}",
            "rolloutPolicies.p.rings[0]",
            "percent 101: want 1 to 100",
        ),
        (
            "rolloutPolicies: {p: {rings: [{count: 0}]}}",
            "rolloutPolicies.p.rings[0].count",
            "nonzero",
        ),
        (
            "rolloutPolicies: {p: {rings: [{selector: {}}]}}",
            "rolloutPolicies.p.rings[0]",
            "it is empty",
        ),
        ("rolloutPolicies: {p: {soak: 10}}", "rolloutPolicies.p.soak", "invalid type"),
        ("rolloutPolicies: {p: {soak: 745h}}", "rolloutPolicies.p.soak", "at most 744 hours"),
        ("rolloutPolicies: {p: {soak: '-1m'}}", "rolloutPolicies.p.soak", "not a time of"),
        ("rolloutPolicies: {p: {maxFailures: 0}}", "rolloutPolicies.p.maxFailures", "nonzero"),
        (
            "rolloutPolicies: {p: {windows: [{zone: Europe/Bonn}]}}",
            "rolloutPolicies.p.windows[0].zone",
            "not a time zone",
        ),
        (
            "rolloutPolicies: {p: {windows: [{from: '24:00'}]}}",
            "rolloutPolicies.p.windows[0].from",
            "want a time",
        ),
        (
            "rolloutPolicies: {p: {windows: [{days: [Monday]}]}}",
            "rolloutPolicies.p.windows[0].days[0]",
            "unknown variant",
        ),
        (
            "rolloutPolicies: {p: {blockOn: {alerts: {prometheus: 'http://a@b', names: [A]}}}}",
            "rolloutPolicies.p.blockOn.alerts",
            "without a user",
        ),
        (
            "rolloutPolicies: {p: {blockOn: {alerts: {prometheus: 'http://a', names: []}}}}",
            "rolloutPolicies.p.blockOn.alerts",
            "1 to 32",
        ),
        (
            "rolloutPolicies: {p: {health: {nodeConditions: {Ready: maybe}}}}",
            "rolloutPolicies.p.health.nodeConditions.Ready",
            "unknown variant",
        ),
        (
            "rolloutPolicies: {p: {health: {pods: [{namespace: A, selector: {matchLabels: {a: b}}}]}}}",
            "rolloutPolicies.p.health.pods[0]",
            "name of a namespace",
        ),
        ("userData: {joinSecret: a/b}", "userData.joinSecret", "not a name"),
        ("userData: {secret: a}", "userData.secret", "unknown field"),
        ("userData: {endpoint: 'https://a'}", "userData.endpoint", "want host or host:port"),
        ("userData: {endpoint: '0.0.0.0:8443'}", "userData.endpoint", "can't connect"),
        ("bootImages: {mode: All}", "bootImages.mode", "unknown field"),
        (
            "bootImages: {machineManagers: [{resource: machinesets, apiGroup: machine.openshift.io, selection: {mode: Some}}]}",
            "bootImages.machineManagers[0].selection.mode",
            "unknown variant",
        ),
        (
            "bootImages: {machineManagers: [{resource: machinedeployments, apiGroup: machine.openshift.io, selection: {mode: All}}]}",
            "bootImages.machineManagers[0]",
            "machine.openshift.io has no machinedeployments; want one of machinesets.machine.openshift.io",
        ),
        (
            "bootImages: {machineManagers: [{resource: machinesets, apiGroup: cluster.x-k8s.io, selection: {mode: CustomConfig, partial: {machineResourceSelector: {matchLabel: {a: b}}}}}]}",
            "bootImages.machineManagers[0].selection.partial.machineResourceSelector.matchLabel",
            "unknown field",
        ),
        (
            "bootImages: {machineManagers: [{resource: machinesets, apiGroup: cluster.x-k8s.io, selection: {mode: All}}, {resource: machinesets, apiGroup: cluster.x-k8s.io, selection: {mode: None}}]}",
            "bootImages.machineManagers[1]",
            "has an entry already",
        ),
        ("bootImages: {stub: replace}", "bootImages.stub", "unknown variant"),
        (
            "bootImages: {stockImages: [ami-1, 'a b']}",
            "bootImages.stockImages[1]",
            "name of an image",
        ),
        ("bootImages: {images: {'4.18': x}}", "bootImages.images.4.18", "want a release"),
        ("bootImages: {images: {4.18.3: ''}}", "bootImages.images.4.18.3", "name of an image"),
        ("bootImages: {oldest: latest}", "bootImages.oldest", "want a release"),
        ("globalPullSecret: ''", "globalPullSecret", "not a name"),
        ("signing: {secret: 'a/b'}", "signing.secret", "not a name"),
        ("additionalTrustBundle: hello", "additionalTrustBundle", "no certificate"),
        (
            "registryTrustBundle: '-----BEGIN PRIVATE KEY-----'",
            "registryTrustBundle",
            "private key",
        ),
        ("imageRegistryBundles: {../etc: x}", "imageRegistryBundles.../etc", "want host"),
        ("imageRegistryBundles: {a.io: x}", "imageRegistryBundles.a.io", "no certificate"),
        ("mirrors: [{source: 'a\"b', mirrors: []}]", "mirrors[0].source", "want host"),
        (
            "mirrors: [{source: a.io, mirrors: [b.io, 'https://c.io']}]",
            "mirrors[0].mirrors[1]",
            "want host",
        ),
        ("mirrors: [{mirrors: []}]", "mirrors[0]", "missing field"),
        ("proxy: {httpProxy: 'http://u:hunter2@p:1'}", "proxy.httpProxy", "proxy.secret"),
        ("proxy: {httpsProxy: 'p:1'}", "proxy.httpsProxy", "want http://"),
        ("proxy: {secret: ''}", "proxy.secret", "not a name"),
    ] {
        let error = ClusterSettings::parse(text).unwrap_err();
        let message = error.to_string();
        let ClusterSettingsError::Field { field: got, problem: why } = error else {
            panic!("{message}")
        };
        assert_eq!(got, field, "{text}");
        assert!(why.contains(problem), "{text}: {why}");
        assert!(!message.contains("hunter2"), "{message}");
    }
    assert!(matches!(ClusterSettings::parse("a: [1"), Err(ClusterSettingsError::Yaml(_))));
}

#[test]
fn machine_sets_are_selected_by_kind() {
    use crate::boot_images::{ManagedKind, Selection};
    let text = "
bootImages:
  machineManagers:
    - {resource: machinesets, apiGroup: machine.openshift.io, selection: {mode: Enabled}}
    - {resource: controlplanemachinesets, apiGroup: machine.openshift.io, selection: {mode: None}}
    - {resource: machinesets, apiGroup: cluster.x-k8s.io, selection: {mode: Disabled}}
    - resource: machinedeployments
      apiGroup: cluster.x-k8s.io
      selection: {mode: CustomConfig, partial: {machineResourceSelector: {matchLabels: {a: b}}}}
  stub: managed
  stockImages: [ami-0123, projects/rhcos-cloud/global/images/rhcos-9]
  images: {9.6.20260210-0: rhcos-9.6, 418.94.202511191518-0: a, 41.20250105.3.0: b}
  oldest: 4.18.3
";
    let settings = ClusterSettings::parse(text).unwrap().boot_images;
    let managers = settings.machine_managers.as_deref().unwrap();
    let kinds: Vec<ManagedKind> = managers.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, ManagedKind::ALL);
    let labels = |value: &str| BTreeMap::from([("a".to_owned(), value.to_owned())]);
    let selected = |value: &str| -> Vec<bool> {
        managers.iter().map(|one| one.selection.selects(&labels(value))).collect()
    };
    assert_eq!(selected("b"), [true, false, false, true]);
    assert_eq!(selected("c"), [true, false, false, false]);
    assert_eq!(managers[0].selection, Selection::All);
    assert_eq!(settings.stub, StubReference::Managed);
    assert_eq!((settings.stock_images.len(), settings.images.len()), (2, 3));
    let absent = ClusterSettings::parse("bootImages: {}").unwrap().boot_images;
    let empty = ClusterSettings::parse("bootImages: {machineManagers: []}").unwrap().boot_images;
    assert_eq!((absent.machine_managers, empty.machine_managers), (None, Some(vec![])));
}

#[test]
fn the_clusters_objects_win_field_by_field() {
    let ours = ClusterSettings::parse(&format!(
        "baseOSContainerImage: ours\nbaseOSExtensionsContainerImage: ours\nbuilderImage: ours\nadditionalTrustBundle: {PEM:?}\n\
         imageRegistryBundles: {{ours.io: {PEM:?}}}\nproxy: {{noProxy: ours, httpProxy: 'http://ours:1'}}\nmirrors: [{{source: ours.io}}]"
    ))
    .unwrap();
    let nothing = ours.clone().merged(&ClusterObjects::default());
    assert_eq!(nothing, (ours.clone(), vec![]));

    let images = json!({ "data": { "images.json": json!({
        "machineConfigOperator": "theirs", "baseOSContainerImage": "images", "baseOSExtensionsContainerImage": "images",
    }).to_string() } });
    let encoded = STANDARD.encode(PEM);
    let in_two_lines = format!("{}\r\n{}\n", &encoded[..20], &encoded[20..]);
    let config = json!({ "spec": {
        "baseOSContainerImage": "config", "additionalTrustBundle": null, "rootCAData": in_two_lines,
        "proxy": { "httpsProxy": "http://u:hunter2@theirs:1" },
        "imageRegistryBundleData": [{ "file": "a.io..5000", "data": pem(PEM) }, { "file": "b.io", "data": pem(PEM) }],
        "imageRegistryBundleUserData": [{ "file": "b.io", "data": pem(&format!("user\n{PEM}")) }],
    } });
    let last = json!({ "data": { "baseOSContainerImage": "last\n", "baseOSExtensionsContainerImage": "" } });
    let of_last = ClusterObjects { os_images: Some(&last), ..ClusterObjects::default() };
    assert_eq!(ours.clone().merged(&of_last), (ours.clone(), vec![]), "ours first");
    let (without, _) = ClusterSettings::default().merged(&of_last);
    assert_eq!(without.base_os_container_image.as_deref(), Some("last"));
    assert_eq!(without.base_os_extensions_container_image, None);
    let cluster = ClusterObjects {
        controller_config: Some(&config),
        operator_images: Some(&images),
        os_images: Some(&last),
        mirror_sets: &[],
        image_config: None,
    };
    let (merged, findings) = ours.clone().merged(&cluster);
    assert_eq!(findings, vec![]);
    assert_eq!(merged.base_os_container_image.as_deref(), Some("config"));
    assert_eq!(merged.base_os_extensions_container_image.as_deref(), Some("images"));
    assert_eq!(merged.builder_image.as_deref(), Some("ours"));
    assert_eq!(merged.additional_trust_bundle, ours.additional_trust_bundle);
    assert_eq!(merged.registry_trust_bundle.as_deref(), Some(PEM));
    assert_eq!(merged.mirrors, ours.mirrors);
    assert!(!format!("{merged:?}").contains("hunter2"));
    let proxy = merged.proxy.unwrap();
    assert_eq!(
        proxy.variables(),
        [
            ("HTTPS_PROXY".to_owned(), "http://u:hunter2@theirs:1".to_owned()),
            ("https_proxy".to_owned(), "http://u:hunter2@theirs:1".to_owned())
        ]
        .into()
    );
    let bundles: Vec<_> =
        merged.image_registry_bundles.iter().map(|(host, pem)| (&**host, pem.len())).collect();
    assert_eq!(bundles, [("a.io:5000", PEM.len()), ("b.io", PEM.len() + 5)]);
}

#[test]
fn mirror_sets_are_read_whatever_their_order() {
    let digest = json!({ "kind": "ImageDigestMirrorSet", "metadata": { "name": "a" }, "spec": { "imageDigestMirrors": [
        { "source": "quay.io/x", "mirrors": ["m.io/x"], "mirrorSourcePolicy": "NeverContactSource" }, { "source": "" },
    ] } });
    let tag = json!({ "kind": "ImageTagMirrorSet", "metadata": { "name": "a" }, "spec": { "imageTagMirrors": [{ "source": "quay.io/y/", "mirrors": ["m.io/y/"] }] } });
    let old = json!({ "kind": "ImageContentSourcePolicy", "metadata": { "name": "a" }, "spec": { "repositoryDigestMirrors": [{ "source": "quay.io/z", "mirrors": ["m.io/z", 1] }] } });
    let ours = ClusterSettings::parse("mirrors: [{source: ours.io}]").unwrap();
    let read = |sets: &[Value]| {
        let cluster =
            ClusterObjects { mirror_sets: sets, image_config: None, ..ClusterObjects::default() };
        ours.clone().merged(&cluster)
    };
    let (merged, findings) = read(&[tag.clone(), old.clone(), digest.clone()]);
    let codes: Vec<_> = findings.iter().map(|f| (&*f.code, f.object.as_deref().unwrap())).collect();
    assert_eq!(codes, [("odd-cluster-object", "ImageDigestMirrorSet/a")]);
    let got: Vec<_> = merged
        .mirrors
        .iter()
        .map(|m| (&*m.source, m.by, m.mirror_source_policy, m.mirrors.len()))
        .collect();
    use MirrorSourcePolicy::{AllowContactingSource, NeverContactSource};
    assert_eq!(
        got,
        [
            ("quay.io/z", MirrorBy::Digest, AllowContactingSource, 1),
            ("quay.io/x", MirrorBy::Digest, NeverContactSource, 1),
            ("quay.io/y", MirrorBy::Tag, AllowContactingSource, 1),
        ]
    );
    assert_eq!(merged.mirrors[2].mirrors, ["m.io/y"], "a slash at the end means nothing");
    assert_eq!(read(&[digest, tag, old]), (merged, findings));
}

#[test]
fn odd_objects_stop_nothing() {
    let ours = ClusterSettings::default();
    let images = json!({ "data": { "images.json": "{" } });
    let config = json!({ "spec": { "additionalTrustBundle": "!", "rootCAData": pem("hello"), "proxy": "x", "imageRegistryBundleData": [{ "file": "../a", "data": pem(PEM) }] } });
    let cluster = ClusterObjects {
        controller_config: Some(&config),
        operator_images: Some(&images),
        ..ClusterObjects::default()
    };
    let (merged, findings) = ours.clone().merged(&cluster);
    assert_eq!(merged, ours);
    assert_eq!(findings.len(), 4, "{findings:?}");
}

#[test]
fn secret_of_proxy_takes_precedence_over_the_fields() {
    let proxy =
        Proxy { no_proxy: Some("a".to_owned()), secret: Some("s".to_owned()), ..Proxy::default() };
    let data = |key: &str, value: &str| [(key.to_owned(), value.as_bytes().to_vec())].into();
    let with = proxy.clone().with_secret(&data("httpProxy", "http://u:hunter2@p:1\n")).unwrap();
    assert_eq!(with.http_proxy.as_ref().unwrap().expose(), "http://u:hunter2@p:1");
    assert_eq!(format!("{:?}", with.http_proxy.unwrap()), "\"http://[secret]@p:1\"");
    for (key, value) in [("HTTP_PROXY", "http://p:1"), ("httpProxy", "hunter2")] {
        let error = proxy.clone().with_secret(&data(key, value)).unwrap_err();
        assert!(matches!(error, ClusterSettingsError::ProxySecret { .. }), "{key}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn registries_of_cluster_image_config_precede_ours() {
    let ours = "registrySources: {blockedRegistries: [ours.example]}";
    let ours = ClusterSettings::parse(ours).unwrap();
    let object = |sources: Value| json!({ "kind": "Image", "metadata": { "name": "cluster" }, "spec": { "registrySources": sources } });
    let merged = |object: &Value| {
        ours.clone()
            .merged(&ClusterObjects { image_config: Some(object), ..ClusterObjects::default() })
    };
    let theirs = object(json!({
        "allowedRegistries": ["quay.io", "registry.example:5000/acme", "*.apps.example", "bad entry/"],
        "insecureRegistries": ["registry.example:5000"],
        "containerRuntimeSearchRegistries": ["docker.io"],
    }));
    let (settings, findings) = merged(&theirs);
    let sources = &settings.registry_sources;
    assert_eq!(
        sources.allowed_registries,
        ["quay.io", "registry.example:5000/acme", "*.apps.example"]
    );
    assert_eq!(sources.insecure_registries, ["registry.example:5000"]);
    assert!(sources.blocked_registries.is_empty(), "all of it is theirs");
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].message.contains("allowedRegistries[3]"), "{findings:?}");
    let policy = settings.pull_policy().unwrap();
    for (image, want) in [
        ("quay.io/acme/os:v1", Requirement::Accept),
        ("r.apps.example/x", Requirement::Accept),
        ("registry.example:5000/other", Requirement::Reject),
    ] {
        assert_eq!(policy.verdict(image).requirement, &want, "{image}");
    }
    for nothing in [json!({}), json!({ "allowedRegistries": [] }), Value::Null] {
        let (settings, findings) = merged(&object(nothing));
        assert_eq!((settings, findings), (ours.clone(), Vec::new()));
    }
    assert_eq!(ours.pull_policy(), None);
    for (text, field) in [
        ("registrySources: {blockedRegistries: [a b]}", "registrySources.blockedRegistries[0]"),
        ("signaturePolicy: '{}'", "signaturePolicy"),
    ] {
        let error = ClusterSettings::parse(text).unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
}

#[test]
fn a_policy_has_rings_windows_and_checks() {
    let text = r#"
rolloutPolicies:
  careful:
    rings:
      - selector: {matchLabels: {canary: "true"}}
        soak: 1h30m
      - percent: 20
    soak: 10m
    windows: [{days: [Sat], from: "22:00", to: "04:00", zone: europe/berlin}]
    blockOn:
      alerts: {prometheus: "http://prometheus.monitoring:9090/", names: [DatabaseDown]}
      pods: [{selector: {matchExpressions: [{key: job, operator: In, values: [a, b]}, {key: x, operator: DoesNotExist}]}}]
"#;
    let settings = ClusterSettings::parse(text).unwrap();
    let policy = &settings.rollout_policies["careful"];
    let minutes = |ring| policy.soak_of(ring).as_secs() / 60;
    assert_eq!([minutes(0), minutes(1), minutes(2)], [90, 10, 10]);
    assert_eq!((policy.max_failures.get(), policy.health.fail_after.0.as_secs()), (1, 300));
    assert_eq!(policy.windows[0].zone.name(), "Europe/Berlin");
    assert_eq!(policy.windows[0].from.hour(), 22);
    assert_eq!(policy.block_on.pods[0].to_string(), "job in (a,b),!x");
    let alerts = policy.block_on.alerts.as_ref().unwrap();
    assert_eq!(alerts.prometheus, "http://prometheus.monitoring:9090");
    let none = ClusterSettings::parse("rolloutPolicies: {p: {}}").unwrap();
    assert_eq!(none.rollout_policies["p"], RolloutPolicy::default());
}
