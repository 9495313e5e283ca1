use super::*;
use mosb_reconcile::fake_api::{FakeAnswer, FakeApi};
use mosb_reconcile::write::FIELD_MANAGER;

/// An API server that always gives this answer.
fn api(code: u16, answer: Value) -> FakeApi {
    FakeApi::new(move |_| FakeAnswer::Json(code, answer.clone()))
}

fn target() -> ObjectRef {
    ObjectRef {
        kind: BootImageKind::MachineApiMachineSet,
        version: "v1beta1".to_owned(),
        namespace: "machines".to_owned(),
        name: "a".to_owned(),
        uid: "u".to_owned(),
        resource_version: "7".to_owned(),
    }
}

#[tokio::test]
async fn a_set_is_patched_in_the_version_that_was_seen() {
    let object = json!({ "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": { "name": "a", "resourceVersion": "8" } });
    let api = api(200, object);
    let test = json!({ "op": "test", "path": "/spec/x", "value": 1 });
    patch_set(&api.client, &target(), std::slice::from_ref(&test)).await.unwrap();
    let version = json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": "7" });
    let sent = api.requests();
    let [sent] = &sent[..] else { panic!("{sent:?}") };
    let path = "/apis/machine.openshift.io/v1beta1/namespaces/machines/machinesets/a";
    assert_eq!(sent.line(), format!("PATCH {path}"));
    let want = json!([version, test]);
    assert_eq!((&*sent.content_type, &sent.body), ("application/json-patch+json", &want));
}

/// A webhook puts the old value back. Without an error, it would be written for ever.
#[tokio::test]
async fn a_write_whose_value_is_not_kept_is_an_error() {
    for (value, want) in [("new", None), ("old", Some("boot-image-not-kept"))] {
        let object = json!({ "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
            "metadata": { "name": "a", "resourceVersion": "8" },
            "spec": { "image": { "id": value, "default": true } } });
        let api = api(200, object);
        let operations = [
            json!({ "op": "test", "path": "/spec/image", "value": { "id": "old" } }),
            json!({ "op": "add", "path": "/spec/image", "value": { "id": "new" } }),
            json!({ "op": "remove", "path": "/spec/family" }),
        ];
        let written = patch_set(&api.client, &target(), &operations).await;
        assert_eq!(written.err().as_ref().map(ApplyError::code), want, "{value}");
    }
}

/// A CRD of an earlier version prunes fields. Without an error, they would be written for ever.
#[tokio::test]
async fn a_record_that_is_not_kept_is_an_error() {
    let status = json!({ "details": [{ "bootImageRef": "a", "stock": true }], "pinned": null });
    let target = ObjectRef { kind: BootImageKind::BootImageHistory, ..target() };
    for (kept, want) in [
        (json!([{ "bootImageRef": "a", "stock": true }]), None),
        (json!([{ "bootImageRef": "a" }]), Some("boot-image-not-kept")),
    ] {
        let object = json!({ "apiVersion": "machineconfiguration.openshift.io/v1alpha1",
            "kind": "BootImageHistory", "metadata": { "name": "a", "resourceVersion": "8" },
            "status": { "details": kept } });
        let api = api(200, object);
        let written = patch_status(&api.client, &target, &status, &"x").await;
        assert_eq!(written.err().as_ref().map(ApplyError::code), want);
    }
}

/// Nothing that mosb watches ends these, so a conflict would be retried each second for ever.
#[tokio::test]
async fn what_can_not_be_created_is_an_error() {
    let image = |url: &str| {
        json!({ "apiVersion": "openstack.k-orc.cloud/v1alpha1", "kind": "Image",
            "metadata": { "name": "i" }, "spec": { "url": url } })
    };
    let with_more = |mut image: Value, manager: &str| {
        image["spec"]["visibility"] = json!("public");
        image["metadata"]["managedFields"] = json!([{ "manager": manager, "operation": "Update",
            "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": {} } }]);
        image
    };
    for (what, code, there, want) in [
        ("created", 201, image("new"), None),
        ("the same one is there", 409, image("new"), None),
        ("another one is there", 409, image("other"), Some(("not-ours", "Image machines/i"))),
        (
            "one with more is there",
            409,
            with_more(image("new"), "kubectl"),
            Some(("not-ours", "Image machines/i")),
        ),
        ("one of ours with a default is there", 409, with_more(image("new"), FIELD_MANAGER), None),
        ("no such kind", 404, Value::Null, Some(("api-not-found", "openstack.k-orc.cloud"))),
    ] {
        let api = FakeApi::new(move |request| match (&*request.method, code) {
            ("POST", 404 | 409) => FakeAnswer::failure(code),
            _ => there.clone().into(),
        });
        let created = create_other(&api.client, "machines", &image("new"), &"x").await;
        let error = created.err().map(|error| (error.code().to_owned(), error.to_string()));
        assert_eq!(error.as_ref().map(|one| &*one.0), want.map(|one| one.0), "{what}");
        if let (Some((_, message)), Some((_, part))) = (error, want) {
            assert!(message.contains(part), "{what}: {message}");
        }
    }
}

#[tokio::test]
async fn a_changed_object_is_a_conflict_and_a_refusal_is_not() {
    for (code, message, is_conflict) in [
        (409, "the object has been modified", true),
        (404, "not found", true),
        (422, TEST_FAILED, true),
        (422, "ValidatingAdmissionPolicy 'x' denied request", false),
        (403, "cannot patch", false),
    ] {
        let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "code": code, "reason": "x", "message": message });
        let api = api(code, status);
        let error = patch_set(&api.client, &target(), &[]).await.unwrap_err();
        assert_eq!(error.class().is_none(), is_conflict, "{code} {message}: {error}");
    }
}

#[test]
fn an_object_is_the_same_if_it_has_what_was_sent() {
    for (what, there, sent, want) in [
        ("equal", json!({"a": 1}), json!({"a": 1}), true),
        ("a default", json!({"a": 1, "b": 2}), json!({"a": 1}), true),
        ("another value", json!({"a": 2}), json!({"a": 1}), false),
        ("a field less", json!({}), json!({"a": 1}), false),
        ("a longer list", json!({"a": [1, 2]}), json!({"a": [1]}), false),
        ("a default in a list", json!({"a": [{"b": 1, "c": 1}]}), json!({"a": [{"b": 1}]}), true),
        ("null is absent", json!({}), json!({"a": null}), true),
        ("an empty spec", Value::Null, json!({}), true),
    ] {
        assert_eq!(contains(&there, &sent), want, "{what}");
    }
}
