//! Lookups for rendering: renders a pool's MachineConfigs, and reads what metadata doesn't show.

use std::collections::BTreeSet;
use std::future::Ready;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde_json::Value;

use super::contents::{Contents, find};
use super::observe::{controller_config, observe};
use super::pins::{pin, pin_known, pin_within_limits};
use super::rendered_object::compare_rendered;
use super::snapshot::{Member, OverridingImage, RenderOutput, RenderSnapshot};
use mosb_api::{
    BuildOn, MachineConfig, MachineOsConfig, PoolName, PoolSettings, RenderedConfig,
    is_component_name, labels,
};
use mosb_build::fetch::{self, Fetcher};
use mosb_build::resolve::{self, RenderFailure};
use mosb_cluster::cluster_cache::{ClusterCache, IndexKey};
use mosb_cluster::resolver::{LookupError, LookupPermit, Resolver};
use mosb_merge::{self as render, Component, GIVEN, Rendered, Request, Update};
use mosb_reconcile::driver::Worker;
use mosb_reconcile::write::{ApplyError, Existing};
use mosb_reconcile::{Error, Problem};
use mosb_types::{Diagnostic as _, ErrorClass, Finding};

/// The time limit of all fetches for a pool, in time limits of a lookup: less than that of a
/// reconcile.
const FETCHES: u32 = 4;

/// Why a pool is not rendered in this pass.
#[derive(Debug)]
pub(super) enum RenderError {
    /// The pool's condition reports it.
    Problem(Problem),
    /// A lookup has no free slot now for these hosts.
    Busy(BTreeSet<String>),
    /// The API.
    Failed(ApplyError),
}

impl From<Problem> for RenderError {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<LookupError> for RenderError {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::Problem(problem) => Self::Problem(problem),
            LookupError::Busy(hosts) => Self::Busy(hosts),
        }
    }
}

impl From<ApplyError> for RenderError {
    fn from(error: ApplyError) -> Self {
        Self::Failed(error)
    }
}

impl From<Error> for RenderError {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

/// Renders a pool.
pub(super) async fn render(
    resolver: &Resolver,
    contents: &Contents,
    snapshot: &RenderSnapshot,
    worker: &mut Worker,
) -> Result<RenderOutput, RenderError> {
    let inputs = snapshot.inputs.clone()?;
    let configs = contents.read(&resolver.client, &inputs.members).await?;
    let request = request(&resolver.cache, snapshot, configs)?;
    let request = pin_within_limits(resolver, request, worker).await?;
    let pins = request.pins.clone();
    // With its own time limit, so that the pool's condition reports the timeout.
    let pool = &snapshot.pool.metadata.name;
    let what = || format!("machineconfigpool {pool}: what its MachineConfigs refer to");
    let held = Mutex::new((&mut *worker, LookupPermit::default()));
    let admit = |hosts| admit(resolver, &held, hosts);
    let rendering = Box::pin(rendered(resolver, request, admit));
    let rendered = resolver.limits.with_timeouts(FETCHES, what, rendering).await;
    // Its places at hosts are free before it waits for a worker.
    drop(held);
    worker.reacquire().await;
    let rendered = rendered?;
    let name = rendered.config.name().to_string();
    let (refused, clash) = futures_util::try_join!(
        find_refusal(resolver, snapshot, &rendered),
        find_different(resolver, snapshot, &name, &rendered.object)
    )?;
    if let Some(problem) = without_base(resolver, &rendered).or(clash).or(refused) {
        return Err(problem.into());
    }
    for warning in &rendered.warnings {
        let place = warning.object.as_deref().unwrap_or_default();
        tracing::warn!(code = warning.code, "{place}: {}", warning.message);
    }
    let mut warnings = rendered.warnings.iter();
    let overridden = warnings.find(|warning| warning.code == "os-image-overridden");
    let overriding = overridden.zip(rendered.config.os_image_url).map(|(warning, image)| {
        OverridingImage { image, place: warning.object.clone().unwrap_or_default() }
    });
    Ok(RenderOutput { name, object: Arc::new(rendered.object), overriding, pins })
}

/// The rendered config of a pool without the MachineConfigs that bring it a pre-built image, on the
/// base of the release. Nothing is created.
///
/// # Errors
/// The inputs are invalid, or can't be read now.
pub async fn without_components(
    resolver: &Resolver,
    pool: &str,
) -> Result<RenderedConfig, Problem> {
    let request = request_of(resolver, pool, |one| !is_component_name(&one.name)).await?;
    let request = pin(resolver, request).await?;
    Ok(rendered::<Problem, _>(resolver, request, resolve::admit_all).await?.config)
}

/// The pool's MachineConfigs as they are now, with the origin of each field. Nothing is fetched.
///
/// # Errors
/// The inputs are invalid, can't be read now, or refer to something.
pub async fn with_origins(resolver: &Resolver, pool: &str) -> Result<Rendered, Problem> {
    let request = request_of(resolver, pool, |_| true).await?;
    let offline: Option<Ready<Result<Fetcher, Problem>>> = None;
    let rendered = resolve::render(request, offline, resolve::admit_all, &|_| {}).await;
    rendered.map_err(|error| failed(resolver, error))
}

/// What a pool is rendered from now, of these of its MachineConfigs.
async fn request_of(
    resolver: &Resolver,
    pool: &str,
    is_member: impl Fn(&Member) -> bool,
) -> Result<Request, Problem> {
    let deleted = || Problem {
        class: ErrorClass::Transient,
        reason: "no-pool".to_owned(),
        message: format!("machineconfigpool {pool}: it was deleted"),
    };
    let snapshot = observe(&resolver.cache, pool).ok_or_else(deleted)?;
    let mut inputs = snapshot.inputs.clone()?;
    inputs.members.retain(is_member);
    let contents = Contents::default();
    let configs = contents.read(&resolver.client, &inputs.members).await?;
    request(&resolver.cache, &snapshot, configs)
}

/// What a pool is rendered from, of these MachineConfigs.
pub(super) fn request(
    cache: &ClusterCache,
    snapshot: &RenderSnapshot,
    configs: Vec<Arc<MachineConfig>>,
) -> Result<Request, Problem> {
    let recorded = snapshot.inputs.as_ref().ok().and_then(|inputs| inputs.recorded.as_ref());
    let name = &snapshot.pool.metadata.name;
    let pool: PoolName = name.parse().map_err(|cause| Problem {
        class: ErrorClass::InvalidInput,
        reason: "bad-pool-name".to_owned(),
        message: format!("the pool's name {cause}"),
    })?;
    let controller_config = controller_config(cache)?;
    let (os_image, extensions_image) = match &controller_config {
        Some(_) => (None, None),
        None => {
            let (settings, _) = cache.settings()?;
            let stream = settings.base_stream.as_deref();
            let followed = recorded.filter(|one| stream.is_some_and(|stream| one.is_of(stream)));
            let followed = followed.map(|one| one.pinned().to_string());
            let extensions = settings.base_os_extensions_container_image;
            (followed.or(settings.base_os_container_image), extensions)
        }
    };
    let pool_settings = cache.pool_settings.iter();
    let pool_settings = pool_settings.flat_map(|store| store.list());
    let component =
        |config: Arc<MachineConfig>| Component { origin: String::new(), config: (*config).clone() };
    let mut request = Request {
        pool,
        pool_object: Some(snapshot.pool.clone()),
        controller_config,
        pool_settings: pool_settings.map(|settings| PoolSettings::clone(&settings)).collect(),
        os_image,
        extensions_image,
        pins: Default::default(),
        configs: configs.into_iter().map(component).collect(),
        explain: true,
    };
    pin_known(&mut request, recorded);
    Ok(request)
}

/// Admits fetches from these hosts within the limits of lookups. From the first one on, the pass has
/// no worker.
async fn admit(
    resolver: &Resolver,
    held: &Mutex<(&mut Worker, LookupPermit)>,
    hosts: BTreeSet<String>,
) -> Result<(), LookupError> {
    let lock = || held.lock().unwrap_or_else(PoisonError::into_inner);
    lock().0.release();
    let permit = std::mem::take(&mut lock().1);
    let permit = resolver.limits.hosts(permit, hosts).await?;
    lock().1 = permit;
    Ok(())
}

/// Renders, and fetches what that needs, until it is complete.
async fn rendered<E, A>(
    resolver: &Resolver,
    request: Request,
    admit: impl FnMut(BTreeSet<String>) -> A,
) -> Result<Rendered, E>
where
    E: From<Problem> + From<fetch::Error>,
    A: Future<Output = Result<(), E>>,
{
    let fetcher = async { Ok(resolver.fetcher().await?) };
    let rendered = resolve::render(request, Some(fetcher), admit, &|_| {}).await;
    rendered.map_err(|error| failed(resolver, error))
}

fn failed<E: From<Problem>>(resolver: &Resolver, error: RenderFailure<E>) -> E {
    match error {
        RenderFailure::Invalid(error) => to_problem(&resolver.cache.namespace, &error).into(),
        RenderFailure::Fetch(problem) => problem,
        RenderFailure::Stopped(error) => panic!("rendering does not panic: {error}"),
    }
}

/// All findings, one sentence each.
fn to_problem(namespace: &str, error: &render::Error) -> Problem {
    let mut findings = error.findings();
    for finding in &mut findings {
        if finding.object.as_deref() == Some(GIVEN) {
            finding.object = Some(format!("ConfigMap {namespace}/mosb-config"));
        }
    }
    let findings: Vec<String> = findings.iter().map(Finding::to_string).collect();
    Problem {
        class: error.class(),
        reason: error.code().to_owned(),
        message: if findings.is_empty() {
            error.to_string()
        } else {
            format!("{error}: {}", findings.join("; "))
        },
    }
}

/// A config without a base can't get an image.
fn without_base(resolver: &Resolver, rendered: &Rendered) -> Option<Problem> {
    let namespace = &resolver.cache.namespace;
    rendered.config.os_image_url.is_none().then(|| Problem {
        class: ErrorClass::InvalidInput,
        reason: "no-base-image".to_owned(),
        message: format!(
            "the pool has no base OS image; set baseOSContainerImage in config.yaml of ConfigMap {namespace}/mosb-config, or osImageURL in one of the pool's MachineConfigs"
        ),
})
}

/// Why the pool's machines could not apply the new config without a reinstallation.
async fn find_refusal(
    resolver: &Resolver,
    snapshot: &RenderSnapshot,
    new: &Rendered,
) -> Result<Option<Problem>, Error> {
    let name = &snapshot.pool.spec.configuration.name;
    if name.is_empty() || name == new.config.name().as_str() {
        return Ok(None);
    }
    let Some(object) = find(&resolver.client, name).await? else {
        return Ok(None);
    };
    let value = serde_json::to_value(object).expect("what came as JSON is JSON");
    // If the old config can't be read, there is nothing to compare with.
    let Ok(old) = RenderedConfig::from_value(value) else {
        return Ok(None);
    };
    let update = if resolver.cache.daemon_sets.is_empty() { Update::Image } else { Update::Daemon };
    if update == Update::Image && is_left_to_build(&resolver.cache, &snapshot.pool.metadata.name) {
        return Ok(None);
    }
    Ok(refusal(&old, new, update))
}

/// Whether the build decides about a config that machines can't take on: it makes no image of it,
/// unless the MachineOSConfig accepts it.
fn is_left_to_build(cache: &ClusterCache, pool: &str) -> bool {
    let configs = cache.configs.by_index([IndexKey::Pool(pool.to_owned())]);
    let builds_all = |config: &Arc<MachineOsConfig>| {
        let build_on = config.metadata.annotation(labels::BUILD_ON);
        build_on.is_none_or(|text| text == BuildOn::EveryConfig.as_str())
    };
    cache.rolling_out && !configs.is_empty() && configs.iter().all(builds_all)
}

fn refusal(old: &RenderedConfig, new: &Rendered, update: Update) -> Option<Problem> {
    let found = new.unreconcilable(old, update).ok()?;
    let problems = found.iter().map(|finding| {
        let place = finding.object.as_deref().unwrap_or_default();
        format!("{place}: {}", finding.message)
    });
    let problems: Vec<String> = problems.collect();
    (!found.is_empty()).then(|| Problem {
        class: ErrorClass::InvalidInput,
        reason: "needs-reinstall".to_owned(),
        message: format!(
            "machines that have {} can't apply the pool's MachineConfigs without a reinstallation: {}; revert the change, or empty the pool's spec.configuration.name if all of its machines are reinstalled",
            old.name(),
            problems.join("; ")
        ),
})
}

/// An existing object of this name with another content. Configs that mosb created and that were
/// not edited are not read.
async fn find_different(
    resolver: &Resolver,
    snapshot: &RenderSnapshot,
    name: &str,
    object: &Value,
) -> Result<Option<Problem>, Error> {
    let mut there = snapshot.rendered.iter();
    let is_doubtful = there.any(|one| one.name == name && (one.is_edited || !one.is_ours));
    if !is_doubtful {
        return Ok(None);
    }
    let found = find(&resolver.client, name).await?;
    Ok(found.and_then(|found| match compare_rendered(&found, object) {
        Existing::Problem(problem) => Some(problem),
        Existing::Same | Existing::Outdated | Existing::NotOurs => None,
    }))
}

/// Rendered configs that nodes have or are about to get.
pub(super) async fn configs_on_nodes(resolver: &Resolver) -> Result<BTreeSet<String>, Error> {
    let api: Api<Node> = Api::all(resolver.client.clone());
    let nodes = api.list_metadata(&ListParams::default()).await;
    let nodes = nodes.map_err(Error::api("nodes", "list"))?;
    let names = nodes.items.iter().flat_map(|node| {
        let annotations = node.annotations();
        let keys = [labels::NODE_CURRENT_CONFIG, labels::NODE_DESIRED_CONFIG];
        keys.map(|key| annotations.get(key).cloned())
    });
    Ok(names.flatten().collect())
}
