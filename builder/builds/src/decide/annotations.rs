//! Reads the annotations of workloads and builds.

use std::collections::BTreeSet;

use mosb_api::{MachineOsBuild, labels};
use mosb_build::JobMethod;
use mosb_plan::payload::BuildSpec;
use mosb_workload::{InputKind, Workload};

pub(super) fn attempt_of(workload: &Workload) -> u32 {
    let attempt = workload.annotation(labels::ATTEMPT);
    attempt.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// The inputs that a workload lists in its annotation `mosb.dev/needs`.
pub(super) fn needs_of(workload: &Workload) -> BTreeSet<(InputKind, String)> {
    let text = workload.annotation(labels::NEEDS).unwrap_or_default();
    let words = text.split_whitespace();
    words
        .filter_map(|word| {
            let (kind, name) = word.split_once('/')?;
            Some((InputKind::named(kind)?, name.to_owned()))
        })
        .collect()
}

/// Whether the containers of a workload read the inputs of a build as this version writes them. An
/// OpenShift Build has none of our containers.
pub(super) fn reads_build_spec(workload: &Workload) -> bool {
    match workload {
        Workload::Job(_) | Workload::Pod(_) => {
            workload.annotation(labels::BUILD_SPEC) == Some(&*BuildSpec::FORMAT.to_string())
        }
        Workload::Build(_) => true,
    }
}

pub(super) fn number_annotation(build: &MachineOsBuild, key: &str) -> u32 {
    let text = build.metadata.annotation(key);
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

pub(super) fn method_of(build: &MachineOsBuild) -> JobMethod {
    match build.metadata.annotation(labels::METHOD) {
        Some("containerfile") => JobMethod::Containerfile,
        _ => JobMethod::Direct,
    }
}
