//! Pools whose machines run another OS than the release's, because a MachineConfig sets `osImageURL`:
//! condition `OSOverridden` of the pool. A controller whose key is the name of a pool.
//!
//! Which MachineConfig it is, and how old both images are, is looked up once for each rendered config:
//! the watch shows only that it is so.

mod lookups;
mod reconciler;

use std::fmt;

use jiff::Timestamp;

use mosb_api::{MachineConfigPool, condition, labels};
use mosb_cluster::cluster_cache::ClusterCache;
use mosb_cluster::node_pool::{PoolSelectors, node_platform};
use mosb_cluster::object;
use mosb_cluster::status::set_condition;
use mosb_cluster::versions::{Versions, shared_versions};
use mosb_image::Platform;
use mosb_plan::plan::BaseRelease;
use mosb_reconcile::Problem;
use mosb_reconcile::driver::Decision;
use mosb_reconcile::write::NoEffect;

pub use reconciler::OverriddenReconciler;

/// Condition type of a pool: a MachineConfig sets its OS image.
const OS_OVERRIDDEN: &str = "OSOverridden";
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
    /// Of what registries are asked with.
    versions: Versions,
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

/// The message of the condition of a pool; none if its OS image is that of the release.
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
        versions: shared_versions(cache),
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
            versions: Versions::default(),
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
