//! Creates workloads and their inputs from the plan of the build.

use futures_util::future::join_all;

use super::{BuildExecutor, BuildState};
use crate::action::{Attempt, new_object};
use crate::lookups::WorkloadParams;
use crate::workload::{Input, JobRequest, Workload, account_before, inputs};
use mosb_reconcile::write::{ApplyError, NewObject, Target};
use mosb_reconcile::{Kind, Problem};
use mosb_types::ErrorClass;

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
        let inputs: Vec<_> = inputs.iter().map(new_object::input).collect();
        // Create all of them: one failure must not delay the others.
        let mut done = Ok(());
        for inputs in in_order(inputs) {
            for created in join_all(inputs.iter().map(|input| self.writes.create(input))).await {
                done = done.and(created);
            }
        }
        done
    }
}

/// What is created at once, and what follows: the API server rejects a RoleBinding until its Role
/// exists.
fn in_order(inputs: Vec<NewObject>) -> [Vec<NewObject>; 2] {
    let (bindings, others) = inputs.into_iter().partition(|one| one.kind == Kind::RoleBinding);
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
        let inputs = inputs.iter().map(new_object::input).collect();
        let [first, second] = in_order(inputs);
        let kinds = |of: &[NewObject]| of.iter().map(|one| one.kind).collect::<Vec<_>>();
        assert_eq!(kinds(&first), [Kind::ServiceAccount, Kind::Role]);
        assert_eq!(kinds(&second), [Kind::RoleBinding]);
    }
}
