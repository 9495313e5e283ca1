//! What `mosb builds`, `nodes` and `rollout` show, and what they ask for.
//!
//! Input: pools, their images and nodes, as a [`ClusterCache`](crate::ClusterCache) has them.
//! Output: views for people and scripts, and the annotations that a request writes. Invariant: what
//! a machine runs and should run is found by the functions that the controller decides by.
//!
//! | file | does |
//! | --- | --- |
//! | `target` | what a pool's machines should run, and whether one does |
//! | `nodes` | what each node runs and does |
//! | `builds` | the images of a pool, and where they run |
//! | `pool` | how far the roll-out of a pool is |
//! | `request` | start, pause, resume, undo → the change |
//! | `request_error` | why a request is refused |
//! | `question` | how many machines a change reaches, and what is asked before |
//! | `retry` | which machines try again |
//! | `write` | reads what a request needs, and writes the change |

mod builds;
mod nodes;
mod pool;
mod question;
mod request;
mod request_error;
mod retry;
mod target;
mod write;

pub use builds::{BuildView, build_views};
pub use nodes::{NodeView, node_views};
pub use pool::{MachineCounts, PoolCondition, RolloutView, SoftReboots, rollout_view};
pub use request::{RolloutChange, RolloutRequest, UndoTo};
pub use request_error::RolloutRequestError;
pub use retry::Retry;
pub use target::TargetView;
pub use write::{decide_request, write_request};
