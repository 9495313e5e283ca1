//! `mosb approve` and `mosb reject`: what a person decides about an image.
//!
//! Invariant: a decision is about a digest, and is written to the very version of the MachineOSConfig
//! that it was made on, so that none of two at once is lost.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::json;

use mosb_api::promotion::{Approval, Approvals};
use mosb_api::rollout::PinnedBuild;
use mosb_api::{AnnotationError, MachineOsBuild, MachineOsConfig, labels};
use mosb_cluster::cluster_cache::{ClusterCache, IndexKey};
use mosb_cluster::gate::Gate;
use mosb_cluster::kinds;
use mosb_image::PinnedRef;
use mosb_reconcile::Error;
use mosb_types::Diagnostic;

/// What a person asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRequest {
    pub approved: bool,
    /// `NAME` or `NAME@sha256:…`; without one, the pool's newest image.
    pub build: Option<String>,
    pub reason: Option<String>,
}

/// What a request changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalChange {
    pub config: String,
    resource_version: String,
    pub build: PinnedBuild,
    /// The new value of annotation `mosb.dev/approvals`; none if that was decided already.
    approvals: Option<String>,
    /// What the person should know.
    pub note: Option<String>,
}

impl ApprovalChange {
    pub fn is_empty(&self) -> bool {
        self.approvals.is_none()
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum ApprovalError {
    #[error("pool {pool}: it has no MachineOSConfig; create one first")]
    #[diagnostic(code = "not-opted-in", class = InvalidInput)]
    NotOptedIn { pool: String },
    #[error("pool {pool}: it has several MachineOSConfigs, {names}; delete all but one")]
    #[diagnostic(code = "rivals", class = InvalidInput)]
    Rivals { pool: String, names: String },
    #[error("pool {pool}: no image of a build {build}; mosb builds {pool} lists them")]
    #[diagnostic(code = "no-such-build", class = InvalidInput)]
    NoSuchBuild { pool: String, build: String },
    #[error("pool {pool}: no image awaits a decision; mosb status {pool} shows the state")]
    #[diagnostic(code = "nothing-to-decide", class = InvalidInput)]
    NothingAwaits { pool: String },
    #[error(
        "pool {pool}: {build} is in service, where it stays until there is another image; bring machines back with mosb rollout undo {pool}"
    )]
    #[diagnostic(code = "image-in-service", class = InvalidInput)]
    InService { pool: String, build: PinnedBuild },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Annotation(#[from] AnnotationError),
}

/// An image of the pool that a decision may be about.
struct Candidate<'a> {
    pin: PinnedBuild,
    gate: Gate,
    build: &'a MachineOsBuild,
}

impl<'a> Candidate<'a> {
    fn of(config: &MachineOsConfig, build: &'a MachineOsBuild) -> Option<Self> {
        let image = build.status.image()?;
        let digest = image.parse::<PinnedRef>().ok()?.digest();
        build.metadata.is_controlled_by(config.metadata.uid()).then(|| Self {
            pin: PinnedBuild { name: build.metadata.name.clone(), digest },
            gate: Gate::recorded(config, build, image),
            build,
        })
    }

    fn is_named(&self, text: &str) -> bool {
        self.pin.name == text || self.pin.to_string() == text
    }
}

/// The change of a request. `by`: the user, as the API server named it.
///
/// # Errors
/// The request is refused.
pub fn decide_approval(
    cache: &ClusterCache,
    pool: &str,
    request: &ApprovalRequest,
    by: &str,
    now: Timestamp,
) -> Result<ApprovalChange, ApprovalError> {
    let config = config_of(cache, pool)?;
    let builds = cache.builds.by_index([IndexKey::Config(config.metadata.name.clone())]);
    change(&config, &builds, request, by, now)
}

fn change(
    config: &MachineOsConfig,
    builds: &[Arc<MachineOsBuild>],
    request: &ApprovalRequest,
    by: &str,
    now: Timestamp,
) -> Result<ApprovalChange, ApprovalError> {
    let pool = &config.spec.machine_config_pool.name;
    let mut candidates = builds.iter().filter_map(|build| Candidate::of(config, build));
    let chosen = match &request.build {
        Some(text) => candidates.find(|one| one.is_named(text)).ok_or_else(|| {
            ApprovalError::NoSuchBuild { pool: pool.clone(), build: text.clone() }
        })?,
        None => newest(config, candidates)
            .ok_or_else(|| ApprovalError::NothingAwaits { pool: pool.clone() })?,
    };
    let build = chosen.pin;
    if chosen.gate == Gate::InService && !request.approved {
        return Err(ApprovalError::InService { pool: pool.clone(), build });
    }
    let approvals = Approvals::of(&config.metadata)?;
    let before = approvals.find(build.digest);
    let is_decided = before.is_some_and(|before| before.approved == request.approved);
    let new = Approval {
        build: build.clone(),
        approved: request.approved,
        by: by.to_owned(),
        at: Time(now),
        reason: request.reason.clone(),
    };
    Ok(ApprovalChange {
        config: config.metadata.name.clone(),
        resource_version: config.metadata.resource_version().to_owned(),
        approvals: (!is_decided).then(|| approvals.with(new).to_json()),
        note: match &chosen.gate {
            Gate::InService => Some(format!("{build} is in service already")),
            Gate::NotChecked | Gate::Checking(_) | Gate::ChecksFailed(_) => {
                Some(chosen.gate.message(pool, &build))
            }
            Gate::Open | Gate::AwaitingApproval | Gate::Rejected(_) | Gate::Invalid(_) => None,
        },
        build,
    })
}

/// The image that the pool's state is about: that of the build in use or on its way, else the newest
/// one that is kept out of service, as a pre-built image is.
fn newest<'a>(
    config: &MachineOsConfig,
    mut candidates: impl Iterator<Item = Candidate<'a>>,
) -> Option<Candidate<'a>> {
    let made = |one: &Candidate<'_>| {
        one.build.metadata.creation_timestamp.as_ref().map(|created| created.0)
    };
    match config.metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD) {
        Some(current) => candidates.find(|one| one.pin.name == current),
        None => candidates.filter(|one| !one.gate.is_open()).max_by_key(made),
    }
}

fn config_of(cache: &ClusterCache, pool: &str) -> Result<Arc<MachineOsConfig>, ApprovalError> {
    let pool = pool.to_owned();
    match &cache.configs.by_index([IndexKey::Pool(pool.clone())])[..] {
        [] => Err(ApprovalError::NotOptedIn { pool }),
        [config] => Ok(Arc::clone(config)),
        several => {
            let names: Vec<&str> = several.iter().map(|one| &*one.metadata.name).collect();
            Err(ApprovalError::Rivals { pool, names: names.join(", ") })
        }
    }
}

/// The user of this client, as the API server names it.
///
/// # Errors
/// The API server refuses to say, or names nobody.
pub async fn own_user(client: &Client) -> Result<String, Error> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = SelfSubjectReview::default();
    let found = api.create(&PostParams::default(), &review).await;
    let found = found.map_err(Error::api("selfsubjectreview".to_owned(), "create"))?;
    let user = found.status.and_then(|status| status.user_info).and_then(|user| user.username);
    Ok(user.unwrap_or_default())
}

/// Writes a change to the version of the MachineOSConfig that it was decided on.
///
/// # Errors
/// The API server rejects it; a conflict if the object was changed meanwhile.
pub async fn write_approval(client: &Client, change: &ApprovalChange) -> Result<(), Error> {
    let Some(approvals) = &change.approvals else {
        return Ok(());
    };
    let api: Api<DynamicObject> =
        Api::all_with(client.clone(), &kinds::MACHINE_OS_CONFIG.resource());
    let patch = json!({ "metadata": {
        "resourceVersion": change.resource_version, "annotations": { labels::APPROVALS: approvals },
    } });
    let written = api.patch(&change.config, &PatchParams::default(), &Patch::Merge(&patch)).await;
    let object = format!("machineosconfig {}", change.config);
    written.map(drop).map_err(Error::api(object, "patch"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_api::image_checks::CheckRecord;
    use mosb_api::promotion::Promote;
    use mosb_image::Digest;

    fn digest(image: &str) -> Digest {
        Digest::of(image.as_bytes())
    }

    fn build(name: &str) -> Arc<MachineOsBuild> {
        let at = Time(Timestamp::from_second(1).unwrap());
        let checked = CheckRecord::new(digest(name), String::new(), at, Vec::new());
        let build = json!({
            "metadata": { "name": name,
                "annotations": { "mosb.dev/inputs": "x", labels::CHECKED: checked.to_json() },
                "ownerReferences": [{ "kind": "MachineOSConfig", "name": "worker", "uid": "c", "controller": true }] },
            "status": { "conditions": [{ "type": "Succeeded", "status": "True" }],
                "digestedImagePushSpec": format!("reg.example/os@{}", digest(name)) },
        });
        Arc::new(serde_json::from_value(build).unwrap())
    }

    fn config(current: &str) -> MachineOsConfig {
        let config = json!({
            "metadata": { "name": "worker", "uid": "c", "resourceVersion": "7",
                "annotations": { labels::CURRENT_MACHINE_OS_BUILD: current, labels::PROMOTE: "manual" } },
            "spec": { "machineConfigPool": { "name": "worker" } },
        });
        serde_json::from_value(config).unwrap()
    }

    fn request(approved: bool, build: Option<&str>) -> ApprovalRequest {
        ApprovalRequest { approved, build: build.map(str::to_owned), reason: None }
    }

    fn decide(
        config: &MachineOsConfig,
        request: &ApprovalRequest,
    ) -> Result<ApprovalChange, String> {
        let builds = [build("worker-a"), build("worker-b")];
        let now = Timestamp::from_second(1).unwrap();
        change(config, &builds, request, "alice", now).map_err(|error| error.code().to_owned())
    }

    #[test]
    fn decision_names_digest_and_opens_gate() {
        let mut config = config("worker-b");
        assert_eq!(Promote::of(&config.metadata), Ok(Promote::Manual));
        let change = decide(&config, &request(true, None)).unwrap();
        assert_eq!(change.build.to_string(), format!("worker-b@{}", digest("worker-b")));
        let written = change.approvals.unwrap();
        config.metadata.annotations.insert(labels::APPROVALS.to_owned(), written);
        let image = format!("reg.example/os@{}", digest("worker-b"));
        assert_eq!(Gate::recorded(&config, &build("worker-b"), &image), Gate::Open);
        assert!(decide(&config, &request(true, None)).unwrap().is_empty(), "decided already");
        let change = decide(&config, &request(false, Some("worker-b"))).unwrap();
        config.metadata.annotations.insert(labels::APPROVALS.to_owned(), change.approvals.unwrap());
        let gate = Gate::recorded(&config, &build("worker-b"), &image);
        assert!(matches!(gate, Gate::Rejected(by) if by.by == "alice"));
    }

    #[test]
    fn refused_requests_name_the_cause() {
        let mut config = config("worker-b");
        let of = |build| request(false, Some(build));
        assert_eq!(decide(&config, &of("worker-c")).unwrap_err(), "no-such-build");
        let other = format!("worker-a@{}", digest("worker-b"));
        assert_eq!(decide(&config, &of(&other)).unwrap_err(), "no-such-build");
        config.status.current_image_pull_spec = format!("reg.example/os@{}", digest("worker-b"));
        assert_eq!(decide(&config, &of("worker-b")).unwrap_err(), "image-in-service");
        let note = decide(&config, &request(true, Some("worker-b"))).unwrap().note;
        assert!(note.is_some_and(|note| note.contains("in service already")));
        config.metadata.annotations.insert(labels::APPROVALS.to_owned(), "{".to_owned());
        assert_eq!(decide(&config, &of("worker-a")).unwrap_err(), "bad-annotation");
        config.metadata.uid = Some("another".to_owned());
        assert_eq!(decide(&config, &request(true, None)).unwrap_err(), "nothing-to-decide");
    }
}
