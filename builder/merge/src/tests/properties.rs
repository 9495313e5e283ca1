//! The inputs that change the name, and those that don't.

use super::*;
use proptest::prelude::*;

/// MachineConfigs that override each other.
fn some_configs() -> impl Strategy<Value = Vec<Component>> {
    let one =
        (0..4_u8, "[ab]", prop::sample::select(vec!["worker", "infra"]), 0..3_u8, any::<bool>());
    let all = prop::collection::vec(one, 1..6);
    all.prop_map(|all| {
        let each = all.into_iter().enumerate();
        each.map(|(number, (path, content, role, arguments, fips))| {
            let mut one =
                file(&format!("{content}-{number}"), role, &format!("/etc/{path}"), &content);
            one.config.spec.insert("fips".to_owned(), json!(fips));
            one.config
                .spec
                .insert("kernelArguments".to_owned(), json!(vec!["quiet"; arguments.into()]));
            one
        })
        .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn order_files_and_labels_mean_nothing(configs in some_configs(), by in 0..6_usize) {
        let mut other = configs.clone();
        other.reverse();
        let by = by % other.len();
        other.rotate_left(by);
        for one in &mut other {
            one.origin = "stdin".to_owned();
            one.config.metadata.labels.insert("team".to_owned(), "red".to_owned());
        }
        let (first, second) = (rendered(&request("infra", configs)), rendered(&request("infra", other)));
        prop_assert_eq!(first.object, second.object);
    }

    #[test]
    fn any_change_of_meaning_is_another_name(configs in some_configs(), which in 0..6_usize, change in 0..5_usize) {
        let first = rendered(&request("infra", configs.clone()));
        let mut other = configs;
        // The last MachineConfig takes precedence.
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
    fn rendering_is_idempotent(configs in some_configs()) {
        let first = rendered(&request("infra", configs));
        let again = config("a", "infra", first.object["spec"].clone());
        let again = rendered(&request("infra", vec![again]));
        prop_assert_eq!(again.config.name(), first.config.name());
    }
}

/// A rendered spec with most fields.
fn everything() -> Value {
    let source = |text: &str| json!({ "source": format!("data:,{text}"), "compression": "" });
    let ignition = json!({
        "ignition": {
            "version": "3.5.0", "proxy": { "httpProxy": "http://a", "noProxy": ["b"] }, "timeouts": { "httpTotal": 5 },
        },
        "kernelArguments": { "shouldExist": ["a"], "shouldNotExist": ["b"] },
        "passwd": {
            "users": [{ "name": "core", "sshAuthorizedKeys": ["a", "b"], "groups": ["c"], "uid": 5, "system": false, "gecos": "" }],
            "groups": [{ "name": "g", "gid": 5 }],
        },
        "storage": {
            "files": [
                { "path": "/a", "mode": 420, "overwrite": true, "contents": source("a"), "user": { "id": 5 }, "group": { "name": "g" } },
                { "path": "/b", "append": [source("b"), source("c")] },
            ],
            "directories": [{ "path": "/d", "mode": 493, "overwrite": false }],
            "links": [{ "path": "/l", "target": "/t", "hard": false }],
            "disks": [{ "device": "/dev/a", "wipeTable": true, "partitions": [{ "number": 1, "sizeMiB": 5, "label": "p" }] }],
            "filesystems": [{ "device": "/dev/b", "format": "ext4", "label": "f", "options": ["-q"] }],
            "luks": [{ "name": "x", "device": "/dev/c", "clevis": { "tpm2": true } }],
        },
        "systemd": { "units": [
            { "name": "a.service", "enabled": true, "mask": false, "contents": "[Unit]", "dropins": [{ "name": "b.conf", "contents": "[Unit]" }] },
        ] },
    });
    let spec = json!({
        "config": ignition, "fips": true, "kernelType": "default", "kernelArguments": ["quiet", "a=1"],
        "extensions": ["usbguard"], "osImageURL": format!("quay.io/os@{DIGEST}"),
        "baseOSExtensionsContainerImage": format!("quay.io/extensions@{DIGEST}"),
    });
    rendered(&request("infra", vec![config("a", "infra", spec)])).object["spec"].take()
}

/// Variants of the value, by path: each scalar changed, and each list entry removed.
fn changes(value: &Value) -> Vec<(String, Value)> {
    let within = |key: String, inner: &Value, put: &dyn Fn(Value) -> Value| {
        let changes = changes(inner).into_iter();
        let placed = changes.map(move |(place, changed)| (format!("/{key}{place}"), changed));
        placed.map(|(place, changed)| (place, put(changed))).collect::<Vec<_>>()
    };
    match value {
        Value::Object(fields) => {
            let each = fields.iter().map(|(key, inner)| {
                within(key.clone(), inner, &|changed| {
                    let mut fields = fields.clone();
                    fields.insert(key.clone(), changed);
                    Value::Object(fields)
                })
            });
            each.flatten().collect()
        }
        Value::Array(items) => {
            let each = items.iter().enumerate().map(|(number, inner)| {
                let mut all = within(number.to_string(), inner, &|changed| {
                    let mut items = items.clone();
                    items[number] = changed;
                    Value::Array(items)
                });
                let mut fewer = items.clone();
                fewer.remove(number);
                all.push((format!("/-{number}"), Value::Array(fewer)));
                all
            });
            each.flatten().collect()
        }
        Value::Bool(truth) => vec![(String::new(), json!(!truth))],
        Value::Number(number) => vec![(String::new(), json!(number.as_i64().unwrap() + 1))],
        Value::String(text) => {
            ["x", "1"].map(|more| (String::new(), json!(format!("{text}{more}")))).into()
        }
        Value::Null => Vec::new(),
    }
}

#[test]
fn each_field_is_in_the_name() {
    let spec = everything();
    let of = |spec: &Value| {
        let request = request("infra", vec![config("a", "infra", spec.clone())]);
        match render(&request, &Contents::new()) {
            Ok(Outcome::Rendered(rendered)) => Some(rendered.config.name().clone()),
            _ => None,
        }
    };
    let mut names: BTreeMap<_, _> = [(of(&spec).unwrap(), String::new())].into();
    let (mut refused, all) = (0, changes(&spec));
    for (place, changed) in &all {
        match of(changed) {
            Some(name) => {
                let other = names.insert(name, place.clone());
                assert_eq!(other, None, "{place}");
            }
            None => refused += 1,
        }
    }
    assert!(names.len() > 80 && refused < all.len() / 3, "{refused} of {}", all.len());
}
