//! Package sources of builds: entitlements, repositories and keys. A pod can mount only objects of
//! its own namespace, so objects in the operator's namespace are copied.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::ObjectMeta;

use super::Resolver;
use mosb_api::{BuildName, PoolName};
use mosb_cluster::cluster_cache::ClusterCache;
use mosb_cluster::cluster_names::YUM_REPOSITORIES;
use mosb_reconcile::Problem;
use mosb_workload::{Input, PackageSource};

/// Copies of Secrets in the operator's namespace, by source.
pub(super) type Copies = BTreeMap<PackageSource, Input>;

/// The objects that the pods of one build mount.
#[derive(Debug, Default)]
pub(super) struct Packages {
    pub entitlement: Option<String>,
    pub repositories: Option<String>,
    pub keys: Option<String>,
    /// The copies among them, to be created.
    pub copies: Vec<Input>,
}

fn secrets(pool: &PoolName) -> [(PackageSource, String); 2] {
    [
        (PackageSource::Entitlement, format!("etc-pki-entitlement-{pool}")),
        (PackageSource::Keys, "etc-pki-rpm-gpg".to_owned()),
    ]
}

/// Copies of those Secrets that exist only in the operator's namespace.
pub(super) async fn copies(
    resolver: &Resolver,
    pool: &PoolName,
    build: &BuildName,
) -> Result<Copies, Problem> {
    let mut copies = Copies::new();
    if !resolver.cache.has_unwatched_secrets() {
        return Ok(copies);
    }
    for (source, name) in secrets(pool) {
        if resolver.cache.secrets.get(&name).is_some() {
            continue;
        }
        match resolver.read_secret(&name).await {
            Ok(Some(secret)) => {
                let copy = Secret {
                    metadata: named(source.copy_name(build)),
                    data: secret.data,
                    ..Secret::default()
                };
                copies.insert(source, Input::Secret(copy));
            }
            Ok(None) => {}
            // Most clusters have none, which looks the same as missing permission.
            Err(problem) if problem.reason == "no-secret" => {
                tracing::debug!("{}", problem.message);
            }
            Err(problem) => return Err(problem),
        }
    }
    Ok(copies)
}

impl Packages {
    pub fn of(cache: &ClusterCache, pool: &PoolName, build: &BuildName, copies: &Copies) -> Self {
        let mut packages = Self::default();
        for (source, name) in secrets(pool) {
            let mounted = match (cache.secrets.get(&name), copies.get(&source)) {
                (Some(_), _) => Some(name),
                (None, Some(copy)) => {
                    packages.copies.push(copy.clone());
                    Some(copy.name().to_owned())
                }
                (None, None) => None,
            };
            match source {
                PackageSource::Entitlement => packages.entitlement = mounted,
                PackageSource::Repositories => packages.repositories = mounted,
                PackageSource::Keys => packages.keys = mounted,
            }
        }
        packages.repositories = cache.named(YUM_REPOSITORIES).map(|map| {
            if !cache.has_unwatched_secrets() {
                return YUM_REPOSITORIES.to_owned();
            }
            let name = PackageSource::Repositories.copy_name(build);
            packages.copies.push(Input::ConfigMap(ConfigMap {
                metadata: named(name.clone()),
                data: map.data.clone(),
                binary_data: map.binary_data.clone(),
                ..ConfigMap::default()
            }));
            name
        });
        packages
    }
}

fn named(name: String) -> ObjectMeta {
    ObjectMeta { name: Some(name), ..ObjectMeta::default() }
}
