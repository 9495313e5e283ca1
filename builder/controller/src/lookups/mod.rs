//! Resolves lookups: what would be built, whether a registry has an image, and others.
//!
//! A plan is cached here, with the credentials that it was made with, for the actions that follow.
//! Credentials never enter a snapshot or a log.

mod build_request;
mod builders;
mod limits;
mod machine_image;
mod machine_part;
mod new_machine;
mod os_change;
mod packages;
mod plan;
mod pool_policy;
mod recognise;
mod registry_client_pool;
mod rendered_config;
mod secrets;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use super::Error;
use super::cluster_cache::ClusterCache;
use super::lookup::{ImageStatus, Lookup, PlanLookup, Planned, Pull};
use super::observe::result_in;
use super::snapshot::Snapshot;
use crate::workload::result_name;
pub use limits::{LookupError, LookupLimits, LookupPermit};
use limits::{MAX_PLAN_HOLD, while_held};
pub(crate) use machine_image::{MachineAccess, MachineSecrets};
pub(crate) use machine_part::machine_part_changed;
use mosb_build::JobResult;
use mosb_image::{Digest, ImageRef, PinnedRef};
use mosb_plan::api::{BuildName, ClusterSettings, RenderedName};
use mosb_reconcile::Problem;
use mosb_registry::Confirmed;
use mosb_types::ErrorClass;
pub use plan::{CachedPlan, WorkloadParams};
pub use registry_client_pool::RegistryClientPool;

/// Resolves lookups.
#[derive(Clone)]
pub struct Resolver {
    pub client: Client,
    pub cache: Arc<ClusterCache>,
    pub registries: Arc<RegistryClientPool>,
    pub limits: Arc<LookupLimits>,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl Resolver {
    /// Stores the results of all lookups in the snapshot. The plan is stored in `cached`; if the
    /// one in there is still valid, it is reused. `expected`: hosts that the plan is known to use.
    ///
    /// # Errors
    /// The hosts whose limit is reached.
    pub async fn resolve(
        &self,
        lookups: &[Lookup],
        snapshot: &mut Snapshot,
        cached: &mut Option<Arc<CachedPlan>>,
        expected: &BTreeSet<String>,
    ) -> Result<(), BTreeSet<String>> {
        let is_retry = snapshot.earlier_problem.is_some();
        let results = lookups.iter().map(|lookup| async {
            match lookup {
                Lookup::Plan(lookup) => {
                    let plan = self.plan(lookup, cached.as_ref(), is_retry, expected).await;
                    LookupResult::Plan(plan.map(|plan| (plan.planned_for(lookup), plan)))
                }
                Lookup::Exists { image, secret, pull } => {
                    let asked = self.confirm(image, secret, pull);
                    let found = self.limits.with_timeout(|| image.to_string(), asked).await;
                    LookupResult::Exists(image.clone(), found)
                }
                Lookup::OsImage { rendered } => {
                    let asked = async {
                        Ok(rendered_config::get_rendered_config(self, rendered.as_str()).await?)
                    };
                    let what = || format!("machineconfig {rendered}");
                    let named = self.limits.with_timeout(what, asked).await;
                    let named = named.map(|config| config.os_image_url.unwrap_or_default());
                    LookupResult::OsImage(rendered.clone(), named)
                }
                Lookup::Result { build } => {
                    let asked = async { Ok(self.result(build).await?) };
                    let what = || format!("configmap of machineosbuild {build}");
                    let found = self.limits.with_timeout(what, asked).await;
                    LookupResult::Result(build.clone(), found)
                }
            }
        });
        for answer in join_all(results).await {
            match answer {
                LookupResult::Plan(Ok((planned, plan))) => {
                    snapshot.lookup_results.plan = Some(Ok(planned));
                    *cached = Some(plan);
                }
                LookupResult::Plan(Err(error)) => {
                    let problem = error.into_problem()?;
                    tracing::debug!(reason = problem.reason, "no plan: {}", problem.message);
                    snapshot.lookup_results.plan = Some(Err(problem));
                }
                LookupResult::Exists(image, found) => {
                    let status = match found {
                        Ok(Some(confirmed)) => ImageStatus::Present(confirmed),
                        Ok(None) => ImageStatus::Missing,
                        Err(error) => ImageStatus::Unknown(unknown_image(error.into_problem()?)),
                    };
                    snapshot.lookup_results.exists.insert(image, status);
                }
                LookupResult::OsImage(rendered, named) => {
                    let named = match named {
                        Ok(named) => Ok(named),
                        Err(error) => Err(error.into_problem()?),
                    };
                    snapshot.lookup_results.os_image.insert(rendered, named);
                }
                LookupResult::Result(build, result) => {
                    let result = match result {
                        Ok(result) => Ok(result),
                        Err(error) => Err(error.into_problem()?),
                    };
                    snapshot.lookup_results.results.insert(build, result);
                }
            }
        }
        Ok(())
    }

    async fn plan(
        &self,
        lookup: &PlanLookup,
        cached: Option<&Arc<CachedPlan>>,
        is_retry: bool,
        expected: &BTreeSet<String>,
    ) -> Result<Arc<CachedPlan>, LookupError> {
        if let Some(cached) = cached
            && cached.still_valid_for(lookup, &self.cache)
        {
            return Ok(Arc::clone(cached));
        }
        let plan_permit = self.limits.plan(is_retry).await?;
        let permit = self.limits.hosts(LookupPermit::default(), expected.clone()).await?;
        let step = Mutex::new("reading its inputs".to_owned());
        let what = || {
            let step = step.lock().unwrap_or_else(PoisonError::into_inner);
            format!("machineconfig {}: {step}", lookup.rendered)
        };
        let planning = Box::pin(plan::plan(self, lookup, permit, &step));
        let planned = while_held(plan_permit, MAX_PLAN_HOLD, planning);
        self.limits.with_timeout(what, planned).await.map(Arc::new)
    }

    async fn confirm(
        &self,
        image: &PinnedRef,
        secret: &str,
        pull: &Pull,
    ) -> Result<Option<Confirmed<PinnedRef>>, LookupError> {
        let host = image.repo().host().to_owned();
        let _permit = self.limits.hosts(LookupPermit::default(), [host].into()).await?;
        let settings = self.settings()?;
        let proxy = self.proxy(&settings).await?;
        let own = match pull {
            Pull::Not => None,
            Pull::Global => Some(None),
            Pull::Own(own) => Some(Some(own.as_str())),
        };
        let mut secret = self.secret(secret).await?;
        if let Some(own) = own {
            let pull = self.pull_secret(own, &settings).await?;
            secret.credentials = secret.credentials.over(&pull.credentials);
        }
        let registry_client = self.registries.open(&secret, &settings, proxy.as_ref())?;
        Ok(registry_client.client().confirm(image).await?)
    }

    /// Reads the ConfigMap of a build's result from the API server.
    async fn result(&self, build: &BuildName) -> Result<Option<JobResult>, Problem> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.cache.namespace);
        let name = result_name(build);
        let object = format!("configmap {}/{name}", self.cache.namespace);
        let map = api.get_opt(&name).await.map_err(Error::api(object, "get"))?;
        Ok(map.as_ref().and_then(result_in))
    }

    /// The digest that a tag has now.
    pub(super) async fn digest_of(&self, image: &ImageRef) -> Result<Digest, Problem> {
        let settings = self.settings()?;
        let proxy = self.proxy(&settings).await?;
        let pull = self.pull_secret(None, &settings).await?;
        let registry_client = self.registries.open(&pull, &settings, proxy.as_ref())?;
        let digest = registry_client.client().digest_of(image).await?;
        digest.ok_or_else(|| {
            let message = format!("{image}: the registry has no such tag; check the name");
            invalid_input("not-found", message)
        })
    }

    fn settings(&self) -> Result<ClusterSettings, Problem> {
        let (settings, findings) = self.cache.settings()?;
        for finding in findings {
            let object = finding.object.unwrap_or_default();
            tracing::warn!(code = finding.code, "{object}: {}", finding.message);
        }
        Ok(settings)
    }
}

enum LookupResult {
    Plan(Result<(Planned, Arc<CachedPlan>), LookupError>),
    Exists(PinnedRef, Result<Option<Confirmed<PinnedRef>>, LookupError>),
    OsImage(RenderedName, Result<String, LookupError>),
    Result(BuildName, Result<Option<JobResult>, LookupError>),
}

/// Adds to a problem what happens until the status of an image is known.
fn unknown_image(problem: Problem) -> Problem {
    if problem.class == ErrorClass::Transient {
        return problem;
    }
    Problem {
        message: format!(
            "{}; until the registry answers, it is unknown whether the image exists, and nothing is deleted or rebuilt",
            problem.message
        ),
        ..problem
    }
}

/// A problem with user input.
fn invalid_input(reason: &str, message: String) -> Problem {
    Problem { class: ErrorClass::InvalidInput, reason: reason.to_owned(), message }
}
