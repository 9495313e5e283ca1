//! What a Job and a build say of themselves in annotations.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::Job;

use crate::api::{MachineOsBuild, labels};
use crate::backend::job::{InputKind, JobMethod};

pub(super) fn name_of(job: &Job) -> String {
    job.metadata.name.clone().unwrap_or_default()
}

pub(super) fn annotation_of<'a>(job: &'a Job, key: &str) -> Option<&'a str> {
    let annotations = job.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

pub(super) fn attempt_of(job: &Job) -> u32 {
    let attempt = annotation_of(job, labels::ATTEMPT);
    attempt.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// What a Job's pod needs, as the Job says it.
pub(super) fn needs_of(job: &Job) -> BTreeSet<(InputKind, String)> {
    let text = annotation_of(job, labels::NEEDS).unwrap_or_default();
    let words = text.split_whitespace();
    words
        .filter_map(|word| {
            let (kind, name) = word.split_once('/')?;
            Some((InputKind::named(kind)?, name.to_owned()))
        })
        .collect()
}

pub(super) fn number(build: &MachineOsBuild, key: &str) -> u32 {
    let text = build.metadata.annotation(key);
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

pub(super) fn method_of(build: &MachineOsBuild) -> JobMethod {
    match build.metadata.annotation(labels::METHOD) {
        Some("containerfile") => JobMethod::Containerfile,
        _ => JobMethod::Direct,
    }
}
