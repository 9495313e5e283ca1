//! The Job of a build, and what its pod needs.

use std::fmt::Debug;

use futures_util::future::join_all;
use hyper::header::{ACCEPT, HeaderValue};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Patch, PropagationPolicy};
use kube::core::{PartialObjectMeta, Request};
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::super::answer::Wish;
use super::super::{Error, error};
use super::write::{controlled_by, delete_params, deleted, patch, post};
use super::{Acting, Round, Stopped, stopped};
use crate::api::labels;
use crate::backend::job::{self, Input, InputKind, JobMethod, JobRequest};
use crate::report::Class;

/// As the API calls an object without what is in it.
const ONLY_METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

impl Acting {
    fn own<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.stores.namespace)
    }

    fn request(
        &self,
        build_uid: &str,
        attempt: u32,
        method: JobMethod,
        round: &Round<'_>,
    ) -> Result<JobRequest, Stopped> {
        let Some(kept) = &round.kept else {
            return Err(Stopped::Problem(super::Problem {
                class: Class::Bug,
                reason: "internal".to_owned(),
                message: format!("{}: a Job was decided without a plan", round.config),
            }));
        };
        let wish = Wish {
            build_uid,
            config: round.config,
            attempt,
            method,
            user_namespaces: round.facts.user_namespaces,
            builder_image: self.builder_image.as_deref(),
        };
        kept.request(&wish, &self.stores).map_err(Stopped::Problem)
    }

    pub(super) async fn create_job(
        &self,
        build_uid: &str,
        attempt: u32,
        method: JobMethod,
        round: &mut Round<'_>,
    ) -> Result<(), Stopped> {
        let new = job::job(&self.request(build_uid, attempt, method, round)?);
        let name = new.name_any();
        let object = format!("job {}/{name}", self.stores.namespace);
        let api = self.own::<Job>();
        match api.create(&post(), &new).await {
            Ok(made) => {
                round.created.extend(made.metadata.uid);
                Ok(())
            }
            Err(error) if error::is_conflict(&error) => {
                let there = api.get_opt(&name).await;
                let there = there.map_err(Error::api(object.clone(), "get"))?;
                match there {
                    Some(there)
                        if controlled_by(&there.metadata, build_uid)
                            && there.annotations().get(labels::ATTEMPT)
                                == new.annotations().get(labels::ATTEMPT) =>
                    {
                        Ok(())
                    }
                    // Of an attempt before, or of a build before, on its way out.
                    Some(there) if there.labels().contains_key(labels::EPHEMERAL_BUILD_OBJECT) => {
                        Err(Stopped::Stale(object))
                    }
                    None => Err(Stopped::Stale(object)),
                    Some(_) => Err(Error::NotOurs { object }.into()),
                }
            }
            Err(error) => Err(Error::api(object, "create")(error).into()),
        }
    }

    pub(super) async fn create_inputs(
        &self,
        build_uid: &str,
        job_uid: &str,
        attempt: u32,
        method: JobMethod,
        round: &mut Round<'_>,
    ) -> Result<(), Stopped> {
        let request = self.request(build_uid, attempt, method, round)?;
        let inputs = job::inputs(&request, job_uid);
        drop(request);
        let creating = inputs.iter().map(|input| self.create_input(input, job_uid));
        // All of them, so that one which fails does not hold up the others.
        let mut done = Ok(());
        for made in join_all(creating).await {
            match made {
                Ok(uid) => round.created.extend(uid),
                Err(stopped) => done = done.and(Err(stopped)),
            }
        }
        done
    }

    /// The UID of what was created; none if it is there already.
    async fn create_input(&self, input: &Input, job_uid: &str) -> Result<Option<String>, Stopped> {
        let kind = input.kind().as_str();
        match input {
            Input::ConfigMap(object) => self.create_owned(kind, object, job_uid).await,
            Input::Secret(object) => self.create_owned(kind, object, job_uid).await,
            Input::ServiceAccount(object) => self.create_owned(kind, object, job_uid).await,
            Input::Role(object) => self.create_owned(kind, object, job_uid).await,
            Input::RoleBinding(object) => self.create_owned(kind, object, job_uid).await,
        }
    }

    async fn create_owned<K>(
        &self,
        kind: &str,
        new: &K,
        job_uid: &str,
    ) -> Result<Option<String>, Stopped>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let name = new.name_any();
        let object = format!("{} {}/{name}", kind.to_lowercase(), self.stores.namespace);
        let api = self.own::<K>();
        match self.create_large(new).await {
            Ok(made) => Ok(made.metadata.uid),
            Err(error) if error::is_conflict(&error) => {
                let there = api.get_metadata_opt(&name).await;
                let there = there.map_err(Error::api(object.clone(), "get"))?;
                let Some(there) = there else {
                    return Err(Stopped::Stale(object));
                };
                let mut owners = there.metadata.owner_references.iter().flatten();
                let ours = owners.any(|owner| owner.uid == job_uid);
                let leftover = there.labels().contains_key(labels::EPHEMERAL_BUILD_OBJECT);
                match (ours, leftover) {
                    (true, _) => Ok(None),
                    (false, true) => Err(Stopped::Stale(object)),
                    (false, false) => Err(Error::NotOurs { object }.into()),
                }
            }
            Err(error) => Err(Error::api(object, "create")(error).into()),
        }
    }

    /// Creates it, and has only the metadata sent back: what was sent is known, and may be large.
    async fn create_large<K>(&self, new: &K) -> Result<PartialObjectMeta<K>, kube::Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Serialize,
    {
        let body = serde_json::to_vec(new).map_err(kube::Error::SerdeError)?;
        let path = K::url_path(&(), Some(&self.stores.namespace));
        let request = Request::new(path).create(&post(), body);
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        let accept = HeaderValue::from_static(ONLY_METADATA);
        request.headers_mut().insert(ACCEPT, accept);
        self.client.request(request).await
    }

    pub(super) async fn unsuspend(
        &self,
        name: &str,
        version: &str,
        round: &mut Round<'_>,
    ) -> Result<(), Stopped> {
        let change =
            json!({ "metadata": { "resourceVersion": version }, "spec": { "suspend": false } });
        let api = self.own::<Job>();
        let written = api.patch(name, &patch(), &Patch::Merge(&change)).await;
        let object = format!("job {}/{name}", self.stores.namespace);
        round.wrote(&written.map_err(stopped(object, "patch"))?.metadata);
        Ok(())
    }

    pub(super) async fn delete_job(&self, name: &str, uid: &str) -> Result<(), Stopped> {
        let params = delete_params(uid, PropagationPolicy::Background);
        let answer = self.own::<Job>().delete(name, &params).await;
        deleted(format!("job {}/{name}", self.stores.namespace), answer)
    }

    pub(super) async fn delete_input(
        &self,
        kind: InputKind,
        name: &str,
        uid: &str,
    ) -> Result<(), Stopped> {
        match kind {
            InputKind::ConfigMap => self.delete_own::<ConfigMap>(kind, name, uid).await,
            InputKind::Secret => self.delete_own::<Secret>(kind, name, uid).await,
            InputKind::ServiceAccount => self.delete_own::<ServiceAccount>(kind, name, uid).await,
            InputKind::Role => self.delete_own::<Role>(kind, name, uid).await,
            InputKind::RoleBinding => self.delete_own::<RoleBinding>(kind, name, uid).await,
        }
    }

    async fn delete_own<K>(&self, kind: InputKind, name: &str, uid: &str) -> Result<(), Stopped>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let params = delete_params(uid, PropagationPolicy::Background);
        let answer = self.own::<K>().delete(name, &params).await;
        let kind = kind.as_str().to_lowercase();
        deleted(format!("{kind} {}/{name}", self.stores.namespace), answer)
    }
}
