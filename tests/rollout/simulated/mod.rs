//! Roll-outs on a real API server with a helper that answers as the machines, and an observer that
//! watches the whole time: what the program `cluster` has no time for.

mod faults;
mod interruptions;
mod kills;
mod live;
mod registry_away;
mod signatures;
mod soft_reboots;
mod stories;
mod two_controllers;

pub const REASON: &str = "machineconfiguration.openshift.io/reason";
pub const STATE: &str = "machineconfiguration.openshift.io/state";
