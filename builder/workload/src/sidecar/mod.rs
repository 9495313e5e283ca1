//! The sidecar of a build pod, `mosb job wait-for-done`: it waits for the results of the containers
//! that build and push, and writes them to the one ConfigMap that it may change. It is the only
//! container with an API token.
//!
//! The result directory of the push is trusted. From the directory that `RUN` lines could reach,
//! only a failure of the build is accepted. Writes are idempotent: after a restart, the same bytes
//! are written under the same keys.

mod validate_result;

use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use self::validate_result::{validate_build_failure, validate_push_result};
use crate::result_name;
use mosb_api::BuildName;
use mosb_build::result::{DIGEST_KEY, JobResult};
use mosb_build::result_dir::{Acknowledgement, POLL, ResultDir};
use mosb_cluster::object::is_workload_owner;
use mosb_image::Digest;
use mosb_plan::payload::BuildSpec;
use mosb_reconcile::waits::RESULT_DELIVERY;
use mosb_types::Diagnostic;

/// Timeout of one API request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the last delivery after SIGTERM; a pod's grace period is 30 s.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);
/// The field manager of the ConfigMap.
const FIELD_MANAGER: &str = "mosb-wait-for-done";

/// What to wait for, and where to report it.
#[derive(Debug, Clone)]
pub struct SidecarConfig {
    /// The directory that only the containers that push can write.
    pub result: PathBuf,
    /// The directory of `image-build`, from which only failures are accepted.
    pub failure: Option<PathBuf>,
    pub config_map: String,
    pub namespace: String,
    /// UID of the Job that owns the ConfigMap.
    pub job_uid: String,
    pub build: BuildName,
}

impl SidecarConfig {
    /// Of a build with these inputs.
    pub fn new(
        spec: BuildSpec,
        job_uid: String,
        result: PathBuf,
        failure: Option<PathBuf>,
    ) -> Self {
        let BuildSpec { build, namespace, .. } = spec;
        Self { result, failure, config_map: result_name(&build), namespace, job_uid, build }
    }
}

/// Why a result can't be reported.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    #[error("the API can't be reached: neither a kubeconfig nor a pod's token can be used: {0}")]
    #[diagnostic(code = "no-api", class = Internal)]
    Config(String),
    #[error(
        "ConfigMap {namespace}/{name} is not there; the controller creates it before the pod starts, so the build was interrupted"
    )]
    #[diagnostic(code = "no-config-map", class = Rejected)]
    Missing { namespace: String, name: String },
    #[error(
        "ConfigMap {namespace}/{name} belongs to another Job than {job_uid}; this build was replaced"
    )]
    #[diagnostic(code = "other-job", class = Rejected)]
    OtherJob { namespace: String, name: String, job_uid: String },
    #[error("ConfigMap {namespace}/{name}: the API refuses the result: {cause}")]
    #[diagnostic(code = "api-refused", class = Internal)]
    Refused { namespace: String, name: String, cause: String },
    #[error("ConfigMap {namespace}/{name}: the API does not take the result: {cause}")]
    #[diagnostic(code = "api-unavailable", class = Transient)]
    Unavailable { namespace: String, name: String, cause: String },
    #[error(transparent)]
    #[diagnostic(transparent)]
    ResultDir(#[from] mosb_build::result_dir::Error),
}

/// An API client, from `KUBECONFIG` if it is set, else from the pod's token.
///
/// # Errors
/// Neither is usable.
pub async fn client() -> Result<Client, Error> {
    let wrong = |error: &dyn std::error::Error| Error::Config(error.to_string());
    let mut config = kube::Config::infer().await.map_err(|e| wrong(&e))?;
    config.connect_timeout = Some(REQUEST_TIMEOUT);
    config.read_timeout = Some(REQUEST_TIMEOUT);
    config.write_timeout = Some(REQUEST_TIMEOUT);
    Client::try_from(config).map_err(|e| wrong(&e))
}

/// Reports results until `stop`, then a last one, and returns.
///
/// # Errors
/// A result could not be reported. It is no error if there is no result.
pub async fn run(
    client: Client,
    config: &SidecarConfig,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let api: Api<ConfigMap> = Api::namespaced(client, &config.namespace);
    let mut stop = pin!(stop);
    let mut deliveries: Deliveries = Deliveries::default();
    loop {
        let Some(found) = deliveries.next(config) else {
            tokio::select! {
                () = sleep(deliveries.poll_interval()) => continue,
                () = &mut stop => break,
            }
        };
        tokio::select! {
            delivered = deliver(&api, config, &found.result) => deliveries.delivered(config, found, delivered),
            () = &mut stop => break,
        }
    }
    if let Some(found) = deliveries.next(config) {
        let delivered = timeout(SHUTDOWN_TIMEOUT, deliver(&api, config, &found.result)).await;
        let delivered = delivered.unwrap_or_else(|_| {
            Err(unavailable(config, "no answer before the pod's end".to_owned()))
        });
        deliveries.delivered(config, found, delivered);
    }
    deliveries.error.map_or(Ok(()), Err)
}

/// A result to report.
struct PendingResult {
    bytes: Digest,
    result: JobResult,
    /// Whether the writer waits for an acknowledgement.
    wants_acknowledgement: bool,
}

/// What was reported already.
#[derive(Default)]
struct Deliveries {
    result: Option<Digest>,
    failure: Option<Digest>,
    error: Option<Error>,
}

impl Deliveries {
    /// The next result to report: that of the push, else a failure of the build.
    fn next(&self, config: &SidecarConfig) -> Option<PendingResult> {
        let of_push =
            bytes_in(&config.result).filter(|bytes| self.result != Some(Digest::of(bytes)));
        if let Some(bytes) = of_push {
            return Some(PendingResult {
                bytes: Digest::of(&bytes),
                result: validate_push_result(config, &bytes),
                wants_acknowledgement: true,
            });
        }
        if self.result.is_some() {
            return None;
        }
        let bytes = bytes_in(config.failure.as_ref()?)?;
        let digest = Digest::of(&bytes);
        if self.failure == Some(digest) {
            return None;
        }
        Some(PendingResult {
            bytes: digest,
            result: validate_build_failure(config, &bytes)?,
            wants_acknowledgement: false,
        })
    }

    fn delivered(
        &mut self,
        config: &SidecarConfig,
        found: PendingResult,
        delivered: Result<(), Error>,
    ) {
        match &delivered {
            Ok(()) => tracing::info!("reported the result of the build"),
            Err(error) => tracing::error!("{error}"),
        }
        if found.wants_acknowledgement {
            self.result = Some(found.bytes);
            let answer = Acknowledgement {
                result: found.bytes,
                refused: delivered.as_ref().err().map(Error::to_string),
            };
            let acknowledged = ResultDir::new(&config.result).acknowledge(&answer);
            self.error = delivered.and(acknowledged.map_err(Error::from)).err();
        } else {
            self.failure = Some(found.bytes);
            self.error = delivered.err();
        }
    }

    /// A second result is unlikely, so poll less often.
    fn poll_interval(&self) -> Duration {
        match self.result {
            Some(_) => POLL * 20,
            None => POLL,
        }
    }
}

fn bytes_in(folder: &std::path::Path) -> Option<Vec<u8>> {
    match ResultDir::new(folder).result() {
        Ok(bytes) => bytes,
        Err(error) => {
            tracing::debug!("{error}");
            None
        }
    }
}

/// Writes a result to the ConfigMap; retries without limit.
async fn deliver(
    api: &Api<ConfigMap>,
    config: &SidecarConfig,
    result: &JobResult,
) -> Result<(), Error> {
    let mut delay = RESULT_DELIVERY.first;
    loop {
        match deliver_once(api, config, result).await {
            Err(Error::Unavailable { cause, .. }) => {
                tracing::warn!(
                    "ConfigMap {}: {cause}; trying again in {} ms",
                    config.config_map,
                    delay.as_millis()
                );
            }
            delivered => return delivered,
        }
        sleep(delay).await;
        delay = RESULT_DELIVERY.next(delay);
    }
}

async fn deliver_once(
    api: &Api<ConfigMap>,
    config: &SidecarConfig,
    result: &JobResult,
) -> Result<(), Error> {
    let failed = |error: kube::Error| failed(config, &error);
    let found = api.get(&config.config_map).await.map_err(failed)?;
    let owners = found.metadata.owner_references.iter().flatten();
    let mut workloads = owners.filter(|owner| is_workload_owner(owner));
    if !workloads.any(|owner| owner.uid == config.job_uid) {
        return Err(Error::OtherJob {
            namespace: config.namespace.clone(),
            name: config.config_map.clone(),
            job_uid: config.job_uid.clone(),
        });
    }
    let data = result.to_config_map();
    if found.data.as_ref() == Some(&data) {
        return Ok(());
    }
    let mut keys: Map<String, Value> = Map::from_iter([(DIGEST_KEY.to_owned(), Value::Null)]);
    keys.extend(data.into_iter().map(|(key, text)| (key, Value::String(text))));
    // Only the object that was read: another Job's has another UID.
    let patch = json!({
        "metadata": { "uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version },
        "data": keys,
    });
    let params =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let patch = Patch::Merge(patch);
    let patched = api.patch(&config.config_map, &params, &patch).await;
    patched.map(drop).map_err(failed)
}

fn failed(config: &SidecarConfig, error: &kube::Error) -> Error {
    let (namespace, name) = (config.namespace.clone(), config.config_map.clone());
    match error {
        kube::Error::Api(status) if status.code == 404 => Error::Missing { namespace, name },
        kube::Error::Api(status) if matches!(status.code, 400 | 405 | 413 | 415 | 422) => {
            Error::Refused { namespace, name, cause: status.message.clone() }
        }
        // Transient: permissions being granted, a token being renewed, a concurrent write.
        kube::Error::Api(status) => {
            unavailable(config, format!("{} {}", status.code, status.message))
        }
        other => unavailable(config, other.to_string()),
    }
}

fn unavailable(config: &SidecarConfig, cause: String) -> Error {
    Error::Unavailable {
        namespace: config.namespace.clone(),
        name: config.config_map.clone(),
        cause,
    }
}
