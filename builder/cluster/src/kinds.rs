//! The resource kinds that mosb reads without a library's type, and those that it writes.

use super::cluster_names::ROLLOUT_NAMESPACE;
use mosb_api::GROUP;
use mosb_reconcile::kind::{Kind, Scope};

const CONFIG_GROUP: &str = "config.openshift.io";
const RBAC: &str = "rbac.authorization.k8s.io";

pub const MACHINE_OS_CONFIG: Kind = deleted_last(ours("MachineOSConfig", "machineosconfigs"));
pub const MACHINE_OS_BUILD: Kind = deleted_last(ours("MachineOSBuild", "machineosbuilds"));
pub const MACHINE_CONFIG_POOL: Kind = ours("MachineConfigPool", "machineconfigpools");
pub const MACHINE_CONFIG: Kind = ours("MachineConfig", "machineconfigs");
/// Configuration of an OpenShift release.
pub const CONTROLLER_CONFIG: Kind = optional(ours("ControllerConfig", "controllerconfigs"));
pub const KUBELET_CONFIG: Kind = optional(ours("KubeletConfig", "kubeletconfigs"));
pub const CONTAINER_RUNTIME_CONFIG: Kind =
    optional(ours("ContainerRuntimeConfig", "containerruntimeconfigs"));
/// Mirrors for images that are pulled by digest.
pub const IMAGE_DIGEST_MIRROR_SET: Kind =
    optional(of_cluster(CONFIG_GROUP, "v1", "ImageDigestMirrorSet", "imagedigestmirrorsets"));
/// Mirrors for images that are pulled by tag.
pub const IMAGE_TAG_MIRROR_SET: Kind =
    optional(of_cluster(CONFIG_GROUP, "v1", "ImageTagMirrorSet", "imagetagmirrorsets"));
/// The older form of ImageDigestMirrorSet.
pub const IMAGE_CONTENT_SOURCE_POLICY: Kind = optional(of_cluster(
    "operator.openshift.io",
    "v1alpha1",
    "ImageContentSourcePolicy",
    "imagecontentsourcepolicies",
));
/// `Image` of OpenShift's configuration: which registries may be used.
pub const IMAGE_CONFIG: Kind = optional(of_cluster(CONFIG_GROUP, "v1", "Image", "images"));
/// `Build` of OpenShift's API.
pub const OPENSHIFT_BUILD: Kind = Kind {
    scope: Scope::OwnNamespace,
    ..optional(of_cluster("build.openshift.io", "v1", "Build", "builds"))
};
pub const NODE: Kind = Kind { scope: Scope::Cluster, ..built_in("", "Node", "nodes") };
pub const JOB: Kind = built_in("batch", "Job", "jobs");
/// A Job of a roll-out, in the namespace of these Jobs.
pub const NODE_JOB: Kind = Kind { scope: Scope::Namespace(ROLLOUT_NAMESPACE), ..JOB };
pub const POD: Kind = built_in("", "Pod", "pods");
pub const CONFIG_MAP: Kind = built_in("", "ConfigMap", "configmaps");
pub const SECRET: Kind = built_in("", "Secret", "secrets");
pub const SERVICE_ACCOUNT: Kind = built_in("", "ServiceAccount", "serviceaccounts");
pub const LEASE: Kind = built_in("coordination.k8s.io", "Lease", "leases");
pub const DEPLOYMENT: Kind = built_in("apps", "Deployment", "deployments");
pub const EVENT: Kind = built_in("", "Event", "events");
pub const ROLE: Kind = built_in(RBAC, "Role", "roles");
pub const ROLE_BINDING: Kind = built_in(RBAC, "RoleBinding", "rolebindings");

const fn ours(name: &'static str, plural: &'static str) -> Kind {
    of_cluster(GROUP, "v1", name, plural)
}

const fn of_cluster(
    group: &'static str,
    version: &'static str,
    name: &'static str,
    plural: &'static str,
) -> Kind {
    Kind {
        group,
        version,
        name,
        plural,
        scope: Scope::Cluster,
        is_built_in: false,
        is_optional: false,
        is_deleted_last: false,
    }
}

const fn built_in(group: &'static str, name: &'static str, plural: &'static str) -> Kind {
    let kind = of_cluster(group, "v1", name, plural);
    Kind { scope: Scope::OwnNamespace, is_built_in: true, ..kind }
}

const fn optional(kind: Kind) -> Kind {
    Kind { is_optional: true, ..kind }
}

const fn deleted_last(kind: Kind) -> Kind {
    Kind { is_deleted_last: true, ..kind }
}
