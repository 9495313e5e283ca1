//! Checks that a cluster has finished its updates before its objects are rendered.

use std::collections::BTreeMap;

use super::{Component, MASTER, Request, WORKER};
use mosb_api::{LabelSelector, PoolSettings, Selector, labels};
use mosb_types::Finding;

/// Rejects a ControllerConfig that the cluster is updating, and a pool whose KubeletConfig has no
/// MachineConfig yet.
pub(super) fn check(
    request: &Request,
    chosen: &[&Component],
    problems: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) {
    let controller = request.controller_config.as_ref();
    if let Some(why) = controller.and_then(|config| config.unfinished()) {
        let message = format!("{why}; wait for it, and read all objects again");
        let name = "ControllerConfig machine-config-controller";
        problems.push(Finding::new("not-completed", message).object(name));
    }
    let pools = labels_of(request);
    let is_missing = |settings: &&PoolSettings| {
        let made_of_it = |one: &&Component| {
            let mut owners = one.config.metadata.owner_references.iter();
            owners.any(|owner| owner.kind == settings.kind && owner.name == settings.metadata.name)
        };
        !settings.is_finished() && !chosen.iter().any(made_of_it)
    };
    for settings in request.pool_settings.iter().filter(is_missing) {
        // The cluster treats a missing or invalid selector as matching no pool, and an empty one as
        // matching every pool.
        let wire = settings.spec.machine_config_pool_selector.as_ref();
        let Some((wire, selector)) = wire.zip(wire.and_then(|it| Selector::allowing_all(it).ok()))
        else {
            continue;
        };
        let name = format!("{} {}", settings.kind, settings.metadata.name);
        if pools.iter().any(|labels| selector.matches(labels)) {
            let message = "it is for this pool, and its status does not say that the cluster has made a MachineConfig of it, so the result would lack it; give that MachineConfig, and leave this object out or give it with its status";
            problems.push(Finding::new("not-completed", message).object(name));
        } else if request.pool_object.is_none() && !is_of_known_labels(wire) {
            let message = "whether it is for this pool is not known without the MachineConfigPool, and the result has none of its settings; give the pool, or the MachineConfig that the cluster made of this object";
            warnings.push(Finding::new("settings-left-out", message).object(name));
        }
    }
}

/// The label of a pool by which KubeletConfigs select it; every cluster sets it on its own pools.
const POOL_LABEL: &str = "pools.operator.machineconfiguration.openshift.io/";

/// The labels of the pool, and of pool `worker` if its MachineConfigs are merged too. A manifest
/// lacks those that a cluster sets; without a manifest, those that everybody sets are assumed.
fn labels_of(request: &Request) -> Vec<BTreeMap<String, String>> {
    let by_cluster = |pool: &str| {
        let text = |key: String| (key, String::new());
        BTreeMap::from([text(format!("{POOL_LABEL}{pool}"))])
    };
    let name = request.pool.as_str();
    let Some(pool) = &request.pool_object else {
        let mut own = by_cluster(name);
        own.insert(labels::ROLE.to_owned(), name.to_owned());
        return if is_of_cluster(name) { vec![own] } else { vec![own, by_cluster(WORKER)] };
    };
    let own = pool.metadata.labels.clone();
    // Those that an API server returns are complete.
    if pool.metadata.uid.is_some() {
        return vec![own];
    }
    let mut all = vec![own];
    if is_of_cluster(name) {
        all[0].extend(by_cluster(name));
    }
    let selects_worker = pool.spec.machine_config_selector.as_ref().is_some_and(|wire| {
        let role = BTreeMap::from([(labels::ROLE.to_owned(), WORKER.to_owned())]);
        Selector::new(wire).is_ok_and(|selector| selector.matches(&role))
    });
    if selects_worker && name != WORKER {
        all.push(by_cluster(WORKER));
    }
    all
}

/// Whether a cluster has this pool from the beginning.
fn is_of_cluster(pool: &str) -> bool {
    [WORKER, MASTER].contains(&pool)
}

/// Whether only labels decide that are known without the pools.
fn is_of_known_labels(wire: &LabelSelector) -> bool {
    let expressions = wire.match_expressions.iter().map(|expression| &expression.key);
    let mut keys = wire.match_labels.keys().chain(expressions);
    keys.all(|key| key.starts_with(POOL_LABEL))
}

/// Warns about MachineConfigs of different controller versions.
pub(super) fn same_version(chosen: &[&Component], warnings: &mut Vec<Finding>) {
    let generated = chosen.iter().filter_map(|one| {
        let annotations = &one.config.metadata.annotations;
        let version = annotations.get(labels::GENERATED_BY_CONTROLLER_VERSION)?;
        Some((one, version))
    });
    let mut generated = generated.peekable();
    let Some((first, version)) = generated.peek().copied() else {
        return;
    };
    if let Some((other, _)) = generated.find(|(_, other)| *other != version) {
        let message = format!(
            "another version of the controller made it than {}; read them again when the cluster's update is done",
            first.name()
        );
        warnings.push(Finding::new("mixed-versions", message).object(other.place("")));
    }
}
