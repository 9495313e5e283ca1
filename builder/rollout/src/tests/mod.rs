//! Tests of the roll-out: tables of the pure functions, stories that run to their end on a fake
//! cluster of machines, and any sequence of events.

mod adoption;
mod cache;
mod clusters;
mod confirmed;
mod counted;
mod drains;
mod failed_parts;
mod failures;
mod fallbacks;
mod fleet;
mod kubelet;
mod leaving;
mod live;
mod machine;
mod machine_parts;
mod observed;
mod passes;
mod property;
mod requests;
mod restarts;
mod retry;
mod ring_property;
mod rings;
mod safety;
mod server;
mod signatures;
mod soft_reboots;
mod stories;
mod tables;
mod targets;
mod unstage;
mod views;
mod waits;

use super::{JobPhase, MachineJob, NodeVerb};

/// A Job of a machine without a UID.
pub(super) fn job_of_machine(phase: JobPhase) -> MachineJob {
    MachineJob {
        name: String::new(),
        uid: String::new(),
        resource_version: String::new(),
        verb: NodeVerb::Stage,
        node_uid: String::new(),
        target: None,
        number: 1,
        pulls: true,
        has_login: true,
        created: None,
        seen_created: None,
        seen_ended: None,
        deadline: None,
        phase,
        awaits_pod: None,
        waiting: None,
        deleting: false,
    }
}
