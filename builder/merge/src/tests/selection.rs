//! The MachineConfigs that a pool selects, and their precedence.

use super::*;

#[test]
fn later_one_counts_and_pools_own_come_later() {
    // Row 68 of docs/reference/behaviours.md: names alone don't decide.
    let configs = vec![
        file("ddd", "worker", "/etc/two", "ddd"),
        file("ccc", "infra", "/etc/two", "ccc"),
        file("aaa", "worker", "/etc/one", "aaa"),
        file("bbb", "worker", "/etc/one", "bbb"),
        file("zzz", "master", "/etc/one", "zzz"),
    ];
    for (pool, one, two) in [
        ("infra", Some("bbb"), Some("ccc")),
        ("worker", Some("bbb"), Some("ddd")),
        ("master", Some("zzz"), None),
    ] {
        let rendered = rendered(&request(pool, configs.clone()));
        let contents = contents(&rendered);
        let got = (contents.get("/etc/one").copied(), contents.get("/etc/two").copied());
        assert_eq!(got, (one, two), "{pool}");
        assert_eq!(rendered.config.pool().as_str(), pool);
    }
}

#[test]
fn pools_selector_decides_where_the_pool_is_given() {
    let configs = vec![
        file("a", "worker", "/etc/a", "a"),
        file("b", "infra", "/etc/b", "b"),
        file("c", "gpu", "/etc/c", "c"),
    ];
    let with = |selector: Value| Request {
        pool_object: pool(
            json!({ "metadata": { "name": "infra", "uid": "u-1" }, "spec": { "machineConfigSelector": selector } }),
        ),
        ..request("infra", configs.clone())
    };
    let expression = json!({ "key": labels::ROLE, "operator": "In", "values": ["worker", "gpu"] });
    let some = rendered(&with(json!({ "matchExpressions": [expression] })));
    assert_eq!(contents(&some).into_keys().collect::<Vec<_>>(), ["/etc/a", "/etc/c"]);
    let owner = &some.object["metadata"]["ownerReferences"][0];
    assert_eq!(
        owner,
        &json!({ "apiVersion": mosb_api::API_VERSION, "kind": "MachineConfigPool", "name": "infra", "uid": "u-1",
                 "controller": true, "blockOwnerDeletion": true })
    );
    for (what, selector, want) in [
        ("empty", json!({}), "bad-selector"),
        ("missing", json!(null), "bad-selector"),
        (
            "invalid",
            json!({ "matchExpressions": [{ "key": "a", "operator": "In" }] }),
            "bad-selector",
        ),
        ("nothing", json!({ "matchLabels": { "x": "y" } }), "nothing-selected"),
    ] {
        assert_eq!(problems(&with(selector))[0].0, want, "{what}");
    }
}

#[test]
fn rendered_ones_are_skipped_and_guards_hold() {
    let mut old = config(&format!("rendered-worker-{}", "0".repeat(32)), "worker", json!({}));
    old.config.metadata.owner_references =
        serde_json::from_value(json!([{ "kind": "MachineConfigPool" }])).unwrap();
    let mut unowned = config(&format!("rendered-worker-{}", "1".repeat(32)), "", json!({}));
    unowned.config.metadata.labels.clear();
    let one = file("a", "worker", "/etc/a", "a");
    let first = rendered(&request("worker", vec![one.clone(), old, unowned]));
    assert_eq!(first.warnings.len(), 1);
    assert_eq!(first.warnings[0].code, "rendered-skipped");
    assert_eq!(first.config.name(), rendered(&request("worker", vec![one.clone()])).config.name());

    let only = |name: &str| {
        let mut unowned = config(name, "", json!({}));
        unowned.config.metadata.labels.clear();
        render(&request("worker", vec![unowned]), &Contents::new()).unwrap_err()
    };
    let error = only(&format!("rendered-worker-{}", "1".repeat(32)));
    let message = &error.findings()[0].message;
    assert!(
        message.contains("add the label machineconfiguration.openshift.io/role: worker"),
        "{message}"
    );
    assert_eq!(error.warnings()[0].code, "rendered-skipped");

    let settings = |status: Value| {
        let selector = json!({ "matchLabels": { "pool": "w" } });
        let settings = json!({ "kind": "KubeletConfig", "metadata": { "name": "k", "generation": 1 },
                               "spec": { "machineConfigPoolSelector": selector }, "status": status });
        serde_json::from_value::<PoolSettings>(settings).unwrap()
    };
    let done =
        json!({ "observedGeneration": 1, "conditions": [{ "type": "Success", "status": "True" }] });
    for (what, labels, status, good) in [
        ("done", json!({ "pool": "w" }), done, true),
        ("a manifest", json!({ "pool": "w" }), json!(null), false),
        ("for others", json!({ "pool": "x" }), json!(null), true),
    ] {
        let selector = json!({ "matchLabels": { mosb_api::labels::ROLE: "worker" } });
        let request = Request {
            pool_object: pool(
                json!({ "metadata": { "name": "worker", "labels": labels }, "spec": { "machineConfigSelector": selector } }),
            ),
            pool_settings: vec![settings(status)],
            ..request("worker", vec![one.clone()])
        };
        if good {
            drop(rendered(&request))
        } else {
            assert_eq!(
                problems(&request),
                [("not-completed".to_owned(), "KubeletConfig k".to_owned())],
                "{what}"
            )
        }
    }
}

/// Without the pool, or with a manifest of it, the labels decide that every cluster sets.
#[test]
fn pool_settings_have_labels_of_every_cluster() {
    const LABEL: &str = "pools.operator.machineconfiguration.openshift.io";
    let one = || file("a", "worker", "/etc/a", "a");
    let manifest = |name: &str, role: &str| {
        let selector = json!({ "matchExpressions": [{ "key": labels::ROLE, "operator": "In", "values": [role] }] });
        pool(json!({ "metadata": { "name": name }, "spec": { "machineConfigSelector": selector } }))
    };
    let mut made = config("99-worker-generated-kubelet", "worker", json!({}));
    made.config.metadata.owner_references =
        serde_json::from_value(json!([{ "kind": "KubeletConfig", "name": "k" }])).unwrap();
    for (what, name, pool_object, more, label, want) in [
        ("its own", "worker", None, None, format!("{LABEL}/worker"), "not-completed"),
        (
            "of a manifest",
            "worker",
            manifest("worker", "worker"),
            None,
            format!("{LABEL}/worker"),
            "not-completed",
        ),
        ("what it gets of worker", "infra", None, None, format!("{LABEL}/worker"), "not-completed"),
        (
            "a pool that selects worker's",
            "infra",
            manifest("infra", "worker"),
            None,
            format!("{LABEL}/worker"),
            "not-completed",
        ),
        ("its own custom pool", "infra", None, None, format!("{LABEL}/infra"), "not-completed"),
        ("of another pool", "worker", None, None, format!("{LABEL}/master"), ""),
        (
            "by a label of somebody",
            "worker",
            None,
            None,
            "custom-kubelet".to_owned(),
            "settings-left-out",
        ),
        ("with its MachineConfig", "worker", None, Some(made), format!("{LABEL}/worker"), ""),
    ] {
        let settings = json!({ "kind": "KubeletConfig", "metadata": { "name": "k" },
                               "spec": { "machineConfigPoolSelector": { "matchLabels": { label: "" } } } });
        let request = Request {
            pool_object,
            pool_settings: vec![serde_json::from_value(settings).unwrap()],
            ..request(name, [one()].into_iter().chain(more).collect())
        };
        let codes: Vec<_> = match render(&request, &Contents::new()) {
            Ok(Outcome::Rendered(rendered)) => rendered.warnings,
            Ok(Outcome::Needs(needs)) => panic!("{needs:?}"),
            Err(error) => error.findings(),
        };
        let codes: Vec<_> = codes
            .into_iter()
            .filter(|it| it.object.as_deref() == Some("KubeletConfig k"))
            .map(|it| it.code)
            .collect();
        assert_eq!(codes.join(" "), want, "{what}");
    }
}
