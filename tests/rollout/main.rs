//! Machines that take images and reboot into them. As root.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod adopt;
mod boot_check;
mod bootc_arguments;
mod controller_pod;
mod first_boot;
mod guarded_pod;
mod ignition_server_pod;
mod live;
mod live_story;
mod machine_part;
mod machine_part_story;
mod new_machine;
mod node_commands;
mod node_jobs;
mod node_story;
mod observer;
mod os_update;
mod os_update_story;
mod part_lab;
mod part_lab_end;
mod pull_settings;
mod rollout_cluster;
mod rollout_story;
mod rpm_ostree_machine;
mod signed_images;
mod signed_pool;
mod simulated;
mod single_node_story;
mod slot_times;
mod soft_reboot;
mod test_lab;
mod var_files;
