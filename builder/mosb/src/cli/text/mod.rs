//! Text output: sections with a headline, aligned columns, sizes with units, and full digests where
//! users copy them.

mod boot_images;
mod bootstrap_result;
mod build_result;
mod cache;
mod diff;
mod files;
mod inspect;
mod machine_ignition;
mod node_adoption;
mod node_drift;
mod node_etc;
mod node_report;
mod page;
mod plan;
mod pool_status;
mod preflight;
mod prepare_result;
mod render;
mod rollout;

#[cfg(test)]
mod tests;
