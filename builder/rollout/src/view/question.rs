//! How many machines a change reaches, and what a person is asked before. Pure.

use super::target::TargetView;
use crate::machine_state::MachineState;
use crate::slots::max_unavailable;
use crate::snapshot::RolloutSnapshot;
use mosb_api::labels;
use mosb_api::rollout::PinnedBuild;
use mosb_cluster::target::{Pin, by_pin, live_images};

/// None if no machine changes.
pub(super) fn question(snapshot: &RolloutSnapshot, build: &PinnedBuild) -> Option<String> {
    let machines = snapshot.machines.len();
    let Missing { image, live, part } = missing(snapshot, build);
    let at_once = max_unavailable(snapshot.pool.spec.max_unavailable.as_ref(), machines);
    // A wrong value is in the pool's conditions, and no machine gets a slot.
    let at_once = at_once.unwrap_or(1).min(image.max(live).max(part));
    let pool = &snapshot.pool.metadata.name;
    let plural = |count| if count == 1 { "machine" } else { "machines" };
    if image > 0 {
        let plural = plural(image);
        return Some(format!(
            "{image} {plural} of pool {pool} will be drained and rebooted into {build}, at most {at_once} at once"
        ));
    }
    if live > 0 {
        let plural = plural(live);
        return Some(format!(
            "{live} {plural} of pool {pool} will get the files of {build} while they run; those that need a reboot for them will be drained and rebooted, at most {at_once} at once"
        ));
    }
    (part > 0).then(|| {
        let plural = plural(part);
        format!(
            "{part} {plural} of pool {pool} will get keys and password of {build}; those whose kernel arguments change will be drained and rebooted, at most {at_once} at once"
        )
    })
}

/// How many machines don't have a build.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// They run another image, or are on their way.
    pub(super) image: usize,
    /// They may get its files without a reboot.
    pub(super) live: usize,
    /// They run its image, and have another machine part.
    pub(super) part: usize,
}

pub(super) fn missing(snapshot: &RolloutSnapshot, build: &PinnedBuild) -> Missing {
    let annotation = labels::ROLLOUT_BUILD;
    let found = snapshot.config.as_ref().filter(|_| !build.is_stock()).and_then(|config| {
        // What is not found is reported by the controller.
        let found = by_pin(config, &snapshot.builds, Pin { build, annotation }).ok();
        found.map(|(_, target)| (live_images(config, &snapshot.builds, &target), target))
    });
    let (live_images, target) = found.unzip();
    let target = TargetView {
        live_images: live_images.unwrap_or_default(),
        ..TargetView::new(build.clone(), target)
    };
    let states = snapshot.machines.iter().map(MachineState::of);
    let mut missing = Missing::default();
    for state in states.filter(|state| !target.is_on(state)) {
        if state.has_slot() {
            missing.image += 1;
        } else if target.may_go_live(&state) {
            missing.live += 1;
        } else if state.runs(build.digest) {
            missing.part += 1;
        } else {
            missing.image += 1;
        }
    }
    missing
}
