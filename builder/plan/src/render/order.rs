//! The order in which MachineConfigs are merged; later ones override earlier ones.

use super::{Component, WORKER};

/// Sorts those of role `worker` by name, then all others by name, so that a pool's own
/// MachineConfigs override those of all pools.
pub(super) fn sort(configs: &mut [&Component]) {
    configs.sort_by(|a, b| key(a).cmp(&key(b)));
}

fn key(one: &Component) -> (bool, &str) {
    (one.role() != Some(WORKER), one.name())
}
