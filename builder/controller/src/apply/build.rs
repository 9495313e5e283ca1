//! Creates and deletes workloads and their inputs.

use std::fmt::Debug;

use futures_util::future::join_all;
use hyper::header::{ACCEPT, HeaderValue};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{ObjectMeta, Patch, PropagationPolicy};
use kube::core::{PartialObjectMeta, Request};
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::write::{controlled_by, delete_params, ignore_not_found, patch_params, post_params};
use super::{ApplyError, Executor, ReconcilePass, apply_error};
use crate::lookups::WorkloadParams;
use crate::workload;
use crate::workload::Input;
use crate::workload::InputKind;
use crate::workload::JobRequest;
use crate::workload::Workload;
use crate::workload::release;
use crate::{Error, error};
use mosb_build::JobMethod;
use mosb_plan::api::openshift_build::OpenShiftBuild;
use mosb_plan::api::{ImageBuilderType, labels};
use mosb_types::ErrorClass;

/// A namespaced kind that builds use.
trait NamespacedKind:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
{
}

impl<K> NamespacedKind for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
{
}
/// Media type of an object's metadata without its contents.
const ONLY_METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

impl Executor {
    fn namespaced<K: NamespacedKind>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.cache.namespace)
    }

    /// Kind, namespace and name, for messages.
    fn describe<K: NamespacedKind>(&self, name: &str) -> String {
        let kind = K::kind(&()).to_lowercase();
        format!("{kind} {}/{name}", self.cache.namespace)
    }

    fn request(
        &self,
        build_uid: &str,
        attempt: u32,
        (builder, method): (ImageBuilderType, JobMethod),
        pass: &ReconcilePass,
    ) -> Result<JobRequest, ApplyError> {
        let Some(plan) = &pass.plan else {
            return Err(ApplyError::Problem(super::Problem {
                class: ErrorClass::Internal,
                reason: "internal".to_owned(),
                message: format!("{}: no plan for the workload", pass.config),
            }));
        };
        let params = WorkloadParams {
            build_uid,
            config: &pass.config,
            attempt,
            builder,
            method,
            user_namespaces: pass.facts.user_namespaces,
            builder_image: self.builder_image.as_deref(),
            security_context_constraints: self.security_context_constraints,
        };
        plan.workload_request(&params, &self.cache).map_err(ApplyError::Problem)
    }

    pub(super) async fn create_workload(
        &self,
        build_uid: &str,
        attempt: u32,
        how: (ImageBuilderType, JobMethod),
        pass: &ReconcilePass,
    ) -> Result<(), ApplyError> {
        let request = self.request(build_uid, attempt, how, pass)?;
        match Workload::new(&request) {
            Workload::Job(job) => self.create_controlled(&*job, build_uid).await,
            Workload::Pod(pod) => {
                let account = workload::account_before(&request);
                self.create_owned(&account, build_uid).await?;
                self.create_controlled(&*pod, build_uid).await
            }
            Workload::Build(build) => self.create_controlled(&*build, build_uid).await,
        }
    }

    /// It may exist already.
    async fn create_controlled<K: NamespacedKind>(
        &self,
        new: &K,
        build_uid: &str,
    ) -> Result<(), ApplyError> {
        let name = new.name_any();
        let object = self.describe::<K>(&name);
        let api = self.namespaced::<K>();
        match api.create(&post_params(), new).await {
            Ok(made) => {
                self.record_create(made.meta(), build_uid);
                Ok(())
            }
            Err(error) if error::is_conflict(&error) => {
                let there = api.get_metadata_opt(&name).await;
                let there = there.map_err(Error::api(object.clone(), "get"))?;
                match there {
                    Some(there)
                        if controlled_by(&there.metadata, build_uid)
                            && there.annotations().get(labels::ATTEMPT)
                                == new.annotations().get(labels::ATTEMPT) =>
                    {
                        Ok(())
                    }
                    // It belongs to an earlier attempt or build and is being deleted.
                    Some(there) if there.labels().contains_key(labels::EPHEMERAL_BUILD_OBJECT) => {
                        Err(ApplyError::Conflict(object))
                    }
                    None => Err(ApplyError::Conflict(object)),
                    Some(_) => Err(Error::NotOurs { object }.into()),
                }
            }
            Err(error) => Err(Error::api(object, "create")(error).into()),
        }
    }

    pub(super) async fn create_inputs(
        &self,
        build_uid: &str,
        uid: &str,
        attempt: u32,
        how: (ImageBuilderType, JobMethod),
        pass: &ReconcilePass,
    ) -> Result<(), ApplyError> {
        let request = self.request(build_uid, attempt, how, pass)?;
        let inputs = workload::inputs(&request, uid);
        drop(request);
        let creating = inputs.iter().map(|input| self.create_input(input, uid));
        // Create all of them: one failure must not delay the others.
        let mut done = Ok(());
        for made in join_all(creating).await {
            done = done.and(made);
        }
        done
    }

    /// It may exist already.
    async fn create_input(&self, input: &Input, workload_uid: &str) -> Result<(), ApplyError> {
        match input {
            Input::ConfigMap(object) => self.create_owned(object, workload_uid).await,
            Input::Secret(object) => self.create_owned(object, workload_uid).await,
            Input::ServiceAccount(object) => self.create_owned(object, workload_uid).await,
            Input::Role(object) => self.create_owned(object, workload_uid).await,
            Input::RoleBinding(object) => self.create_owned(object, workload_uid).await,
        }
    }

    async fn create_owned<K: NamespacedKind>(
        &self,
        new: &K,
        workload_uid: &str,
    ) -> Result<(), ApplyError> {
        let name = new.name_any();
        let object = self.describe::<K>(&name);
        let api = self.namespaced::<K>();
        match self.create_large(new).await {
            Ok(made) => {
                self.record_create(&made.metadata, workload_uid);
                Ok(())
            }
            Err(error) if error::is_conflict(&error) => {
                let there = api.get_metadata_opt(&name).await;
                let there = there.map_err(Error::api(object.clone(), "get"))?;
                let Some(there) = there else {
                    return Err(ApplyError::Conflict(object));
                };
                let mut owners = there.metadata.owner_references.iter().flatten();
                let ours = owners.any(|owner| owner.uid == workload_uid);
                let leftover = there.labels().contains_key(labels::EPHEMERAL_BUILD_OBJECT);
                match (ours, leftover) {
                    (true, _) => Ok(()),
                    (false, true) => Err(ApplyError::Conflict(object)),
                    (false, false) => Err(Error::NotOurs { object }.into()),
                }
            }
            Err(error) => Err(Error::api(object, "create")(error).into()),
        }
    }

    /// Requests only the metadata in the response, because the object may be large.
    async fn create_large<K>(&self, new: &K) -> Result<PartialObjectMeta<K>, kube::Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Serialize,
    {
        let body = serde_json::to_vec(new).map_err(kube::Error::SerdeError)?;
        let path = K::url_path(&(), Some(&self.cache.namespace));
        let request = Request::new(path).create(&post_params(), body);
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        let accept = HeaderValue::from_static(ONLY_METADATA);
        request.headers_mut().insert(ACCEPT, accept);
        self.client.request(request).await
    }

    pub(super) async fn unsuspend(
        &self,
        builder: ImageBuilderType,
        name: &str,
        version: &str,
        pass: &mut ReconcilePass,
    ) -> Result<(), ApplyError> {
        let Some(spec) = release(builder) else {
            return Ok(());
        };
        let change = json!({ "metadata": { "resourceVersion": version }, "spec": spec });
        let written = match builder {
            ImageBuilderType::Job => self.change::<Job>(name, &change).await,
            ImageBuilderType::CustomPod => self.change::<Pod>(name, &change).await,
            ImageBuilderType::OpenShiftImage => self.change::<OpenShiftBuild>(name, &change).await,
        };
        self.record_write(pass, version, &written?);
        Ok(())
    }

    async fn change<K: NamespacedKind>(
        &self,
        name: &str,
        change: &Value,
    ) -> Result<ObjectMeta, ApplyError> {
        let api = self.namespaced::<K>();
        let written = api.patch(name, &patch_params(), &Patch::Strategic(change)).await;
        let written = written.map_err(apply_error(self.describe::<K>(name), "patch"))?;
        Ok(written.meta().clone())
    }

    pub(super) async fn delete_workload(
        &self,
        builder: ImageBuilderType,
        name: &str,
        uid: &str,
    ) -> Result<(), ApplyError> {
        match builder {
            ImageBuilderType::Job => self.delete_own::<Job>(name, uid).await,
            ImageBuilderType::CustomPod => self.delete_own::<Pod>(name, uid).await,
            ImageBuilderType::OpenShiftImage => self.delete_own::<OpenShiftBuild>(name, uid).await,
        }
    }

    pub(super) async fn delete_input(
        &self,
        kind: InputKind,
        name: &str,
        uid: &str,
    ) -> Result<(), ApplyError> {
        match kind {
            InputKind::ConfigMap => self.delete_own::<ConfigMap>(name, uid).await,
            InputKind::Secret => self.delete_own::<Secret>(name, uid).await,
            InputKind::ServiceAccount => self.delete_own::<ServiceAccount>(name, uid).await,
            InputKind::Role => self.delete_own::<Role>(name, uid).await,
            InputKind::RoleBinding => self.delete_own::<RoleBinding>(name, uid).await,
        }
    }

    async fn delete_own<K: NamespacedKind>(&self, name: &str, uid: &str) -> Result<(), ApplyError> {
        let params = delete_params(uid, PropagationPolicy::Background);
        let answer = self.namespaced::<K>().delete(name, &params).await;
        ignore_not_found(self.describe::<K>(name), answer)
    }
}
