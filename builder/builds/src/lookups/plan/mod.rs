//! Plans a build, and caches everything that its workload is made from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;

mod workload_request;

use super::build_request::build_request;
use super::os_change::ConfigBefore;
use super::packages::{Copies, copies};
use super::recognise::{self, recognised};
use super::{LookupError, LookupPermit, Resolver, builders, invalid_input};
use crate::lookup::{PlanLookup, Planned};
use crate::observe::machine_role;
use mosb_api::cluster_settings::Proxy;
use mosb_api::{BuildName, ClusterSettings, ImageBuilderType};
use mosb_build::resolve::{self, PlanContext, ResolvedDraft, Unresolved, extensions_source};
use mosb_build::{JobMethod, NamedSecret, with_policy_of};
use mosb_cluster::cluster_cache::{ClusterCache, OPENSHIFT_BUILDS};
use mosb_cluster::resolver::get_rendered_config;
use mosb_image::{ImageRef, PinnedRef, RepoRef};
use mosb_plan::containerfile::{self, Split};
use mosb_plan::payload::{self, BuildSpec, CONTAINERFILE_KEY, PreparedImageUse, TRUST_BUNDLE_KEY};
use mosb_plan::plan::{
    BuildRequest, BuilderNodes, Draft, MethodChoice, Obstacle, Prepared, Reason, machine_part,
};
use mosb_reconcile::Problem;
use mosb_registry::Source;
use mosb_types::Finding;
use mosb_workload::{MachineRole, OpenShiftSource, mounts};

pub use workload_request::WorkloadParams;

/// A plan, and what its workload is made from. Of the rendered config it holds only the payload for
/// the pod, which is a fraction of it. `Debug` shows no credentials.
#[derive(Debug)]
pub struct CachedPlan {
    lookup: PlanLookup,
    planned: Planned,
    workload_spec: WorkloadSpec,
    push: NamedSecret,
    pull: NamedSecret,
    proxy: Option<Proxy>,
    /// Including the signature policy of the pool's machines.
    settings: ClusterSettings,
    /// The signature policy from the settings themselves.
    own_policy: Option<String>,
    /// Copies of the operator's Secrets that its pod mounts.
    copies: Copies,
    /// resourceVersions of what was read.
    versions: Versions,
    /// When Secrets outside the watches were read, if any.
    unwatched: Option<Instant>,
}

/// The parts of a plan that its workload needs.
#[derive(Debug)]
struct WorkloadSpec {
    payload: Result<(Vec<payload::ConfigMap>, Option<OpenShiftSource>), Problem>,
    /// Without what earlier builds recorded.
    spec: BuildSpec,
    /// Repositories to pull from, besides the base's.
    pulled: Vec<RepoRef>,
}

/// How long Secrets outside the watches are cached.
const UNWATCHED_SECRET_TTL: Duration = Duration::from_secs(30);

/// resourceVersions of the plan's inputs, by name in the stores.
type Versions = BTreeMap<String, Option<String>>;

/// Plans. `step` is set to the current step, for timeouts.
pub(super) async fn plan(
    resolver: &Resolver,
    lookup: &PlanLookup,
    permit: LookupPermit,
    step: &Mutex<String>,
) -> Result<CachedPlan, LookupError> {
    let versions = versions(lookup, &resolver.cache);
    let unwatched = resolver.cache.has_unwatched_secrets().then(Instant::now);
    let settings = resolver.settings()?;
    let serves_builds = resolver.cache.watch_health.is_served(OPENSHIFT_BUILDS);
    builders::permitted(lookup.builder, &settings, serves_builds)?;
    let own = lookup.pull_secret.as_deref();
    let (config, push, pull, proxy) = futures_util::try_join!(
        get_rendered_config(resolver, lookup.rendered.as_str()),
        resolver.secret(&lookup.push_secret),
        resolver.pull_secret(own, &settings),
        resolver.proxy(&settings),
    )?;
    let own_policy = settings.signature_policy.clone();
    let settings = with_policy_of(settings, &config)?;
    let registry_client = resolver.registries.open(&pull, &settings, proxy.as_ref())?;
    // The config is large, so it is moved.
    let is_rendering = resolver.cache.rendering;
    let build_request = build_request(lookup, config, &settings, is_rendering)?;
    let _permit = resolver.limits.hosts(permit, hosts(&build_request, lookup)).await?;
    let context = PlanContext {
        client: registry_client.client(),
        trees: None,
        on_step: &|next| {
            tracing::debug!("{next}");
            next.clone_into(&mut step.lock().unwrap_or_else(PoisonError::into_inner));
        },
    };
    let (resolved_draft, before) = futures_util::join!(
        resolve::draft(context, build_request),
        ConfigBefore::of(resolver, lookup)
    );
    let resolved_draft = resolved_draft?;
    let base = resolved_draft.base.pinned().ok_or_else(|| {
        invalid_input("bad-reference", format!("{}: the base is in no registry", lookup.rendered))
    })?;
    let nodes = builder_nodes(lookup, &resolver.cache);
    let before = before?;
    let mut planned = planned(lookup, &resolved_draft, &base, &before, nodes);
    let config = &resolved_draft.draft.request().config;
    planned.unreconcilable = before.unreconcilable(config, resolver, lookup).await;
    let with = recognise::RegistryAccess {
        settings: &settings,
        proxy: proxy.as_ref(),
        push: &push,
        pull: &pull,
    };
    planned.is_recognised = recognised(resolver, lookup, config, with).await?;
    let copies = copies(resolver, &lookup.pool, &planned.build).await?;
    let (own, name) = (lookup.clone(), planned.build.clone());
    let namespace = resolver.cache.namespace.clone();
    let packing =
        move || workload_spec(&resolved_draft.draft, base, &own, nodes, &name, &namespace);
    // Mostly compression, so not on the async threads.
    let workload_spec = spawn_blocking(packing).await;
    Ok(CachedPlan {
        lookup: lookup.clone(),
        planned,
        workload_spec: workload_spec.expect("packing does not panic and is not cancelled"),
        push,
        pull,
        proxy,
        settings,
        own_policy,
        copies,
        versions,
        unwatched,
    })
}

/// The registries that the plan uses.
pub(super) fn hosts(
    build_request: &BuildRequest<Unresolved>,
    lookup: &PlanLookup,
) -> BTreeSet<String> {
    let base = build_request.base.image.as_ref().and_then(|base| match base {
        Source::Registry(image) => Some(image.repo()),
        _ => None,
    });
    // An invalid reference is reported by planning.
    let extensions = extensions_source(build_request).ok().flatten();
    let pre_built = lookup.recognise.as_ref().map(PinnedRef::repo);
    let extensions = extensions.as_ref().map(ImageRef::repo);
    let repos = base.into_iter().chain(extensions).chain(pre_built);
    repos.map(|repo| repo.host().to_owned()).collect()
}

fn planned(
    lookup: &PlanLookup,
    resolved_draft: &ResolvedDraft,
    base: &PinnedRef,
    before: &ConfigBefore,
    nodes: BuilderNodes,
) -> Planned {
    let draft = &resolved_draft.draft;
    let (inputs, build) = draft.names();
    let method = match (lookup.method, draft.needs_tree()) {
        (Some(method), _) => method,
        (None, true) => JobMethod::Direct,
        (None, false) => JobMethod::Containerfile,
    };
    let wrong = pulled(draft.request()).err();
    let (prepared, obstacle) = match prepared_base(lookup.builder, nodes, draft) {
        Some(Ok(prepared)) => (Some(prepared), None),
        Some(Err(obstacle)) => (None, Some(obstacle)),
        None => (None, None),
    };
    let split = containerfile::split(draft.request());
    let mut warnings = warnings(draft, split.as_ref().ok(), obstacle.as_ref());
    warnings.extend(resolved_draft.warnings.iter().cloned());
    Planned {
        inputs: inputs.hex(),
        base: base.clone(),
        base_name: draft.request().base.name.clone(),
        base_release: draft.request().base.release(),
        method,
        reasons: draft.reasons().iter().map(Reason::finding).collect(),
        platform: draft.request().base.config.platform.clone(),
        warnings,
        containerfile_problem: split.err().or(wrong).map(Problem::from),
        os_changed: before.os_changed(&draft.request().config),
        is_login_change: before.is_login_change(&draft.request().config),
        is_live_change: before.is_live_change(&draft.request().config),
        machine_part: machine_part(&draft.request().config).digest(),
        unreconcilable: Vec::new(),
        is_recognised: false,
        has_last_part: prepared.as_ref().is_some_and(|prepared| prepared.has_last),
        prepared: prepared.map(|prepared| prepared.inputs.digest()),
        build,
    }
}

/// Warnings about the config and its Containerfile.
fn warnings(draft: &Draft, split: Option<&Split>, obstacle: Option<&Obstacle>) -> Vec<Finding> {
    let mut warnings = draft.warnings();
    warnings.extend(split.into_iter().flat_map(Split::warnings));
    warnings.extend(obstacle.and_then(Obstacle::warning));
    warnings
}

/// The prepared base that a build can be made on, or why there is none. An OpenShift Build runs one
/// Containerfile only.
pub(super) fn prepared_base(
    builder: ImageBuilderType,
    nodes: BuilderNodes,
    draft: &Draft,
) -> Option<Result<Prepared, Obstacle>> {
    match builder {
        ImageBuilderType::Job | ImageBuilderType::CustomPod => {
            // A Containerfile that can't be read is reported as such.
            let own = containerfile::split(draft.request()).ok()?.own_parts();
            Some(draft.prepared(own, nodes))
        }
        ImageBuilderType::OpenShiftImage => None,
    }
}

/// Where the images of a pool are built. A pool of the control plane takes no prepared base that was
/// made for another pool, whose builds may run anywhere.
pub(super) fn builder_nodes(lookup: &PlanLookup, cache: &ClusterCache) -> BuilderNodes {
    let pool = cache.pools.get(lookup.pool.as_str());
    match pool.map(|pool| machine_role(cache, &pool)) {
        Some(MachineRole::ControlPlane(_)) => BuilderNodes::ControlPlane,
        Some(MachineRole::Other) | None => BuilderNodes::Any,
    }
}

/// The repositories that a build pulls from, before mirrors are applied.
fn pulled(request: &BuildRequest) -> Result<Vec<RepoRef>, containerfile::Error> {
    let text = request.containerfile.as_deref().unwrap_or_default();
    let platform = &request.base.config.platform;
    let images = containerfile::images(text, &request.build_args, platform)?;
    let images = images.iter().map(|image| image.repo().clone());
    let extensions = request.extensions_image.iter().map(|image| image.repo().clone());
    Ok(images.chain(extensions).collect())
}

fn workload_spec(
    draft: &Draft,
    base: PinnedRef,
    lookup: &PlanLookup,
    nodes: BuilderNodes,
    build: &BuildName,
    namespace: &str,
) -> WorkloadSpec {
    let request = draft.request();
    let containerfile = request.containerfile.as_deref();
    let payload = match lookup.builder {
        ImageBuilderType::Job | ImageBuilderType::CustomPod => {
            payload::config_maps_of(request, build, containerfile, Some(namespace))
                .map(|maps| (maps, None))
                .map_err(Problem::from)
        }
        ImageBuilderType::OpenShiftImage => {
            openshift_source(request, namespace).map(|source| (Vec::new(), Some(source)))
        }
    };
    WorkloadSpec {
        payload,
        // Unused if the Containerfile is invalid.
        pulled: pulled(request).unwrap_or_default(),
        spec: BuildSpec {
            format: BuildSpec::FORMAT,
            build: build.clone(),
            namespace: namespace.to_owned(),
            machine_config: mounts::MACHINE_CONFIG.into(),
            containerfile: containerfile
                .map(|_| Path::new(mounts::CONTAINERFILE).join(CONTAINERFILE_KEY)),
            trust_bundle: (request.trust_bundle.as_ref())
                .map(|_| Path::new(mounts::TRUST_BUNDLE).join(TRUST_BUNDLE_KEY)),
            base,
            base_name: request.base.name.clone(),
            extensions_image: request.extensions_image.clone(),
            platform: request.base.config.platform.clone(),
            push: lookup.push.clone(),
            build_args: request.build_args.clone(),
            build_on: request.build_on,
            nodes,
            base_tree: None,
            prepared: PreparedImageUse::Without,
            in_service: None,
        },
    }
}

/// resourceVersions of everything that is read for this lookup.
fn versions(lookup: &PlanLookup, cache: &ClusterCache) -> Versions {
    let mut versions = Versions::new();
    let rendered = lookup.rendered.as_str();
    let config = cache.machine_configs.get(rendered);
    let version = config.and_then(|config| config.resource_version.clone());
    versions.insert(rendered.to_owned(), version);
    let settings = cache.settings().map(|(settings, _)| settings).unwrap_or_default();
    let proxy = settings.proxy.and_then(|proxy| proxy.secret);
    let secrets = [
        Some(lookup.push_secret.clone()),
        lookup.pull_secret.clone(),
        Some(settings.global_pull_secret),
        proxy,
    ];
    for name in secrets.into_iter().flatten() {
        let secret = cache.secrets.get(&name);
        let version = secret.and_then(|secret| secret.resource_version.clone());
        versions.insert(format!("secret/{name}"), version);
    }
    versions
}

impl CachedPlan {
    /// Whether planning again would give the same result: the base is pinned, and no input has
    /// changed.
    pub(super) fn still_valid_for(&self, lookup: &PlanLookup, cache: &ClusterCache) -> bool {
        // These fields don't change the inputs that are read.
        let pinned = |lookup: &PlanLookup| PlanLookup {
            base: Some(self.planned.base.clone()),
            method: None,
            compare: None,
            recognise: None,
            ..lookup.clone()
        };
        // The policy of the machines is part of the rendered config, whose version is compared.
        let same_settings = cache.settings().is_ok_and(|(mut settings, _)| {
            let own_policy = settings.signature_policy.take();
            settings.signature_policy.clone_from(&self.settings.signature_policy);
            own_policy == self.own_policy && settings == self.settings
        });
        let is_fresh = self.unwatched.is_none_or(|at| at.elapsed() < UNWATCHED_SECRET_TTL);
        is_fresh
            && lookup.base.as_ref() == Some(&self.planned.base)
            && lookup.compare.is_none()
            && lookup.recognise.is_none()
            && pinned(&self.lookup) == pinned(lookup)
            && same_settings
            && self.workload_spec.spec.nodes == builder_nodes(lookup, cache)
            && self.versions == versions(lookup, cache)
    }

    /// The summary for a lookup that this plan is reused for.
    pub(super) fn planned_for(&self, lookup: &PlanLookup) -> Planned {
        Planned { method: lookup.method.unwrap_or(self.planned.method), ..self.planned.clone() }
    }
}

/// Plans here what our own pod would plan with the Containerfile. With a Containerfile, the base's
/// tree has no influence.
fn openshift_source(request: &BuildRequest, namespace: &str) -> Result<OpenShiftSource, Problem> {
    let request = BuildRequest { method: MethodChoice::Containerfile, ..request.clone() };
    let draft = Draft::new(request).map_err(resolve::Error::from)?;
    let plan = draft.finish_unread();
    Ok(OpenShiftSource {
        dockerfile: containerfile::render(&plan)?,
        context: payload::context_maps(&plan, Some(namespace))?,
    })
}

#[cfg(test)]
pub(super) mod tests;
