//! Which base is planned on.

use serde_json::{Value, json};

use super::*;
use mosb_plan::api::rollout::MachinePart;
use mosb_plan::api::{BuildOn, RenderedConfig};
use mosb_plan::plan::BaseName;
use mosb_types::ErrorClass;

fn config(spec: Value) -> RenderedConfig {
    let hash = "0".repeat(32);
    RenderedConfig::from_value(json!({ "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig", "metadata": { "name": format!("rendered-worker-{hash}") }, "spec": spec }))
    .unwrap()
}

fn lookup() -> PlanLookup {
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
        let lookup = PlanLookup { base, instead: Some(instead.clone()), ..lookup() };
        let build_request = build_request(&lookup, config(spec), &defaults).unwrap();
        assert_eq!(
            build_request.base.image.map(|base| base.to_string()).as_deref(),
            want,
            "{what}"
        );
        assert_eq!(build_request.base.name.as_ref().map(BaseName::as_str), name, "{what}");
    }
    let bad =
        build_request(&lookup(), config(json!({ "osImageURL": "a b" })), &defaults).unwrap_err();
    assert_eq!((bad.class, &*bad.reason), (ErrorClass::InvalidInput, "bad-reference"));
}

#[test]
fn plans_are_cached_if_the_policy_is_that_of_the_pools_machines() {
    let cache = ClusterCache::empty("mosb");
    let base: PinnedRef = format!("quay.io/os@sha256:{}", "1".repeat(64)).parse().unwrap();
    let secret = || NamedSecret {
        name: "push".to_owned(),
        credentials: mosb_build::DockerConfigJson::empty(),
    };
    let lookup = PlanLookup { base: Some(base.clone()), ..lookup() };
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
                older: Vec::new(),
                inputs: String::new(),
                base: base.clone(),
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
                arguments: PlanArguments {
                    base: base.clone(),
                    base_name: String::new(),
                    extensions_image: None,
                    platform,
                    push: lookup.push.clone(),
                    build_args: BTreeMap::new(),
                    build_on: BuildOn::OsChange,
                    nodes: mosb_plan::plan::BuilderNodes::Any,
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
