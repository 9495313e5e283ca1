//! The requests whose objects are tested.

use super::*;

pub(super) const HEX: &str = "0123456789abcdef0123456789abcdef";
pub(super) const JOB_UID: &str = "11111111-2222-3333-4444-555555555555";
pub(super) const PEM: &str = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n";

pub(super) fn carried(name: String, data: &[(&str, &str)], binary: &[(&str, &str)]) -> ConfigMap {
    let map = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs.map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    ConfigMap {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        metadata: ObjectMeta {
            name,
            annotations: map(&[("mosb.dev/part", "1/1")]),
            ..ObjectMeta::default()
        },
        data: map(data),
        binary_data: map(binary),
    }
}

pub(super) fn logins(registry: &str, password: &str) -> DockerConfigJson {
    let text = json!({ "auths": { registry: { "username": "u", "password": password } } });
    DockerConfigJson::from_secret(&Secret {
        type_: Some("kubernetes.io/dockerconfigjson".to_owned()),
        data: Some(
            [(".dockerconfigjson".to_owned(), ByteString(text.to_string().into_bytes()))].into(),
        ),
        ..Secret::default()
    })
    .unwrap()
}

pub(super) fn direct_of(pool: &str) -> JobRequest {
    let digest = |text: &str| Digest::of(text.as_bytes());
    let pool: mosb_api::PoolName = pool.parse().unwrap();
    let build = mosb_api::BuildName::new(&pool, HEX).unwrap();
    let name = mosb_api::object_name("mc", &build);
    let os: mosb_image::RepoRef = "quay.io/acme/coreos".parse().unwrap();
    let secret = |name: &str, registry, password| NamedSecret {
        name: name.to_owned(),
        credentials: logins(registry, password),
    };
    JobRequest {
        build_uid: "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee".to_owned(),
        config: pool.to_string(),
        rendered: format!("rendered-worker-{HEX}").parse().unwrap(),
        attempt: 1,
        builder: ImageBuilderType::Job,
        openshift: None,
        method: JobMethod::Direct,
        spec: BuildSpec {
            format: BuildSpec::FORMAT,
            build,
            namespace: "mosb-system".to_owned(),
            machine_config: mounts::MACHINE_CONFIG.into(),
            containerfile: None,
            trust_bundle: None,
            base: os.pinned(digest("base")),
            base_name: os.pinned(digest("base")).to_string().try_into().unwrap(),
            extensions_image: None,
            platform: "linux/amd64".parse().unwrap(),
            push: "registry.example:5000/os/images".parse().unwrap(),
            build_args: BTreeMap::new(),
            build_on: BuildOn::OsChange,
            nodes: BuilderNodes::Any,
            base_tree: None,
            prepared: PreparedImageUse::Without,
            in_service: None,
        },
        payload: vec![carried(name, &[(MACHINE_CONFIG_KEY, "config")], &[])],
        pull: secret("pull", "quay.io", "pull-canary"),
        push_secret: secret("push", "registry.example:5000", "push-canary"),
        entitlement: None,
        repositories: None,
        package_keys: None,
        copies: Vec::new(),
        registries_conf: None,
        signature_policy: None,
        certs: BTreeMap::new(),
        registry_trust: None,
        proxy: None,
        builder_image: "registry.example:5000/mosb@sha256:1".to_owned(),
        settings: JobSettings::default(),
        machine_role: MachineRole::Other,
        node_platform: Some("linux/amd64".parse().unwrap()),
        security_context_constraints: false,
        user_namespaces: true,
        pool,
    }
}

pub(super) fn direct() -> JobRequest {
    let mut request = direct_of("worker");
    let tree = "registry.example:5000/os/images@sha256:".to_owned() + &"b".repeat(64);
    request.spec.base_tree = Some(tree.parse().unwrap());
    request
}

/// A direct build on a prepared base that has run instructions, for machines of the control plane.
pub(super) fn on_prepared_base() -> JobRequest {
    let image = |hex: &str| {
        let text = format!("registry.example:5000/os/images@sha256:{}", hex.repeat(64));
        text.parse().unwrap()
    };
    let mut request = with_containerfile(direct(), "FROM base\nRUN true\n");
    request.spec.nodes = BuilderNodes::ControlPlane;
    request.spec.prepared = PreparedImageUse::On { image: image("c"), tree: Some(image("d")) };
    request
}

/// A build that makes a prepared base first.
pub(super) fn makes_prepared_base() -> JobRequest {
    let mut request = direct_of("worker");
    request.method = JobMethod::Containerfile;
    request.spec.prepared = PreparedImageUse::Make;
    request
}

/// A build that runs only the last part of a Containerfile.
pub(super) fn last_part() -> JobRequest {
    let mut request = containerfile();
    request.spec.prepared = on_prepared_base().spec.prepared;
    request
}

pub(super) fn containerfile() -> JobRequest {
    let mut request = with_containerfile(direct_of("worker"), "FROM configs\nRUN true\n");
    request.method = JobMethod::Containerfile;
    request
}

fn with_containerfile(mut request: JobRequest, text: &str) -> JobRequest {
    let name = mosb_api::object_name("containerfile", &request.spec.build);
    request.payload.push(carried(name, &[(CONTAINERFILE_KEY, text)], &[]));
    request.spec.containerfile = Some(Path::new(mounts::CONTAINERFILE).join(CONTAINERFILE_KEY));
    request
}

pub(super) fn degraded() -> JobRequest {
    JobRequest { user_namespaces: false, ..containerfile() }
}

/// Every input there is, of a config in two parts.
pub(super) fn everything() -> JobRequest {
    let mut request = containerfile();
    let trust = mosb_api::object_name("additionaltrustbundle", &request.spec.build);
    let second = mosb_api::object_name("mc", &request.spec.build) + "-2";
    request.payload[0].metadata.name += "-1";
    request.payload.insert(1, carried(second, &[(MACHINE_CONFIG_KEY, "more")], &[]));
    request.payload.push(carried(trust, &[], &[(TRUST_BUNDLE_KEY, "UEVN")]));
    request.spec.trust_bundle = Some(Path::new(mounts::TRUST_BUNDLE).join(TRUST_BUNDLE_KEY));
    let data = [("httpsProxy".to_owned(), b"http://u:proxy-canary@proxy:3128".to_vec())];
    let proxy = Proxy { no_proxy: Some(".svc".to_owned()), ..Proxy::default() };
    let extensions = "quay.io/acme/extensions@sha256:".to_owned() + &"e".repeat(64);
    request.spec.extensions_image = Some(extensions.parse().unwrap());
    request.spec.build_args = [("A".to_owned(), "$(MOSB_JOB_UID) $x".to_owned())].into();
    request.spec.build_on = BuildOn::EveryConfig;
    JobRequest {
        entitlement: Some("etc-pki-entitlement-worker".to_owned()),
        repositories: Some("etc-yum-repos-d".to_owned()),
        package_keys: Some("etc-pki-rpm-gpg".to_owned()),
        registries_conf: Some("[[registry]]\nlocation = \"quay.io\"\n".to_owned()),
        certs: [
            ("192.0.2.1:5000".to_owned(), PEM.to_owned()),
            ("[2001:db8::1]:5000".to_owned(), PEM.to_owned()),
        ]
        .into(),
        registry_trust: Some(PEM.to_owned()),
        proxy: Some(proxy.with_secret(&data.into()).unwrap()),
        attempt: 3,
        ..request
    }
}

pub(super) fn long_names() -> JobRequest {
    let mut request = direct_of(&"p".repeat(250));
    request.rendered = format!("rendered-{}-{HEX}", "p".repeat(200)).parse().unwrap();
    request
}

pub(super) fn overrides() -> JobRequest {
    let text = r"
job:
  resources:
    imageBuild:
      requests: {cpu: '2', ephemeral-storage: null}
      limits: {ephemeral-storage: 200Gi, memory: 8Gi}
    waitForDone: {limits: {memory: null, ephemeral-storage: null}}
  activeDeadlineSeconds: {containerfile: 600}
  tolerations:
    - {key: build, operator: Exists, effect: NoSchedule}
    - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 60}
  nodeSelector: {disk: fast, kubernetes.io/arch: arm64}
  priorityClassName: system-cluster-critical
  imagePullPolicy: Always
  imagePullSecrets: [puller]
  storageDriver: vfs
  labels: {team: os, machineconfiguration.openshift.io/machine-os-build: mine}
  annotations: {why: we want it}
";
    JobRequest { settings: ClusterSettings::parse(text).unwrap().job, ..containerfile() }
}

pub(super) fn alone() -> JobRequest {
    JobRequest { builder: ImageBuilderType::CustomPod, ..overrides() }
}

pub(super) fn openshift() -> JobRequest {
    let map = |name: &str, key: &str| carried(name.to_owned(), &[(key, "{}")], &[]);
    let source = OpenShiftSource {
        dockerfile: "FROM quay.io/acme/base\nCOPY machineconfig/ /machineconfig/\n".to_owned(),
        context: vec![
            ContextMap {
                folder: "machineconfig".to_owned(),
                map: map("context-worker-1", "currentconfig"),
            },
            ContextMap {
                folder: "machineconfig/mounted".to_owned(),
                map: map("context-worker-2", "hosts"),
            },
        ],
    };
    JobRequest {
        builder: ImageBuilderType::OpenShiftImage,
        openshift: Some(source),
        payload: Vec::new(),
        entitlement: Some("etc-pki-entitlement-worker".to_owned()),
        repositories: Some("etc-yum-repos-d".to_owned()),
        package_keys: Some("etc-pki-rpm-gpg".to_owned()),
        ..overrides()
    }
}

/// For control-plane machines; the settings place worker builds elsewhere.
pub(super) fn control_plane() -> JobRequest {
    let selector = json!({
        "matchLabels": { "node-role.kubernetes.io/master": "" },
        "matchExpressions": [{ "key": "edge", "operator": "DoesNotExist" }],
    });
    let text = "job: {nodeSelector: {disk: fast}, tolerations: [{key: build, operator: Exists}]}";
    JobRequest {
        machine_role: MachineRole::ControlPlane(serde_json::from_value(selector).unwrap()),
        settings: ClusterSettings::parse(text).unwrap().job,
        ..containerfile()
    }
}

/// With package sources in another namespace.
pub(super) fn copied(request: JobRequest) -> JobRequest {
    let copy = |source: PackageSource| source.copy_name(&request.spec.build);
    let [entitlement, repositories, keys] =
        [PackageSource::Entitlement, PackageSource::Repositories, PackageSource::Keys].map(copy);
    let named = |name: &String| k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        name: Some(name.clone()),
        ..Default::default()
    };
    let secret = |name: &String| {
        Input::Secret(Secret {
            metadata: named(name),
            data: Some([("key".to_owned(), ByteString(b"package-canary".to_vec()))].into()),
            ..Secret::default()
        })
    };
    let map = k8s_openapi::api::core::v1::ConfigMap {
        metadata: named(&repositories),
        data: Some([("a.repo".to_owned(), "[a]\n".to_owned())].into()),
        ..Default::default()
    };
    JobRequest {
        copies: vec![secret(&entitlement), Input::ConfigMap(map), secret(&keys)],
        entitlement: Some(entitlement),
        repositories: Some(repositories),
        package_keys: Some(keys),
        ..request
    }
}

pub(super) fn cases() -> [(&'static str, JobRequest); 13] {
    [
        ("direct", direct()),
        ("containerfile", containerfile()),
        ("control-plane", control_plane()),
        ("copied", copied(containerfile())),
        ("degraded", degraded()),
        ("everything", everything()),
        ("long-names", long_names()),
        ("overrides", overrides()),
        ("prepare", makes_prepared_base()),
        ("prepared", on_prepared_base()),
        ("last-part", last_part()),
        ("pod", alone()),
        ("openshift", openshift()),
    ]
}

/// Requests whose pods have our own containers.
pub(super) fn with_our_pods() -> impl Iterator<Item = (&'static str, JobRequest)> {
    let ours = |(_, request): &(&str, JobRequest)| request.openshift.is_none();
    cases().into_iter().filter(ours)
}
