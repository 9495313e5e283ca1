//! `mosb ignition`: the Ignition config of a pool's new machines, for a person.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use super::content::{ContentError, MachineContent};
use super::join_tokens::ClusterInfo;
use super::machine_inputs::new_machine;
use crate::lookups::read_cluster_info;
use mosb_api::rollout::{History, PinnedBuild};
use mosb_api::{MachineOsBuild, MachineOsConfig};
use mosb_build::new_machine::OwnConfig;
use mosb_cluster::cluster_cache::{ClusterCache, IndexKey};
use mosb_cluster::namespaces::Namespaces;
use mosb_cluster::resolver::{LookupLimits, Resolver};
use mosb_cluster::target::{Found, Pin, TargetError, by_pin, of_new_machines, target_of};
use mosb_reconcile::{Error, Problem};
use mosb_types::{Diagnostic, ErrorClass, Finding, Secret};

/// The time limit of reading what a config is made of.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// What is asked for.
#[derive(Debug)]
pub struct IgnitionRequest {
    pub pool: String,
    /// A build instead of the current one.
    pub build: Option<String>,
    /// A config of one machine, over the others.
    pub own: Option<OwnConfig>,
}

/// The config of a pool's new machines.
#[derive(Debug)]
pub struct MachineIgnition {
    pub machine_os_config: String,
    pub build: String,
    /// `host/repository@sha256:…`.
    pub image: String,
    pub rendered_config: String,
    pub config: Secret<Value>,
    pub joins: bool,
    pub has_logins: bool,
    pub notices: Vec<Finding>,
}

/// Why there is no config.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum MachineIgnitionError {
    #[error("{pool}: {who} makes the user data of machines here, so mosb does not; use its own")]
    #[diagnostic(code = "other-rollout", class = InvalidInput)]
    OtherController { pool: String, who: String },
    #[error("{pool}: it has no MachineOSConfig; create one to have images built")]
    #[diagnostic(code = "not-opted-in", class = InvalidInput)]
    NotOptedIn { pool: String },
    #[error("{pool}: more than one MachineOSConfig: {names}; delete all but one")]
    #[diagnostic(code = "rivals", class = InvalidInput)]
    Rivals { pool: String, names: String },
    #[error("{pool}: no image of its own builds is in service; mosb status {pool} shows why")]
    #[diagnostic(code = "nothing-in-service", class = InvalidInput)]
    NothingInService { pool: String },
    #[error("{pool}: no image of a build {build}; mosb builds {pool} lists them")]
    #[diagnostic(code = "no-such-build", class = InvalidInput)]
    NoSuchBuild { pool: String, build: String },
    #[error("{pool}: {cause}")]
    #[diagnostic(code = "image-not-usable", class = InvalidInput)]
    NotUsable { pool: String, cause: String },
    #[error("{pool}: {message}")]
    #[diagnostic(code = "user-data-unreadable", class = *class)]
    Unreadable { pool: String, message: String, class: ErrorClass },
    #[error("{pool}: {source}")]
    #[diagnostic(transparent)]
    Content { pool: String, source: ContentError },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Api(#[from] Error),
}

/// The build of this name, as `mosb builds` lists it; of several images, the newest.
///
/// # Errors
/// Its image is none that machines may run.
fn named(
    config: &MachineOsConfig,
    builds: &[MachineOsBuild],
    name: &str,
) -> Result<Option<Found>, TargetError> {
    if let Some(build) = builds.iter().find(|build| build.metadata.name == name) {
        let target = target_of(config, build)?;
        let build = PinnedBuild { name: name.to_owned(), digest: target.image.digest() };
        return Ok(Some((build, target)));
    }
    let history = History::of(&config.metadata);
    let Some(entry) = history.entries().iter().find(|entry| entry.build == name) else {
        return Ok(None);
    };
    let pin = entry.pin();
    let annotation = "--build";
    by_pin(config, builds, Pin { build: &pin, annotation }).map(Some)
}

/// The config of a pool's new machines.
///
/// # Errors
/// [`MachineIgnitionError`].
pub async fn machine_ignition(
    client: &Client,
    namespaces: &Namespaces,
    request: &IgnitionRequest,
) -> Result<MachineIgnition, MachineIgnitionError> {
    let pool = request.pool.clone();
    let cache = Arc::new(ClusterCache::read_settings(client, namespaces).await?);
    if let Some(who) = cache.other_renderer() {
        return Err(MachineIgnitionError::OtherController { pool, who });
    }
    let config = config_of(&cache, &pool)?;
    let builds = cache.builds.by_index([IndexKey::Config(config.metadata.name.clone())]);
    let builds: Vec<MachineOsBuild> = builds.iter().map(|build| (**build).clone()).collect();
    let found = match &request.build {
        None => of_new_machines(&config, &builds),
        Some(build) => named(&config, &builds, build),
    };
    let found = found.map_err(|TargetError { message: cause, .. }| {
        MachineIgnitionError::NotUsable { pool: pool.clone(), cause }
    })?;
    let (build, target) = found.ok_or_else(|| match &request.build {
        None => MachineIgnitionError::NothingInService { pool: pool.clone() },
        Some(build) => {
            MachineIgnitionError::NoSuchBuild { pool: pool.clone(), build: build.clone() }
        }
    })?;
    let limits = Arc::new(LookupLimits::new(READ_TIMEOUT));
    let resolver = Resolver { client: client.clone(), cache, registries: Arc::default(), limits };
    let inputs = new_machine(&resolver, &config, &target).await;
    let inputs = inputs.map_err(|Problem { message, class, .. }| {
        MachineIgnitionError::Unreadable { pool: pool.clone(), message, class }
    })?;
    let content = MachineContent::new(&inputs, request.own.clone());
    let content = content.map_err(|source| MachineIgnitionError::Content { pool, source })?;
    let info = if content.needs_cluster_info() {
        read_cluster_info(client).await?
    } else {
        ClusterInfo::Unknown
    };
    Ok(MachineIgnition {
        machine_os_config: config.metadata.name.clone(),
        build: build.name,
        image: target.image.to_string(),
        rendered_config: inputs.rendered.name().to_string(),
        config: content.config().clone(),
        joins: content.join.is_some(),
        has_logins: content.has_logins,
        notices: notices(&content, &info, Timestamp::now()),
    })
}

fn config_of(
    cache: &ClusterCache,
    pool: &str,
) -> Result<Arc<MachineOsConfig>, MachineIgnitionError> {
    let mut configs = cache.configs.by_index([IndexKey::Pool(pool.to_owned())]);
    let pool = pool.to_owned();
    match (configs.pop(), configs.is_empty()) {
        (None, _) => Err(MachineIgnitionError::NotOptedIn { pool }),
        (Some(only), true) => Ok(only),
        (Some(last), false) => {
            let all = configs.iter().chain([&last]);
            let names: Vec<&str> = all.map(|config| &*config.metadata.name).collect();
            Err(MachineIgnitionError::Rivals { pool, names: names.join(", ") })
        }
    }
}

pub(super) fn notices(
    content: &MachineContent,
    info: &ClusterInfo,
    now: Timestamp,
) -> Vec<Finding> {
    let mut notices = Vec::new();
    if content.join.is_none() {
        let message = "machines boot and do not join the cluster; name the Secret that joins them in userData.joinSecret of ConfigMap mosb-config, or give --merge";
        notices.push(Finding::new("does-not-join", message));
    }
    let origin = content.join.as_ref().map(|join| &*join.origin).unwrap_or_default();
    notices.extend(content.ended_tokens(info, now).into_iter().map(|token| {
        let message = format!(
            "machines can't join the cluster with a token: {}; put a new token into {origin}, or give --merge{}",
            token.describe_end(),
            token.other_remedy().unwrap_or_default()
        );
        Finding::new("join-token-expired", message).path(token.path.clone())
    }));
    notices.extend(content.secret_paths.iter().map(|path| {
        let message = format!("{path} looks like a secret: whoever can read user data can read it");
        Finding::new("looks-secret", message).path(path.clone())
    }));
    // Whether files below /var reach the machine follows from how the image was built; its plan
    // reports them.
    let findings = content.findings.iter().filter(|one| one.code != "var-at-installation");
    notices.extend(findings.cloned());
    notices
}
