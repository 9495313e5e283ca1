//! The order in which MachineConfigs are merged: whose word counts.

use super::Component;
use super::select::{WORKER, role};

/// Those of role `worker` by name, then all others by name: what is said for a pool counts more than what is said for all.
pub(super) fn sort(configs: &mut [&Component]) {
    configs.sort_by(|a, b| key(a).cmp(&key(b)));
}

fn key(one: &Component) -> (bool, &str) {
    (role(one) != Some(WORKER), one.name())
}
