//! Names of objects, volumes and containers.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PodSpec, Volume};

use super::{InputKind, PackageSource};
use mosb_api::{BuildName, object_name};

/// Prefix of the mirrors' ConfigMap.
pub(super) const REGISTRIES: &str = "etc-registries";
/// Prefix of the ConfigMap with the registries' CAs.
pub(super) const CERTS: &str = "certs";
/// Prefix of the result's ConfigMap.
pub(super) const DIGEST: &str = "digest";
/// Prefix of the pull Secret.
pub(super) const PULL: &str = "base";
/// Prefix of the push Secret.
pub(super) const PUSH: &str = "final";
/// Prefix of the Secret with the proxy's variables.
pub(super) const PROXY: &str = "proxy";
/// Prefix of ServiceAccount, Role and RoleBinding.
pub(super) const ACCOUNT: &str = "build";

/// Key of mirrors.
pub(super) const REGISTRIES_KEY: &str = "registries.conf";
/// Key of what may be pulled.
pub(super) const POLICY_KEY: &str = "policy.json";
/// Key of the CAs for every registry.
pub(super) const REGISTRY_TRUST_KEY: &str = "registry-trust.pem";

/// The sidecar.
pub(super) const WAIT_FOR_DONE: &str = "wait-for-done";
/// Builds; in a direct pod, it pushes too.
pub(super) const IMAGE_BUILD: &str = "image-build";
/// Fetches what the last part of a Containerfile starts from.
pub(super) const IMAGE_FETCH: &str = "image-fetch";
/// Pushes the image that buildah made.
pub(super) const IMAGE_PUSH: &str = "image-push";

/// Volumes, as `job-templates/` call them.
pub(super) mod volumes {
    pub const BUILD_SPEC: &str = "build-spec";
    pub const MACHINE_CONFIG: &str = "machineconfig";
    pub const CONTAINERFILE: &str = "containerfile";
    pub const TRUST_BUNDLE: &str = "additional-trust-bundle";
    pub const REGISTRIES: &str = "etc-registries";
    pub const CERTS: &str = "certs";
    pub const REGISTRY_TRUST: &str = "registry-trust";
    pub const PULL: &str = "base-image-pull-creds";
    pub const PUSH: &str = "final-image-push-creds";
    pub const ENTITLEMENT: &str = "etc-pki-entitlement";
    pub const REPOSITORIES: &str = "etc-yum-repos-d";
    pub const PACKAGE_KEYS: &str = "etc-pki-rpm-gpg";
}

/// Where `job-templates/` mount volumes, for what a pod may have or not.
pub mod mounts {
    pub const MACHINE_CONFIG: &str = "/run/mosb/machine-config";
    pub const CONTAINERFILE: &str = "/run/mosb/containerfile";
    pub const TRUST_BUNDLE: &str = "/run/mosb/trust-bundle";
    pub const REGISTRIES: &str = "/run/mosb/registries";
    pub const ENTITLEMENT: &str = "/run/mosb/etc-pki-entitlement";
    pub const REPOSITORIES: &str = "/run/mosb/etc-yum-repos-d";
    pub const PACKAGE_KEYS: &str = "/run/mosb/etc-pki-rpm-gpg";
}

/// Name of the ConfigMap for the pod's result.
pub fn result_name(build: &BuildName) -> String {
    object_name(DIGEST, build)
}

/// The inputs that must exist, owned by the Job, before it is unsuspended: everything that its pod
/// mounts or reads, except the administrator's own objects, and what the sidecar needs to write.
/// Read from the Job itself, so that later changes of the settings don't matter.
pub fn input_names(job: &Job, build: &BuildName) -> BTreeSet<(InputKind, String)> {
    let account = object_name(ACCOUNT, build);
    let mut names = BTreeSet::from([
        (InputKind::ConfigMap, result_name(build)),
        (InputKind::ServiceAccount, account.clone()),
        (InputKind::Role, account.clone()),
        (InputKind::RoleBinding, account),
    ]);
    let pod = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    if let Some(pod) = pod {
        names.extend(mounted(pod, build));
        names.extend(read_as_variables(pod));
    }
    names
}

fn mounted<'a>(
    pod: &'a PodSpec,
    build: &'a BuildName,
) -> impl Iterator<Item = (InputKind, String)> + 'a {
    // The administrator's own objects.
    let foreign = |volume: &&Volume| {
        let mut sources = PackageSource::ALL.into_iter();
        let source = sources.find(|source| source.volume() == volume.name);
        source.is_some_and(|source| !names(volume).contains(&source.copy_name(build)))
    };
    let ours = pod.volumes.iter().flatten().filter(move |v| !foreign(v));
    ours.flat_map(|volume| {
        let map = volume.config_map.as_ref().map(|source| &source.name);
        let secret = volume.secret.as_ref().and_then(|s| s.secret_name.clone());
        let parts = volume.projected.as_ref().and_then(|p| p.sources.as_ref());
        let parts = parts.into_iter().flatten().filter_map(|part| part.config_map.as_ref());
        let maps = map.into_iter().chain(parts.map(|part| &part.name));
        // Kubernetes creates this one in every namespace.
        let maps = maps.filter(|name| *name != ROOT_CA);
        let maps = maps.map(|name| (InputKind::ConfigMap, name.clone()));
        maps.chain(secret.map(|name| (InputKind::Secret, name))).collect::<Vec<_>>()
    })
}

/// Names of the ConfigMaps or Secrets of a volume.
fn names(volume: &Volume) -> Vec<String> {
    let map = volume.config_map.as_ref().map(|source| source.name.clone());
    let secret = volume.secret.as_ref();
    let secret = secret.and_then(|source| source.secret_name.clone());
    map.into_iter().chain(secret).collect()
}

/// The ConfigMap with the API server's CA.
const ROOT_CA: &str = "kube-root-ca.crt";

fn read_as_variables(pod: &PodSpec) -> impl Iterator<Item = (InputKind, String)> {
    let all = pod.init_containers.iter().flatten().chain(&pod.containers);
    let sources = all.flat_map(|container| container.env_from.iter().flatten());
    let secrets = sources.filter_map(|source| source.secret_ref.as_ref());
    secrets.map(|secret| (InputKind::Secret, secret.name.clone()))
}
