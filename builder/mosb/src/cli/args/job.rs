//! The parts of a build that run inside a build pod. Credentials are named by their files, never typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::StorageDriver;

/// One of the parts.
#[derive(Debug, Subcommand)]
pub enum InPod {
    /// Builds: directly, and pushes (--result), or with buildah into a folder (--image)
    ///
    /// The plan is made anew from what is mounted, and must have the build name that the Job is for. A direct build that
    /// turns out to need a Containerfile says so in its result, pushes nothing, and ends well: it is an answer, not a failure.
    ///
    /// Example:
    ///
    ///   mosb job build --base quay.io/acme/os@sha256:… --base-name quay.io/acme/os:stable --platform linux/amd64 \\
    ///     --build-name worker-… --push registry.example.com/os/worker --result /run/mosb/result
    #[command(verbatim_doc_comment)]
    Build(Box<JobBuild>),
    /// Pushes what `mosb job build --image` left in a folder, of which nothing is believed
    ///
    /// Layers of the base are never read there: they are where the base is. The others are unpacked, compared with what the
    /// image's config says of them, compressed and sent.
    ///
    /// Example:
    ///
    ///   mosb job push --base quay.io/acme/os@sha256:… --base-name quay.io/acme/os:stable --platform linux/amd64 \\
    ///     --build-name worker-… --push registry.example.com/os/worker --image /run/mosb/image --result /run/mosb/result
    #[command(verbatim_doc_comment)]
    Push(Box<JobPush>),
    /// Waits for the result of the other containers, and puts it into a ConfigMap
    ///
    /// The sidecar of a build pod. It reaches the API by its pod's token (or KUBECONFIG), may only get and patch that one
    /// ConfigMap, and runs until SIGTERM, on which it delivers what is there and ends.
    ///
    /// Example:
    ///
    ///   mosb job wait-for-done --result /run/mosb/result --config-map digest-worker-… --namespace mosb-system \\
    ///     --job-uid 0b9c… --build-name worker-…
    #[command(verbatim_doc_comment)]
    WaitForDone(WaitForDone),
}

/// What an image is made of, as a pod finds it.
#[derive(Debug, Args)]
pub struct JobInputs {
    /// Where the rendered MachineConfig is mounted: its ConfigMaps in folders 0, 1, and on, or one by itself
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
    /// What labels call the base
    #[arg(long, value_name = "TEXT")]
    pub base_name: String,
    /// The image with the packages of spec.extensions, by digest
    #[arg(long, value_name = "IMAGE@DIGEST")]
    pub extensions_image: Option<String>,
    /// Which platform the image is for, as linux/amd64
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: String,
    /// Name of the build that the Job is for
    #[arg(long, value_name = "NAME")]
    pub build_name: String,
    /// The repository that the image goes to
    #[arg(long, value_name = "REPO")]
    pub push: String,
    /// An ARG of the Containerfile; may be repeated
    #[arg(long, value_name = "K=V", requires = "containerfile")]
    pub build_arg: Vec<String>,
    /// An image with the base's tree, by the digest that was recorded when it was pushed
    #[arg(long, value_name = "IMAGE@DIGEST")]
    pub base_tree: Option<String>,
    /// UID of the Job, for the result
    #[arg(long, value_name = "UID", env = "MOSB_JOB_UID", default_value = "")]
    pub job_uid: String,
    /// Where the container's termination message goes, if it is there
    #[arg(long, value_name = "FILE", default_value = "/dev/termination-log")]
    pub termination_log: PathBuf,
}

/// `mosb job build`.
#[derive(Debug, Args)]
pub struct JobBuild {
    /// What it is made of.
    #[command(flatten)]
    pub inputs: JobInputs,
    /// Build directly and push; the folder where the sidecar waits for the result
    #[arg(long, value_name = "DIR", required_unless_present = "image", conflicts_with_all = ["image", "failure"])]
    pub result: Option<PathBuf>,
    /// Build with buildah; the folder where the image is left
    #[arg(long, value_name = "DIR", requires = "failure")]
    pub image: Option<PathBuf>,
    /// With --image: the folder where a failure is told
    #[arg(long, value_name = "DIR", requires = "image")]
    pub failure: Option<PathBuf>,
    /// A folder that RUN lines see, such as entitlements, or a copy of it that they may write; may be repeated. Never part of a layer
    #[arg(long, value_name = "SRC:DST[:ro|copy]", requires = "image")]
    pub volume: Vec<String>,
    /// Where buildah keeps layers; without, overlay if it works here, else vfs
    #[arg(long, value_enum, value_name = "DRIVER", requires = "image")]
    pub storage_driver: Option<StorageDriver>,
    /// Refuse to build where root is root on the node
    #[arg(long, requires = "image")]
    pub require_user_namespace: bool,
}

/// `mosb job push`.
#[derive(Debug, Args)]
pub struct JobPush {
    /// What it is made of.
    #[command(flatten)]
    pub inputs: JobInputs,
    /// The folder where the image was left
    #[arg(long, value_name = "DIR")]
    pub image: PathBuf,
    /// The folder where the sidecar waits for the result
    #[arg(long, value_name = "DIR")]
    pub result: PathBuf,
}

/// `mosb job wait-for-done`.
#[derive(Debug, Args)]
pub struct WaitForDone {
    /// The folder where a push leaves its result
    #[arg(long, value_name = "DIR")]
    pub result: PathBuf,
    /// The folder where a build leaves its failure; nothing else is believed from there
    #[arg(long, value_name = "DIR")]
    pub failure: Option<PathBuf>,
    /// The ConfigMap that gets the result
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
