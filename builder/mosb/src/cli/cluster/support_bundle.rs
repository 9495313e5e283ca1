//! `mosb support-bundle`: one archive with what a support case needs.

use std::collections::BTreeSet;
use std::future::Future;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use futures_util::stream::{self, StreamExt as _};
use jiff::Timestamp;
use kube::Client;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::boot_images::BootImageList;
use super::builds::BuildList;
use super::nodes::NodeList;
use super::rollout::snapshot;
use super::rollout_status::RolloutStatus;
use super::status::ClusterStatus;
use super::{Cluster, no_pool};
use crate::support_bundle::collect::collect;
use crate::support_bundle::pack;
use crate::support_bundle::scope::Scope;
use mosb_bootstrap::preflight;
use mosb_commands::bundle::Bundle;
use mosb_commands::context::{Session, options};
use mosb_commands::error::Error;
use mosb_commands::output::{Object, Typed};
use mosb_commands::settings::{Format, Settings};
use mosb_commands::{ExitCode, Failure, Result};
use mosb_controller::followed_bases;
use mosb_controller::machine_sets;
use mosb_controller::rollout;
use mosb_controller::{ClusterCache, Namespaces};
use mosb_image::ImageRef;
use mosb_registry::{self as registry, Options};

/// When reading ends: what the commands show, then all of the API, then registries.
const VIEWS_TIME: Duration = Duration::from_secs(3);
const API_TIME: Duration = Duration::from_secs(7);
const REGISTRY_TIME: Duration = Duration::from_secs(9);
/// Requests to registries at the same time, and images that they are asked for.
const REQUESTS: usize = 8;
const IMAGES: usize = 200;

/// Writes an archive with what a support case needs of a cluster, without secrets
///
/// It has the objects that mosb reads and writes with their status and events, the ends of logs, what `mosb status`, `builds`,
/// `nodes` and `rollout status` show, whether registries have the images in service, and versions. Of Secrets it has names, types
/// and keys; contents of MachineConfigs, Containerfiles and ConfigMaps are left out. README.txt in it lists its files, and what
/// could not be read: with few rights, the rest is written.
///
/// Examples:
///
///   mosb support-bundle
///   mosb support-bundle worker -o worker.tar.gz
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct SupportBundle {
    /// Leave out what is of other pools
    pub pool: Option<String>,
    /// The archive; - for stdout [default: mosb-support-bundle-TIME.tar.gz in this directory]
    #[arg(short, long, value_name = "FILE.tar.gz")]
    pub output: Option<PathBuf>,
    // The same ID as the option of all commands, which is not added then: its -o is the archive here.
    /// The format of an error: text, json, yaml
    #[arg(long, value_enum, default_value = "text", hide_possible_values = true)]
    pub format: Format,
    #[command(flatten)]
    pub cluster: Cluster,
}

impl SupportBundle {
    pub async fn run(&self, session: &Session) -> Result<ExitCode> {
        let (start, now) = (Instant::now(), Timestamp::now());
        session.progress.step("reading the cluster");
        let pool = self.pool.as_deref();
        let connected = timeout_at(start + VIEWS_TIME, self.cluster.connect()).await;
        let late = |_| Err(Error::NothingRead { why: "no answer in time".to_owned() }.into());
        let (client, namespaces) = connected.unwrap_or_else(late)?;
        let views = Views::read(&client, &namespaces, start + VIEWS_TIME).await;
        let end = start + API_TIME;
        let nodes = views.nodes(pool);
        let scope = Scope { client: &client, namespaces: &namespaces, pool, nodes, end };
        let collected = collect(&scope).await;
        if !collected.is_any_read {
            let first = collected.bundle.missing().first();
            let why = first.map(|gap| gap.why.clone()).unwrap_or_default();
            return Err(Error::NothingRead { why }.into());
        }
        if let (Some(pool), Some(pools)) = (pool, &collected.pools)
            && !pools.iter().any(|one| one == pool)
        {
            return Err(no_pool(pool).into());
        }
        let mut bundle = collected.bundle;
        views.add(&mut bundle, pool, now);
        let images = &collected.images;
        add_images(&mut bundle, images, &session.settings, start + REGISTRY_TIME).await;
        let about = json!({ "namespace": namespaces.own, "operatorNamespace": namespaces.operator, "pool": pool });
        self.write(bundle, about, now, session).await
    }

    async fn write(
        &self,
        bundle: Bundle,
        about: Value,
        now: Timestamp,
        session: &Session,
    ) -> Result<ExitCode> {
        let folder = format!("mosb-support-bundle-{}", now.strftime("%Y%m%dT%H%M%SZ"));
        let missing = bundle.missing().len();
        let file = self.output.clone();
        let file = file.unwrap_or_else(|| PathBuf::from(format!("{folder}.tar.gz")));
        let path = file.clone();
        let written = spawn_blocking(move || {
            let files = bundle.into_files(&about, now);
            let bytes = pack(&files, &folder, now).map_err(Error::System)?;
            write(&path, &bytes)?;
            Ok::<_, Error>((files.len(), bytes.len()))
        });
        let (files, bytes) = written.await.map_err(Error::stopped("writing"))??;
        session.progress.end();
        if missing > 0 {
            tracing::warn!(
                "{missing} things could not be read; README.txt in the archive lists them"
            );
        }
        tracing::info!(
            "{}: {files} files, {bytes} bytes; read it before you send it",
            file.display()
        );
        Ok(0)
    }
}

/// Writes the archive as a whole, for its owner only.
fn write(file: &Path, bytes: &[u8]) -> Result<(), Error> {
    let failed = |source| Error::Write { file: file.display().to_string(), source };
    if file == Path::new("-") {
        let mut stdout = std::io::stdout().lock();
        return stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(failed);
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut part =
        tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).map_err(failed)?;
    part.write_all(bytes).map_err(failed)?;
    part.persist(file).map_err(|error| failed(error.error))?;
    Ok(())
}

/// What commands show.
struct Views {
    /// Of `mosb status` and `mosb base status`.
    cache: Result<ClusterCache, String>,
    /// Of `mosb builds`, `mosb nodes` and `mosb rollout status`.
    machines: Result<ClusterCache, String>,
    boot_images: Result<Value, String>,
}

impl Views {
    async fn read(client: &Client, namespaces: &Namespaces, end: Instant) -> Self {
        async fn limited<T, E: Into<Failure>>(
            end: Instant,
            read: impl Future<Output = Result<T, E>>,
        ) -> Result<T, String> {
            match timeout_at(end, read).await {
                Ok(read) => read.map_err(|error| error.into().message()),
                Err(_) => Err("no answer in time".to_owned()),
            }
        }
        let (cache, machines, boot_images) = tokio::join!(
            limited(end, ClusterCache::read(client, namespaces)),
            limited(end, ClusterCache::read_machines(client, namespaces)),
            limited(end, machine_sets::boot_images(client, namespaces)),
        );
        Self { cache, machines, boot_images: boot_images.map(|view| printed(&BootImageList(view))) }
    }

    /// The nodes of the pool, if they are known.
    fn nodes(&self, pool: Option<&str>) -> Option<BTreeSet<String>> {
        let (pool, machines) = (pool?, self.machines.as_ref().ok()?);
        let nodes = rollout::node_views(machines, Some(pool)).into_iter();
        Some(nodes.map(|node| node.name).collect())
    }

    fn add(&self, bundle: &mut Bundle, pool: Option<&str>, now: Timestamp) {
        let is_wanted = |name: &str| pool.is_none_or(|pool| pool == name);
        match &self.cache {
            Ok(cache) => {
                bundle.add_json("views/status.json", &printed(&ClusterStatus::of(cache, pool)));
                let bases: Vec<_> = pools(cache)
                    .filter(|pool| is_wanted(pool))
                    // A pool without a MachineOSConfig has none.
                    .filter_map(|pool| followed_bases::base_view(cache, &pool).ok())
                    .collect();
                bundle.add_json("views/bases.json", &bases);
            }
            Err(why) => bundle.add_missing("views of mosb status and mosb base status", why),
        }
        match &self.machines {
            Ok(cache) => {
                let (mut builds, mut rollouts) = (Vec::new(), Vec::new());
                for pool in pools(cache).filter(|pool| is_wanted(pool)) {
                    match snapshot(cache, &pool) {
                        Ok(found) => {
                            builds.extend(rollout::build_views(&found));
                            rollouts
                                .push(printed(&RolloutStatus(rollout::rollout_view(&found, now))));
                        }
                        Err(error) => {
                            bundle.add_missing(format!("view of pool {pool}"), error.to_string())
                        }
                    }
                }
                let nodes = rollout::node_views(cache, pool);
                bundle.add_json("views/builds.json", &printed(&BuildList { builds, now }));
                bundle.add_json("views/nodes.json", &printed(&NodeList { nodes, now }));
                bundle.add_json("views/rollout-status.json", &rollouts);
            }
            Err(why) => bundle.add_missing("views of mosb builds, nodes and rollout status", why),
        }
        match &self.boot_images {
            Ok(view) => bundle.add_json("views/boot-images.json", view),
            Err(why) => bundle.add_missing("view of mosb boot-images status", why),
        }
    }
}

fn pools(cache: &ClusterCache) -> impl Iterator<Item = String> {
    cache.pools.list().into_iter().map(|pool| pool.metadata.name.clone())
}

/// An object as its command prints it.
fn printed<T: Object>(object: &T) -> Value {
    serde_json::to_value(Typed::new(object)).unwrap_or_default()
}

/// What the registry says about an image in service.
#[derive(Debug, Serialize)]
struct SeenImage {
    image: String,
    /// `present`, `missing` or `unknown`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Asks registries, with the logins of this user, for the images in service.
async fn add_images(
    bundle: &mut Bundle,
    images: &BTreeSet<String>,
    settings: &Settings,
    end: Instant,
) {
    let hasty = preflight::options();
    let base = options(settings, settings.authfile.clone());
    let client =
        registry::Client::new(&Options { timeouts: hasty.timeouts, retry: hasty.retry, ..base });
    let client = match client {
        Ok(client) => client,
        Err(error) => return bundle.add_missing("registries", Failure::from(error).message()),
    };
    if images.len() > IMAGES {
        bundle.add_cut("registries.json", format!("the first {IMAGES} images only"));
    }
    let asked = images.iter().take(IMAGES).cloned();
    let asked = stream::iter(asked).map(|image| look_up(client.clone(), image, end));
    let seen: Vec<_> = asked.buffered(REQUESTS).collect().await;
    bundle.add_json("registries.json", &seen);
}

async fn look_up(client: registry::Client, image: String, end: Instant) -> SeenImage {
    let found = match image.parse::<ImageRef>() {
        Ok(parsed) => match timeout_at(end, client.digest_of(&parsed)).await {
            Ok(found) => found.map_err(|error| Failure::from(error).message()),
            Err(_) => Err("no answer in time".to_owned()),
        },
        Err(error) => Err(error.to_string()),
    };
    let (status, digest, error) = match found {
        Ok(Some(digest)) => ("present", Some(digest.to_string()), None),
        Ok(None) => ("missing", None, None),
        Err(error) => ("unknown", None, Some(error)),
    };
    SeenImage { image, status, digest, error }
}
