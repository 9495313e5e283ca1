//! Sends the writes of boot images to the API server.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Patch;
use kube::core::{ApiResource, DynamicObject, Request};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::effect::{BootImageEffect, BootImageWrite, ObjectRef, Recorded};
use super::memory::is_general;
use super::plan::Outcome;
use super::reconciler::BootImageReconciler;
use mosb_cluster::cluster_cache::{BootImageKind, has_only_our_spec, object_key};
use mosb_reconcile::Problem;
use mosb_reconcile::error::{self, Error};
use mosb_reconcile::write::{
    ApplyError, Effects, Executor, ReconcilePass, patch_params, post_params,
};
use mosb_types::ErrorClass;

/// Media type of the operations.
const JSON_PATCH: &str = "application/json-patch+json";
/// What the API server answers to a JSON patch of which a test fails, or a path does not exist.
const TEST_FAILED: &str = "the server rejected our request due to an error in our request";

fn api(client: &Client, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
    match namespace {
        "" => Api::all_with(client.clone(), resource),
        namespace => Api::namespaced_with(client.clone(), namespace, resource),
    }
}

fn api_of(client: &Client, target: &ObjectRef) -> Api<DynamicObject> {
    api(client, &target.kind.resource(&target.version), &target.namespace)
}

impl Effects for BootImageReconciler {
    type Effect = BootImageEffect;
    type State = ();

    fn executor(&self) -> &Executor {
        &self.executor
    }

    /// A write of one set that is refused, or that was decided on an outdated view, does not end
    /// the pass: the next one reports it, or tries it again.
    async fn apply_effect(
        &self,
        BootImageEffect { set, write }: &BootImageEffect,
        _: &mut ReconcilePass<()>,
    ) -> Result<(), ApplyError> {
        let Some(set) = set else { return self.send(write).await };
        tracing::info!("{write}");
        let result = self.send(write).await;
        let refused = self.memory().record(write, &result, Timestamp::now());
        match (&result, refused) {
            (Ok(()), _) => {
                if let BootImageWrite::Status { recorded: Recorded::Restored, .. } = write {
                    self.metrics.count_restore();
                }
            }
            (Err(error), Some(why)) => {
                tracing::warn!(reason = error.code(), "{set}: {}", Outcome::from(why).reason());
            }
            (Err(error), None) if is_general(error) => return result,
            (Err(error), None) => tracing::debug!("{error}"),
        }
        Ok(())
    }
}

impl BootImageReconciler {
    /// Sends one write.
    async fn send(&self, write: &BootImageWrite) -> Result<(), ApplyError> {
        let client = &self.executor.client;
        match write {
            BootImageWrite::Create { kind, namespace, body, also, .. } => {
                if let Some(also) = also {
                    create_other(client, namespace, also, write).await?;
                }
                let version = body["apiVersion"].as_str().and_then(|one| one.rsplit('/').next());
                let resource = kind.resource(version.unwrap_or_default());
                match create(&api(client, &resource, namespace), body, write).await? {
                    Creation::There => Ok(()),
                    // The watch will show it, and another name is taken.
                    Creation::Differs => Err(ApplyError::Conflict(write.to_string())),
                }
            }
            BootImageWrite::Status { target, fields, .. } => {
                self.record(target, patch_status(client, target, fields, write).await?)
            }
            BootImageWrite::Stub(stub) => {
                let api: Api<Secret> = Api::namespaced(client.clone(), stub.secret.namespace());
                let object = &stub.object.expose().0;
                let written = api.replace(stub.secret.name(), &post_params(), object).await;
                written.map(drop).map_err(|error| failed(write.to_string(), "update", error))
            }
            BootImageWrite::Patch { target, operations } => {
                self.record(target, patch_set(client, target, operations).await?)
            }
        }
    }

    /// Until the watch shows another version, nothing is decided from the replaced one.
    fn record(&self, target: &ObjectRef, written: DynamicObject) -> Result<(), ApplyError> {
        let version = written.metadata.resource_version.unwrap_or_default();
        self.own_writes.record_write(&target.uid, &target.resource_version, &version);
        Ok(())
    }
}

/// Applies operations of RFC 6902 to the version that was seen.
pub(super) async fn patch_set(
    client: &Client,
    target: &ObjectRef,
    operations: &[Value],
) -> Result<DynamicObject, ApplyError> {
    // The API server compares it with the version that it has, and reports a conflict.
    let version = json!({ "op": "replace", "path": "/metadata/resourceVersion",
        "value": target.resource_version });
    let all: Vec<Value> = [version].into_iter().chain(operations.iter().cloned()).collect();
    let written = json_patch(client, target, &Value::Array(all)).await;
    let written = written.map_err(|error| failed(target.to_string(), "patch", error))?;
    let object = serde_json::to_value(&written).unwrap_or_default();
    if let Some(path) = operations.iter().find_map(|one| without_effect(&object, one)) {
        return Err(problem(
            ErrorClass::Rejected,
            "boot-image-not-kept",
            format!(
                "{target}: the API server accepted the change of {path} and has another value; see which webhook changes this field, and exclude it there"
            ),
        ));
    }
    Ok(written)
}

/// The path of an operation that the written object does not show.
fn without_effect<'o>(object: &Value, operation: &'o Value) -> Option<&'o str> {
    let path = operation["path"].as_str()?;
    let there = object.pointer(path);
    let has = match operation["op"].as_str()? {
        "add" | "replace" => there.is_some_and(|there| contains(there, &operation["value"])),
        "remove" => there.is_none(),
        _ => true,
    };
    (!has).then_some(path)
}

async fn json_patch(
    client: &Client,
    target: &ObjectRef,
    operations: &Value,
) -> Result<DynamicObject, kube::Error> {
    let request = Request::new(api_of(client, target).resource_url());
    let request = request.patch(&target.name, &patch_params(), &Patch::Merge(operations));
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON_PATCH));
    client.request(request).await
}

/// Replaces fields of a status in the version that was seen.
pub(super) async fn patch_status(
    client: &Client,
    target: &ObjectRef,
    status: &Value,
    what: &impl ToString,
) -> Result<DynamicObject, ApplyError> {
    let body =
        json!({ "metadata": { "resourceVersion": target.resource_version }, "status": status });
    let api = api_of(client, target);
    let written = api.patch_status(&target.name, &patch_params(), &Patch::Merge(&body)).await;
    let written = written.map_err(|error| failed(what.to_string(), "patch status", error))?;
    let kept = written.data.get("status").unwrap_or(&Value::Null);
    if target.kind == BootImageKind::BootImageHistory && !contains(kept, status) {
        // Without an error, it would be written for ever.
        return Err(problem(
            ErrorClass::Rejected,
            "boot-image-not-kept",
            format!(
                "{}: the API server accepted the status and dropped a part of it; apply deploy/boot-images again (on OpenShift deploy/boot-images-openshift), whose CRD has all fields",
                what.to_string()
            ),
        ));
    }
    Ok(written)
}

/// Whether there is an object as it should be.
#[derive(Debug, PartialEq)]
enum Creation {
    There,
    /// One of this name has another spec.
    Differs,
}

/// Creates an object, or finds one with the same spec; ours may have defaults beside it.
async fn create(
    api: &Api<DynamicObject>,
    body: &Value,
    what: &impl ToString,
) -> Result<Creation, ApplyError> {
    let object: DynamicObject = serde_json::from_value(body.clone())
        .map_err(|cause| internal(what, format!("it can't be sent: {cause}")))?;
    match api.create(&post_params(), &object).await {
        Ok(_) => Ok(Creation::There),
        Err(error) if error::is_conflict(&error) => {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            let there = api.get_opt(name).await;
            let there = there.map_err(|error| failed(what.to_string(), "get", error))?;
            let Some(there) = there.filter(|one| one.metadata.deletion_timestamp.is_none()) else {
                return Err(ApplyError::Conflict(what.to_string()));
            };
            let (spec, sent) = (there.data.get("spec").unwrap_or(&Value::Null), &body["spec"]);
            let managed_fields = there.metadata.managed_fields.as_deref().unwrap_or_default();
            let is_same =
                contains(spec, sent) && (contains(sent, spec) || has_only_our_spec(managed_fields));
            Ok(if is_same { Creation::There } else { Creation::Differs })
        }
        // Not a view that is outdated: the next try has the same answer.
        Err(error) if error::is_not_found(&error) => Err(problem(
            ErrorClass::Transient,
            "api-not-found",
            format!(
                "{}: the API server does not have the kind {} of {}, or not the namespace; install what has the kind (those of mosb are in deploy/boot-images)",
                what.to_string(),
                body["kind"].as_str().unwrap_or_default(),
                body["apiVersion"].as_str().unwrap_or_default(),
            ),
        )),
        Err(error) => Err(failed(what.to_string(), "create", error)),
    }
}

/// Creates an object of any kind, such as an `Image` of the OpenStack resource controller.
async fn create_other(
    client: &Client,
    namespace: &str,
    body: &Value,
    what: &impl ToString,
) -> Result<(), ApplyError> {
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        api_version: api_version.clone(),
        kind,
    };
    match create(&api(client, &resource, namespace), body, what).await? {
        Creation::There => Ok(()),
        // No watch shows it.
        Creation::Differs => Err(problem(
            ErrorClass::InvalidInput,
            "not-ours",
            format!(
                "{} {}: exists with another spec than the machine sets need; delete it or rename it",
                resource.kind,
                object_key(namespace, body["metadata"]["name"].as_str().unwrap_or_default()),
            ),
        )),
    }
}

fn internal(what: &impl ToString, message: String) -> ApplyError {
    problem(ErrorClass::Internal, "boot-image-body", format!("{}: {message}", what.to_string()))
}

fn problem(class: ErrorClass, reason: &str, message: String) -> ApplyError {
    ApplyError::Problem(Problem { class, reason: reason.to_owned(), message })
}

/// A conflict, a missing object or a failed test mean that our view was outdated.
fn failed(object: String, verb: &'static str, error: kube::Error) -> ApplyError {
    match &error {
        kube::Error::Api(status) if matches!(status.code, 404 | 409) => {
            ApplyError::Conflict(object)
        }
        kube::Error::Api(status) if status.code == 422 && status.message.contains(TEST_FAILED) => {
            ApplyError::Conflict(object)
        }
        _ => ApplyError::Api(Error::api(object, verb)(error)),
    }
}

/// Whether an object of the API server has what was sent: it may add defaults.
fn contains(there: &Value, sent: &Value) -> bool {
    match (there, sent) {
        (Value::Object(there), Value::Object(sent)) => sent.iter().all(|(key, sent)| {
            there.get(key).map_or(sent.is_null(), |there| contains(there, sent))
        }),
        (Value::Array(there), Value::Array(sent)) => {
            there.len() == sent.len() && there.iter().zip(sent).all(|(a, b)| contains(a, b))
        }
        (Value::Null, Value::Object(sent)) => sent.is_empty(),
        _ => there == sent,
    }
}

#[cfg(test)]
mod tests;
