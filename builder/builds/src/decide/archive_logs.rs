//! Archives the logs of a pod before the pod is deleted or its build is reported as failed.

use super::DecisionBuilder;
use super::annotations::attempt_of;
use crate::action::BuildEffect;
use crate::log_archive::ArchiveLogs;
use mosb_api::MachineOsBuild;

impl DecisionBuilder<'_> {
    /// Archives the logs of the newest pod of a build. The action comes before those that delete
    /// the pod, so it is decided again if the controller is killed in between.
    pub(super) fn archive_logs(&mut self, build: &MachineOsBuild) {
        let workloads = self.workloads_of(build);
        let workloads = workloads.filter(|seen| seen.pods().next().is_some());
        let Some(seen) = workloads.max_by_key(|seen| attempt_of(&seen.workload)) else {
            return;
        };
        let created = |pod: &&k8s_openapi::api::core::v1::Pod| {
            let created = pod.metadata.creation_timestamp.as_ref();
            created.map(|at| at.0)
        };
        let newest = seen.pods().max_by_key(created);
        let result = self.snapshot.results.get(&build.metadata.name);
        let result = result.filter(|result| result.job_uid == seen.workload.uid());
        let step = result.map(|result| result.outcome.step());
        let attempt = attempt_of(&seen.workload);
        let archive = newest.and_then(|pod| ArchiveLogs::of(build, attempt, pod, step));
        self.actions
            .extend(archive.map(|archive| BuildEffect::ArchiveLogs(Box::new(archive)).into()));
    }
}
