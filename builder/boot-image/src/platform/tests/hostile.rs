//! Values that no API server should hold: an error or a skip, never a panic, and never an edit of
//! anything but the image.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Every field that a platform reads, with a value that leads to a change.
fn changing() -> Vec<(Option<&'static str>, TemplateKind, Value, Fixture)> {
    let azure = json!({
        "publisher": "azureopenshift", "offer": "aro4", "sku": "418-v2", "version": "1",
        "thirdPartyImage": true, "type": "x", "resourceID": "",
    });
    let ami = json!({"id": "ami-old", "arn": "", "filters": []});
    let gcp = "projects/rhcos-cloud/global/images/old";
    let digest =
        format!("quay.io/openshift-release-dev/ocp-v4.0-art-dev@sha256:{}", "a".repeat(64));
    let url = "https://rhcos.mirror.openshift.com/rhcos-418.94.202511191518-0-metal.x86_64.raw.gz";
    let fixture = || Fixture::rhel().region("us-east-1").mapped("9.6.20260210-0", "new").vouched();
    let kubevirt = json!({"virtualMachineTemplate": {"spec": {
        "dataVolumeTemplates": [{"metadata": {"name": "os"}, "spec": {"source": {"registry": {"url": format!("docker://{digest}")}}}}],
        "template": {"spec": {
            "domain": {"devices": {"disks": [{"name": "b", "bootOrder": 2}, {"name": "a", "bootOrder": 1}]}},
            "volumes": [{"name": "a", "dataVolume": {"name": "os"}}, {"name": "b"}],
        }},
    }}});
    let openstack = json!({
        "image": {"filter": {"name": "x"}, "imageRef": {"name": ""}, "id": ""},
        "identityRef": {"name": "x", "cloudName": "y"},
    });
    let metal3 = json!({"image": {"url": url, "checksum": "x", "checksumType": "md5"}, "customDeploy": {"method": ""}});
    let template = |spec: Value| json!({"template": {"spec": spec}, "x": 1});
    vec![
        (
            Some("AWS"),
            TemplateKind::Aws,
            json!({"ami": ami, "placement": {"region": "us-east-1"}}),
            fixture(),
        ),
        (
            Some("GCP"),
            TemplateKind::Gcp,
            json!({"disks": [{"boot": true, "image": gcp}, {"boot": true, "image": gcp}]}),
            fixture(),
        ),
        (
            Some("Azure"),
            TemplateKind::Azure,
            json!({"image": azure, "securityProfile": {"settings": {"securityType": ""}}}),
            fixture(),
        ),
        (
            Some("VSphere"),
            TemplateKind::VSphere,
            json!({"template": "old", "snapshot": ""}),
            fixture(),
        ),
        (None, TemplateKind::Aws, template(json!({"ami": ami})), fixture()),
        (None, TemplateKind::Gcp, template(json!({"image": gcp, "imageFamily": "x"})), fixture()),
        (None, TemplateKind::Azure, template(json!({"image": {"marketplace": azure}})), fixture()),
        (
            None,
            TemplateKind::VSphere,
            template(json!({"template": "old", "snapshot": ""})),
            fixture(),
        ),
        (None, TemplateKind::OpenStack, template(openstack), fixture()),
        (None, TemplateKind::Metal3, template(metal3), fixture()),
        (None, TemplateKind::KubeVirt, template(kubevirt), fixture()),
    ]
}

fn outcome(platform: Option<&str>, kind: TemplateKind, spec: &Value, fixture: &Fixture) -> Outcome {
    match platform {
        Some(platform) => fixture.machine_api(platform, spec),
        None => fixture.cluster_api(kind, spec),
    }
}

/// The pointers of all places of a value.
fn paths(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    let children: Vec<(String, &Value)> = match value {
        Value::Object(object) => object.iter().map(|(key, child)| (key.clone(), child)).collect(),
        Value::Array(list) => {
            list.iter().enumerate().map(|(index, child)| (index.to_string(), child)).collect()
        }
        _ => vec![],
    };
    for (key, child) in children {
        paths(child, &format!("{at}/{key}"), found);
    }
}

#[test]
fn each_field_with_each_wrong_value() {
    let wrong = [
        Value::Null,
        json!(true),
        json!(-7.5),
        json!(""),
        json!("\u{0}\n"),
        json!("x".repeat(5000)),
        json!([]),
        json!({}),
        json!([[[{}]]]),
        json!(vec![json!({"boot": true, "image": "x", "name": "x"}); 300]),
    ];
    for (platform, kind, spec, fixture) in changing() {
        let whole = outcome(platform, kind, &spec, &fixture);
        assert!(whole.line.contains('→'), "{platform:?} {kind:?}: {}", whole.line);
        let mut all = Vec::new();
        paths(&spec, "", &mut all);
        for path in all {
            for value in &wrong {
                let mut spec = spec.clone();
                *spec.pointer_mut(&path).unwrap() = value.clone();
                outcome(platform, kind, &spec, &fixture);
            }
        }
    }
}

/// The paths that a change of a platform may touch.
fn is_image_path(path: &str) -> bool {
    let path = path.strip_prefix("/template/spec").unwrap_or(path);
    [
        "/ami",
        "/image",
        "/template",
        "/virtualMachineTemplate/spec/dataVolumeTemplates/0/spec/source/registry/url",
    ]
    .iter()
    .any(|image| path == *image || path.starts_with(&format!("{image}/")))
        || (path.starts_with("/disks/") && path.ends_with("/image"))
}

/// Any JSON, nested a little.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z/~:@.]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z/~]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Unknown fields anywhere in the value stay, and nothing but the image changes.
    #[test]
    fn everything_but_the_image_is_equal_afterwards(
        key in "[a-zA-Z/~]{1,6}x", unknown in json_value()
    ) {
        for (platform, kind, mut spec, fixture) in changing() {
            let mut all = Vec::new();
            paths(&spec, "", &mut all);
            for path in all.iter().filter(|path| !is_image_path(path)) {
                if let Some(object) = spec.pointer_mut(path).and_then(Value::as_object_mut) {
                    object.insert(key.clone(), unknown.clone());
                }
            }
            let context = fixture.context();
            let verdict = match platform {
                Some(platform) => super::super::machine_api(&platform.parse().unwrap(), &spec, &context),
                None => super::super::cluster_api(kind, &spec, &context),
            };
            let Ok(Verdict::Change(change)) = verdict else { panic!("{kind:?}: {verdict:?}") };
            let mut after = spec.clone();
            change.apply(&mut after).unwrap();
            for edit in &change.edits {
                prop_assert!(is_image_path(&edit.path), "{}", edit.path);
                prop_assert_eq!(after.pointer(&edit.path), edit.new.as_ref());
                // With the old value back in its place, nothing else differs.
                let (parent, name) = edit.path.rsplit_once('/').unwrap();
                let parent = after.pointer_mut(parent).unwrap().as_object_mut().unwrap();
                match &edit.old {
                    Some(old) => parent.insert(name.to_owned(), old.clone()),
                    None => parent.remove(name),
                };
            }
            prop_assert_eq!(after, spec);
        }
    }

    /// Any value at any place of a value: no panic.
    #[test]
    fn any_value_is_judged(value in json_value(), choice in any::<prop::sample::Index>()) {
        for (platform, kind, mut spec, fixture) in changing() {
            let mut all = Vec::new();
            paths(&spec, "", &mut all);
            *spec.pointer_mut(&all[choice.index(all.len())]).unwrap() = value.clone();
            outcome(platform, kind, &spec, &fixture);
        }
    }
}
