//! Which base is planned on.

use serde_json::{Value, json};

use super::*;
use mosb_api::rollout::MachinePart;
use mosb_api::{BuildOn, Metadata, RecordedBase, RenderedConfig, labels};
use mosb_cluster::cluster_cache::SeenNode;
use mosb_image::Digest;
use mosb_plan::plan::{Base, BaseName};
use mosb_types::ErrorClass;

fn config(spec: Value) -> RenderedConfig {
    let hash = "0".repeat(32);
    RenderedConfig::from_value(json!({ "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig", "metadata": { "name": format!("rendered-worker-{hash}") }, "spec": spec }))
    .unwrap()
}

pub(in crate::lookups) fn plan_lookup() -> PlanLookup {
    PlanLookup {
        builder: ImageBuilderType::Job,
        pool: "worker".parse().unwrap(),
        rendered: format!("rendered-worker-{}", "0".repeat(32)).parse().unwrap(),
        containerfile: None,
        push: "registry.example/os".parse().unwrap(),
        push_secret: "push".to_owned(),
        pull_secret: None,
        platform: None,
        base: None,
        recorded: None,
        instead: None,
        build_on: BuildOn::OsChange,
        method: None,
        compare: None,
        recognise: None,
    }
}

#[test]
fn the_base_is_the_pinned_one_under_the_name_that_was_meant() {
    let digest = format!("sha256:{}", "1".repeat(64));
    let pinned: PinnedRef = format!("quay.io/os@{digest}").parse().unwrap();
    let instead = crate::lookup::BaseInstead {
        of: ["quay.io/prebuilt:1".to_owned()].into(),
        stock: Some("quay.io/stock:1".to_owned()),
    };
    let defaults = ClusterSettings {
        base_os_container_image: Some("quay.io/default:1".to_owned()),
        ..ClusterSettings::default()
    };
    for (what, spec, base, want, name) in [
        (
            "the config's",
            json!({ "osImageURL": "quay.io/os:1" }),
            None,
            Some("quay.io/os:1"),
            Some("quay.io/os:1"),
        ),
        (
            "pinned before",
            json!({ "osImageURL": "quay.io/os:1" }),
            Some(pinned.clone()),
            Some(&*format!("quay.io/os@{digest}")),
            Some("quay.io/os:1"),
        ),
        ("the cluster's", json!({}), None, Some("quay.io/default:1"), Some("quay.io/default:1")),
        (
            "not the pre-built",
            json!({ "osImageURL": "quay.io/prebuilt:1" }),
            None,
            Some("quay.io/stock:1"),
            Some("quay.io/stock:1"),
        ),
    ] {
        let lookup = PlanLookup { base, instead: Some(instead.clone()), ..plan_lookup() };
        let build_request = build_request(&lookup, config(spec), &defaults, false).unwrap();
        assert_eq!(
            build_request.base.image.map(|base| base.to_string()).as_deref(),
            want,
            "{what}"
        );
        assert_eq!(build_request.base.name.as_ref().map(BaseName::as_str), name, "{what}");
    }
    let bad =
        build_request(&plan_lookup(), config(json!({ "osImageURL": "a b" })), &defaults, false);
    let bad = bad.unwrap_err();
    assert_eq!((bad.class, &*bad.reason), (ErrorClass::InvalidInput, "bad-reference"));
}

#[test]
fn recorded_base_replaces_what_its_tag_names() {
    let digest = format!("sha256:{}", "2".repeat(64));
    let of = |tag: &str| {
        let annotations = [(labels::BASE.to_owned(), format!("{tag}@{digest}"))].into();
        RecordedBase::of(&Metadata { annotations, ..Metadata::default() }).unwrap()
    };
    let stream = |stream: Option<&str>| ClusterSettings {
        base_os_container_image: Some("quay.io/default:1".to_owned()),
        base_stream: stream.map(str::to_owned),
        ..ClusterSettings::default()
    };
    let (os, next) = (format!("quay.io/os@{digest}"), format!("quay.io/next@{digest}"));
    for (what, recorded, named, followed, rendering, want) in [
        ("of its tag", "quay.io/os:1", Some("quay.io/os:1"), None, false, (&*os, "quay.io/os:1")),
        (
            "of another tag",
            "quay.io/os:2",
            Some("quay.io/os:1"),
            None,
            false,
            ("quay.io/os:1", "quay.io/os:1"),
        ),
        (
            "of the stream",
            "quay.io/next:1",
            Some("quay.io/os:1"),
            Some("quay.io/next:1"),
            false,
            (&*next, &*next),
        ),
        (
            "in the rendered config",
            "quay.io/next:1",
            Some("quay.io/os:1"),
            Some("quay.io/next:1"),
            true,
            ("quay.io/os:1", "quay.io/os:1"),
        ),
        (
            "of the settings",
            "quay.io/default:1",
            None,
            None,
            false,
            (&*format!("quay.io/default@{digest}"), "quay.io/default:1"),
        ),
    ] {
        let lookup = PlanLookup { recorded: of(recorded), ..plan_lookup() };
        let spec = named.map_or(json!({}), |named| json!({ "osImageURL": named }));
        let request = build_request(&lookup, config(spec), &stream(followed), rendering).unwrap();
        let image = request.base.image.map(|base| base.to_string());
        let name = request.base.name.as_ref().map(BaseName::as_str);
        assert_eq!((image.as_deref(), name), (Some(want.0), Some(want.1)), "{what}");
    }
}

#[test]
fn plans_are_cached_if_the_policy_is_that_of_the_pools_machines() {
    let cache = ClusterCache::empty("mosb");
    let base: PinnedRef = format!("quay.io/os@sha256:{}", "1".repeat(64)).parse().unwrap();
    let secret = || NamedSecret {
        name: "push".to_owned(),
        credentials: mosb_build::DockerConfigJson::empty(),
    };
    let lookup = PlanLookup { base: Some(base.clone()), ..plan_lookup() };
    let policy = Some(r#"{"default":[{"type":"reject"}]}"#.to_owned());
    for (what, own_policy, want) in [
        ("of the machines", None, true),
        ("of settings that are others by now", policy.clone(), false),
    ] {
        let platform: mosb_image::Platform = "linux/amd64".parse().unwrap();
        let cached = CachedPlan {
            lookup: lookup.clone(),
            planned: Planned {
                build: format!("worker-{}", "0".repeat(32)).parse().unwrap(),
                inputs: String::new(),
                base: base.clone(),
                base_name: BaseName::from_registry(base.repo(), base.digest()),
                base_release: Default::default(),
                method: JobMethod::Direct,
                reasons: Vec::new(),
                platform: platform.clone(),
                warnings: Vec::new(),
                containerfile_problem: None,
                os_changed: false,
                is_login_change: false,
                is_live_change: false,
                machine_part: MachinePart::default().digest(),
                unreconcilable: Vec::new(),
                is_recognised: false,
                prepared: None,
                has_last_part: false,
            },
            workload_spec: WorkloadSpec {
                payload: Ok((Vec::new(), None)),
                spec: BuildSpec {
                    format: BuildSpec::FORMAT,
                    build: format!("worker-{}", "0".repeat(32)).parse().unwrap(),
                    namespace: "mosb".to_owned(),
                    machine_config: mounts::MACHINE_CONFIG.into(),
                    containerfile: None,
                    trust_bundle: None,
                    base: base.clone(),
                    base_name: base.to_string().try_into().unwrap(),
                    extensions_image: None,
                    platform,
                    push: lookup.push.clone(),
                    build_args: BTreeMap::new(),
                    build_on: BuildOn::OsChange,
                    nodes: mosb_plan::plan::BuilderNodes::Any,
                    base_tree: None,
                    prepared: PreparedImageUse::Without,
                    in_service: None,
                },
                pulled: Vec::new(),
            },
            push: secret(),
            pull: secret(),
            proxy: None,
            settings: ClusterSettings {
                signature_policy: policy.clone(),
                ..ClusterSettings::default()
            },
            own_policy,
            copies: Copies::new(),
            versions: versions(&lookup, &cache),
            unwatched: None,
        };
        assert_eq!(cached.still_valid_for(&lookup, &cache), want, "{what}");
    }
}

/// A pool, and what is run for it.
struct Customised {
    pool: &'static str,
    /// Whether each of its nodes is of the control plane.
    nodes: Vec<bool>,
    builder: ImageBuilderType,
    spec: Value,
    base: &'static str,
    bundle: &'static str,
    containerfile: &'static str,
}

fn file(path: &str, content: &str) -> Value {
    json!({ "path": path, "contents": { "source": format!("data:,{content}") } })
}

impl Customised {
    fn new() -> Self {
        let anchor = file("/etc/pki/ca-trust/source/anchors/acme.crt", "a");
        let files = json!([anchor, file("/etc/acme", "a")]);
        Self {
            pool: "worker",
            nodes: vec![false],
            builder: ImageBuilderType::Job,
            spec: json!({ "extensions": ["usbguard"],
                "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": files } } }),
            base: "a",
            bundle: "a",
            containerfile: "FROM base\nRUN a\n",
        }
    }

    fn content_of(&mut self, file: usize) -> &mut Value {
        &mut self.spec["config"]["storage"]["files"][file]["contents"]["source"]
    }

    /// The inputs of its prepared base, if it can have one.
    fn prepared(&self) -> Option<Digest> {
        Some(self.prepared_base()?.ok()?.inputs.digest())
    }

    fn prepared_base(&self) -> Option<Result<Prepared, Obstacle>> {
        let cache = ClusterCache::empty("mosb");
        let object = json!({ "metadata": { "name": self.pool },
            "spec": { "nodeSelector": { "matchLabels": { "pool": self.pool } } } });
        let pool = serde_json::from_value(object).unwrap();
        cache.pools.replace([(self.pool.to_owned(), pool)]);
        let node = |(number, is_control_plane): (usize, &bool)| {
            let role = "node-role.kubernetes.io/control-plane";
            let roles = is_control_plane.then_some((role, ""));
            let labels = [("pool", self.pool)].into_iter().chain(roles);
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            let name = number.to_string();
            (name.clone(), SeenNode { name, uid: String::new(), labels })
        };
        cache.nodes.replace(self.nodes.iter().enumerate().map(node));
        let lookup = PlanLookup { pool: self.pool.parse().unwrap(), ..plan_lookup() };
        let nodes = builder_nodes(&lookup, &cache);
        prepared_base(self.builder, nodes, &self.draft())
    }

    /// The codes of the warnings about its config and Containerfile.
    fn warnings(&self) -> Vec<String> {
        let (draft, obstacle) = (self.draft(), self.prepared_base().and_then(Result::err));
        let split = containerfile::split(draft.request()).unwrap();
        let found = warnings(&draft, Some(&split), obstacle.as_ref());
        found.into_iter().map(|warning| warning.code.to_string()).collect()
    }

    fn draft(&self) -> Draft {
        let image = json!({ "os": "linux", "architecture": "amd64", "config": {},
            "rootfs": { "type": "layers", "diff_ids": [Digest::of(b"layer")] } });
        let manifest = json!({ "config": {}, "layers": [{}], "other": self.base });
        let [manifest, image] = [manifest, image].map(|value| value.to_string());
        let name = BaseName::from_os_image_url("quay.io/acme/os:v1").unwrap();
        let base = Base::new(name, "x".to_owned(), None, manifest.as_bytes(), image.as_bytes());
        let extensions: RepoRef = "quay.io/acme/extensions".parse().unwrap();
        Draft::new(BuildRequest {
            extensions_image: Some(extensions.pinned(Digest::of(b"extensions"))),
            trust_bundle: Some(self.bundle.into()),
            containerfile: Some(self.containerfile.to_owned()),
            ..BuildRequest::new(config(self.spec.clone()), base.unwrap())
        })
        .unwrap()
    }
}

#[test]
fn pools_have_the_same_prepared_base_only_if_the_same_is_run_on_the_same_kind_of_nodes() {
    type Change = fn(&mut Customised);
    let same: [(&str, Change); 6] = [
        ("another pool", |pool| pool.pool = "infra"),
        ("another file", |pool| *pool.content_of(1) = json!("data:,b")),
        ("kernel arguments", |pool| pool.spec["kernelArguments"] = json!(["quiet"])),
        ("a comment", |pool| pool.containerfile = "# Why.\nFROM base\nRUN a\n"),
        ("Pods", |pool| pool.builder = ImageBuilderType::CustomPod),
        ("a control-plane node among others", |pool| pool.nodes = vec![true, false]),
    ];
    let others: [(&str, Change); 8] = [
        ("its instructions", |pool| pool.containerfile = "FROM base\nRUN b\n"),
        ("the base", |pool| pool.base = "b"),
        ("an extension", |pool| pool.spec["extensions"] = json!(["usbguard", "ipsec"])),
        ("no extension", |pool| pool.spec["extensions"] = json!([])),
        ("a CA of the config", |pool| *pool.content_of(0) = json!("data:,b")),
        ("a CA of the cluster", |pool| pool.bundle = "b"),
        ("the pool of the control plane", |pool| pool.pool = "master"),
        ("a pool of control-plane nodes", |pool| pool.nodes = vec![true, true]),
    ];
    let of = |change: Change| {
        let mut pool = Customised::new();
        change(&mut pool);
        pool.prepared()
    };
    let inputs = Customised::new().prepared().expect("a prepared base");
    for (what, change) in same {
        assert_eq!(of(change), Some(inputs), "{what}");
    }
    let others = others.map(|(what, change)| (what, of(change).expect(what)));
    for (at, (what, other)) in others.iter().enumerate() {
        assert_ne!(*other, inputs, "{what}");
        // Both are control-plane pools.
        let is_shared = at == others.len() - 1;
        let before = others[..at].iter().filter(|(_, before)| before == other).count();
        assert_eq!(before, usize::from(is_shared), "{what}");
    }
    assert_eq!(of(|pool| pool.builder = ImageBuilderType::OpenShiftImage), None);
}

#[test]
fn a_pool_that_runs_everything_at_each_change_has_a_warning() {
    const BOTH: &str = "FROM base AS os\nRUN a\nFROM configs\nRUN b\n";
    const FROM_PREPARED: &str = "FROM base AS os\nRUN a\nFROM configs\nCOPY --from=os a b\n";
    let (job, openshift) = (ImageBuilderType::Job, ImageBuilderType::OpenShiftImage);
    for (what, builder, containerfile, want) in [
        ("both parts", job, BOTH, false),
        ("a copy from what is run before", job, FROM_PREPARED, true),
        // An OpenShift Build never has a prepared base.
        ("an OpenShift Build", openshift, FROM_PREPARED, false),
    ] {
        let pool = Customised { builder, containerfile, ..Customised::new() };
        let warnings = pool.warnings();
        let found = warnings.iter().any(|code| code == "prepared-not-used");
        assert_eq!(found, want, "{what}: {warnings:?}");
    }
}
