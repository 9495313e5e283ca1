//! Machines that take images and reboot into them. As root.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod node_commands;
mod node_jobs;
mod part_lab;
mod rollout_cluster;
mod rollout_story;
mod test_lab;
