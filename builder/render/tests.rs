//! Rendering as a whole: whose word counts, what is refused, and what the name depends on.

use super::*;
use crate::api::KernelType;
use proptest::prelude::*;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn config(name: &str, role: &str, spec: Value) -> Component {
    let object = json!({
        "apiVersion": crate::api::API_VERSION, "kind": "MachineConfig",
        "metadata": { "name": name, "labels": { labels::ROLE: role } }, "spec": spec,
    });
    Component {
        origin: format!("{name}.yaml"),
        config: serde_json::from_value(object).unwrap(),
    }
}

/// A MachineConfig with one file, whose content is what is asked for.
fn file(name: &str, role: &str, path: &str, content: &str) -> Component {
    let file = json!({ "path": path, "contents": { "source": format!("data:,{content}") } });
    let spec = json!({ "ignition": { "version": "3.2.0" }, "storage": { "files": [file] } });
    config(name, role, json!({ "config": spec }))
}

fn request(pool: &str, configs: Vec<Component>) -> Request {
    Request {
        pool: pool.parse().unwrap(),
        pool_object: None,
        controller_config: None,
        pool_settings: Vec::new(),
        os_image: None,
        extensions_image: None,
        pins: BTreeMap::new(),
        configs,
        explain: false,
    }
}

#[track_caller]
fn rendered(request: &Request) -> Rendered {
    match render(request, &Contents::new()) {
        Ok(Outcome::Rendered(rendered)) => *rendered,
        Ok(Outcome::Needs(needs)) => panic!("{needs:?}"),
        Err(error) => panic!("{error}: {:#?}", error.findings()),
    }
}

/// Code and object of all that is wrong.
#[track_caller]
fn problems(request: &Request) -> Vec<(String, String)> {
    let error = render(request, &Contents::new()).unwrap_err();
    let findings = error.findings().iter();
    findings
        .map(|it| (it.code.clone(), it.object.clone().unwrap_or_default()))
        .collect()
}

fn pool(object: Value) -> Option<MachineConfigPool> {
    Some(serde_json::from_value(object).unwrap())
}

fn contents(rendered: &Rendered) -> BTreeMap<&str, &str> {
    let files = rendered.object.pointer("/spec/config/storage/files");
    let files = files.and_then(Value::as_array).into_iter().flatten();
    files
        .map(|file| {
            let source = file["contents"]["source"].as_str().unwrap();
            let content = source.strip_prefix("data:,").unwrap();
            (file["path"].as_str().unwrap(), content)
        })
        .collect()
}

#[test]
fn the_later_one_counts_and_a_pools_own_come_later() {
    // Acceptance 68: names alone don't decide.
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
        let got = (
            contents.get("/etc/one").copied(),
            contents.get("/etc/two").copied(),
        );
        assert_eq!(got, (one, two), "{pool}");
        assert_eq!(rendered.config.pool().as_str(), pool);
    }
}

#[test]
fn a_pools_selector_decides_where_the_pool_is_given() {
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
    assert_eq!(
        contents(&some).into_keys().collect::<Vec<_>>(),
        ["/etc/a", "/etc/c"]
    );
    let owner = &some.object["metadata"]["ownerReferences"][0];
    assert_eq!(
        owner,
        &json!({ "apiVersion": crate::api::API_VERSION, "kind": "MachineConfigPool", "name": "infra", "uid": "u-1",
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
        (
            "nothing",
            json!({ "matchLabels": { "x": "y" } }),
            "nothing-selected",
        ),
    ] {
        assert_eq!(problems(&with(selector))[0].0, want, "{what}");
    }
}

#[test]
fn settings_are_merged() {
    // Acceptance 70.
    let configs = vec![
        config(
            "a",
            "worker",
            json!({ "fips": true, "kernelType": "64k-pages", "kernelArguments": ["a=1", "quiet"] }),
        ),
        config(
            "b",
            "worker",
            json!({ "kernelType": "realtime", "extensions": ["usbguard"] }),
        ),
        config(
            "c",
            "worker",
            json!({ "kernelType": "default", "kernelArguments": ["quiet"], "extensions": ["usbguard", "sysstat"] }),
        ),
        config(
            "d",
            "worker",
            json!({ "fips": false, "kernelArguments": null, "config": null }),
        ),
    ];
    let rendered = rendered(&request("worker", configs));
    assert_eq!(
        rendered.object["spec"],
        json!({
            "baseOSExtensionsContainerImage": "", "config": { "ignition": { "version": "3.5.0" } },
            "extensions": ["usbguard", "usbguard", "sysstat"], "fips": true,
            "kernelArguments": ["a=1", "quiet", "quiet"], "kernelType": "realtime", "osImageURL": "",
        })
    );
    assert_eq!(rendered.config.kernel_type, KernelType::Realtime);
    let metadata = &rendered.object["metadata"];
    assert!(metadata.get("ownerReferences").is_none());
    assert_eq!(
        metadata["annotations"],
        json!({ labels::GENERATED_BY_CONTROLLER_VERSION: "mosb" })
    );
}

#[test]
fn the_last_administrator_names_the_images() {
    let (release, mine, other) = (
        format!("quay.io/release@{DIGEST}"),
        format!("quay.io/mine@{DIGEST}"),
        format!("quay.io/other@{DIGEST}"),
    );
    let names = |name: &str, image: &str| config(name, "worker", json!({ "osImageURL": image }));
    let generated = |name: &str, image: &str| {
        let mut one = names(name, image);
        let annotations = &mut one.config.metadata.annotations;
        annotations.insert(
            labels::GENERATED_BY_CONTROLLER_VERSION.to_owned(),
            "x".to_owned(),
        );
        one
    };
    let controller = json!({
        "metadata": { "annotations": { labels::RELEASE_IMAGE_VERSION: "4.20.0" } },
        "spec": { "baseOSContainerImage": release, "baseOSExtensionsContainerImage": other },
    });
    let with = |configs: Vec<Component>| Request {
        controller_config: Some(serde_json::from_value(controller.clone()).unwrap()),
        ..request("worker", configs)
    };
    for (what, configs, want, overridden) in [
        ("nobody", vec![names("a", "")], &release, false),
        ("generated", vec![generated("a", &mine)], &release, false),
        (
            "one",
            vec![names("a", &mine), generated("b", &other)],
            &mine,
            true,
        ),
        (
            "two",
            vec![names("a", &mine), names("b", &other)],
            &other,
            true,
        ),
        ("the same", vec![names("a", &release)], &release, false),
    ] {
        let rendered = rendered(&with(configs));
        assert_eq!(rendered.object["spec"]["osImageURL"], json!(want), "{what}");
        assert_eq!(
            rendered.object["spec"]["baseOSExtensionsContainerImage"],
            json!(other),
            "{what}"
        );
        let annotations = &rendered.object["metadata"]["annotations"];
        assert_eq!(
            annotations.get(labels::OS_IMAGE_URL_OVERRIDDEN).is_some(),
            overridden,
            "{what}"
        );
        assert_eq!(annotations[labels::RELEASE_IMAGE_VERSION], "4.20.0");
        let told = rendered
            .warnings
            .iter()
            .any(|it| it.code == "os-image-overridden");
        assert_eq!(told, overridden, "{what}");
    }
    let tagged = with(vec![names("a", "quay.io/mine:v1")]);
    let want = (
        "image-not-pinned".to_owned(),
        "a.yaml: a: spec.osImageURL".to_owned(),
    );
    assert_eq!(problems(&tagged), [want]);
    assert_eq!(unpinned(&tagged), ["quay.io/mine:v1"]);
    let pinned = Request {
        pins: [("quay.io/mine:v1".to_owned(), mine.clone())].into(),
        ..tagged
    };
    assert_eq!(rendered(&pinned).object["spec"]["osImageURL"], json!(mine));
    let given = Request {
        os_image: Some(other.clone()),
        ..with(vec![names("a", "")])
    };
    assert_eq!(rendered(&given).object["spec"]["osImageURL"], json!(other));
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let mut nameless = config("x", "worker", json!({}));
    nameless.config.metadata.name = "X y".to_owned();
    let mut roleless = config("no-role", "", json!({}));
    roleless.config.metadata.labels.clear();
    let bad = json!({ "ignition": { "version": "3.2.0" }, "storage": { "files": [{ "path": "etc/a" }, { "path": "/b", "mode": 99999 }] } });
    let configs = vec![
        nameless,
        roleless,
        config("a", "worker", json!({ "kernelType": "rt", "config": bad })),
        config("a", "master", json!({})),
        config(
            "b",
            "worker",
            json!({ "extensions": ["usbguard", "nvidia", "emacs"], "kernelArguments": "quiet" }),
        ),
        config(
            "c",
            "worker",
            json!({ "config": { "ignition": { "version": "9.9.9" } } }),
        ),
        config("d", "worker", json!({ "extensions": ["kernel-devel"] })),
        config("e", "worker", json!({ "kernelType": "realtime" })),
        config("f", "worker", json!({ "config": {} })),
        config(
            "unread",
            "infra",
            json!({ "config": { "ignition": { "version": "9.9.9" } } }),
        ),
    ];
    let want = [
        ("bad-name", "x.yaml"),
        ("no-role", "no-role.yaml: no-role: metadata.labels"),
        ("duplicate-name", "a.yaml: a: metadata.name"),
        ("bad-setting", "a.yaml: a: spec.kernelType"),
        ("bad-setting", "b.yaml: b: spec.kernelArguments"),
        ("kernel-devel", "d.yaml: d: spec.extensions"),
        ("bad-path", "a.yaml: a: spec.config.storage.files[0].path"),
        ("bad-mode", "a.yaml: a: spec.config.storage.files[1].mode"),
        ("unknown-ignition-spec", "c.yaml: c: spec.config"),
        ("unknown-ignition-spec", "f.yaml: f: spec.config"),
    ];
    let want = want.map(|(code, object)| (code.to_owned(), object.to_owned()));
    assert_eq!(problems(&request("worker", configs.clone())), want);
    let unknown = problems(&request(
        "worker",
        vec![config(
            "b",
            "worker",
            json!({ "extensions": ["nvidia", "emacs"] }),
        )],
    ));
    assert_eq!(unknown.len(), 2);
    assert!(unknown.iter().all(|(code, _)| code == "unknown-extension"));
}

#[test]
fn what_is_wrong_only_when_merged_names_both_sides() {
    let link = json!({ "ignition": { "version": "3.2.0" }, "storage": { "links": [{ "path": "/etc/l", "target": "/x" }] } });
    let configs = vec![
        file("a", "worker", "/etc/l/below", "a"),
        config("b", "worker", json!({ "config": link })),
    ];
    let request = request("worker", configs);
    let error = render(&request, &Contents::new()).unwrap_err();
    assert_eq!(error.reason(), "invalid-when-merged");
    let problem = &error.findings()[0];
    assert_eq!(problem.code, "link-in-the-way");
    assert_eq!(
        problem.object.as_deref(),
        Some("a.yaml: a, b.yaml: b: spec.config.storage.files[0].path")
    );
}

#[test]
fn rendered_ones_are_skipped_and_guards_hold() {
    let mut old = config(
        &format!("rendered-worker-{}", "0".repeat(32)),
        "worker",
        json!({}),
    );
    old.config.metadata.owner_references =
        serde_json::from_value(json!([{ "kind": "MachineConfigPool" }])).unwrap();
    let mut unowned = config(
        &format!("rendered-worker-{}", "1".repeat(32)),
        "",
        json!({}),
    );
    unowned.config.metadata.labels.clear();
    let one = file("a", "worker", "/etc/a", "a");
    let first = rendered(&request("worker", vec![one.clone(), old, unowned]));
    assert_eq!(first.warnings.len(), 1);
    assert_eq!(first.warnings[0].code, "rendered-skipped");
    assert_eq!(
        first.config.name(),
        rendered(&request("worker", vec![one.clone()]))
            .config
            .name()
    );

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
        let selector = json!({ "matchLabels": { crate::api::labels::ROLE: "worker" } });
        let request = Request {
            pool_object: pool(
                json!({ "metadata": { "name": "worker", "labels": labels }, "spec": { "machineConfigSelector": selector } }),
            ),
            pool_settings: vec![settings(status)],
            ..request("worker", vec![one.clone()])
        };
        match good {
            true => drop(rendered(&request)),
            false => assert_eq!(
                problems(&request),
                [("not-completed".to_owned(), "KubeletConfig k".to_owned())],
                "{what}"
            ),
        }
    }
}

#[test]
fn the_size_is_bounded_with_a_warning_before() {
    let sized = |bytes: usize| {
        vec![
            file("small", "worker", "/etc/a", "a"),
            file("large", "worker", "/etc/b", &"x".repeat(bytes)),
        ]
    };
    let near = rendered(&request("worker", sized(RENDERED_LIMIT / 10 * 9)));
    assert_eq!(near.warnings[0].code, "nearly-too-large");
    assert!(near.warnings[0].message.contains("is large ("));
    let error = render(&request("worker", sized(RENDERED_LIMIT)), &Contents::new()).unwrap_err();
    assert_eq!(error.reason(), "rendered-too-large");
    assert!(error.to_string().contains("of which large ("), "{error}");
}

#[test]
fn what_lies_elsewhere_is_needed_with_its_machine_config() {
    let remote = |source: &str| json!({ "ignition": { "version": "3.2.0" }, "storage": { "files": [{ "path": "/etc/r", "contents": { "source": source } }] } });
    let merge = json!({ "ignition": { "version": "3.2.0", "config": { "merge": [{ "source": "https://h/m?token=hunter2" }] } } });
    let mut request = request(
        "worker",
        vec![
            config(
                "a",
                "worker",
                json!({ "config": remote("https://h/overridden") }),
            ),
            config(
                "b",
                "worker",
                json!({ "config": remote("https://u:hunter2@h/f") }),
            ),
            config("c", "worker", json!({ "config": merge })),
        ],
    );
    let mut contents = Contents::new();
    let mut asked = Vec::new();
    let done = loop {
        match render(&request, &contents).unwrap() {
            Outcome::Rendered(done) => break done,
            Outcome::Needs(needs) => {
                for need in needs {
                    asked.push(need.to_string());
                    let answer = match need.request().url().path() {
                        "/m" => json!({ "ignition": { "version": "3.1.0" } }).to_string(),
                        _ => "hello".to_owned(),
                    };
                    contents.insert(need.request().clone(), answer.into());
                }
            }
        }
    };
    assert_eq!(
        asked.len(),
        2,
        "what is overridden is not fetched: {asked:?}"
    );
    assert!(
        asked[0].starts_with("c.yaml: c: spec.config.ignition.config.merge[0]"),
        "{asked:?}"
    );
    assert!(
        asked[1].starts_with(
            "a.yaml: a, b.yaml: b: spec.config.storage.files[/etc/r].contents: https://h/f"
        ),
        "{asked:?}"
    );
    assert!(!format!("{asked:?}").contains("hunter2"));
    let text = done.object.to_string();
    assert!(
        text.contains("data:;base64,aGVsbG8=") || text.contains("data:,hello"),
        "{text}"
    );
    assert!(!text.contains("https://"), "{text}");
    request.explain = true;
    let Ok(Outcome::Rendered(again)) = render(&request, &contents) else {
        panic!()
    };
    assert_eq!(
        again.object, done.object,
        "an account of it changes nothing"
    );
}

#[test]
fn it_can_be_explained() {
    let base = format!("quay.io/release@{DIGEST}");
    let image = format!("quay.io/mine@{DIGEST}");
    let mut configs = vec![
        file("a", "worker", "/etc/x", "a"),
        file("b", "worker", "/etc/x", "b"),
        config(
            "c",
            "worker",
            json!({ "osImageURL": image, "kernelArguments": ["quiet"], "fips": true }),
        ),
    ];
    configs[1].config.spec["config"]["storage"]["files"][0]["mode"] = json!(384);
    let request = Request {
        explain: true,
        os_image: Some(base),
        ..request("worker", configs)
    };
    let explanation = rendered(&request).explanation.unwrap();
    let names: Vec<_> = explanation
        .machine_configs
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
    let told = |field: &str| {
        let said = explanation.fields.iter().find(|said| said.field == field);
        let said = said.unwrap_or_else(|| panic!("{field} in {:#?}", explanation.fields));
        (said.from.as_str(), said.overrides.join(","))
    };
    let of = |from, overrides: &str| (from, overrides.to_owned());
    assert_eq!(
        told("spec.config.storage.files[/etc/x].contents"),
        of("b", "a")
    );
    assert_eq!(told("spec.config.storage.files[/etc/x].mode"), of("b", ""));
    assert_eq!(told("spec.osImageURL"), of("c", "the image that was given"));
    assert_eq!(told("spec.kernelArguments[quiet]"), of("c", ""));
    assert_eq!(told("spec.fips"), of("c", ""));
}

/// A few MachineConfigs that touch each other.
fn some_configs() -> impl Strategy<Value = Vec<Component>> {
    let one = (
        0..4_u8,
        "[ab]",
        prop::sample::select(vec!["worker", "infra"]),
        0..3_u8,
        any::<bool>(),
    );
    let all = prop::collection::vec(one, 1..6);
    all.prop_map(|all| {
        let each = all.into_iter().enumerate();
        each.map(|(number, (path, content, role, arguments, fips))| {
            let mut one = file(
                &format!("{content}-{number}"),
                role,
                &format!("/etc/{path}"),
                &content,
            );
            one.config.spec.insert("fips".to_owned(), json!(fips));
            one.config.spec.insert(
                "kernelArguments".to_owned(),
                json!(vec!["quiet"; arguments.into()]),
            );
            one
        })
        .collect()
    })
}

/// The same object, its keys in the reverse order.
fn reversed(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().rev();
            let fields: Vec<_> = fields
                .map(|(key, value)| format!("{}:{}", json!(key), reversed(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(reversed).collect::<Vec<_>>().join(",")
        ),
        other => other.to_string(),
    }
}

proptest! {
    #[test]
    fn order_files_and_labels_mean_nothing(configs in some_configs(), by in 0..6_usize) {
        let mut other = configs.clone();
        other.reverse();
        let by = by % other.len();
        other.rotate_left(by);
        for one in &mut other {
            one.origin = "stdin".to_owned();
            one.config.metadata.labels.insert("team".to_owned(), "red".to_owned());
            let text = reversed(&Value::Object(one.config.spec.clone()));
            one.config.spec = serde_json::from_str(&text).unwrap();
        }
        let (first, second) = (rendered(&request("infra", configs)), rendered(&request("infra", other)));
        prop_assert_eq!(first.object, second.object);
    }

    #[test]
    fn any_change_of_meaning_is_another_name(configs in some_configs(), which in 0..6_usize, change in 0..5_usize) {
        let first = rendered(&request("infra", configs.clone()));
        let mut other = configs;
        // The last one's word counts, whatever it says.
        let number = other.len();
        let (path, content) = (format!("/etc/new-{which}"), "c".to_owned());
        let mut last = file("zzz", "infra", &path, &content);
        match change {
            0 => {}
            1 => last = config("zzz", "infra", json!({ "kernelArguments": ["new"] })),
            2 => last = config("zzz", "infra", json!({ "extensions": ["sysstat"] })),
            3 => last = config("zzz", "infra", json!({ "kernelType": "realtime" })),
            _ => last = config("zzz", "infra", json!({ "osImageURL": format!("quay.io/x@{DIGEST}") })),
        }
        other.push(last);
        let second = rendered(&request("infra", other.clone()));
        prop_assert_ne!(first.config.name(), second.config.name());
        other.truncate(number);
        prop_assert_eq!(rendered(&request("infra", other)).object, first.object, "and back");
    }

    #[test]
    fn what_is_rendered_renders_to_itself(configs in some_configs()) {
        let first = rendered(&request("infra", configs));
        let again = config("a", "infra", first.object["spec"].clone());
        let again = rendered(&request("infra", vec![again]));
        prop_assert_eq!(again.config.name(), first.config.name());
    }
}
