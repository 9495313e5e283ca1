//! Tests of the roll-out: tables of the pure functions, stories that run to their end on a fake
//! cluster of machines, and any sequence of events.

mod adoption;
mod clusters;
mod counted;
mod failed_parts;
mod failures;
mod fleet;
mod kubelet;
mod leaving;
mod live;
mod machine;
mod machine_parts;
mod observed;
mod passes;
mod property;
mod restarts;
mod retry;
mod safety;
mod server;
mod stories;
mod tables;
mod targets;
mod unstage;
mod views;
mod waits;
