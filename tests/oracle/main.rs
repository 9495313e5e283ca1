//! Compares mosb with the real Ignition, systemd, buildah, importer of nodes, and registries built
//! with Go. These tests need root.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]
#![expect(clippy::type_complexity, reason = "a table of cases is a list of tuples")]

mod boot_image_stub;
mod build_faults;
mod buildah_build;
mod consumers;
mod containerfile_rules;
mod cosign;
mod examples;
mod fetch_faults;
mod fidelity;
mod first_boot;
mod fuzz;
mod ignition_oracle;
mod importer;
mod interrupted;
mod job_containerfile;
mod job_direct;
mod job_hostile;
mod job_last_part;
mod job_pod;
mod kills;
mod kyverno;
mod merge_oracle;
mod packages;
mod part_image;
mod part_layout;
mod part_ostree;
mod part_registry;
mod part_root;
mod part_second_base;
mod pod_faults;
mod preflight;
mod preflight_installation;
mod prepared_faults;
mod prepared_stages;
mod regctl;
mod registry_faults;
mod registry_push;
mod sbom;
mod scanners;
mod serve_ignition;
mod signature_policies;
mod systemd_presets;
mod var_files;
