//! Lists the images of a pool, and deletes those that nothing needs.
//!
//! Each deletion is recorded on its builds first, and decided about once more from a new list of the
//! cluster and of the registry after that. A process that is killed between leaves the record, and
//! the next one goes on.
//!
//! Invariant: a manifest is deleted only after the lists that were made since its record.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::batch::{RecordedImage, batch, judged_again};
use crate::facts::{Hold, deleting, hold, push_repository, retention_facts};
use crate::judge::{ImageKind, JudgedImage, RetentionFacts, Tags, judge};
use crate::pool_images::{ImageState, PoolImage, PoolImages};
use mosb_api::cluster_settings::Retention;
use mosb_api::{MachineOsConfig, labels};
use mosb_build::registry_client::RegistryClient;
use mosb_cluster::cluster_cache::ClusterCache;
use mosb_cluster::kinds;
use mosb_cluster::name_list::name_list;
use mosb_cluster::namespaces::Namespaces;
use mosb_cluster::resolver::{LookupLimits, Resolver};
use mosb_image::{Digest, PinnedRef, RepoRef};
use mosb_reconcile::error::is_conflict;
use mosb_reconcile::waits::IMAGE_DELETION_DELAY;
use mosb_reconcile::{Error, Problem};
use mosb_registry::{Deletion, other_owners, owner_tag};
use mosb_types::{Diagnostic, ErrorClass};

/// How long a list of the cluster counts. A process that was suspended deletes nothing more.
const MAX_LIST_AGE: SignedDuration = SignedDuration::from_secs(60);
/// Requests at the same time.
const PARALLEL: usize = 8;
/// The time limit of a lookup in the cluster.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const FIELD_MANAGER: &str = "mosb";
/// Its UID identifies a cluster.
const CLUSTER_NAMESPACE: &str = "kube-system";

/// Why the images of a pool can't be listed or deleted.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum RetentionError {
    #[error("{pool}: it has no MachineOSConfig; create one to have images built")]
    #[diagnostic(code = "not-opted-in", class = InvalidInput)]
    NotOptedIn { pool: String },
    #[error("{pool}: more than one MachineOSConfig: {names}; delete all but one")]
    #[diagnostic(code = "rivals", class = InvalidInput)]
    Rivals { pool: String, names: String },
    #[error(
        "machineosconfig {config}: spec.renderedImagePushSpec {push:?} names no repository; correct it"
    )]
    #[diagnostic(code = "bad-reference", class = InvalidInput)]
    BadPushSpec { config: String, push: String },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Api(#[from] Error),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Registry(#[from] mosb_registry::Error),
    /// A Secret, the settings, or the registry with the login of a Secret.
    #[error("{message}")]
    #[diagnostic(code = "images-unreadable", class = *class)]
    Unreadable { reason: String, message: String, class: ErrorClass },
}

impl From<Problem> for RetentionError {
    fn from(Problem { class, reason, message }: Problem) -> Self {
        Self::Unreadable { reason, message, class }
    }
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PruneMode {
    /// The registry is only read.
    List,
    Delete,
}

/// A request about the images of one MachineOSConfig.
pub struct PruneRequest<'a> {
    pub client: &'a Client,
    pub namespaces: &'a Namespaces,
    pub pool: &'a str,
    /// Instead of `retention.keep` of the settings.
    pub keep: Option<u16>,
    /// Instead of `retention.days` of the settings.
    pub days: Option<u16>,
    pub mode: PruneMode,
    /// Whether this process may still write, asked before each deletion.
    pub may_write: &'a (dyn Fn() -> bool + Send + Sync),
}

impl std::fmt::Debug for PruneRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PruneRequest").field("pool", &self.pool).finish_non_exhaustive()
    }
}

/// The cluster as one list showed it.
struct Listed {
    /// Before it was listed.
    at: Timestamp,
    resolver: Resolver,
    config: MachineOsConfig,
    repository: RepoRef,
    facts: RetentionFacts,
    hold: Option<Hold>,
}

/// The push repository, with the login that pushes.
struct Registry {
    client: Arc<RegistryClient>,
    repository: RepoRef,
}

/// Lists the images, and deletes some of them.
///
/// # Errors
/// The pool has no MachineOSConfig, or cluster or registry don't answer.
pub async fn prune(request: &PruneRequest<'_>) -> Result<PoolImages, RetentionError> {
    let listed = list(request).await?;
    if let (PruneMode::Delete, Some(held)) = (request.mode, &listed.hold) {
        let judged = judge(&listed.facts, &Tags::new(), listed.at);
        return Ok(listed.pool_images(&judged, Some(held)));
    }
    let registry = Registry::open(&listed).await?;
    let cluster = cluster_id(request.client).await?;
    let may_delete = request.mode == PruneMode::Delete;
    let mut tags = registry.tag_names().await?;
    if may_delete && !tags.contains(&owner_tag(&cluster)) {
        // Before the tags of others are looked for: of two clusters, one sees the other.
        registry.client.client().mark_owner(&registry.repository, &cluster).await?;
        tags = registry.tag_names().await?;
    }
    let named = registry.named(&tags, &listed.facts).await?;
    let judged = judge(&listed.facts, &named, listed.at);
    let held = listed.hold.clone().or_else(|| shared(&registry.repository, &tags, &cluster));
    let mut images = listed.pool_images(&judged, held.as_ref());
    if may_delete && held.is_none() {
        images.prune = true;
        let batch = batch(&judged, &listed.facts, listed.at);
        if !batch.is_empty() {
            delete(request, &cluster, &listed, &batch, &mut images).await?;
        }
    }
    Ok(images)
}

async fn delete(
    request: &PruneRequest<'_>,
    cluster: &str,
    before: &Listed,
    batch: &[JudgedImage],
    images: &mut PoolImages,
) -> Result<(), RetentionError> {
    let marks = Marks { client: request.client };
    let own = deleting(before.at);
    for image in batch.iter().filter(|image| image.kind == ImageKind::Machines) {
        marks.set(before, image.builds.iter().map(String::as_str), &json!(own)).await?;
    }
    // Whoever looks at the builds from now on does not take these images; who looked before is done.
    tokio::time::sleep(IMAGE_DELETION_DELAY).await;
    let listed = list(request).await?;
    let registry = Registry::open(&listed).await?;
    let tags = registry.tag_names().await?;
    let named = registry.named(&tags, &listed.facts).await?;
    let held = listed.hold.clone().or_else(|| shared(&registry.repository, &tags, cluster));
    images.held = held.as_ref().map(ToString::to_string);
    let judged = judge(&listed.facts, &named, listed.at);
    let all = named.values().flat_map(|tag| tag.instances.iter().copied().chain([tag.digest]));
    let others = all.chain(listed.facts.needed.keys().copied()).collect();
    let mut failure = None;
    for RecordedImage { image, builds, may_be_deleted } in
        judged_again(batch, &judged, &listed.facts, before.at)
    {
        let is_late = Timestamp::now().duration_since(listed.at) > MAX_LIST_AGE;
        let is_ended = held.is_some() || images.refused.is_some() || failure.is_some();
        if is_ended || is_late || !may_be_deleted || !(request.may_write)() {
            marks.set(&listed, builds, &Value::Null).await?;
            continue;
        }
        let pinned = registry.repository.pinned(image.digest);
        match registry.delete(&pinned, &others).await {
            Ok(Deletion::Deleted | Deletion::Missing) => {
                tracing::info!("{pinned}: deleted from the registry, because nothing needs it");
                let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                marks.set(&listed, builds, &json!(now)).await?;
                let shown = images.images.iter_mut().find(|one| one.image == pinned.to_string());
                if let Some(shown) = shown {
                    shown.state = ImageState::Deleted;
                }
            }
            Ok(Deletion::Unsupported(answer)) => {
                marks.set(&listed, builds, &Value::Null).await?;
                images.refused = Some(answer);
            }
            Err(error) => {
                let problem = Problem::from(error);
                // After a transient error it is not known whether it was deleted: the next pass
                // goes on.
                if problem.class != ErrorClass::Transient {
                    marks.set(&listed, builds, &Value::Null).await?;
                }
                failure = Some(problem);
            }
        }
    }
    failure.map_or(Ok(()), |problem| Err(problem.into()))
}

/// Another cluster's marks in the repository.
fn shared(repository: &RepoRef, tags: &BTreeSet<String>, cluster: &str) -> Option<Hold> {
    let others: Vec<&String> = other_owners(tags, cluster).into_iter().collect();
    (!others.is_empty())
        .then(|| Hold::Shared { repository: repository.to_string(), tags: name_list(&others, 5) })
}

async fn cluster_id(client: &Client) -> Result<String, Error> {
    let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let object = format!("namespace {CLUSTER_NAMESPACE}");
    let namespace = api.get(CLUSTER_NAMESPACE).await.map_err(Error::api(object, "get"))?;
    Ok(namespace.metadata.uid.unwrap_or_default())
}

/// Lists the cluster anew, never from a cache.
async fn list(request: &PruneRequest<'_>) -> Result<Listed, RetentionError> {
    let (at, pool) = (Timestamp::now(), request.pool.to_owned());
    let cache = ClusterCache::read_images(request.client, request.namespaces).await?;
    let cache = Arc::new(cache);
    let mut configs = cache.configs.list();
    configs.retain(|config| config.spec.machine_config_pool.name == pool);
    let config = match &configs[..] {
        [config] => (**config).clone(),
        [] => return Err(RetentionError::NotOptedIn { pool }),
        _ => {
            let names: Vec<&str> = configs.iter().map(|one| &*one.metadata.name).collect();
            return Err(RetentionError::Rivals { pool, names: names.join(", ") });
        }
    };
    let repository = push_repository(&config).ok_or_else(|| RetentionError::BadPushSpec {
        config: config.metadata.name.clone(),
        push: config.spec.rendered_image_push_spec.clone(),
    })?;
    let resolver = Resolver {
        client: request.client.clone(),
        registries: Arc::default(),
        limits: Arc::new(LookupLimits::new(READ_TIMEOUT)),
        cache: Arc::clone(&cache),
    };
    let set = resolver.settings()?.retention.unwrap_or_default();
    let retention = Retention {
        keep: request.keep.unwrap_or(set.keep),
        days: request.days.unwrap_or(set.days),
    };
    let os_images = os_images(request.client, &cache).await?;
    let facts = retention_facts(&cache, &config, retention, &os_images);
    let hold = hold(&cache, &config);
    Ok(Listed { at, resolver, config, repository, facts, hold })
}

/// The `osImageURL` of the rendered configs of all pools, with the object that has it.
async fn os_images(client: &Client, cache: &ClusterCache) -> Result<Vec<(String, String)>, Error> {
    let pools = cache.pools.list();
    let names = pools.iter().flat_map(|pool| {
        [pool.spec.configuration.name.clone(), pool.status.configuration.name.clone()]
    });
    let names: BTreeSet<String> = names.filter(|name| !name.is_empty()).collect();
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kinds::MACHINE_CONFIG.resource());
    let read = stream::iter(names).map(|name| {
        let api = api.clone();
        async move {
            let object = format!("machineconfig {name}");
            let found = api.get_opt(&name).await.map_err(Error::api(object.clone(), "get"))?;
            let url = found.and_then(|config| {
                config.data.pointer("/spec/osImageURL")?.as_str().map(str::to_owned)
            });
            Ok::<_, Error>(url.map(|url| (object, url)))
        }
    });
    let read: Vec<_> = read.buffer_unordered(PARALLEL).try_collect().await?;
    Ok(read.into_iter().flatten().collect())
}

impl Listed {
    fn pool_images(&self, judged: &[JudgedImage], held: Option<&Hold>) -> PoolImages {
        let repository = self.repository.to_string();
        PoolImages {
            pool: self.config.spec.machine_config_pool.name.clone(),
            machine_os_config: self.config.metadata.name.clone(),
            keep: self.facts.retention.keep,
            days: self.facts.retention.days,
            prune: false,
            held: held.map(ToString::to_string),
            refused: None,
            images: judged
                .iter()
                .filter(|image| image.may_be_there())
                .map(|image| PoolImage::new(&repository, image))
                .collect(),
            repository,
        }
    }
}

impl Registry {
    async fn open(listed: &Listed) -> Result<Self, Problem> {
        let settings = listed.resolver.settings()?;
        let proxy = listed.resolver.proxy(&settings).await?;
        let push = &listed.config.spec.rendered_image_push_secret.name;
        let secret = listed.resolver.secret(push).await?;
        let client = listed.resolver.registries.open(&secret, &settings, proxy.as_ref())?;
        Ok(Self { client, repository: listed.repository.clone() })
    }

    async fn tag_names(&self) -> Result<BTreeSet<String>, mosb_registry::Error> {
        self.client.client().tags(&self.repository).await
    }

    /// Deletes an image and then what is attached to it. After a failure between the two, the next
    /// pass finds that the image is missing, and goes on.
    async fn delete(
        &self,
        image: &PinnedRef,
        others: &BTreeSet<Digest>,
    ) -> Result<Deletion, mosb_registry::Error> {
        let client = self.client.client();
        let deletion = client.delete_manifest(image).await?;
        if !matches!(deletion, Deletion::Unsupported(_)) {
            client.delete_attached(image, others).await?;
        }
        Ok(deletion)
    }

    async fn named(
        &self,
        tags: &BTreeSet<String>,
        facts: &RetentionFacts,
    ) -> Result<Tags, mosb_registry::Error> {
        // What mosb pushes is not an index.
        let manifests = facts.builds.iter().map(|build| build.digest).collect();
        self.client.client().tagged(&self.repository, tags, &manifests).await
    }
}

/// The records on builds.
struct Marks<'a> {
    client: &'a Client,
}

impl Marks<'_> {
    /// Records on builds what becomes of their image, in the versions that were listed. A
    /// build that was changed meanwhile stays as it is.
    async fn set(
        &self,
        listed: &Listed,
        builds: impl IntoIterator<Item = &str>,
        value: &Value,
    ) -> Result<(), Error> {
        let api: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &kinds::MACHINE_OS_BUILD.resource());
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        for name in builds {
            let Some(build) = listed.resolver.cache.builds.get(name) else {
                continue;
            };
            let patch = json!({ "metadata": {
                "resourceVersion": build.metadata.resource_version(),
                "annotations": { labels::IMAGE_DELETED: value },
            } });
            match api.patch(name, &params, &Patch::Merge(&patch)).await {
                Err(error) if !is_conflict(&error) => {
                    return Err(Error::api(format!("machineosbuild {name}"), "patch")(error));
                }
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }
}
