//! The parts of a build that run inside a build pod. Credentials are named by their files, never typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::StorageDriver;
use mosb_plan::api::BuildOn;

/// One of the parts.
#[derive(Debug, Subcommand)]
pub enum InPod {
    /// Builds: directly, and pushes (--result), or with buildah into a folder (--image)
    ///
    /// Plans again from the mounted inputs; the plan must have the build name of the Job. If a direct build turns out to need
    /// a Containerfile, the result reports that, nothing is pushed, and the exit code is 0.
    ///
    /// Example:
    ///
    ///   mosb job build --base quay.io/acme/os@sha256:… --base-name quay.io/acme/os:stable --platform linux/amd64 \\
    ///     --build-name worker-… --push registry.example.com/os/worker --result /run/mosb/result
    #[command(verbatim_doc_comment)]
    Build(Box<JobBuild>),
    /// Pushes the image that `mosb job build --image` wrote to a folder, after checking all of it
    ///
    /// Layers of the base are not read from the folder: the registry of the base has them. The others are unpacked, compared
    /// with the image's config, compressed and pushed.
    ///
    /// Example:
    ///
    ///   mosb job push --base quay.io/acme/os@sha256:… --base-name quay.io/acme/os:stable --platform linux/amd64 \\
    ///     --build-name worker-… --push registry.example.com/os/worker --image /run/mosb/image --result /run/mosb/result
    #[command(verbatim_doc_comment)]
    Push(Box<JobPush>),
    /// Fetches what `mosb job build --image` starts from if it runs only the last part of a Containerfile
    ///
    /// Plans the image on the prepared base (--prepared), and writes that with the layer of the config into the folder,
    /// without the layers of the base. If something must be run to write the config, the result reports that.
    ///
    /// Example:
    ///
    ///   mosb job fetch --base quay.io/acme/os@sha256:… --base-name quay.io/acme/os:stable --platform linux/amd64 \\
    ///     --build-name worker-… --push registry.example.com/os/worker --prepared registry.example.com/os/worker@sha256:… \\
    ///     --image /run/mosb/image --result /run/mosb/result
    #[command(verbatim_doc_comment)]
    Fetch(Box<JobPush>),
    /// Waits for the result of the other containers, and writes it to a ConfigMap
    ///
    /// The sidecar of a build pod. It uses its pod's token (or KUBECONFIG), may only get and patch that one ConfigMap, and
    /// runs until SIGTERM. On SIGTERM it delivers the result, if there is one, and ends.
    ///
    /// Example:
    ///
    ///   mosb job wait-for-done --result /run/mosb/result --config-map digest-worker-… --namespace mosb-system \\
    ///     --job-uid 0b9c… --build-name worker-…
    #[command(verbatim_doc_comment)]
    WaitForDone(WaitForDone),
}

/// The inputs of an image, as they are mounted in a pod.
#[derive(Debug, Args)]
pub struct JobInputs {
    /// The mount of the rendered MachineConfig: its ConfigMaps in folders 0, 1, …, or one ConfigMap
    #[arg(long, value_name = "DIR", default_value = "/run/mosb/machine-config")]
    pub machine_config: PathBuf,
    /// The administrator's Containerfile
    #[arg(long, value_name = "FILE")]
    pub containerfile: Option<PathBuf>,
    /// Certificates (PEM) to add to the trust store
    #[arg(long, value_name = "FILE")]
    pub trust_bundle: Option<PathBuf>,
    /// The base OS image, by the digest of its manifest
    #[arg(long, value_name = "IMAGE@DIGEST")]
    pub base: String,
    /// The name of the base in labels
    #[arg(long, value_name = "TEXT")]
    pub base_name: String,
    /// The image with the packages of spec.extensions, by digest
    #[arg(long, value_name = "IMAGE@DIGEST")]
    pub extensions_image: Option<String>,
    /// The platform of the image, such as linux/amd64
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: String,
    /// Name of the build that the Job is for
    #[arg(long, value_name = "NAME")]
    pub build_name: String,
    /// The repository that the image is pushed to
    #[arg(long, value_name = "REPO")]
    pub push: String,
    /// An ARG of the Containerfile; may be repeated
    #[arg(long, value_name = "K=V", requires = "containerfile")]
    pub build_arg: Vec<String>,
    /// As the annotation mosb.dev/build-on [default: as for build]
    #[arg(long, value_parser = |s: &str| s.parse::<BuildOn>(), value_name = "CONFIGS")]
    pub build_on: Option<BuildOn>,
    /// The image with the base's tree, by digest
    #[arg(long, value_name = "IMAGE@DIGEST")]
    pub base_tree: Option<String>,
    /// Make a prepared base of what must be run, and the image on it
    #[arg(long, conflicts_with = "prepared")]
    pub prepare: bool,
    /// The prepared base that the image is made on, by digest
    #[arg(long, value_name = "IMAGE@DIGEST")]
    pub prepared: Option<String>,
    /// The image with the prepared base's tree, by digest
    #[arg(long, value_name = "IMAGE@DIGEST", requires = "prepared")]
    pub prepared_tree: Option<String>,
    /// The pool's images are built on control-plane nodes, and so are its prepared bases
    #[arg(long)]
    pub control_plane: bool,
    /// UID of the Job, for the result
    #[arg(long, value_name = "UID", env = "MOSB_JOB_UID", default_value = "")]
    pub job_uid: String,
    /// The file for the container's termination message, if it exists
    #[arg(long, value_name = "FILE", default_value = "/dev/termination-log")]
    pub termination_log: PathBuf,
}

/// `mosb job build`.
#[derive(Debug, Args)]
pub struct JobBuild {
    #[command(flatten)]
    pub inputs: JobInputs,
    /// Build directly and push; the folder in which the sidecar expects the result
    #[arg(long, value_name = "DIR", required_unless_present = "image", conflicts_with_all = ["image", "failure"])]
    pub result: Option<PathBuf>,
    /// Build with buildah; the folder for the image
    #[arg(long, value_name = "DIR", requires = "failure")]
    pub image: Option<PathBuf>,
    /// With --image: the folder for a failure report
    #[arg(long, value_name = "DIR", requires = "image")]
    pub failure: Option<PathBuf>,
    /// A folder for RUN lines, such as entitlements: read-only, or a copy to write to; may be repeated. Never in a layer
    #[arg(long, value_name = "SRC:DST[:ro|copy]", requires = "image")]
    pub volume: Vec<String>,
    /// How buildah stores layers [default: overlay if it works here, else vfs]
    #[arg(long, value_enum, value_name = "DRIVER", requires = "image")]
    pub storage_driver: Option<StorageDriver>,
    /// Reject the build if the pod's root is root on the node
    #[arg(long, requires = "image")]
    pub require_user_namespace: bool,
}

/// `mosb job push`, `mosb job fetch`.
#[derive(Debug, Args)]
pub struct JobPush {
    #[command(flatten)]
    pub inputs: JobInputs,
    /// The folder with the image
    #[arg(long, value_name = "DIR")]
    pub image: PathBuf,
    /// The folder in which the sidecar expects the result
    #[arg(long, value_name = "DIR")]
    pub result: PathBuf,
}

/// `mosb job wait-for-done`.
#[derive(Debug, Args)]
pub struct WaitForDone {
    /// The folder with the result of a push
    #[arg(long, value_name = "DIR")]
    pub result: PathBuf,
    /// The folder with the failure report of a build; only failures are accepted from it
    #[arg(long, value_name = "DIR")]
    pub failure: Option<PathBuf>,
    /// The ConfigMap for the result
    #[arg(long, value_name = "NAME")]
    pub config_map: String,
    /// Its namespace
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: String,
    /// UID of the Job, which must own the ConfigMap
    #[arg(long, value_name = "UID", env = "MOSB_JOB_UID")]
    pub job_uid: String,
    /// Name of the build that the Job is for
    #[arg(long, value_name = "NAME")]
    pub build_name: String,
}
