//! The controller and its pods on a real API server and a real kubelet. As root.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]
#![expect(clippy::type_complexity, reason = "a table of cases is a list of tuples")]

mod admission_policy;
mod base_trees;
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
mod crds;
mod deploy;
mod fault_moments;
mod fault_objects;
mod fault_refused;
mod fault_registry;
mod fault_stories;
mod fault_trust;
mod fault_world;
mod helm;
mod job_by_hand;
mod job_sidecar;
mod job_spec;
mod monitoring;
mod part_node;
mod part_node_end;
mod plugin;
mod pod_faults_node;
mod rbac;
mod seed_kill;
mod seed_recognised;
mod seed_story;
mod soak;
mod upgrade;
