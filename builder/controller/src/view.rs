//! The state of pools for `mosb status` and `mosb wait`: the current decision, without applying it.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::json;

use mosb_api::{Condition, MachineOsBuild, condition, labels};
use mosb_builds::{Facts, INVALID_INPUT, PoolReason, REJECTED, UNRECONCILABLE, decide, observe};
use mosb_cluster::cluster_cache::ClusterCache;
use mosb_cluster::gate::Gate;
use mosb_cluster::kinds;
use mosb_cluster::status::BLOCKED;
use mosb_followed_bases::os_overridden;
use mosb_reconcile::{Error, Problem};
use mosb_types::ErrorClass;

/// State of a pool.
#[derive(Debug, Clone)]
pub struct PoolView {
    pub pool: String,
    /// The rendered config that its machines should have; empty before the first.
    pub rendered: String,
    pub config: Option<String>,
    pub reason: PoolReason,
    /// The image in service; empty before the first.
    pub image: String,
    /// The build in use or in progress.
    pub build: Option<MachineOsBuild>,
    /// Which MachineConfig sets the OS image, if one does.
    pub os_overridden: Option<String>,
}

/// Summary of a pool's reason, for exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolPhase {
    /// The image in service is the desired one.
    Ready,
    /// The controller is working on it.
    Progressing,
    Failed,
    /// A user must change something first.
    Blocked,
    /// The same: what the controller needs was rejected, is missing or can't be used. It tries again
    /// within [`REJECTED_RETRY`], as no event follows when that changes outside of the cluster.
    Rejected,
}

/// Longer than the longest pause after a problem that a user must solve, with the lookup itself.
pub const REJECTED_RETRY: Duration = Duration::from_secs(150);

/// The class of a problem that is looked up again, by the reason of the condition `Blocked`. Others may
/// pass by themselves.
fn class_of(reason: &str) -> ErrorClass {
    if [REJECTED, INVALID_INPUT].contains(&reason) {
        ErrorClass::Rejected
    } else {
        ErrorClass::Transient
    }
}

impl PoolView {
    pub fn phase(&self) -> PoolPhase {
        match &self.reason {
            PoolReason::UpToDate(_)
            | PoolReason::Adopting(_)
            | PoolReason::Recognised(_)
            | PoolReason::Found(_) => PoolPhase::Ready,
            PoolReason::Failed { .. } => PoolPhase::Failed,
            PoolReason::NotInService { gate: Gate::Checking(_), .. } => PoolPhase::Progressing,
            PoolReason::NotOptedIn
            | PoolReason::LabelIncomplete(_)
            | PoolReason::OtherBuilder(_)
            | PoolReason::Rivals(_)
            | PoolReason::BadConfig(_)
            | PoolReason::NoPool(_)
            | PoolReason::NestedRepository(_)
            | PoolReason::MixedPlatforms(_)
            | PoolReason::Unreconcilable(_)
            | PoolReason::NotInService { .. } => PoolPhase::Blocked,
            PoolReason::Problem(problem) => match problem.class {
                ErrorClass::Transient => PoolPhase::Progressing,
                ErrorClass::Rejected => PoolPhase::Rejected,
                ErrorClass::InvalidInput | ErrorClass::Internal => PoolPhase::Blocked,
            },
            PoolReason::OptingIn
            | PoolReason::OptingOut
            | PoolReason::NotRendered
            | PoolReason::NoNode
            | PoolReason::NoControlPlaneNode { .. }
            | PoolReason::PoolDegraded(_)
            | PoolReason::Planning
            | PoolReason::SeedComponent(_)
            | PoolReason::SeedNotRendered { .. }
            | PoolReason::SeedGone(_)
            | PoolReason::Seeding(_)
            | PoolReason::Reusing(_)
            | PoolReason::Creating(_)
            | PoolReason::Replacing(_)
            | PoolReason::Preparing(_)
            | PoolReason::Pending { .. }
            | PoolReason::Building { .. }
            | PoolReason::Confirming(_)
            | PoolReason::Signing(_)
            | PoolReason::Checking(_)
            | PoolReason::Waiting { .. } => PoolPhase::Progressing,
        }
    }
}

/// All pools, and MachineOSConfigs whose pool does not exist, by name; or only the given pool.
pub fn pool_views(cache: &ClusterCache, only: Option<&str>) -> Vec<PoolView> {
    let meant = |pool: &str| only.is_none_or(|only| only == pool);
    let mut keys = Vec::new();
    for pool in cache.pools.list() {
        let name = &pool.metadata.name;
        if !meant(name) {
            continue;
        }
        let configs =
            cache.configs.filter_list(|config| config.spec.machine_config_pool.name == *name);
        // The one with the pool's name goes first, as in the API's own rule.
        let own = configs.iter().find(|config| config.metadata.name == *name);
        match own.or(configs.first()) {
            Some(config) => keys.push(config.metadata.name.clone()),
            None => keys.push(name.clone()),
        }
    }
    let lost = cache.configs.filter_list(|config| {
        let pool = &config.spec.machine_config_pool.name;
        meant(pool) && cache.pools.get(pool).is_none()
    });
    keys.extend(lost.iter().map(|config| config.metadata.name.clone()));
    keys.iter().map(|key| pool_view(cache, key)).collect()
}

fn pool_view(cache: &ClusterCache, key: &str) -> PoolView {
    let snapshot = observe(cache, key, Facts::default());
    let decision = decide(&snapshot, Timestamp::now());
    let config = snapshot.config.as_ref();
    let degraded = snapshot
        .pool
        .as_ref()
        .and_then(|pool| condition(&pool.status.conditions, "ImageBuildDegraded"))
        .filter(|condition| condition.is_true());
    let blocked = config
        .and_then(|config| condition(&config.status.conditions, BLOCKED))
        .filter(|blocked| blocked.is_true());
    let problem = |class, condition: &Condition| {
        let (reason, message) = (condition.reason.clone(), condition.message.clone());
        PoolReason::Problem(Problem { class, reason, message })
    };
    // Lookups are the controller's job; if one failed, a condition says so.
    let reason = match (decision.lookups.is_empty(), degraded, blocked) {
        (false, _, Some(blocked)) if blocked.reason == UNRECONCILABLE => {
            PoolReason::Unreconcilable(blocked.message.clone())
        }
        (false, Some(degraded), _) => problem(ErrorClass::InvalidInput, degraded),
        // It is looked up again.
        (false, None, Some(blocked)) => problem(class_of(&blocked.reason), blocked),
        _ => decision.reason,
    };
    let reason = match (reason, cache.other_renderer()) {
        (PoolReason::NotRendered, Some(who)) => PoolReason::Problem(Problem {
            class: ErrorClass::Transient,
            reason: "other-renderer".to_owned(),
            message: format!(
                "{who} renders pools and has not rendered this one; mosb renders no pools while it runs"
            ),
        }),
        (reason, _) => reason,
    };
    let current =
        config.and_then(|config| config.metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD));
    let build = snapshot.builds.iter().find(|build| Some(build.metadata.name.as_str()) == current);
    let pool = snapshot.pool.as_ref();
    PoolView {
        pool: match (pool, config) {
            (Some(pool), _) => pool.metadata.name.clone(),
            (None, Some(config)) => config.spec.machine_config_pool.name.clone(),
            (None, None) => key.to_owned(),
        },
        rendered: pool.map(|pool| pool.spec.configuration.name.clone()).unwrap_or_default(),
        config: config.map(|config| config.metadata.name.clone()),
        reason,
        image: config
            .map(|config| config.status.current_image_pull_spec.clone())
            .unwrap_or_default(),
        build: build.cloned(),
        os_overridden: pool.and_then(os_overridden).map(str::to_owned),
    }
}

/// Requests a rebuild of the current image of a MachineOSConfig; with `config_only`, on the prepared
/// base that is recorded.
///
/// # Errors
/// The API server rejects it.
pub async fn request_rebuild(
    client: &Client,
    config: &str,
    config_only: bool,
) -> Result<(), Error> {
    let api: Api<DynamicObject> =
        Api::all_with(client.clone(), &kinds::MACHINE_OS_CONFIG.resource());
    let value = if config_only { labels::REBUILD_CONFIG_ONLY } else { "" };
    let change = json!({ "metadata": { "annotations": { labels::REBUILD: value } } });
    let patched = api.patch(config, &PatchParams::default(), &Patch::Merge(&change)).await;
    let object = format!("machineosconfig {config}");
    patched.map(drop).map_err(Error::api(object, "patch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_must_solve_is_waited_for_briefly() {
        for (reason, want) in [
            ("Rejected", PoolPhase::Rejected),
            ("InvalidInput", PoolPhase::Rejected),
            ("Problem", PoolPhase::Progressing),
            ("NoNode", PoolPhase::Progressing),
        ] {
            let class = class_of(reason);
            let problem = Problem { class, reason: reason.to_owned(), message: String::new() };
            let view = PoolView {
                pool: String::new(),
                rendered: String::new(),
                config: None,
                reason: PoolReason::Problem(problem),
                image: String::new(),
                build: None,
                os_overridden: None,
            };
            assert_eq!(view.phase(), want, "{reason}");
        }
    }
}
