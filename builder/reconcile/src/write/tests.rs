use serde_json::json;

use super::*;
use crate::fake_api::{FakeAnswer, FakeApi};
use crate::kind::{Kind, Scope};
use crate::lease::LeaseTimes;

const POOL: Kind = Kind {
    group: "machineconfiguration.openshift.io",
    version: "v1",
    name: "MachineConfigPool",
    plural: "machineconfigpools",
    scope: Scope::Cluster,
    is_built_in: false,
    is_optional: false,
    is_deleted_last: false,
};
const CONFIG: Kind =
    Kind { name: "MachineOSConfig", plural: "machineosconfigs", is_deleted_last: true, ..POOL };
const BUILD: Kind = Kind { name: "MachineOSBuild", plural: "machineosbuilds", ..CONFIG };
const SECRET: Kind = built_in("", "Secret", "secrets");
const JOB: Kind = built_in("batch", "Job", "jobs");
const NODE_JOB: Kind = Kind { scope: Scope::Namespace("mosb-rollout"), ..JOB };
const ROLE: Kind = built_in("rbac.authorization.k8s.io", "Role", "roles");

const fn built_in(group: &'static str, name: &'static str, plural: &'static str) -> Kind {
    Kind { group, name, plural, scope: Scope::OwnNamespace, is_built_in: true, ..POOL }
}

fn target(kind: Kind) -> Target {
    Target { kind, name: "x".to_owned(), uid: "u".to_owned(), version: Some("7".to_owned()) }
}

fn create(kind: Kind, if_exists: IfExists) -> Action<NoEffect> {
    Action::Create(NewObject {
        kind,
        name: "x".to_owned(),
        owner_uid: None,
        body: Arc::new(json!({ "metadata": { "name": "x" } })),
        if_exists,
    })
}

fn conditions() -> NewStatus {
    NewStatus::Fields(json!({ "conditions": [] }))
}

#[tokio::test]
async fn each_write_is_one_request_with_what_it_was_decided_on() {
    let group = "/apis/machineconfiguration.openshift.io/v1";
    let by = "&fieldManager=mosb-controller";
    let api_version = "machineconfiguration.openshift.io/v1";
    let mut annotations = Patch::default();
    annotations.set("a", "1");
    annotations.remove("b");
    let suspended = Patch { spec: json!({ "suspend": false }), ..Patch::default() };
    let delete = |propagation: &str| json!({ "propagationPolicy": propagation, "preconditions": { "uid": "u" } });
    let old = |kind| Action::Delete(target(kind).any_version());
    for (action, request, content_type, body) in [
        (
            create(SECRET, IfExists::DecideAgain),
            format!("POST /api/v1/namespaces/ns/secrets?{by}"),
            "application/json",
            json!({ "metadata": { "name": "x" } }),
        ),
        (
            Action::Patch(target(POOL), annotations),
            format!("PATCH {group}/machineconfigpools/x?{by}"),
            "application/merge-patch+json",
            json!({ "metadata": { "resourceVersion": "7", "annotations": { "a": "1", "b": null } } }),
        ),
        (
            Action::Patch(target(JOB), suspended),
            format!("PATCH /apis/batch/v1/namespaces/ns/jobs/x?{by}"),
            "application/strategic-merge-patch+json",
            json!({ "metadata": { "resourceVersion": "7" }, "spec": { "suspend": false } }),
        ),
        (
            Action::ReplaceStatus(target(CONFIG), NewStatus::Whole(json!({}))),
            format!("PUT {group}/machineosconfigs/x/status?{by}"),
            "application/json",
            json!({ "apiVersion": api_version, "kind": "MachineOSConfig", "status": {},
                "metadata": { "name": "x", "uid": "u", "resourceVersion": "7" } }),
        ),
        (
            Action::ReplaceStatus(target(POOL), conditions()),
            format!("PATCH {group}/machineconfigpools/x/status?{by}"),
            "application/merge-patch+json",
            json!({ "metadata": { "resourceVersion": "7" }, "status": { "conditions": [] } }),
        ),
        (
            old(BUILD),
            format!("DELETE {group}/machineosbuilds/x?"),
            "application/json",
            delete("Foreground"),
        ),
        (
            old(NODE_JOB),
            "DELETE /apis/batch/v1/namespaces/mosb-rollout/jobs/x?".to_owned(),
            "application/json",
            delete("Background"),
        ),
        (
            old(ROLE),
            "DELETE /apis/rbac.authorization.k8s.io/v1/namespaces/ns/roles/x?".to_owned(),
            "application/json",
            delete("Background"),
        ),
    ] {
        let answer = json!({ "metadata": { "name": "x", "uid": "u", "resourceVersion": "8" } });
        let api = FakeApi::new(move |_| answer.clone());
        let executor = Executor::from(&api);
        let mut pass = ReconcilePass::default();
        executor.apply_all(std::slice::from_ref(&action), &mut pass).await.unwrap();
        let sent = api.requests();
        let [sent] = &sent[..] else { panic!("{action}: {sent:?}") };
        assert_eq!(format!("{}?{}", sent.line(), sent.query), request, "{action}");
        assert_eq!((&*sent.content_type, &sent.body), (content_type, &body), "{action}");
    }
}

#[test]
fn the_body_of_a_new_object_is_not_printed() {
    let Action::Create(new) = create(SECRET, IfExists::DecideAgain) else { panic!() };
    let new = NewObject { body: Arc::new(json!({ "stringData": "hunter2" })), ..new };
    let text = format!("{:?}", Action::<NoEffect>::Create(new));
    assert_eq!(text, r#"Create(NewObject { kind: Secret, name: "x", .. })"#);
}

#[tokio::test]
async fn a_later_write_expects_the_version_of_the_earlier_one() {
    let answer = json!({ "metadata": { "name": "x", "uid": "u", "resourceVersion": "8" } });
    let api = FakeApi::new(move |_| answer.clone());
    let executor = Executor::from(&api);
    let actions = [
        Action::Patch(target(POOL), Patch::default()),
        Action::ReplaceStatus(target(POOL), conditions()),
    ];
    executor.apply_all(&actions, &mut ReconcilePass::default()).await.unwrap();
    let sent = api.requests();
    let versions: Vec<_> =
        sent.iter().map(|one| &one.body["metadata"]["resourceVersion"]).collect();
    assert_eq!(versions, ["7", "8"]);
    let own_writes = &executor.own_writes;
    assert!(own_writes.is_stale([("u", "7")]) && !own_writes.is_stale([("u", "8")]));
}

#[tokio::test]
async fn a_write_that_is_refused_is_decided_again_or_reported() {
    let conflict = ": conflict: the object changed; retrying";
    for (action, code, want) in [
        (Action::Delete(target(JOB)), 404, None),
        (Action::Delete(target(JOB)), 409, Some(format!("job ns/x{conflict}"))),
        (
            Action::Delete(target(JOB)),
            500,
            Some("job ns/x: delete: the API server answers 500: said".to_owned()),
        ),
        (
            Action::Patch(target(BUILD), Patch::default()),
            404,
            Some(format!("machineosbuild x{conflict}")),
        ),
        (
            Action::Patch(target(BUILD), Patch::default()),
            422,
            Some("machineosbuild x: patch: the API server answers 422: said".to_owned()),
        ),
        (create(CONFIG, IfExists::DecideAgain), 409, Some(format!("machineosconfig x{conflict}"))),
    ] {
        let executor = Executor::from(&FakeApi::new(move |_| FakeAnswer::failure(code)));
        let mut pass = ReconcilePass::default();
        let applied = executor.apply_all(std::slice::from_ref(&action), &mut pass).await;
        assert_eq!(applied.err().map(|error| error.to_string()), want, "{action}: {code}");
    }
}

#[tokio::test]
async fn an_object_that_exists_is_compared_with_the_new_one() {
    let not_ours = "secret ns/x: exists and is not ours; delete it or give it another name";
    let changed = "secret ns/x: conflict: the object changed; retrying";
    for (what, compare, exists, want) in [
        ("the same", (|_, _| Existing::Same) as Compare, true, None),
        ("going", |_, _| Existing::Outdated, true, Some(changed)),
        ("another's", |_, _| Existing::NotOurs, true, Some(not_ours)),
        ("gone", |_, _| Existing::Same, false, Some(changed)),
    ] {
        let api = FakeApi::new(move |request| match (&*request.method, exists) {
            ("GET", true) => json!({ "metadata": { "name": "x", "uid": "u" } }).into(),
            ("GET", false) => FakeAnswer::failure(404),
            _ => FakeAnswer::failure(409),
        });
        let executor = Executor::from(&api);
        let action = create(SECRET, IfExists::CompareMetadata(compare));
        let mut pass = ReconcilePass::default();
        let applied = executor.apply_all(&[action], &mut pass).await;
        assert_eq!(applied.err().map(|error| error.to_string()).as_deref(), want, "{what}");
    }
}

#[tokio::test]
async fn only_what_is_compared_is_read() {
    let compare: Compare = |_, there| {
        if there.data["data"] == "all" { Existing::Same } else { Existing::NotOurs }
    };
    for (if_exists, is_whole) in
        [(IfExists::CompareMetadata(compare), false), (IfExists::CompareWhole(compare), true)]
    {
        let api = FakeApi::new(|request| match &*request.method {
            "GET" => json!({ "metadata": { "name": "x", "uid": "u" }, "data": "all" }).into(),
            _ => FakeAnswer::failure(409),
        });
        let executor = Executor::from(&api);
        let action = create(SECRET, if_exists);
        let done = executor.apply_all(&[action], &mut ReconcilePass::default()).await;
        assert_eq!(done.is_ok(), is_whole, "{if_exists:?}");
        let sent = api.requests();
        let metadata = sent.iter().map(|one| one.accept.contains("as=PartialObjectMetadata"));
        assert_eq!(metadata.collect::<Vec<_>>(), [true, !is_whole], "{if_exists:?}");
    }
}

#[test]
fn new_objects_differ_in_what_is_compared() {
    let compare: Compare = |_, _| Existing::Same;
    let all = [
        IfExists::DecideAgain,
        IfExists::CompareMetadata(compare),
        IfExists::CompareWhole(compare),
    ];
    for (at, one) in all.iter().enumerate() {
        let equal = all.map(|other| create(JOB, *one) == create(JOB, other));
        assert_eq!(equal, [0, 1, 2].map(|other| other == at), "{one:?}");
    }
}

fn event(name: &str) -> Action<NoEffect> {
    Action::Event(Event {
        name: name.to_owned(),
        on: Regarding {
            api_version: "v1",
            kind: "Node",
            name: "x".to_owned(),
            uid: "u".to_owned(),
        },
        kind: EventKind::Normal,
        reason: "Because",
        note: String::new(),
    })
}

#[tokio::test]
async fn without_the_lease_there_are_no_events() {
    let api = FakeApi::new(|request| request.body.clone());
    let mut executor = Executor::from(&api);
    executor.lease = Lease::new(api.client.clone(), "ns", "x", "us", LeaseTimes::default());
    let actions = [event("before"), Action::Delete(target(JOB))];
    let done = executor.apply_all(&actions, &mut ReconcilePass::default()).await;
    assert_eq!(done.unwrap_err().code(), "lost-lease");
    assert_eq!(api.requests(), []);
}

#[tokio::test]
async fn an_error_ends_events_too_but_not_earlier_ones() {
    let api = FakeApi::new(|request| match &*request.method {
        "POST" => request.body.clone().into(),
        _ => FakeAnswer::failure(500),
    });
    let executor = Executor::from(&api);
    let actions = [event("before"), Action::Delete(target(JOB)), event("after")];
    let done = executor.apply_all(&actions, &mut ReconcilePass::default()).await;
    assert_eq!(done.unwrap_err().code(), "api-failed");
    let sent = api.requests();
    let names: Vec<_> = sent.iter().map(|one| &one.body["metadata"]["name"]).collect();
    assert_eq!(names, [&serde_json::Value::Null, &json!("before")]);
}
