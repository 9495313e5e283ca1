//! Tests on real parts: the program itself, registries, Ignition, buildah, the importer that runs on nodes.
//!
//! One binary. `harness/` gets and runs the parts; each `part_*.rs` shows that one of them does what the tests rely on.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on stops where it stands"
)]
#![expect(
    clippy::type_complexity,
    reason = "a table of cases is a list of tuples"
)]

mod harness;

mod admission_policy;
mod bad_base;
mod bad_config;
mod bad_target;
mod base_trees;
mod bootstrap;
mod bootstrap_registries;
mod build_faults;
mod build_world;
mod buildah_build;
mod buildah_world;
mod cli_commands;
mod cli_refusals;
mod cluster_canary;
mod cluster_control_plane;
mod cluster_hostile;
mod cluster_openshift;
mod cluster_pod;
mod cluster_render;
mod cluster_story;
mod cluster_two_namespaces;
mod cluster_user_namespaces;
mod cluster_world;
mod consumers;
mod crds;
mod dependencies;
mod deploy;
mod documentation;
mod fault_moments;
mod fault_objects;
mod fault_refused;
mod fault_registry;
mod fault_stories;
mod fault_trust;
mod fault_world;
mod fetch_world;
mod fidelity;
mod first_boot;
mod fuzz;
mod helm;
mod ignition_oracle;
mod importer;
mod injection;
mod interrupted;
mod job_by_hand;
mod job_containerfile;
mod job_direct;
mod job_hostile;
mod job_sidecar;
mod job_spec;
mod job_world;
mod merge_oracle;
mod monitoring;
mod older_format;
mod part_image;
mod part_layout;
mod part_node;
mod part_node_end;
mod part_ostree;
mod part_program;
mod part_proxy;
mod part_registry;
mod part_root;
mod plugin;
mod pod_faults;
mod pod_faults_node;
mod preflight;
mod preflight_installation;
mod rbac;
mod registry_faults;
mod registry_hostile;
mod registry_layout;
mod registry_policy;
mod registry_profiles;
mod registry_push;
mod registry_world;
mod render_commands;
mod render_fetch;
mod render_fetch_faults;
mod render_refusals;
mod reproducible;
mod seed_kill;
mod seed_recognised;
mod seed_story;
mod soak;
mod systemd_presets;
mod upgrade;
