//! Names of the objects that mosb reads in every cluster, and by which it recognises other
//! controllers.

/// Where the Jobs on machines run, whatever namespace the controller is in.
pub const ROLLOUT_NAMESPACE: &str = "mosb-rollout";
/// Where `mosb serve-ignition` runs, whatever namespace the controller is in.
pub const IGNITION_NAMESPACE: &str = "mosb-ignition";
/// Secret there, which the server mounts: its certificate, and configs and hashes of tokens of pools.
pub const IGNITION_SERVER: &str = "mosb-ignition-server";
/// Secret in mosb's namespace: the CA of the server, and the key of which tokens are made.
pub const IGNITION_AUTHORITY: &str = "mosb-ignition-authority";
/// ConfigMap that kubeadm makes for machines that join, and its namespace.
pub const CLUSTER_INFO: &str = "cluster-info";
pub const PUBLIC_NAMESPACE: &str = "kube-public";
/// Where the Machine Config Operator is installed.
pub const OPERATOR_NAMESPACE: &str = "openshift-machine-config-operator";
/// Deployment of the Machine Config Operator.
pub const OPERATOR: &str = "machine-config-operator";
/// Deployment of its builder of images.
pub const OTHER_BUILDER: &str = "machine-os-builder";
/// The Deployment that renders pools for a Machine Config Operator, and its ControllerConfig.
pub const RENDERER: &str = "machine-config-controller";
/// DaemonSet that applies rendered configs on machines.
pub const DAEMON: &str = "machine-config-daemon";
/// The `Image` object of OpenShift's configuration.
pub const IMAGE_CONFIG: &str = "cluster";

/// ConfigMap with the boot images of the release.
pub const BOOT_IMAGES: &str = "coreos-bootimages";
/// ConfigMap with the images of the OpenShift release.
pub const OPERATOR_IMAGES: &str = "machine-config-operator-images";
/// ConfigMap of mosb: the base trees that build pods pushed, by the digest of the base's manifest.
pub const BASE_TREES: &str = "mosb-base-trees";
/// ConfigMap of mosb: the prepared bases that build pods pushed.
pub const PREPARED_BASES: &str = "mosb-prepared-bases";
/// ConfigMap with the build settings of pools with the label `layering-enabled`.
pub const BUILD_CONFIG: &str = "on-cluster-build-config";
/// ConfigMap with the base image of those pools.
pub const OS_IMAGE_URL: &str = "machine-config-osimageurl";
/// ConfigMap with the Containerfiles of those pools, one key for each.
pub const CUSTOM_DOCKERFILE: &str = "on-cluster-build-custom-dockerfile";
/// ConfigMap with yum repositories for builds.
pub const YUM_REPOSITORIES: &str = "etc-yum-repos-d";
