use serde_json::json;

use super::*;

const NEW: &str = "mosb-boot-image-42.20250609.3.0-amd64";

fn template(image: Value, identity: bool) -> Value {
    let mut template = json!({"template": {"spec": {"image": image, "flavor": "m1.large"}}});
    if identity {
        template["template"]["spec"]["identityRef"] = json!({"name": "clouds", "cloudName": "c1"});
    }
    template
}

#[test]
fn references() {
    let ours = "mosb-boot-image-41.20250105.3.0-amd64";
    let fedora = Fixture::fedora;
    let openstack = "/architectures/x86_64/artifacts/openstack";
    let without = |path: &str| fedora().without(FEDORA, &format!("{openstack}{path}")).vouched();
    let reference = |name: &str| json!({"imageRef": {"name": name}});
    let cases = [
        ("ours", fedora(), reference(ours), format!("{ours} → {NEW}")),
        ("current", fedora(), reference(NEW), format!("current {NEW}")),
        ("another's", fedora(), reference("x"), "skip unproven-image".to_owned()),
        ("another's, proven", fedora().proven("x"), reference("x"), format!("x → {NEW}")),
        ("by id", fedora(), json!({"id": "7e1a"}), "skip unproven-image".to_owned()),
        ("by id, proven", fedora().proven("7e1a"), json!({"id": "7e1a"}), format!("7e1a → {NEW}")),
        (
            "by name",
            fedora(),
            json!({"filter": {"name": "fcos"}}),
            "skip unproven-image".to_owned(),
        ),
        (
            "by name, vouched",
            fedora().vouched(),
            json!({"filter": {"name": "fcos"}}),
            format!("fcos → {NEW}"),
        ),
        (
            "by tags",
            fedora().vouched(),
            json!({"filter": {"tags": ["fcos"]}}),
            "skip looked-up-image".to_owned(),
        ),
        (
            "an empty filter",
            fedora(),
            json!({"filter": {}}),
            "error boot-image-field-missing".to_owned(),
        ),
        ("none", fedora(), Value::Null, "error boot-image-field-missing".to_owned()),
        ("a text", fedora(), json!("fcos"), "error boot-image-field-type".to_owned()),
        ("no artifact", without(""), reference("x"), "skip not-in-stream".to_owned()),
        ("no release", without("/release"), reference("x"), "skip not-in-stream".to_owned()),
        (
            "no format",
            without("/formats/qcow2.xz"),
            reference("x"),
            "skip not-in-stream".to_owned(),
        ),
        (
            "no disk",
            without("/formats/qcow2.xz/disk"),
            reference("x"),
            "skip not-in-stream".to_owned(),
        ),
        (
            "no URL",
            without("/formats/qcow2.xz/disk/location"),
            reference("x"),
            "skip not-in-stream".to_owned(),
        ),
        (
            "no checksum",
            without("/formats/qcow2.xz/disk/sha256"),
            reference("x"),
            "skip not-in-stream".to_owned(),
        ),
    ];
    for (what, fixture, image, want) in cases {
        let before = template(image.clone(), true);
        let outcome = fixture.cluster_api(TemplateKind::OpenStack, &before);
        assert_eq!(outcome.line, want, "{what}");
        let after = if want.contains('→') { reference(NEW) } else { image };
        assert_eq!(outcome.after, template(after, true), "{what}");
    }
}

fn object(fixture: &Fixture, template: &Value) -> Result<Value, ImageError> {
    match crate::cluster_api(TemplateKind::OpenStack, template, &fixture.context())? {
        Verdict::Change(change) => Ok(change.object.unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_image_that_is_downloaded() {
    let image = json!({"id": "7e1a"});
    let made = object(&Fixture::fedora().vouched(), &template(image.clone(), true)).unwrap();
    let url = "https://builds.coreos.fedoraproject.org/prod/streams/stable/builds/42.20250609.3.0\
               /x86_64/fedora-coreos-42.20250609.3.0-openstack.x86_64.qcow2.xz";
    let want = json!({
        "apiVersion": "openstack.k-orc.cloud/v1alpha1",
        "kind": "Image",
        "metadata": {"name": NEW, "labels": {"app.kubernetes.io/managed-by": "mosb"}},
        "spec": {
            "cloudCredentialsRef": {"secretName": "clouds", "cloudName": "c1"},
            "managementPolicy": "managed",
            "resource": {"content": {"diskFormat": "qcow2", "download": {
                "url": url,
                "decompress": "xz",
                "hash": {
                    "algorithm": "sha256",
                    "value": "1bc0ef58afae9ffe36d31a3a8dfd5b59fbe5a3f6d9a39c6cc4ec53df8b2bb3bd",
                },
            }}},
        },
    });
    let mut made = made;
    let hash = "/spec/resource/content/download/hash/value";
    let stream: Value = serde_json::from_str(FEDORA).unwrap();
    let disk = "/architectures/x86_64/artifacts/openstack/formats/qcow2.xz/disk/sha256";
    assert_eq!(made.pointer(hash), stream.pointer(disk));
    *made.pointer_mut(hash).unwrap() = want.pointer(hash).unwrap().clone();
    assert_eq!(made, want);

    let rhel = object(&Fixture::rhel().vouched(), &template(image, true)).unwrap();
    assert_eq!(rhel["metadata"]["name"], "mosb-boot-image-9.6.20260210-0-amd64");
    assert_eq!(rhel.pointer("/spec/resource/content/download/decompress"), Some(&json!("gz")));
}

#[test]
fn its_credentials() {
    let image = json!({"id": "7e1a"});
    let with = |cluster: Value| {
        let mut fixture = Fixture::fedora().vouched();
        fixture.cluster_spec = Some(cluster);
        fixture
    };
    let cluster = with(json!({"identityRef": {"name": "of-cluster", "cloudName": "c2"}}));
    let of = |made: Value| made["spec"]["cloudCredentialsRef"]["secretName"].clone();
    assert_eq!(of(object(&cluster, &template(image.clone(), true)).unwrap()), "clouds");
    assert_eq!(of(object(&cluster, &template(image.clone(), false)).unwrap()), "of-cluster");
    for (what, fixture) in [
        ("no cluster", Fixture::fedora().vouched()),
        ("a cluster without", with(json!({}))),
        ("half of it", with(json!({"identityRef": {"name": "x"}}))),
    ] {
        let error = object(&fixture, &template(image.clone(), false)).unwrap_err();
        assert!(matches!(error, ImageError::Missing { .. }), "{what}: {error}");
    }
}

#[test]
fn release_that_is_no_name_of_an_object() {
    let mut fixture = Fixture::fedora().vouched();
    let images = fixture.stream.architectures.get_mut("x86_64").unwrap();
    images.artifacts.get_mut("openstack").unwrap().release = Some("../x".to_owned());
    let outcome =
        fixture.cluster_api(TemplateKind::OpenStack, &template(json!({"id": "7e1a"}), true));
    assert_eq!(outcome.line, "error bad-stream-value");
}
