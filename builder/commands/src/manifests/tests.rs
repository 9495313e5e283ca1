//! Files, lists and odd objects.

use serde_json::json;

use super::*;
use mosb_api::{labels, yaml};
use mosb_ignition::Contents;
use mosb_merge::{self as render, Outcome};

fn sorted(text: &str) -> Manifests {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    std::fs::write(&file, text).unwrap();
    Manifests::read(&[Input::File(file)])
}

fn object(kind: &str, name: &str) -> Value {
    json!({ "apiVersion": API_VERSION, "kind": kind, "metadata": { "name": name } })
}

#[test]
fn lists_are_unpacked_and_kinds_are_sorted() {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [
        object("MachineConfig", "a"), object("MachineConfigPool", "p"), { "kind": "Secret" }, { "kind": "Secret" },
        { "kind": "List", "items": [object("MachineConfig", "b")] },
    ] });
    let typed = json!({
        "apiVersion": API_VERSION, "kind": "MachineConfigList", "metadata": { "continue": "" },
        "items": [{ "metadata": { "name": "c" }, "spec": null }],
    });
    let others = [object("ControllerConfig", "cc"), object("KubeletConfig", "k")];
    let read = sorted(&format!("{list}\n{typed}\n{}\n{}", others[0], others[1]));
    assert!(read.problems.is_empty(), "{:?}", read.problems);
    let configs: Vec<_> = read
        .objects
        .configs
        .iter()
        .map(|one| (one.name(), one.origin.rsplit_once('(').unwrap().1))
        .collect();
    assert_eq!(
        configs,
        [
            ("a", "document 1, item 1)"),
            ("b", "document 1, item 5, item 1)"),
            ("c", "document 2, item 1)")
        ]
    );
    assert_eq!(
        (
            read.objects.pools.len(),
            read.objects.controller_configs.len(),
            read.objects.pool_settings.len()
        ),
        (1, 1, 1)
    );
    let notices = read.notices();
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].message, "it and 1 more of kind Secret are skipped");
}

#[test]
fn invalid_objects_are_reported_without_their_values() {
    for (what, text, want) in [
        ("empty", "", "it is empty"),
        ("text", "hunter2", "not an object with a kind"),
        ("ignition", "ignition: {version: 3.5.0}", "an Ignition config"),
        ("butane", "variant: fcos\nversion: 1.5.0", "a Butane config; translate it with"),
        ("version", "apiVersion: v1\nkind: MachineConfig", "MachineConfig of \"v1\""),
        (
            "a part of a list",
            "kind: MachineConfigList\nmetadata: {continue: hunter2}\nitems: []",
            "it is a part of a list",
        ),
        (
            "labels",
            &object("MachineConfig", "a").to_string().replace("{\"name\":\"a\"}", "\"hunter2\""),
            "it is not a valid MachineConfig: metadata: must be ",
        ),
        (
            "spec",
            &format!("{{\"spec\":\"hunter2\",{}", &object("MachineConfig", "a").to_string()[1..]),
            "not a valid MachineConfig: spec: must be a map",
        ),
    ] {
        let read = sorted(text);
        let problem = &read.problems[0];
        assert!(problem.message.contains(want), "{what}: {problem:?}");
        assert!(!format!("{:?}", read.problems).contains("hunter2"), "{what}");
    }
}

#[test]
fn objects_are_bounded() {
    let mut read = Manifests { count: MOST - 1, ..Manifests::default() };
    let items = vec![object("MachineConfig", "a"); 10];
    read.documents("f", vec![json!({ "kind": "List", "items": items })], false);
    assert_eq!(read.objects.configs.len(), 1);
    assert_eq!(read.problems.len(), 1);
    assert_eq!(read.problems[0].code, "too-many-objects");
}

#[test]
fn the_distribution_of_objects_over_files_does_not_matter() {
    let configs: Vec<_> = [("b", "infra"), ("a", "worker"), ("c", "worker")]
        .into_iter()
        .map(|(name, role)| {
            let file = json!({ "path": "/etc/x", "mode": 420, "contents": { "source": format!("data:,{name}") } });
            let config = json!({ "ignition": { "version": "3.2.0" }, "storage": { "files": [file] } });
            let mut one = object("MachineConfig", name);
            one["metadata"]["labels"] = json!({ labels::ROLE: role });
            one["spec"] = json!({ "kernelArguments": [name], "config": config });
            one
        })
        .collect();
    let yaml: Vec<_> = configs.iter().map(yaml::to_text).collect();
    let json: Vec<_> = configs.iter().map(reversed).collect();
    let items = json.join(",");
    let typed = format!("{{\"items\":[{items}],\"kind\":\"MachineConfigList\"}}");
    let list = json!({ "kind": "List", "items": configs });
    let one_by_one: Vec<_> = yaml.iter().map(String::as_str).collect();
    let want = rendered(&one_by_one);
    for (what, texts) in [
        ("another order", vec![&*yaml[2], &yaml[0], &yaml[1]]),
        ("documents of one file", vec![&yaml.join("---\n")]),
        ("some of both", vec![&json[2], &yaml[..2].join("---\n")]),
        ("keys in another order", json.iter().map(|it| &**it).collect()),
        ("JSON, one after the other", vec![&json.join("\n")]),
        ("a list", vec![&list.to_string()]),
        ("a list in YAML", vec![&yaml::to_text(&list)]),
        ("a typed list", vec![&typed]),
    ] {
        assert_eq!(rendered(&texts), want, "{what}");
    }
}

#[test]
fn a_misspelt_kind_is_reported_where_it_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    for (kind, installing, rendering) in [
        ("MachineOsConfig", 1, 0),
        ("machineconfig", 1, 1),
        ("MachineOSConfig", 0, 0),
        ("MachineConfigNode", 0, 0),
    ] {
        let text = format!("apiVersion: {API_VERSION}\nkind: {kind}\nmetadata: {{ name: a }}\n");
        std::fs::write(&file, text).unwrap();
        let operands = [Input::File(file.clone())];
        let spelt = |read: Manifests| {
            let problems = read.problems.iter();
            problems.filter(|it| it.message.starts_with("its kind is ")).count()
        };
        assert_eq!(spelt(Manifests::of_installation(&operands)), installing, "{kind}");
        assert_eq!(spelt(Manifests::read(&operands)), rendering, "{kind}");
    }
}

/// As in a repository with kustomize, Helm and an installer's files; the shell has made the empty
/// file of the output.
#[test]
fn files_without_an_object_are_skipped_in_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let config = object("MachineConfig", "a").to_string();
    for (name, text) in [
        ("50-x.yaml", &*config),
        ("kustomization.yaml", "resources: [50-x.yaml]\n"),
        ("values.yaml", "replicas: 3\n"),
        ("notes.yaml", "# nothing yet\n"),
        ("install-config.yaml", "apiVersion: v1\nmetadata: {name: a}\nbaseDomain: example.com\n"),
        ("worker.yaml", ""),
        ("list.json", "[1]"),
        ("tsconfig.json", "{ // comment\n}"),
        ("butane.yaml", "variant: fcos\nversion: 1.5.0\n"),
        ("mixed.yaml", &format!("a: 1\n---\n{}", object("MachineConfig", "b"))),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let directory = [Input::File(folder.path().to_owned())];
    for read in [Manifests::read(&directory), Manifests::of_installation(&directory)] {
        assert_eq!(read.problems, [], "skipped");
        assert_eq!(read.objects.configs.len(), 2);
        let notices = read.notices();
        assert_eq!(notices.len(), 9, "{notices:?}");
        assert!(notices.iter().all(|it| it.code == "object-skipped"), "{notices:?}");
        let butane = notices.iter().find(|it| it.to_string().contains("/butane.yaml"));
        assert!(butane.unwrap().message.contains("a Butane config"), "{butane:?}");
    }
    for (name, problems) in [("values.yaml", 1), ("worker.yaml", 1), ("mixed.yaml", 1)] {
        let named = Manifests::read(&[Input::File(folder.path().join(name))]);
        assert_eq!(named.problems.len(), problems, "{name}");
    }
    // An object that lost its kind is not a file of another tool, and a kind is meant.
    for text in [&*format!("apiVersion: {API_VERSION}\nmetadata: {{name: c}}\n"), "kind: [a\n"] {
        std::fs::write(folder.path().join("c.yaml"), text).unwrap();
        assert_eq!(Manifests::read(&directory).problems.len(), 1, "{text}");
    }
}

#[test]
fn line_breaks_in_the_base64_of_a_secret_mean_nothing() {
    let secret = |data: &str| {
        let text = format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\ndata:\n{data}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f.yaml");
        std::fs::write(&file, text).unwrap();
        Manifests::of_installation(&[Input::File(file)])
    };
    for data in
        ["  k: |\n    aHVud\n    GVyMg==\n", "  k: aHVudGVyMg==\n", "  k: >-\n    aHVudGVyMg==\n"]
    {
        let read = secret(data);
        assert!(read.problems.is_empty(), "{data}: {:?}", read.problems);
        let (_, secret) = &read.objects.secrets[0];
        assert_eq!(secret.expose().0.data.as_ref().unwrap()["k"].0, b"hunter2", "{data}");
    }
    let problems = secret("  good: YQ==\n  bad: hunter2!\n").problems;
    assert_eq!(problems.len(), 1);
    assert!(problems[0].message.contains("data[\"bad\"]: must be base64"), "{problems:?}");
    assert!(!problems[0].message.contains("hunter2"), "{problems:?}");
}

/// The manifests of these files, in this order.
fn rendered(texts: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let files = texts.iter().enumerate().map(|(number, text)| {
        let file = folder.path().join(number.to_string());
        std::fs::write(&file, text).unwrap();
        Input::File(file)
    });
    let read = Manifests::read(&files.collect::<Vec<_>>());
    assert!(read.problems.is_empty(), "{:?}", read.problems);
    let request = render::Request {
        pool: "infra".parse().unwrap(),
        pool_object: None,
        controller_config: None,
        pool_settings: Vec::new(),
        os_image: None,
        extensions_image: None,
        pins: BTreeMap::new(),
        configs: read.objects.configs,
        explain: false,
    };
    match render::render(&request, &Contents::new()) {
        Ok(Outcome::Rendered(rendered)) => rendered.object,
        other => panic!("{other:?}"),
    }
}

/// The same JSON, the keys of each object in the reverse order.
fn reversed(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().rev();
            let fields = fields.map(|(key, value)| format!("{}:{}", json!(key), reversed(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(reversed).collect();
            format!("[{}]", items.join(","))
        }
        other => other.to_string(),
    }
}
