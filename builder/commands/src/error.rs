//! Errors of the command line itself: files, operands, arguments.

use std::io;

use tokio::task::JoinError;

use mosb_api::RenderedConfigError;
use mosb_api::yaml::YamlError;
use mosb_trust::KeyError;
use mosb_types::{Diagnostic, ErrorClass};

/// Why a command can't do what it was asked for.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    #[error("{0}")]
    #[diagnostic(code = "wrong-use", class = InvalidInput)]
    Usage(String),
    #[error("{file}: not readable; check the name and that this user may read it")]
    #[diagnostic(code = "unreadable-file", class = InvalidInput)]
    Read {
        /// The file, or `stdin`.
        file: String,
        source: io::Error,
    },
    #[error("{file}: more than {limit} bytes; no {what} is that large, give another file")]
    #[diagnostic(code = "file-too-large", class = InvalidInput)]
    TooLarge {
        /// The file, or `stdin`.
        file: String,
        what: &'static str,
        limit: usize,
    },
    #[error("{file}: not text in UTF-8; give a {what}")]
    #[diagnostic(code = "bad-file", class = InvalidInput)]
    NotText { file: String, what: &'static str },
    #[error("{file}: no certificate in it; give PEM (-----BEGIN CERTIFICATE-----)")]
    #[diagnostic(code = "bad-file", class = InvalidInput)]
    NoCertificate { file: String },
    #[error("{file}: {source}")]
    #[diagnostic(code = "bad-file", class = InvalidInput)]
    Yaml {
        /// The file, or `stdin`.
        file: String,
        source: YamlError,
    },
    #[error("{file}: neither YAML nor JSON; write `host: {{Name: value}}` for each host")]
    #[diagnostic(code = "bad-headers-file", class = InvalidInput)]
    Headers { file: String },
    #[error("the prepared base {image} is not there any more; the next attempt makes it again")]
    #[diagnostic(code = "prepared-missing", class = Transient)]
    PreparedMissing { image: String },
    #[error("{place}: {image}: the registry has no such tag; check the name")]
    #[diagnostic(code = "not-found", class = InvalidInput)]
    NoTag { place: String, image: String },
    #[error("{file}: {source}")]
    #[diagnostic(code = "bad-config", class = InvalidInput)]
    Config {
        /// The file, `stdin` or an image.
        file: String,
        source: RenderedConfigError,
    },
    #[error(
        "{image}: mosb did not build it, so it holds no rendered config; give an image that mosb built, or a config file"
    )]
    #[diagnostic(code = "not-built-by-mosb", class = InvalidInput)]
    NotBuilt { image: String },
    #[error("{image}: its {what} is not JSON; the image is damaged, push it again")]
    #[diagnostic(code = "bad-image", class = InvalidInput)]
    ImageJson {
        image: String,
        /// `manifest` or `config`.
        what: &'static str,
        /// The position of the error.
        source: serde_json::Error,
    },
    #[error(
        "{image}: its labels name a rendered config, but no layer holds one; it was changed after it was built"
    )]
    #[diagnostic(code = "no-config-layer", class = InvalidInput)]
    NoConfigLayer { image: String },
    #[error("{file}: {source}")]
    #[diagnostic(transparent)]
    Key {
        /// The file, or `env:NAME`.
        file: String,
        source: KeyError,
    },
    #[error("{0}")]
    #[diagnostic(code = "base-tree-cache", class = InvalidInput)]
    Cache(String),
    #[error(
        "no cache directory: neither XDG_CACHE_HOME nor HOME is set; give one with --cache-dir"
    )]
    #[diagnostic(code = "no-cache-directory", class = InvalidInput)]
    NoCache,
    #[error(
        "{file}: not writable; check that the folder exists and that this user may write there"
    )]
    #[diagnostic(code = "unwritable-file", class = write_error_class(source))]
    Write {
        /// The file, or `stdout`.
        file: String,
        source: io::Error,
    },
    #[error(
        "{folder}: it holds {file}, which no earlier run wrote; choose a new or empty directory"
    )]
    #[diagnostic(code = "foreign-directory", class = InvalidInput)]
    ForeignFolder { folder: String, file: String },
    #[error(
        "what is mounted is build {planned}, and this Job is for {wanted}; if builderImage of ConfigMap mosb-config is of an older version than the controller, name the controller's own there; else the Job's inputs were changed"
    )]
    #[diagnostic(code = "other-build", class = Internal)]
    OtherBuild {
        /// The build of the mounted inputs.
        planned: String,
        /// The one in the document of inputs.
        wanted: String,
    },
    #[error(
        "root here is root on the node: the pod has no user namespace though one was planned; let the node's container runtime support them (hostUsers: false), or let the cluster settings say userNamespaces: never"
    )]
    #[diagnostic(code = "no-user-namespace", class = InvalidInput)]
    NoUserNamespace,
    #[error(
        "{pool}: there is no such MachineConfigPool; kubectl get machineconfigpools lists them"
    )]
    #[diagnostic(code = "no-pool", class = InvalidInput)]
    NoPool { pool: String },
    #[error("{pool}: it has no MachineOSConfig; create one to have images built")]
    #[diagnostic(code = "not-opted-in", class = InvalidInput)]
    NotOptedIn { pool: String },
    #[error("{of}: there is no build yet; mosb status {of} says why")]
    #[diagnostic(code = "no-build", class = InvalidInput)]
    NoBuild { of: String },
    #[error(
        "{build}: it has no pod; one that succeeded is deleted, and of one that did not begin mosb status says why"
    )]
    #[diagnostic(code = "no-pod", class = InvalidInput)]
    NoPod { build: String },
    #[error("{pool}: not done after {seconds} s{}; mosb status {pool} says what it waits for", .missing.iter().map(|what| format!(" ({what})")).collect::<String>())]
    #[diagnostic(code = "not-done", class = Transient)]
    TimedOut {
        pool: String,
        /// The time that `wait` waited.
        seconds: u64,
        /// Objects that could not be read.
        missing: Vec<String>,
    },
    #[error("{pool}: not rolled out after {seconds} s{}; mosb rollout status {pool} shows what it waits for", .missing.iter().map(|what| format!(" ({what})")).collect::<String>())]
    #[diagnostic(code = "not-rolled-out", class = Transient)]
    RolloutTimedOut {
        pool: String,
        /// The time that `rollout status --watch` waited.
        seconds: u64,
        /// Objects that could not be read.
        missing: Vec<String>,
    },
    #[error(
        "nothing of the cluster could be read: {why}; check --kubeconfig and the rights of its user"
    )]
    #[diagnostic(code = "nothing-read", class = Transient)]
    NothingRead {
        /// The first request that failed.
        why: String,
    },
    #[error("{pool}: a policy is not printed, because nothing may be deleted: {why}")]
    #[diagnostic(code = "images-held", class = Rejected)]
    ImagesHeld { pool: String, why: String },
    #[error("not confirmed; nothing was changed, answer y or give --yes")]
    #[diagnostic(code = "not-confirmed", class = InvalidInput)]
    NotConfirmed,
    #[error("{what} stopped")]
    #[diagnostic(code = "internal", class = Internal)]
    Stopped { what: &'static str, source: JoinError },
    #[error(transparent)]
    #[diagnostic(code = "internal", class = Internal)]
    System(io::Error),
    #[error("interrupted by {0}; nothing half-done was left, run it again")]
    #[diagnostic(code = "interrupted", class = Transient)]
    Interrupted(&'static str),
}

impl Error {
    pub fn stopped(what: &'static str) -> impl FnOnce(JoinError) -> Self {
        move |source| Self::Stopped { what, source }
    }
}

fn write_error_class(error: &io::Error) -> ErrorClass {
    match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem => ErrorClass::InvalidInput,
        _ => ErrorClass::Rejected,
    }
}
