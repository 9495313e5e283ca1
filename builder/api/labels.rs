//! Labels and annotations, spelt as the existing API spells them; those that only mosb has begin with `mosb.dev/`.

/// Image label: name of the rendered MachineConfig.
pub const IMAGE_MACHINE_CONFIG: &str = "machineconfig";
/// Image label: name of the pool.
pub const IMAGE_MACHINE_CONFIG_POOL: &str = "machineconfigpool";
/// Image label: pullspec of the base OS image.
pub const IMAGE_BASE: &str = "baseOSContainerImage";
/// Image label: SHA-256 of the canonical inputs, 64 hex digits.
pub const IMAGE_INPUTS: &str = "mosb.dev/inputs";
/// Image label: the integer that is raised only when output bytes change.
pub const IMAGE_FORMAT: &str = "mosb.dev/format";
/// Image label of OCI: the name of the base image.
pub const OCI_BASE_NAME: &str = "org.opencontainers.image.base.name";
/// Image label of OCI: the digest of the base image's manifest.
pub const OCI_BASE_DIGEST: &str = "org.opencontainers.image.base.digest";

/// Annotation of a rendered MachineConfig: which renderer made it.
pub const GENERATED_BY_CONTROLLER_VERSION: &str =
    "machineconfiguration.openshift.io/generated-by-controller-version";
/// Annotation of a rendered MachineConfig: the release it belongs to.
pub const RELEASE_IMAGE_VERSION: &str = "machineconfiguration.openshift.io/release-image-version";

/// Annotation of a rendered MachineConfig: `true` when an administrator's MachineConfig names the base OS image.
pub const OS_IMAGE_URL_OVERRIDDEN: &str =
    "machineconfiguration.openshift.io/os-image-url-overridden";
/// Label of a MachineConfig: the pool or role that it is for.
pub const ROLE: &str = "machineconfiguration.openshift.io/role";

/// Label of everything that serves a build of a rendered MachineConfig.
pub const RENDERED_MACHINE_CONFIG: &str =
    "machineconfiguration.openshift.io/rendered-machine-config";
/// Label of everything that serves a build for a pool.
pub const TARGET_MACHINE_CONFIG_POOL: &str =
    "machineconfiguration.openshift.io/target-machine-config-pool";
/// Label of everything that serves a MachineOSBuild.
pub const MACHINE_OS_BUILD: &str = "machineconfiguration.openshift.io/machine-os-build";
/// Label of objects that live as long as a build.
pub const EPHEMERAL_BUILD_OBJECT: &str = "machineconfiguration.openshift.io/ephemeral-build-object";
/// Label of all objects of on-cluster layering.
pub const ON_CLUSTER_LAYERING: &str = "machineconfiguration.openshift.io/on-cluster-layering";
