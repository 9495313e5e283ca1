//! Resolves lookups: what would be built, whether a registry has an image, and others. One of them writes:
//! it signs an image while the Lease is held, and does again what is missing.
//!
//! A plan is cached here, with the credentials that it was made with, for the actions that follow.
//! Credentials never enter a snapshot or a log.

mod build_request;
mod builders;
mod direct_image;
mod draft_again;
mod existing_image;
mod image_checks;
mod os_change;
mod os_packages;
mod packages;
mod plan;
mod recognise;
mod sign;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

use super::lookup::{ImageStatus, Lookup, PlanLookup, Planned, Pull, RequiredPolicy, Signed};
use super::observe::result_in;
use super::snapshot::Snapshot;
use mosb_api::image_checks::CheckName;
use mosb_api::{BuildName, ClusterSettings, RenderedName};
use mosb_build::{JobResult, with_policy_of};
use mosb_cluster::resolver::{
    LookupError, LookupPermit, MAX_PLAN_HOLD, Resolver, get_rendered_config, invalid_input,
    while_held,
};
use mosb_image::PinnedRef;
use mosb_plan::image_checks::Verdict;
use mosb_reconcile::{Error, Problem};
use mosb_registry::Confirmed;
use mosb_types::ErrorClass;
use mosb_workload::result_name;
pub use plan::{CachedPlan, WorkloadParams};
pub use sign::Signer;

/// Stores the results of all lookups in the snapshot. The plan is stored in `cached`; if the
/// one in there is still valid, it is reused. `expected`: hosts that the plan is known to use.
///
/// # Errors
/// The hosts whose limit is reached.
pub async fn resolve(
    resolver: &Resolver,
    signer: &Signer,
    lookups: &[Lookup],
    snapshot: &mut Snapshot,
    cached: &mut Option<Arc<CachedPlan>>,
    expected: &BTreeSet<String>,
) -> Result<(), BTreeSet<String>> {
    let is_retry = snapshot.earlier_problem.is_some();
    let results = lookups.iter().map(|lookup| async {
        match lookup {
            Lookup::Plan(lookup) => {
                let plan = plan_of(resolver, lookup, cached.as_ref(), is_retry, expected).await;
                LookupResult::Plan(plan.map(|plan| Box::new((plan.planned_for(lookup), plan))))
            }
            Lookup::Exists { image, secret, pull, policy } => {
                let asked = confirm(resolver, image, secret, pull, policy);
                let found = resolver.limits.with_timeout(|| image.to_string(), asked).await;
                LookupResult::Exists(image.clone(), found)
            }
            Lookup::Existing(lookup) => {
                let asked = Box::pin(existing_image::find(resolver, lookup));
                let what = || format!("{}:{}", lookup.plan.push, lookup.build.tag());
                let found = resolver.limits.with_timeout(what, asked).await;
                LookupResult::Existing(lookup.build.clone(), found)
            }
            Lookup::Checks(lookup) => {
                let asked = image_checks::verdicts(resolver, lookup);
                let what = || format!("checks of {}", lookup.image);
                let found = resolver.limits.with_timeout(what, asked).await;
                LookupResult::Checks(lookup.image.clone(), found)
            }
            Lookup::Sign(lookup) => {
                let asked = Box::pin(signer.sign(resolver, lookup));
                let what = || format!("signature of {}", lookup.image);
                // It is planned again, layers are read, and documents are written.
                let signed = resolver.limits.with_timeouts(3, what, asked).await;
                LookupResult::Sign(lookup.image.clone(), signed)
            }
            Lookup::OsImage { rendered } => {
                let asked = async { Ok(get_rendered_config(resolver, rendered.as_str()).await?) };
                let what = || format!("machineconfig {rendered}");
                let named = resolver.limits.with_timeout(what, asked).await;
                let named = named.map(|config| config.os_image_url.unwrap_or_default());
                LookupResult::OsImage(rendered.clone(), named)
            }
            Lookup::Result { build } => {
                let asked = async { Ok(result(resolver, build).await?) };
                let what = || format!("configmap of machineosbuild {build}");
                let found = resolver.limits.with_timeout(what, asked).await;
                LookupResult::Result(build.clone(), found)
            }
        }
    });
    for answer in join_all(results).await {
        match answer {
            LookupResult::Plan(Ok(planned)) => {
                let (planned, plan) = *planned;
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
                    Err(error) => ImageStatus::Unknown(error.into_problem()?),
                };
                snapshot.lookup_results.exists.insert(image, status);
            }
            LookupResult::Existing(build, found) => {
                // The build goes on without the answer, so it does not wait for other lookups either.
                let found = found.map_err(|error| {
                    error.into_problem().unwrap_or_else(|hosts| Problem::of_busy(&hosts))
                });
                if let Err(Problem { reason, message, .. }) = &found {
                    tracing::info!(
                        reason,
                        "{build}: it is not known whether the registry has its image already, so a Job builds it: {message}"
                    );
                }
                snapshot.lookup_results.existing.insert(build, found);
            }
            LookupResult::Checks(image, found) => {
                let found = match found {
                    Ok(found) => Ok(found),
                    Err(error) => Err(error.into_problem()?),
                };
                snapshot.lookup_results.checks.insert(image, found);
            }
            LookupResult::Sign(image, signed) => {
                let signed = match signed {
                    Ok(signed) => Ok(signed),
                    Err(error) => Err(error.into_problem()?),
                };
                snapshot.lookup_results.signed.insert(image, signed);
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

async fn plan_of(
    resolver: &Resolver,
    lookup: &PlanLookup,
    cached: Option<&Arc<CachedPlan>>,
    is_retry: bool,
    expected: &BTreeSet<String>,
) -> Result<Arc<CachedPlan>, LookupError> {
    if let Some(cached) = cached
        && cached.still_valid_for(lookup, &resolver.cache)
    {
        return Ok(Arc::clone(cached));
    }
    let plan_permit = resolver.limits.plan(is_retry).await?;
    let permit = resolver.limits.hosts(LookupPermit::default(), expected.clone()).await?;
    let step = Mutex::new("reading its inputs".to_owned());
    let what = || {
        let step = step.lock().unwrap_or_else(PoisonError::into_inner);
        format!("machineconfig {}: {step}", lookup.rendered)
    };
    let planning = Box::pin(plan::plan(resolver, lookup, permit, &step));
    let planned = while_held(plan_permit, MAX_PLAN_HOLD, planning);
    resolver.limits.with_timeout(what, planned).await.map(Arc::new)
}

/// The image, if the registry has it and the policy accepts it.
async fn confirm(
    resolver: &Resolver,
    image: &PinnedRef,
    secret: &str,
    pull: &Pull,
    policy: &RequiredPolicy,
) -> Result<Option<Confirmed<PinnedRef>>, LookupError> {
    let host = image.repo().host().to_owned();
    let _permit = resolver.limits.hosts(LookupPermit::default(), [host].into()).await?;
    let settings = resolver.settings().map_err(unknown_image)?;
    let asked = async {
        let proxy = resolver.proxy(&settings).await?;
        let own = match pull {
            Pull::Not => None,
            Pull::Global => Some(None),
            Pull::Own(own) => Some(Some(own.as_str())),
        };
        let mut logins = resolver.secret(secret).await?;
        if let Some(own) = own {
            let pull = resolver.pull_secret(own, &settings).await?;
            logins.credentials = logins.credentials.over(&pull.credentials);
        }
        let registry_client = resolver.registries.open(&logins, &settings, proxy.as_ref())?;
        let confirmed = registry_client.client().confirm(image).await?;
        Ok::<_, Problem>((confirmed, logins, proxy))
    };
    let (confirmed, logins, proxy) = asked.await.map_err(unknown_image)?;
    let rendered = match policy {
        RequiredPolicy::Unchecked => return Ok(confirmed),
        RequiredPolicy::Settings => None,
        RequiredPolicy::Pool(rendered) => Some(rendered),
    };
    if confirmed.is_some() {
        let settings = pool_settings(resolver, settings, rendered).await?;
        let registry_client = resolver.registries.open(&logins, &settings, proxy.as_ref())?;
        registry_client.client().check_image(&image.clone().into()).await?;
    }
    Ok(confirmed)
}

/// The settings with the policy of the rendered config of a pool, if it has one yet, beside their own.
async fn pool_settings(
    resolver: &Resolver,
    settings: ClusterSettings,
    rendered: Option<&RenderedName>,
) -> Result<ClusterSettings, Problem> {
    match rendered {
        Some(rendered) => {
            let config = get_rendered_config(resolver, rendered.as_str()).await?;
            Ok(with_policy_of(settings, &config)?)
        }
        None => Ok(settings),
    }
}

/// Reads the ConfigMap of a build's result from the API server.
async fn result(resolver: &Resolver, build: &BuildName) -> Result<Option<JobResult>, Problem> {
    let api: Api<ConfigMap> = Api::namespaced(resolver.client.clone(), &resolver.cache.namespace);
    let name = result_name(build);
    let object = format!("configmap {}/{name}", resolver.cache.namespace);
    let map = api.get_opt(&name).await.map_err(Error::api(object, "get"))?;
    Ok(map.as_ref().and_then(result_in))
}

enum LookupResult {
    Plan(Result<Box<(Planned, Arc<CachedPlan>)>, LookupError>),
    Exists(PinnedRef, Result<Option<Confirmed<PinnedRef>>, LookupError>),
    Existing(BuildName, Result<Option<Confirmed<PinnedRef>>, LookupError>),
    Checks(PinnedRef, Result<Vec<(CheckName, Verdict)>, LookupError>),
    Sign(PinnedRef, Result<Signed, LookupError>),
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
