//! A hash of everything that a pass over a pool depends on. What mosb itself writes, and versions
//! that change with each write, are left out. A lookup ends early if it changes.

use super::snapshot::{JobPhase, RolloutSnapshot};
use jiff::Timestamp;
use mosb_plan::api::Metadata;
use mosb_reconcile::driver::InputsHash;

pub(super) fn inputs(snapshot: &RolloutSnapshot) -> InputsHash {
    let pool = &snapshot.pool;
    let config = snapshot.config.as_ref().map(|config| {
        let metadata = &config.metadata;
        let image = &config.status.current_image_pull_spec;
        (&metadata.uid, &metadata.annotations, deleted(metadata), &config.spec, image)
    });
    let builds = snapshot.builds.iter().map(|build| (&build.metadata.uid, build.status.image()));
    let builds: Vec<_> = builds.collect();
    let machines = snapshot.machines.iter().map(|machine| {
        let jobs = machine.jobs.iter();
        let jobs = jobs.map(|job| (&job.uid, job.phase == JobPhase::Running, job.has_login));
        let metadata = &machine.metadata;
        (
            (&metadata.uid, &metadata.labels, deleted(metadata)),
            (&machine.boot_id, machine.ready, machine.disk_pressure, machine.network_unavailable),
            jobs.collect::<Vec<_>>(),
        )
    });
    let machines: Vec<_> = machines.collect();
    InputsHash::of(&(
        (&pool.metadata.uid, &pool.spec),
        (config, builds, machines),
        (&snapshot.rivals, &snapshot.leaving, snapshot.is_pool_missing),
        (&snapshot.other_controller, &snapshot.shared_nodes, &snapshot.settings),
    ))
}

fn deleted(metadata: &Metadata) -> Option<Timestamp> {
    metadata.deletion_timestamp.as_ref().map(|time| time.0)
}
