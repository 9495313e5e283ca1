use std::sync::{Arc, Mutex};

use hyper::{Request, Response};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::*;
use crate::action::{NewObject, NewStatus, Patch};
use crate::kinds::Kind;
use crate::lease::LeaseTimes;
use crate::log_archive::ArchiveLogs;
use crate::target::Target;
use crate::user_data::UserDataWrite;
use crate::workload::{Input, release};
use mosb_build::SecretObject;
use mosb_plan::api::{ImageBuilderType, MachineOsBuild, MachineOsConfig, labels};
use mosb_types::Secret as Hidden;

/// An executor whose API server gives this answer, and the requests that the server got.
fn executor(code: u16, answer: Value) -> (Executor, Arc<Mutex<Vec<Value>>>) {
    let sent: Arc<Mutex<Vec<Value>>> = Arc::default();
    let server = {
        let sent = Arc::clone(&sent);
        service_fn(move |request: Request<Body>| {
            let (sent, answer) = (Arc::clone(&sent), answer.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let header = |name: &str| {
                    let value = parts.headers.get(name);
                    value.map_or("", |value| value.to_str().unwrap()).to_owned()
                };
                sent.lock().unwrap().push(json!({
                    "request": format!("{} {}", parts.method, parts.uri),
                    "type": header("content-type"),
                    "body": serde_json::from_slice::<Value>(&body).unwrap_or_default(),
                }));
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, BoxError>(Response::builder().status(code).body(answer)?)
            }
        })
    };
    (executor_on(Client::new(server, "ns")), sent)
}

fn executor_on(client: Client) -> Executor {
    let lease = Lease::new(client.clone(), "ns", "x", "us", LeaseTimes::default());
    lease.hold_for_test();
    Executor {
        evictions: client.clone(),
        client,
        cache: Arc::new(ClusterCache::empty("ns")),
        lease,
        instance: "us".to_owned(),
        builder_image: None,
        security_context_constraints: false,
    }
}

fn target(kind: Kind) -> Target {
    Target { kind, name: "x".to_owned(), uid: "u".to_owned(), version: Some("7".to_owned()) }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A write of the Secret with the user data of a pool's new machines, as it was read.
fn user_data() -> Action {
    let object = json!({ "metadata": { "name": "x", "uid": "u", "resourceVersion": "7" } });
    Action::WriteUserData(Box::new(UserDataWrite {
        secret: "machines/x".parse().unwrap(),
        object: Hidden::new(SecretObject(read(object))),
    }))
}

#[tokio::test]
async fn each_write_is_one_request_with_what_it_was_decided_on() {
    let group = "/apis/machineconfiguration.openshift.io/v1";
    let by = "&fieldManager=mosb-controller";
    let api_version = "machineconfiguration.openshift.io/v1";
    let mut annotations = Patch::default();
    annotations.set("a", "1");
    annotations.remove("b");
    let suspended = Patch { spec: release(ImageBuilderType::Job).unwrap(), ..Patch::default() };
    let config: MachineOsConfig = read(json!({ "metadata": { "name": "x" } }));
    let build: MachineOsBuild = read(json!({ "metadata": { "name": "x" } }));
    let secret: Secret = read(json!({ "metadata": { "name": "x" } }));
    let delete = |propagation: &str| json!({ "propagationPolicy": propagation, "preconditions": { "uid": "u" } });
    let old = |kind| Action::Delete(target(kind).any_version());
    for (action, request, content_type, body) in [
        (
            Action::Create(NewObject::MachineOsBuild(Box::new(build))),
            format!("POST {group}/machineosbuilds?{by}"),
            "application/json",
            json!({ "apiVersion": api_version, "kind": "MachineOSBuild" }),
        ),
        (
            Action::Create(NewObject::Input(Box::new(Input::Secret(secret)))),
            format!("POST /api/v1/namespaces/ns/secrets?{by}"),
            "application/json",
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "x" } }),
        ),
        (
            Action::Patch(target(Kind::MachineConfigPool), annotations),
            format!("PATCH {group}/machineconfigpools/x?{by}"),
            "application/merge-patch+json",
            json!({ "metadata": { "resourceVersion": "7", "annotations": { "a": "1", "b": null } } }),
        ),
        (
            Action::Patch(target(Kind::Job), suspended),
            format!("PATCH /apis/batch/v1/namespaces/ns/jobs/x?{by}"),
            "application/strategic-merge-patch+json",
            json!({ "metadata": { "resourceVersion": "7" }, "spec": { "suspend": false } }),
        ),
        (
            Action::ReplaceStatus(
                target(Kind::MachineOsConfig),
                NewStatus::MachineOsConfig(Box::new(config.status)),
            ),
            format!("PUT {group}/machineosconfigs/x/status?{by}"),
            "application/json",
            json!({ "apiVersion": api_version, "kind": "MachineOSConfig",
                "metadata": { "name": "x", "uid": "u", "resourceVersion": "7" } }),
        ),
        (
            Action::ReplaceStatus(
                target(Kind::MachineConfigPool),
                NewStatus::Conditions(Vec::new()),
            ),
            format!("PATCH {group}/machineconfigpools/x/status?{by}"),
            "application/merge-patch+json",
            json!({ "metadata": { "resourceVersion": "7" }, "status": { "conditions": [] } }),
        ),
        (
            old(Kind::MachineOsBuild),
            format!("DELETE {group}/machineosbuilds/x?"),
            "application/json",
            delete("Foreground"),
        ),
        (
            old(Kind::Role),
            "DELETE /apis/rbac.authorization.k8s.io/v1/namespaces/ns/roles/x?".to_owned(),
            "application/json",
            delete("Background"),
        ),
        (
            user_data(),
            format!("PUT /api/v1/namespaces/machines/secrets/x?{by}"),
            "application/json",
            json!({ "apiVersion": "v1", "kind": "Secret",
                "metadata": { "name": "x", "uid": "u", "resourceVersion": "7" } }),
        ),
    ] {
        let answer = json!({ "metadata": { "name": "x", "uid": "u", "resourceVersion": "8" } });
        let (executor, sent) = executor(200, answer);
        let mut pass = ReconcilePass::default();
        executor.apply_all(std::slice::from_ref(&action), &mut pass).await.unwrap();
        let mut sent = sent.lock().unwrap().clone();
        // Only what matters of objects: the rest is empty.
        if let Some(whole) = sent[0]["body"].as_object_mut() {
            whole.retain(|key, _| body.get(key).is_some());
        }
        let want = json!({ "request": request, "type": content_type, "body": body });
        assert_eq!(sent, [want], "{action}");
    }
}

#[tokio::test]
async fn a_later_write_expects_the_version_of_the_earlier_one() {
    let answer = json!({ "metadata": { "name": "x", "uid": "u", "resourceVersion": "8" } });
    let (executor, sent) = executor(200, answer);
    let actions = [
        Action::Patch(target(Kind::MachineConfigPool), Patch::default()),
        Action::ReplaceStatus(target(Kind::MachineConfigPool), NewStatus::Conditions(Vec::new())),
    ];
    executor.apply_all(&actions, &mut ReconcilePass::default()).await.unwrap();
    let sent = sent.lock().unwrap();
    let versions: Vec<_> =
        sent.iter().map(|one| &one["body"]["metadata"]["resourceVersion"]).collect();
    assert_eq!(versions, ["7", "8"]);
    let own_writes = &executor.cache.own_writes;
    assert!(own_writes.is_stale([("u", "7")]) && !own_writes.is_stale([("u", "8")]));
}

#[tokio::test]
async fn a_write_that_is_refused_is_decided_again_or_reported() {
    let conflict = ": conflict: the object changed; retrying";
    for (action, code, want) in [
        (Action::Delete(target(Kind::Job)), 404, None),
        (Action::Delete(target(Kind::Job)), 409, Some(format!("job ns/x{conflict}"))),
        (
            Action::Delete(target(Kind::Job)),
            500,
            Some("job ns/x: delete: the API server answers 500: said".to_owned()),
        ),
        (
            Action::Patch(target(Kind::MachineOsBuild), Patch::default()),
            404,
            Some(format!("machineosbuild x{conflict}")),
        ),
        (
            Action::Patch(target(Kind::MachineOsBuild), Patch::default()),
            422,
            Some("machineosbuild x: patch: the API server answers 422: said".to_owned()),
        ),
        (
            Action::Create(NewObject::MachineOsConfig(Box::new(read(
                json!({ "metadata": { "name": "x" } }),
            )))),
            409,
            Some(format!("machineosconfig x{conflict}")),
        ),
        // It was changed, or is another one.
        (user_data(), 409, Some(format!("secret machines/x{conflict}"))),
        (user_data(), 404, Some(format!("secret machines/x{conflict}"))),
        (
            user_data(),
            422,
            Some("secret machines/x: update: the API server answers 422: said".to_owned()),
        ),
    ] {
        let status = Status::failure("said", "Reason").with_code(code);
        let (executor, _) = executor(code, json!(status));
        let mut pass = ReconcilePass::default();
        let applied = executor.apply_all(std::slice::from_ref(&action), &mut pass).await;
        assert_eq!(applied.err().map(|error| error.to_string()), want, "{action}: {code}");
    }
}

/// A client of an API server that has the log of a pod and one Secret. After a write, it gives no
/// more answers.
fn server_until_a_write(
    secret: &Arc<Mutex<Option<Value>>>,
    has_written: &Arc<Mutex<bool>>,
) -> Client {
    let (secret, has_written) = (Arc::clone(secret), Arc::clone(has_written));
    let server = service_fn(move |request: Request<Body>| {
        let (secret, has_written) = (Arc::clone(&secret), Arc::clone(&has_written));
        async move {
            if *has_written.lock().unwrap() {
                std::future::pending::<()>().await;
            }
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let mut secret = secret.lock().unwrap();
            let (method, path) = (parts.method.as_str(), parts.uri.path());
            let failure = |code| (code, json!(Status::failure("said", "Reason").with_code(code)));
            let (code, answer) = match (method, &*secret) {
                ("GET", _) if path.ends_with("/log") => (200, json!("a line")),
                ("GET", Some(there)) => (200, there.clone()),
                ("GET", None) => failure(404),
                ("POST", Some(_)) => failure(409),
                ("POST", None) => {
                    let mut new: Value = serde_json::from_slice(&body)?;
                    new["metadata"]["uid"] = json!("of-secret");
                    *secret = Some(new.clone());
                    (201, new)
                }
                ("DELETE", _) => (200, secret.take().unwrap_or_default()),
                other => panic!("{other:?}"),
            };
            *has_written.lock().unwrap() = method != "GET" && code < 300;
            let answer = Body::from(answer.to_string().into_bytes());
            Ok::<_, BoxError>(Response::builder().status(code).body(answer)?)
        }
    });
    Client::new(server, "ns")
}

/// Each start ends with its first write.
#[tokio::test(start_paused = true)]
async fn a_controller_that_is_killed_after_each_write_archives_logs_once() {
    let archive = |attempt: u32| ArchiveLogs {
        build: format!("worker-{}", "0".repeat(32)).parse().unwrap(),
        build_uid: "of-build".to_owned(),
        attempt,
        labels: [(labels::EPHEMERAL_BUILD_OBJECT, "")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        annotations: [(labels::ATTEMPT.to_owned(), attempt.to_string())].into(),
        pod: "x".to_owned(),
        containers: vec!["image-build".to_owned()],
        begun: ["image-build".to_owned()].into(),
        secrets: Vec::new(),
    };
    let secret: Arc<Mutex<Option<Value>>> = Arc::default();
    // The first attempt writes them; the second one deletes and writes them.
    for (attempt, writes) in [(1, 1), (2, 2)] {
        let mut starts = 0;
        loop {
            let has_written: Arc<Mutex<bool>> = Arc::default();
            let executor = executor_on(server_until_a_write(&secret, &has_written));
            executor.archive_logs(&archive(attempt)).await;
            if !*has_written.lock().unwrap() {
                break;
            }
            starts += 1;
            assert!(starts <= writes, "attempt {attempt}: it writes for ever");
        }
        assert_eq!(starts, writes, "attempt {attempt}");
        let secret = secret.lock().unwrap().clone().unwrap();
        assert_eq!(secret["metadata"]["annotations"][labels::ATTEMPT], attempt.to_string());
    }
}
