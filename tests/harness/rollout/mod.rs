//! A roll-out on a real API server, with machines that are only Node objects.
//!
//! API server, scheduler, Job controller, builds, evictions, PodDisruptionBudgets, rights and
//! admission policies are real. [`SimulatedMachines`] stands in for the machines: it answers as
//! their kubelets and as `mosb node`, and runs no program. What a machine does by itself is tested
//! on the lab, in the program `rollout`. A [`RolloutObserver`] watches the whole time.

mod cluster;
mod follower;
mod guard;
mod history;
mod kubelet;
mod limits;
mod machines;
mod node_job;
mod node_object;
mod observer;
mod pool;
mod stories;

pub use cluster::{ROLLOUT_NAMESPACE, RolloutCluster};
pub use history::{RolloutHistory, SeenKind, SeenObject};
pub use limits::annotation;
pub use machines::{Reboot, SimulatedMachine, SimulatedMachines};
pub use node_object::{CORDONED_BY_ADMINISTRATOR, NewMachine, REBOOTED_BY_OTHERS};
pub use observer::{Observed, RolloutObserver};
pub use pool::RolloutPool;
pub use stories::RolloutStory;
