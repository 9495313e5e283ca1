//! What is kept of a pod before it goes, or before its build is told to have failed.

use super::super::kept_logs::KeepLogs;
use super::super::step::Step;
use super::Round;
use super::job::attempt_of;
use crate::api::MachineOsBuild;

impl Round<'_> {
    /// Keeps the logs of the newest pod of a build. This comes before what makes it needless, so that it is decided again
    /// if we are killed between.
    pub(super) fn keep_logs(&mut self, build: &MachineOsBuild) {
        let jobs = self.jobs_of(build).filter(|seen| !seen.pods.is_empty());
        let Some(seen) = jobs.max_by_key(|seen| attempt_of(&seen.job)) else {
            return;
        };
        let created = |pod: &&k8s_openapi::api::core::v1::Pod| {
            let created = pod.metadata.creation_timestamp.as_ref();
            created.map(|at| at.0)
        };
        let newest = seen.pods.iter().max_by_key(created);
        let keep = newest.and_then(|pod| KeepLogs::of(build, attempt_of(&seen.job), pod));
        self.steps
            .extend(keep.map(|keep| Step::KeepLogs(Box::new(keep))));
    }
}
