//! Creates workloads and their inputs from the plan of the build.

use std::pin::pin;

use futures_util::{StreamExt as _, stream};

use super::{BuildExecutor, BuildState};
use crate::action::{Attempt, new_object};
use crate::lookups::WorkloadParams;
use mosb_reconcile::Problem;
use mosb_reconcile::write::{ApplyError, Target};
use mosb_types::ErrorClass;
use mosb_workload::{Input, JobRequest, Workload, account_before, inputs};

/// Inputs of a workload that are created at once.
const CREATIONS: usize = 8;

impl BuildExecutor {
    fn request(&self, attempt: &Attempt, build: &BuildState) -> Result<JobRequest, ApplyError> {
        let Some(plan) = &build.plan else {
            return Err(ApplyError::Problem(Problem {
                class: ErrorClass::Internal,
                reason: "internal".to_owned(),
                message: format!("{}: no plan for the workload", build.config),
            }));
        };
        let params = WorkloadParams {
            build_uid: &attempt.build_uid,
            config: &build.config,
            attempt: attempt.number,
            builder: attempt.builder,
            method: attempt.method,
            prepared: attempt.prepared,
            user_namespaces: build.facts.user_namespaces,
            builder_image: self.builder_image.as_deref(),
            security_context_constraints: self.security_context_constraints,
        };
        plan.workload_request(&params, &self.cache).map_err(ApplyError::Problem)
    }

    pub(super) async fn create_workload(
        &self,
        attempt: &Attempt,
        build: &BuildState,
    ) -> Result<(), ApplyError> {
        let request = self.request(attempt, build)?;
        let workload = Workload::new(&request);
        if let Workload::Pod(_) = workload {
            let account = Input::ServiceAccount(account_before(&request));
            self.writes.create(&new_object::input(&account)).await?;
        }
        self.writes.create(&new_object::workload(&workload)).await
    }

    pub(super) async fn create_inputs(
        &self,
        attempt: &Attempt,
        workload: &Target,
        build: &BuildState,
    ) -> Result<(), ApplyError> {
        let inputs = inputs(&self.request(attempt, build)?, &workload.uid);
        // Create all of them: one failure must not delay the others.
        let mut done = Ok(());
        for inputs in in_order(inputs) {
            // An input may have a MiB: few are in memory as JSON and as bytes too.
            let creations = stream::iter(inputs).map(|input| async move {
                let new = new_object::input(&input);
                drop(input);
                self.writes.create(&new).await
            });
            let mut created = pin!(creations.buffered(CREATIONS));
            while let Some(created) = created.next().await {
                done = done.and(created);
            }
        }
        done
    }
}

/// What is created at once, and what follows: the API server rejects a RoleBinding until its Role
/// exists.
fn in_order(inputs: Vec<Input>) -> [Vec<Input>; 2] {
    let is_binding = |input: &Input| matches!(input, Input::RoleBinding(_));
    let (bindings, others) = inputs.into_iter().partition(is_binding);
    [others, bindings]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_binding_is_created_after_its_role() {
        let inputs = [
            Input::RoleBinding(Default::default()),
            Input::ServiceAccount(Default::default()),
            Input::Role(Default::default()),
        ];
        let [first, second] = in_order(inputs.into());
        assert!(matches!(first[..], [Input::ServiceAccount(_), Input::Role(_)]));
        assert!(matches!(second[..], [Input::RoleBinding(_)]));
    }
}
