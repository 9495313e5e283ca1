//! Pools whose machines run another OS than the release's, because a MachineConfig sets `osImageURL`:
//! condition `OSOverridden` of the pool. Its key is the name of a pool.
//!
//! Which MachineConfig it is, and how old both images are, is looked up once for each rendered config:
//! the watch shows only that it is so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::core::DynamicObject;

use super::metrics::BaseMetrics;
use super::streams::image_release;
use mosb_cluster::cluster_cache::{ClusterCache, Trigger};
use mosb_cluster::kinds;
use mosb_cluster::node_pool::{PoolSelectors, node_platform};
use mosb_cluster::object;
use mosb_cluster::resolver::{LookupError, LookupPermit, Resolver, get_rendered_config};
use mosb_cluster::status::set_condition;
use mosb_image::{ImageRef, Platform};
use mosb_plan::api::{MachineConfigPool, condition, labels};
use mosb_plan::plan::BaseRelease;
use mosb_reconcile::driver::{Decision, InputsHash, NoDecision, Reconciler};
use mosb_reconcile::write::{ApplyError, Effects as _, Executor, NoEffect, ReconcilePass};
use mosb_reconcile::{Error, Problem};

/// Condition type of a pool: a MachineConfig sets its OS image.
const OS_OVERRIDDEN: &str = "OSOverridden";
/// The most MachineConfigs that are read to find the one that sets it.
const MAX_SOURCES: usize = 200;
/// The API takes 32,768; a message quotes what somebody wrote.
const MAX_MESSAGE_CHARS: usize = 4096;

type Action = mosb_reconcile::write::Action<NoEffect>;
type OverriddenDecision = Decision<OverrideLookup, OverrideState, NoEffect>;

/// What is observed of a pool.
#[derive(Debug, Clone)]
pub struct OverriddenSnapshot {
    pool: MachineConfigPool,
    /// None if no MachineConfig sets the image.
    lookup: Option<OverrideLookup>,
    found: Option<Result<Override, Problem>>,
}

/// What is looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OverrideLookup {
    rendered: String,
    /// The MachineConfigs that it was rendered from, in their order.
    sources: Vec<String>,
    /// The release's own image.
    release: Option<String>,
    platform: Option<Platform>,
}

/// The image that a MachineConfig sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    image: String,
    /// The MachineConfig; none if it was changed since.
    by: Option<String>,
    age: Age,
}

/// An image beside that of the release.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Age {
    Older { own: BaseRelease, release: BaseRelease },
    NotOlder,
    Unknown(String),
}

/// Whether a pool's OS image is overridden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverrideState {
    No,
    LookingUp,
    Unknown(Problem),
    Yes(Box<Override>),
}

impl OverrideState {
    fn reason(&self) -> &'static str {
        match self {
            Self::No | Self::LookingUp => "AsExpected",
            Self::Unknown(_) => "Unknown",
            Self::Yes(found) => match found.age {
                Age::Older { .. } => "OlderThanRelease",
                Age::NotOlder => "NotOlder",
                Age::Unknown(_) => "AgeUnknown",
            },
        }
    }
}

impl fmt::Display for OverrideState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::No => f.write_str("the OS image is that of the release"),
            Self::LookingUp => f.write_str("reading which MachineConfig sets the OS image"),
            Self::Unknown(problem) => write!(
                f,
                "a MachineConfig sets the OS image; which one is not known: {}",
                problem.message
            ),
            Self::Yes(found) => {
                match &found.by {
                    Some(by) => write!(f, "MachineConfig {by} sets the OS image {}", found.image)?,
                    None => write!(f, "a MachineConfig sets the OS image {}", found.image)?,
                }
                f.write_str(", which updates of the cluster don't change")?;
                match &found.age {
                    Age::Older { own, release } => write!(
                        f,
                        "; it ({own}) is older than that of the release ({release}): take a newer one, or take osImageURL out"
                    ),
                    Age::NotOlder => Ok(()),
                    Age::Unknown(why) => write!(
                        f,
                        "; whether it is older than that of the release is not known: {why}"
                    ),
                }
            }
        }
    }
}

/// What the condition of a pool says; none if its OS image is that of the release.
pub fn os_overridden(pool: &MachineConfigPool) -> Option<&str> {
    let condition = condition(&pool.status.conditions, OS_OVERRIDDEN)?;
    condition.is_true().then_some(&*condition.message)
}

fn observe(cache: &ClusterCache, name: &str) -> Option<OverriddenSnapshot> {
    let pool = cache.pools.get(name)?;
    if pool.metadata.is_being_deleted() {
        return None;
    }
    let rendered = &pool.spec.configuration.name;
    let meta = cache.machine_configs.get(rendered);
    let annotations = meta.as_ref().and_then(|meta| meta.annotations.as_ref());
    let is = annotations.and_then(|all| all.get(labels::OS_IMAGE_URL_OVERRIDDEN));
    let lookup = is.filter(|is| *is == "true").map(|_| OverrideLookup {
        rendered: rendered.clone(),
        sources: pool.spec.configuration.source.iter().map(|one| one.name.clone()).collect(),
        release: cache.settings().ok().and_then(|(settings, _)| settings.base_os_container_image),
        platform: platform(cache, name),
    });
    Some(OverriddenSnapshot { pool: (*pool).clone(), lookup, found: None })
}

/// That of a node of the pool.
fn platform(cache: &ClusterCache, pool: &str) -> Option<Platform> {
    let selectors = PoolSelectors::of(cache);
    let is_member = selectors.members_of(pool);
    let nodes = cache.nodes.filter_list(|node| is_member(&node.labels));
    nodes.iter().find_map(|node| node_platform(&node.labels))
}

fn state(snapshot: &OverriddenSnapshot) -> OverrideState {
    match (&snapshot.lookup, &snapshot.found) {
        (None, _) => OverrideState::No,
        (Some(_), None) => OverrideState::LookingUp,
        (Some(_), Some(Err(problem))) => OverrideState::Unknown(problem.clone()),
        (Some(_), Some(Ok(found))) => OverrideState::Yes(Box::new(found.clone())),
    }
}

fn decide(snapshot: &OverriddenSnapshot, now: Timestamp) -> OverriddenDecision {
    let state = state(snapshot);
    let old = &snapshot.pool.status.conditions;
    let status = match (&state, &snapshot.lookup) {
        (OverrideState::LookingUp, Some(lookup)) => {
            return OverriddenDecision::looking_up(lookup.clone(), state);
        }
        (OverrideState::No, _) if condition(old, OS_OVERRIDDEN).is_none() => {
            return OverriddenDecision::unchanged(state);
        }
        (OverrideState::No, _) => "False",
        (_, _) => "True",
    };
    let message: String = match &state {
        OverrideState::No => String::new(),
        _ => state.to_string().chars().take(MAX_MESSAGE_CHARS).collect(),
    };
    let mut list = old.clone();
    set_condition(&mut list, OS_OVERRIDDEN, (status, state.reason(), &message), now);
    let is_changed = list != *old;
    let action = || object::replace_conditions(&snapshot.pool.metadata, &list);
    OverriddenDecision::of(state, is_changed.then(action).into_iter().collect())
}

/// Reads the rendered config, the MachineConfig that sets its image, and both images.
async fn look_up(resolver: &Resolver, lookup: &OverrideLookup) -> Result<Override, LookupError> {
    let config = get_rendered_config(resolver, &lookup.rendered).await?;
    let image = config.os_image_url.unwrap_or_default();
    let by = find_source(resolver, lookup, &image).await?;
    let age = match age(resolver, lookup, &image).await {
        Ok(age) => age,
        Err(LookupError::Busy(hosts)) => return Err(LookupError::Busy(hosts)),
        Err(LookupError::Problem(problem)) => Age::Unknown(problem.message),
    };
    Ok(Override { image, by, age })
}

/// The last MachineConfig with this image, or with a tag that was pinned to it.
async fn find_source(
    resolver: &Resolver,
    lookup: &OverrideLookup,
    image: &str,
) -> Result<Option<String>, Problem> {
    let api: Api<DynamicObject> =
        Api::all_with(resolver.client.clone(), &kinds::MACHINE_CONFIG.resource());
    for name in lookup.sources.iter().rev().take(MAX_SOURCES) {
        let found = api.get_opt(name).await;
        let found = found.map_err(Error::api(format!("machineconfig {name}"), "get"))?;
        let url = found.as_ref().and_then(|one| one.data.pointer("/spec/osImageURL")?.as_str());
        if let Some(url) = url.filter(|url| !url.is_empty()) {
            let is_pinned_tag = || {
                let (url, image) = (url.parse::<ImageRef>(), image.parse::<ImageRef>());
                url.is_ok_and(|url| image.is_ok_and(|image| image.repo() == url.repo()))
            };
            return Ok((url == image || is_pinned_tag()).then(|| name.clone()));
        }
    }
    Ok(None)
}

async fn age(
    resolver: &Resolver,
    lookup: &OverrideLookup,
    image: &str,
) -> Result<Age, LookupError> {
    let unknown = |why: &str| Ok(Age::Unknown(why.to_owned()));
    let Some(release) = &lookup.release else {
        return unknown(
            "no image of a release is known; set baseOSContainerImage in ConfigMap mosb-config",
        );
    };
    let (Ok(own), Ok(release)) = (image.parse::<ImageRef>(), release.parse::<ImageRef>()) else {
        return unknown("one of both is not the name of an image");
    };
    let hosts = [&own, &release].map(|image| image.repo().host().to_owned());
    let _permit = resolver.limits.hosts(LookupPermit::default(), hosts.into()).await?;
    let what = || format!("{own} and {release}");
    let platform = lookup.platform.as_ref();
    let both = Box::pin(async {
        Ok::<_, Problem>((
            image_release(resolver, &own, platform).await?,
            image_release(resolver, &release, platform).await?,
        ))
    });
    let (own, release) = resolver.limits.with_timeout(what, both).await?;
    Ok(if own.created.is_none() || release.created.is_none() {
        Age::Unknown("one of both does not say when it was made".to_owned())
    } else if own.is_before(&release) {
        Age::Older { own, release }
    } else {
        Age::NotOlder
    })
}

#[derive(Debug)]
pub struct OverriddenReconciler {
    resolver: Resolver,
    executor: Executor,
    metrics: Arc<BaseMetrics>,
    /// What was found, by pool.
    found: Mutex<BTreeMap<String, (OverrideLookup, Override)>>,
}

impl OverriddenReconciler {
    pub fn new(resolver: Resolver, executor: Executor, metrics: Arc<BaseMetrics>) -> Self {
        Self { resolver, executor, metrics, found: Mutex::default() }
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<String, (OverrideLookup, Override)>> {
        self.found.lock().expect("it is not poisoned: maps don't panic")
    }
}

impl Reconciler for OverriddenReconciler {
    type Snapshot = OverriddenSnapshot;
    type Lookup = OverrideLookup;
    type Reason = OverrideState;
    type Effect = NoEffect;
    type State = ();
    type Trigger = Trigger;

    const KIND: &'static str = "overridden";
    const LOG_PREFIX: &'static str = "OS of pool ";
    /// While they wait for a registry, they have no worker.
    const WORKERS: usize = 1;

    fn affected_keys(&self, trigger: &Trigger) -> BTreeSet<String> {
        let cache = &self.resolver.cache;
        let names = |pools: Vec<Arc<MachineConfigPool>>| {
            pools.iter().map(|pool| pool.metadata.name.clone()).collect()
        };
        match trigger {
            Trigger::Pool(pool) => [pool.clone()].into(),
            Trigger::MachineConfig(name, _) => {
                names(cache.pools.filter_list(|pool| pool.spec.configuration.name == *name))
            }
            Trigger::All => names(cache.pools.list()),
            Trigger::Config(..)
            | Trigger::ManagedObject(_)
            | Trigger::Secret(_)
            | Trigger::Machine(_)
            | Trigger::NodeJob { .. }
            | Trigger::BootImages
            | Trigger::Unrelated => BTreeSet::new(),
        }
    }

    fn observe(&self, key: &str) -> Option<OverriddenSnapshot> {
        let mut snapshot = observe(&self.resolver.cache, key)?;
        let found = self.found();
        let known = found.get(key).filter(|known| Some(&known.0) == snapshot.lookup.as_ref());
        snapshot.found = known.map(|(_, found)| Ok(found.clone()));
        Some(snapshot)
    }

    fn decide(&self, snapshot: &OverriddenSnapshot, now: Timestamp) -> OverriddenDecision {
        let decision = decide(snapshot, now);
        let is = matches!(decision.reason, OverrideState::Yes(_) | OverrideState::Unknown(_));
        let reason = is.then(|| decision.reason.reason());
        if decision.lookups.is_empty() {
            let pool = &snapshot.pool.metadata.name;
            self.metrics.overridden.set(pool, pool, reason);
        }
        decision
    }

    async fn look_up(
        &self,
        lookups: &[OverrideLookup],
        snapshot: &mut OverriddenSnapshot,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), NoDecision> {
        for lookup in lookups {
            let looking = Box::pin(look_up(&self.resolver, lookup));
            let found = match pass.worker.release_during(looking).await {
                Ok(found) => {
                    let known = (lookup.clone(), found.clone());
                    self.found().insert(snapshot.pool.metadata.name.clone(), known);
                    Ok(found)
                }
                Err(LookupError::Busy(hosts)) => return Err(NoDecision::Busy(hosts)),
                Err(LookupError::Problem(problem)) => Err(problem),
            };
            snapshot.found = Some(found);
        }
        Ok(())
    }

    fn fail_lookups(_: &[OverrideLookup], snapshot: &mut OverriddenSnapshot, problem: &Problem) {
        snapshot.found = Some(Err(problem.clone()));
    }

    async fn apply(
        &self,
        actions: &[Action],
        _snapshot: &OverriddenSnapshot,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), ApplyError> {
        self.executor.apply_all(actions, pass).await
    }

    fn seen_versions(snapshot: &OverriddenSnapshot) -> impl Iterator<Item = (&str, &str)> {
        let metadata = &snapshot.pool.metadata;
        [(metadata.uid(), metadata.resource_version())].into_iter()
    }

    fn inputs(snapshot: &OverriddenSnapshot) -> InputsHash {
        InputsHash::of(&(&snapshot.pool.metadata.name, &snapshot.lookup))
    }

    /// Until it is known.
    fn problem(_: &OverriddenSnapshot, decision: &OverriddenDecision) -> Option<Problem> {
        match &decision.reason {
            OverrideState::Unknown(problem) => Some(problem.clone()),
            OverrideState::No | OverrideState::LookingUp | OverrideState::Yes(_) => None,
        }
    }

    fn log_transition(&self, pool: &str, reason: &OverrideState) {
        match reason {
            OverrideState::No | OverrideState::LookingUp => {
                tracing::debug!("OS of pool {pool}: {reason}");
            }
            OverrideState::Unknown(_) | OverrideState::Yes(_) => {
                tracing::warn!(reason = reason.reason(), "OS of pool {pool}: {reason}");
            }
        }
    }

    fn forget(&self, pool: &str) {
        self.found().remove(pool);
        self.metrics.overridden.forget(pool);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use mosb_types::ErrorClass;

    fn made(day: i64) -> BaseRelease {
        BaseRelease { created: Timestamp::from_second(day * 86_400).ok(), version: None }
    }

    fn snapshot(found: Option<Result<Override, Problem>>) -> OverriddenSnapshot {
        let pool = json!({ "metadata": { "name": "worker", "uid": "u", "resourceVersion": "1" } });
        let lookup = OverrideLookup {
            rendered: "rendered-worker-0".to_owned(),
            sources: vec!["00-a".to_owned()],
            release: None,
            platform: None,
        };
        OverriddenSnapshot {
            pool: serde_json::from_value(pool).unwrap(),
            lookup: Some(lookup),
            found,
        }
    }

    #[test]
    fn a_pool_with_its_own_image_says_which_and_whether_it_is_older() {
        let now = Timestamp::from_second(1).unwrap();
        let of = |age| Override {
            image: "quay.io/own@sha256:0".to_owned(),
            by: Some("99-own".to_owned()),
            age,
        };
        let older = Age::Older { own: made(1), release: made(2) };
        let away = Problem {
            class: ErrorClass::Transient,
            reason: "away".to_owned(),
            message: "machineconfig 99-own: away".to_owned(),
        };
        for (what, found, reason, words) in [
            ("older", Ok(of(older)), "OlderThanRelease", "1970-01-02"),
            ("newer", Ok(of(Age::NotOlder)), "NotOlder", "MachineConfig 99-own"),
            ("without a date", Ok(of(Age::Unknown("no date".to_owned()))), "AgeUnknown", "no date"),
            ("unread", Err(away), "Unknown", "99-own: away"),
        ] {
            let mut snapshot = snapshot(Some(found));
            let decision = decide(&snapshot, now);
            let list = object::conditions_in(&decision.actions[0]).unwrap();
            let found = condition(&list, OS_OVERRIDDEN).unwrap();
            assert_eq!((&*found.status, &*found.reason), ("True", reason), "{what}");
            assert!(found.message.contains(words), "{what}: {}", found.message);
            snapshot.pool.status.conditions = list;
            assert_eq!(decide(&snapshot, now).actions, [], "{what}: it is written once");
            snapshot.lookup = None;
            let over = decide(&snapshot, now);
            let list = object::conditions_in(&over.actions[0]).unwrap();
            assert_eq!(condition(&list, OS_OVERRIDDEN).unwrap().status, "False", "{what}");
        }
        let mut other = snapshot(None);
        assert_eq!(decide(&other, now).lookups.len(), 1);
        other.lookup = None;
        assert_eq!(decide(&other, now).actions, [], "others have no condition");
    }
}
