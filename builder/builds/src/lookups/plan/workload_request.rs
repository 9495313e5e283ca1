//! The request for a workload of a plan.

use super::CachedPlan;
use crate::lookups::invalid_input;
use crate::lookups::packages::Packages;
use crate::observe::{machine_role, recorded_tree};
use crate::prepared_bases::PreparedUse;
use crate::snapshot::Support;
use crate::snapshot::made_on;
use mosb_api::cluster_settings::UserNamespaces;
use mosb_api::{ImageBuilderType, labels};
use mosb_build::{JobMethod, NamedSecret, pull_repositories, registries_conf};
use mosb_cluster::cluster_cache::{ClusterCache, IndexKey};
use mosb_image::{Digest, PinnedRef, RepoRef};
use mosb_plan::payload::{BuildSpec, ImageInService, PreparedImageUse};
use mosb_reconcile::Problem;
use mosb_registry::registries_conf::By;
use mosb_workload::JobRequest;

/// Parameters of one workload of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadParams<'a> {
    pub build_uid: &'a str,
    pub config: &'a str,
    pub attempt: u32,
    pub builder: ImageBuilderType,
    pub method: JobMethod,
    pub prepared: PreparedUse,
    /// Whether pods can have user namespaces.
    pub user_namespaces: Support,
    /// Image of the build pod if the settings name none.
    pub builder_image: Option<&'a str>,
    /// Whether the ServiceAccount needs permission to use SecurityContextConstraints.
    pub security_context_constraints: bool,
}

impl CachedPlan {
    /// The request for a workload of this plan.
    ///
    /// # Errors
    /// No image to run, no user namespace where one is required, more data than ConfigMaps can
    /// hold.
    pub fn workload_request(
        &self,
        params: &WorkloadParams<'_>,
        cache: &ClusterCache,
    ) -> Result<JobRequest, Problem> {
        let (workload_spec, settings) = (&self.workload_spec, &self.settings);
        let builder_image = builder_image(settings.builder_image.as_deref(), params.builder_image)?;
        let (payload, openshift) = workload_spec.payload.clone()?;
        let (pool, push) = (self.lookup.pool.as_str(), &self.lookup.push);
        let tree = |of: &Digest| recorded_tree(cache, pool, push, of);
        let packages = Packages::of(cache, &self.lookup.pool, &self.planned.build, &self.copies);
        let conf = registries_conf(settings);
        let pulled = workload_spec.pulled.iter().chain([self.planned.base.repo()]);
        let pulled: Vec<RepoRef> = pulled
            .flat_map(|repo| pull_repositories(repo, conf.as_deref(), &[By::Digest, By::Tag]))
            .collect();
        let prepared = match params.prepared {
            PreparedUse::Without => PreparedImageUse::Without,
            PreparedUse::Make => PreparedImageUse::Make,
            PreparedUse::On(digest) => {
                PreparedImageUse::On { image: push.pinned(digest), tree: tree(&digest) }
            }
        };
        let base = self.planned.base.digest();
        let on = match params.prepared {
            PreparedUse::Without => Some(base),
            PreparedUse::Make => None,
            PreparedUse::On(prepared) => Some(prepared),
        };
        let in_service = image_in_service(cache, params.config).and_then(|(image, before)| {
            let tree = tree(&before).filter(|_| on != Some(before))?;
            Some(ImageInService { image, on: before, tree })
        });
        let base_tree = tree(&base);
        Ok(JobRequest {
            spec: BuildSpec { base_tree, prepared, in_service, ..workload_spec.spec.clone() },
            build_uid: params.build_uid.to_owned(),
            config: params.config.to_owned(),
            pool: self.lookup.pool.clone(),
            rendered: self.lookup.rendered.clone(),
            attempt: params.attempt,
            builder: params.builder,
            method: params.method,
            payload,
            pull: NamedSecret {
                name: self.pull.name.clone(),
                credentials: self.pull.credentials.used_for(&pulled),
            },
            push_secret: self.push.clone(),
            entitlement: packages.entitlement,
            repositories: packages.repositories,
            package_keys: packages.keys,
            copies: packages.copies,
            registries_conf: conf,
            signature_policy: settings.pull_policy().map(|policy| policy.with_signatures()),
            certs: settings.image_registry_bundles.clone(),
            registry_trust: settings.registry_trust_bundle.clone(),
            proxy: self.proxy.clone(),
            openshift,
            builder_image: builder_image.to_owned(),
            settings: settings.job.clone(),
            machine_role: cache
                .pools
                .get(pool)
                .map(|pool| machine_role(cache, &pool))
                .unwrap_or_default(),
            node_platform: self.lookup.platform.clone(),
            security_context_constraints: params.security_context_constraints,
            user_namespaces: user_namespace(settings.job.user_namespaces, params)?,
        })
    }
}

/// The image in service, and what its layer is on, if a build of mosb made it.
fn image_in_service(cache: &ClusterCache, config: &str) -> Option<(Digest, Digest)> {
    let in_service = cache.configs.get(config)?.status.current_image_pull_spec.clone();
    let builds = cache.builds.by_index([IndexKey::Config(config.to_owned())]);
    let mut made_it = builds.iter().filter(|build| {
        // One that adopted it says nothing about how it was made.
        let is_adopted = build.metadata.annotations.contains_key(labels::ADOPTED_FROM);
        build.status.image() == Some(&*in_service) && !is_adopted
    });
    let image: PinnedRef = in_service.parse().ok()?;
    Some((image.digest(), made_on(made_it.next()?)?))
}

/// The image of build pods. They hold push credentials, so the settings must name it by digest.
fn builder_image<'a>(set: Option<&'a str>, own: Option<&'a str>) -> Result<&'a str, Problem> {
    match (set, own) {
        (Some(set), own) if own == Some(set) || set.parse::<PinnedRef>().is_ok() => Ok(set),
        (Some(set), _) => {
            let message = format!(
                "builderImage of ConfigMap mosb-config: {set:?} has no digest, and build pods hold the push credentials; write host/repository@sha256:…, or leave it out for the controller's own image"
            );
            Err(invalid_input("bad-reference", message))
        }
        (None, Some(own)) => Ok(own),
        (None, None) => {
            let message = "builderImage of ConfigMap mosb-config: it names no image, and this controller does not know its own; name it there";
            Err(invalid_input("no-builder-image", message.to_owned()))
        }
    }
}

/// Whether `RUN` lines get a user namespace. If support is unknown and one is required, it is
/// requested, and the pod fails without it.
fn user_namespace(
    build_request: UserNamespaces,
    params: &WorkloadParams<'_>,
) -> Result<bool, Problem> {
    let there = params.user_namespaces;
    match build_request {
        UserNamespaces::Required
            if there == Support::No && params.method == JobMethod::Containerfile =>
        {
            let message = "job.userNamespaces of ConfigMap mosb-config is required, and the cluster's nodes don't support user namespaces for pods; use nodes that do, or set auto";
            Err(invalid_input("no-user-namespace", message.to_owned()))
        }
        UserNamespaces::Required => Ok(true),
        UserNamespaces::Never => Ok(false),
        UserNamespaces::Auto => Ok(there == Support::Yes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_api::{MachineOsBuild, MachineOsConfig};
    use serde_json::{Value, json};

    #[test]
    fn the_image_in_service_is_on_what_its_own_build_was() {
        let digest = |of: &str| Digest::of(of.as_bytes());
        let image = |of: &str| format!("quay.io/acme/os@{}", digest(of));
        let build = |name: &str, annotations: Value| {
            json!({ "metadata": { "name": name, "annotations": annotations },
                "spec": { "machineOSConfig": { "name": "worker" } },
                "status": { "digestedImagePushSpec": image("now"),
                    "conditions": [{ "type": "Succeeded", "status": "True" }] } })
        };
        let on = |method: &str, prepared: Option<Digest>| {
            let base = image("base");
            let mut annotations = json!({ labels::BASE: base, labels::METHOD: method });
            if let Some(prepared) = prepared {
                annotations[labels::PREPARED] = json!(prepared);
            }
            annotations
        };
        let adopted = json!({ labels::BASE: image("other"), labels::ADOPTED_FROM: "made" });
        for (what, annotations, want) in [
            ("direct", on("direct", None), Some("base")),
            ("prepared", on("containerfile", Some(digest("prepared"))), Some("prepared")),
            ("whole Containerfile", on("containerfile", None), None),
            ("of another builder", json!({}), None),
        ] {
            let cache = ClusterCache::empty("mosb");
            let config = json!({ "metadata": { "name": "worker" },
                "status": { "currentImagePullSpec": image("now") } });
            let config: MachineOsConfig = serde_json::from_value(config).unwrap();
            cache.configs.replace([("worker".to_owned(), config)]);
            let builds = [build("adopted", adopted.clone()), build("made", annotations)];
            cache.builds.replace(builds.into_iter().map(|build| {
                let build: MachineOsBuild = serde_json::from_value(build).unwrap();
                (build.metadata.name.clone(), build)
            }));
            let want = want.map(|on| (digest("now"), digest(on)));
            assert_eq!(image_in_service(&cache, "worker"), want, "{what}");
        }
        assert_eq!(image_in_service(&ClusterCache::empty("mosb"), "worker"), None);
    }

    #[test]
    fn build_pods_run_the_controllers_own_image_or_one_by_digest() {
        let pinned = format!("quay.io/mosb@sha256:{}", "1".repeat(64));
        let own = "registry.example/mosb:v1";
        for (what, set, known, want) in [
            ("nothing set", None, Some(own), Ok(own)),
            ("by digest", Some(&*pinned), Some(own), Ok(&*pinned)),
            ("our own by its tag", Some(own), Some(own), Ok(own)),
            ("another by tag", Some("quay.io/mosb:v1"), Some(own), Err("bad-reference")),
            ("a tag, and our own is not known", Some(own), None, Err("bad-reference")),
            ("nothing is known", None, None, Err("no-builder-image")),
        ] {
            let got = builder_image(set, known);
            let got = got.as_ref().map(|image| *image).map_err(|problem| &*problem.reason);
            assert_eq!(got, want, "{what}");
        }
    }
}
