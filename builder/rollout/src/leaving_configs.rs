//! Which MachineOSConfig decides about a pool, and the end of those that are being deleted and no
//! longer do. Pure.
//!
//! Invariant: a MachineOSConfig that is being deleted never waits for a pool that does not roll out
//! for it.

use super::desired_target::rival_names;
use super::snapshot::RolloutSnapshot;
use crate::effect::Action;
use mosb_api::rollout::OnDelete;
use mosb_api::{MachineOsConfig, Metadata, labels};
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_cluster::status::{EventReason, new_event, regarding};
use mosb_reconcile::write::Patch;

/// The MachineOSConfigs of a pool by their part in it.
#[derive(Debug, Default)]
pub(super) struct PoolConfigs {
    /// The one that decides.
    pub config: Option<MachineOsConfig>,
    /// All that could, if there is more than one.
    pub rivals: Vec<Metadata>,
    /// Those that are being deleted and don't decide.
    pub leaving: Vec<Metadata>,
}

impl PoolConfigs {
    /// `has_pool`: the pool exists and is not being deleted. One that is being deleted decides only
    /// if there is no other one.
    pub fn of(configs: Vec<MachineOsConfig>, has_pool: bool) -> Self {
        let is_leaving = |config: &MachineOsConfig| config.metadata.is_being_deleted();
        let (mut leaving, mut live): (Vec<_>, Vec<_>) = configs.into_iter().partition(is_leaving);
        if has_pool && live.is_empty() && !leaving.is_empty() {
            let with_finalizer = leaving.iter().position(|config| has_finalizer(&config.metadata));
            live.push(leaving.remove(with_finalizer.unwrap_or_default()));
        }
        let metadata = |configs: Vec<MachineOsConfig>| -> Vec<Metadata> {
            configs.into_iter().map(|config| config.metadata).collect()
        };
        let leaving = metadata(leaving);
        if live.len() > 1 {
            Self { config: None, rivals: metadata(live), leaving }
        } else {
            Self { config: live.pop(), rivals: Vec::new(), leaving }
        }
    }
}

fn has_finalizer(config: &Metadata) -> bool {
    config.finalizers.iter().any(|one| one == labels::ROLLOUT_FINALIZER)
}

/// Removes our finalizer from MachineOSConfigs that are being deleted and don't decide.
pub(super) fn actions(snapshot: &RolloutSnapshot) -> Vec<Action> {
    let leaving = snapshot.leaving.iter().filter(|config| has_finalizer(config));
    leaving.flat_map(|config| end(snapshot, config)).collect()
}

fn end(snapshot: &RolloutSnapshot, config: &Metadata) -> Vec<Action> {
    let others = config.finalizers.iter().filter(|one| *one != labels::ROLLOUT_FINALIZER);
    let patch = Patch { finalizers: Some(others.cloned().collect()), ..Patch::default() };
    let mut actions = vec![object::patch(kinds::MACHINE_OS_CONFIG, config, patch)];
    if OnDelete::of(config) != Ok(OnDelete::Keep) {
        let on = regarding("MachineOSConfig", config);
        let (name, cause) = (&config.name, cause(snapshot));
        let text = format!(
            "{name}: no machine is brought to the stock image, because {cause}; the machines keep the image that they run: for the stock image, create pool and MachineOSConfig again and run mosb rollout undo --to stock"
        );
        actions.push(Action::Event(new_event(on, EventReason::StockSkipped, &text, text.clone())));
    }
    actions
}

fn cause(snapshot: &RolloutSnapshot) -> String {
    let pool = &snapshot.pool.metadata.name;
    if snapshot.is_pool_missing {
        return format!("pool {pool} does not exist");
    }
    if snapshot.pool.metadata.is_being_deleted() {
        return format!("pool {pool} is being deleted too");
    }
    let names = match &snapshot.config {
        Some(config) => config.metadata.name.clone(),
        None => rival_names(&snapshot.rivals),
    };
    format!("pool {pool} has another MachineOSConfig: {names}")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    /// `+` is one that is being deleted, `*` one with our finalizer.
    fn configs(names: &[&str]) -> Vec<MachineOsConfig> {
        let config = |name: &&str| {
            let mut config = MachineOsConfig::default();
            config.metadata.name = name.trim_start_matches(['+', '*']).to_owned();
            if name.contains('+') {
                config.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
            }
            if name.contains('*') {
                config.metadata.finalizers = vec![labels::ROLLOUT_FINALIZER.to_owned()];
            }
            config
        };
        names.iter().map(config).collect()
    }

    #[test]
    fn one_that_is_being_deleted_decides_only_alone() {
        type Names = &'static [&'static str];
        let cases: [(Names, bool, &str, Names, Names); 8] = [
            (&[], true, "", &[], &[]),
            (&["a"], true, "a", &[], &[]),
            (&["a", "b"], true, "", &["a", "b"], &[]),
            (&["+*a"], true, "a", &[], &[]),
            (&["+*a"], false, "", &[], &["a"]),
            (&["+*a", "b"], true, "b", &[], &["a"]),
            (&["+*a", "b", "c"], true, "", &["b", "c"], &["a"]),
            (&["+a", "+*b"], true, "b", &[], &["a"]),
        ];
        for (names, has_pool, config, rivals, leaving) in cases {
            let found = PoolConfigs::of(configs(names), has_pool);
            let name = found.config.map(|config| config.metadata.name).unwrap_or_default();
            let of = |list: &[Metadata]| -> Vec<String> {
                list.iter().map(|one| one.name.clone()).collect()
            };
            assert_eq!(name, config, "{names:?}");
            assert_eq!(of(&found.rivals), rivals, "{names:?}");
            assert_eq!(of(&found.leaving), leaving, "{names:?}");
        }
    }
}
