//! Checks that a cluster has finished its updates before its objects are rendered.

use super::{Component, Request};
use crate::api::{PoolSettings, Selector, labels};
use mosb_types::Finding;

/// Rejects a ControllerConfig that the cluster is updating, and a pool whose KubeletConfig has no
/// MachineConfig yet.
pub(super) fn check(request: &Request, problems: &mut Vec<Finding>) {
    let controller = request.controller_config.as_ref();
    if let Some(why) = controller.and_then(|config| config.unfinished()) {
        let message = format!("{why}; wait for it, and read all objects again");
        let name = "ControllerConfig machine-config-controller";
        problems.push(Finding::new("not-completed", message).object(name));
    }
    let Some(pool) = &request.pool_object else {
        return;
    };
    let of_pool = |settings: &&PoolSettings| {
        let wire = settings.spec.machine_config_pool_selector.as_ref();
        // The cluster treats a missing or invalid selector as matching no pool, and an empty one as
        // matching every pool.
        wire.is_some_and(|wire| {
            Selector::allowing_all(wire).is_ok_and(|it| it.matches(&pool.metadata.labels))
        })
    };
    let unfinished = request.pool_settings.iter().filter(of_pool);
    for settings in unfinished.filter(|settings| !settings.is_finished()) {
        let message = "it is for this pool, and its status does not say that the cluster has made a MachineConfig of it, so the result would lack it; give that MachineConfig, and leave this object out or give it with its status";
        let name = format!("{} {}", settings.kind, settings.metadata.name);
        problems.push(Finding::new("not-completed", message).object(name));
    }
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
