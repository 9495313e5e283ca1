//! What goes wrong in the command line itself: files, operands, what was typed.

use std::io;

use mosb_plan::api::RenderedConfigError;
use mosb_plan::api::yaml::YamlError;
use mosb_types::ErrorClass;

/// Object, cause, remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was typed can't be meant.
    #[error("{0}")]
    Usage(String),
    /// A file that can't be read.
    #[error("{file}: not readable; check the name and that this user may read it")]
    Read {
        /// The file, or `stdin`.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file larger than such a file ever is.
    #[error("{file}: more than {limit} bytes; no {what} is that large, give another file")]
    TooLarge {
        /// The file, or `stdin`.
        file: String,
        /// What it should be.
        what: &'static str,
        /// The most that is read.
        limit: usize,
    },
    /// A file that is no text.
    #[error("{file}: it is no text in UTF-8; give a {what}")]
    NotText {
        /// The file.
        file: String,
        /// What it should be.
        what: &'static str,
    },
    /// A trust bundle without a certificate.
    #[error("{file}: no certificate in it; give PEM (-----BEGIN CERTIFICATE-----)")]
    NoCertificate {
        /// The file.
        file: String,
    },
    /// Neither YAML nor JSON, or not one document.
    #[error("{file}: {source}")]
    Yaml {
        /// The file, or `stdin`.
        file: String,
        /// What is wrong.
        source: YamlError,
    },
    /// The file of `--http-headers-file`.
    #[error("{file}: neither YAML nor JSON; write `host: {{Name: value}}` for each host")]
    Headers {
        /// The file.
        file: String,
    },
    /// A tag that a registry does not have.
    #[error("{place}: {image}: the registry has no such tag; check the name")]
    NoTag {
        /// Who names it.
        place: String,
        /// The image.
        image: String,
    },
    /// No rendered config.
    #[error("{file}: {source}")]
    Config {
        /// The file, `stdin` or an image.
        file: String,
        /// What is wrong.
        source: RenderedConfigError,
    },
    /// An image without a rendered config in it.
    #[error(
        "{image}: mosb did not build it, so it holds no rendered config; give an image that mosb built, or a config file"
    )]
    NotBuilt {
        /// The image.
        image: String,
    },
    /// A manifest or config that is no JSON.
    #[error("{image}: its {what} is no JSON; the image is damaged, push it again")]
    ImageJson {
        /// The image.
        image: String,
        /// `manifest` or `config`.
        what: &'static str,
        /// Where it ends to be.
        source: serde_json::Error,
    },
    /// An image whose labels and layers don't go together.
    #[error(
        "{image}: its labels name a rendered config, but no layer holds one; it was changed after it was built"
    )]
    NoConfigLayer {
        /// The image.
        image: String,
    },
    /// The cache.
    #[error("{0}")]
    Cache(String),
    /// No place for the cache.
    #[error(
        "no cache directory: neither XDG_CACHE_HOME nor HOME is set; give one with --cache-dir"
    )]
    NoCache,
    /// A file that can't be written.
    #[error(
        "{file}: not writable; check that the folder exists and that this user may write there"
    )]
    Write {
        /// The file, or `stdout`.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// A folder with something that we did not make.
    #[error(
        "{folder}: it holds {file}, which no earlier run wrote; choose a new or empty directory"
    )]
    ForeignFolder {
        /// The folder.
        folder: String,
        /// A file in it.
        file: String,
    },
    /// What is mounted is another build than the Job's.
    #[error(
        "what is mounted is build {planned}, and this Job is for {wanted}; if builderImage of ConfigMap mosb-config is of an older version than the controller, name the controller's own there; else the Job's inputs were changed"
    )]
    OtherBuild {
        /// The build that was planned here.
        planned: String,
        /// `--build-name`.
        wanted: String,
    },
    /// `--require-user-namespace`, and there is none.
    #[error(
        "root here is root on the node: the pod has no user namespace though one was planned; let the node's container runtime support them (hostUsers: false), or let the cluster settings say userNamespaces: never"
    )]
    NoUserNamespace,
    /// A pool that the cluster does not have.
    #[error(
        "{pool}: there is no such MachineConfigPool; kubectl get machineconfigpools lists them"
    )]
    NoPool {
        /// The pool.
        pool: String,
    },
    /// A pool that nobody asks images for.
    #[error("{pool}: it has no MachineOSConfig; create one to have images built")]
    NotOptedIn {
        /// The pool.
        pool: String,
    },
    /// A pool without a build.
    #[error("{of}: there is no build yet; mosb status {of} says why")]
    NoBuild {
        /// The pool.
        of: String,
    },
    /// A build without a pod.
    #[error(
        "{build}: it has no pod; one that succeeded is deleted, and of one that did not begin mosb status says why"
    )]
    NoPod {
        /// The build.
        build: String,
    },
    /// It took too long.
    #[error("{pool}: not done after {seconds} s{}; mosb status {pool} says what it waits for", .missing.iter().map(|what| format!(" ({what})")).collect::<String>())]
    TimedOut {
        /// The pool.
        pool: String,
        /// How long it was waited for.
        seconds: u64,
        /// What could not be seen.
        missing: Vec<String>,
    },
    /// A signal ended it.
    #[error("interrupted by {0}; nothing half-done was left, run it again")]
    Interrupted(&'static str),
}

impl Error {
    /// What the caller should do.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Write { source, .. } => match source.kind() {
                io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem => ErrorClass::InvalidInput,
                _ => ErrorClass::Rejected,
            },
            Self::Interrupted(_) | Self::TimedOut { .. } => ErrorClass::Transient,
            Self::OtherBuild { .. } => ErrorClass::Internal,
            Self::Usage(_)
            | Self::Read { .. }
            | Self::TooLarge { .. }
            | Self::NotText { .. }
            | Self::NoCertificate { .. }
            | Self::Yaml { .. }
            | Self::Headers { .. }
            | Self::NoTag { .. }
            | Self::Config { .. }
            | Self::NotBuilt { .. }
            | Self::ImageJson { .. }
            | Self::NoConfigLayer { .. }
            | Self::NoPool { .. }
            | Self::NotOptedIn { .. }
            | Self::NoBuild { .. }
            | Self::NoPod { .. }
            | Self::Cache(_)
            | Self::NoUserNamespace
            | Self::ForeignFolder { .. }
            | Self::NoCache => ErrorClass::InvalidInput,
        }
    }

    /// The word for scripts.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Usage(_) => "wrong-use",
            Self::Read { .. } => "unreadable-file",
            Self::TooLarge { .. } => "file-too-large",
            Self::NotText { .. } | Self::NoCertificate { .. } | Self::Yaml { .. } => "bad-file",
            Self::Headers { .. } => "bad-headers-file",
            Self::NoTag { .. } => "not-found",
            Self::Config { .. } => "bad-config",
            Self::NotBuilt { .. } => "not-built-by-mosb",
            Self::ImageJson { .. } => "bad-image",
            Self::NoConfigLayer { .. } => "no-config-layer",
            Self::Cache(_) => "base-tree-cache",
            Self::NoCache => "no-cache-directory",
            Self::Write { .. } => "unwritable-file",
            Self::ForeignFolder { .. } => "foreign-directory",
            Self::OtherBuild { .. } => "other-build",
            Self::NoUserNamespace => "no-user-namespace",
            Self::NoPool { .. } => "no-pool",
            Self::NotOptedIn { .. } => "not-opted-in",
            Self::NoBuild { .. } => "no-build",
            Self::NoPod { .. } => "no-pod",
            Self::TimedOut { .. } => "not-done",
            Self::Interrupted(_) => "interrupted",
        }
    }
}
