//! Reads what the checks of an image need, once, and makes them.
//!
//! The image itself must be read, or it is not checked. What else can't be read makes a check unknown,
//! unless a retry may help.

use std::collections::BTreeSet;

use tokio::task::spawn_blocking;

use super::{LookupError, LookupPermit, Resolver, invalid_input, pool_settings};
use crate::lookup::ChecksLookup;
use mosb_api::image_checks::CheckName;
use mosb_api::{ClusterSettings, labels};
use mosb_build::{NamedSecret, signature_verdict};
use mosb_cluster::cluster_names::RENDERER;
use mosb_image::{Digest, ImageRef, PinnedRef, Platform};
use mosb_plan::image_checks::{Cluster, Contents, Facts, KubernetesMinor, Verdict, check};
use mosb_plan::plan::{Base, BaseName};
use mosb_reconcile::Problem;
use mosb_reconcile::error::describe;
use mosb_registry::{Client, Source, tree_image};
use mosb_types::ErrorClass;

/// What a check needs, or why it is not known.
enum Fact<T> {
    Known(T),
    Unknown(String),
}

impl<T> Fact<T> {
    fn known(&self) -> Result<&T, &str> {
        match self {
            Self::Known(fact) => Ok(fact),
            Self::Unknown(why) => Err(why),
        }
    }
}

/// What the checks of an image find.
pub(super) async fn verdicts(
    resolver: &Resolver,
    lookup: &ChecksLookup,
) -> Result<Vec<(CheckName, Verdict)>, LookupError> {
    let settings = resolver.settings()?;
    let cluster = cluster_of(resolver, &settings);
    let is_on = |check| lookup.checks.contains(&check);
    let stock = cluster.base.clone().filter(|_| is_on(CheckName::Release));
    let _permit = resolver.limits.hosts(LookupPermit::default(), hosts(lookup, &stock)).await?;
    let proxy = resolver.proxy(&settings).await?;
    let push = resolver.secret(&lookup.push_secret).await?;
    let pull = resolver.pull_secret(lookup.pull_secret.as_deref(), &settings).await?;
    let credentials = push.credentials.over(&pull.credentials);
    let logins = NamedSecret { name: push.name.clone(), credentials };
    let registry_client = resolver.registries.open(&logins, &settings, proxy.as_ref())?;
    let client = registry_client.client();
    let platform = lookup.platform.as_ref();
    let of = |image: &PinnedRef| ImageRef::from(image.clone());
    let signature = async {
        if !is_on(CheckName::Signature) {
            return Ok(Verdict::Unknown("the check is not made".to_owned()));
        }
        let settings = pool_settings(resolver, settings.clone(), lookup.rendered.as_ref()).await?;
        let registry_client = resolver.registries.open(&logins, &settings, proxy.as_ref())?;
        Ok::<_, Problem>(signature_verdict(registry_client.client(), &lookup.image).await?)
    };
    let (image, base, stock, kubernetes, signature) = futures_util::join!(
        read(client, of(&lookup.image), platform),
        known(
            lookup.base.as_ref().map(|base| read(client, of(base), platform)),
            "it was built elsewhere"
        ),
        known(stock.map(|stock| read(client, stock, platform)), "the cluster names no OS image"),
        kubernetes(resolver, is_on(CheckName::KubeletSkew)),
        signature,
    );
    let (image, base, stock, signature) = (image?, base?, stock?, signature?);
    let needs_contents = is_on(CheckName::KubeletSkew)
        || is_on(CheckName::PackagesHeld) && !settings.checks.held_packages.is_empty();
    let contents = if needs_contents {
        contents(lookup, client, &image, &base).await?
    } else {
        Fact::Unknown("no check needs them".to_owned())
    };
    let facts = Facts {
        image: &image,
        base: base.known(),
        contents: contents.known(),
        platform: platform
            .map(|platform| (platform, "the pool's nodes are"))
            .ok_or("the pool has no node"),
        cluster: &cluster,
        stock: stock.known(),
        kubernetes: kubernetes.known().copied(),
        held_packages: &settings.checks.held_packages,
        max_size_mib: settings.checks.max_size_mib,
        signature: &signature,
    };
    Ok(lookup.checks.iter().map(|name| (*name, check(*name, facts))).collect())
}

fn hosts(lookup: &ChecksLookup, stock: &Option<ImageRef>) -> BTreeSet<String> {
    let base = lookup.base.as_ref().map(PinnedRef::repo);
    let stock = stock.as_ref().map(ImageRef::repo);
    let repos = [Some(lookup.image.repo()), Some(&lookup.push), base, stock];
    repos.into_iter().flatten().map(|repo| repo.host().to_owned()).collect()
}

/// The release of the cluster; nothing on a cluster without one.
fn cluster_of(resolver: &Resolver, settings: &ClusterSettings) -> Cluster {
    let Some(controller_config) = resolver.cache.controller_configs.get(RENDERER) else {
        return Cluster::default();
    };
    let release = &controller_config["metadata"]["annotations"][labels::RELEASE_IMAGE_VERSION];
    let base = settings.base_os_container_image.as_ref();
    Cluster {
        base: base.and_then(|base| base.parse().ok()),
        release: release.as_str().map(str::to_owned),
    }
}

/// Manifest and config of an image.
async fn read(
    client: &Client,
    image: ImageRef,
    platform: Option<&Platform>,
) -> Result<Base, Problem> {
    let found = client.resolve_of_any_platform(&Source::Registry(image), platform).await?;
    let name = BaseName::from_layout(found.manifest);
    let (manifest, config) = (&found.manifest_bytes, &found.config_bytes);
    let base = Base::new(name, found.pinned_text(), found.index, manifest, config);
    base.map_err(|error| invalid_input("bad-image", error.to_string()))
}

/// What was read, or why it can't be known. A retry may help only if a registry did not answer.
async fn known(
    reading: Option<impl Future<Output = Result<Base, Problem>>>,
    absent: &str,
) -> Result<Fact<Base>, Problem> {
    let Some(reading) = reading else {
        return Ok(Fact::Unknown(absent.to_owned()));
    };
    match reading.await {
        Ok(base) => Ok(Fact::Known(base)),
        Err(problem) if problem.class == ErrorClass::Transient => Err(problem),
        Err(problem) => Ok(Fact::Unknown(problem.message)),
    }
}

/// The version of the API server.
async fn kubernetes(resolver: &Resolver, is_needed: bool) -> Fact<KubernetesMinor> {
    if !is_needed {
        return Fact::Unknown("no check needs it".to_owned());
    }
    match resolver.client.apiserver_version().await {
        Ok(found) => match found.git_version.parse() {
            Ok(minor) => Fact::Known(minor),
            Err(cause) => Fact::Unknown(format!("{:?}: {cause}", found.git_version)),
        },
        Err(error) => Fact::Unknown(describe(&error)),
    }
}

/// What is in an image, if its one layer is on something whose tree was recorded.
async fn contents(
    lookup: &ChecksLookup,
    client: &Client,
    image: &Base,
    base: &Fact<Base>,
) -> Result<Fact<Contents>, Problem> {
    let unknown = |why: &str| Ok(Fact::Unknown(why.to_owned()));
    let Some(lower) = lookup.lower else {
        return unknown("programs were run to make it, or it was built elsewhere");
    };
    let is_base = lookup.base.as_ref().is_some_and(|base| base.digest() == lower);
    let below = match base {
        Fact::Known(base) if is_base => base.config.diff_ids.clone(),
        Fact::Unknown(why) if is_base => return unknown(why),
        _ => {
            let prepared = ImageRef::from(lookup.push.pinned(lower));
            let prepared = read(client, prepared, lookup.platform.as_ref());
            match known(Some(prepared), "").await? {
                Fact::Known(prepared) => prepared.config.diff_ids,
                Fact::Unknown(why) => return unknown(&why),
            }
        }
    };
    let own = &image.config.diff_ids;
    if !own.starts_with(&below) || own.len() > below.len() + 1 {
        return unknown("programs were run to make it");
    }
    let contents = match &lookup.tree {
        Some(tree) => contents_of(client, tree, &lower, image).await,
        None => None,
    };
    Ok(contents
        .map_or(Fact::Unknown("no build recorded the tree of its base".to_owned()), Fact::Known))
}

async fn contents_of(
    client: &Client,
    tree: &PinnedRef,
    lower: &Digest,
    image: &Base,
) -> Option<Contents> {
    match tree_image::pull(client, tree, lower).await {
        Ok(tree) => {
            let tree = tree?;
            // It may have 100,000 paths.
            spawn_blocking(move || Contents::of(&tree)).await.ok()
        }
        Err(warning) => {
            tracing::info!("{}: its packages are not checked: {}", image.image, warning.message);
            None
        }
    }
}
