//! What can go wrong between us and a place that holds images: one sentence each.

use std::path::PathBuf;

use mosb_image::{Digest, DigestError, Platform, PlatformError, ReferenceError, layer};
use mosb_types::ErrorClass;

use super::error_body::RegistryMessage;
use crate::http::BadProxy;

/// Object, cause, remedy. `image` is a reference as the user wrote it, or a repository with a digest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// 401 or 403 after authentication was tried.
    #[error(
        "{image}: the registry refused it ({status}{message}) {with}; check that these may do this here, or give others (--authfile, in a cluster the Secret)"
    )]
    Denied {
        /// What was asked for.
        image: String,
        /// 401 or 403.
        status: u16,
        /// Where the credentials came from; never their content.
        with: String,
        /// The registry's own code and message.
        message: RegistryMessage,
    },
    /// 404.
    #[error(
        "{image}: not found{message}; check the name, the tag, and that the credentials may see it"
    )]
    NotFound {
        /// What was asked for.
        image: String,
        /// The registry's own code and message.
        message: RegistryMessage,
    },
    /// 429 until we gave up.
    #[error(
        "{host}: too many requests, also after {tries} tries; wait, or log in for a higher limit"
    )]
    TooManyRequests {
        /// The registry.
        host: String,
        /// How often it was asked.
        tries: u32,
    },
    /// 5xx until we gave up.
    #[error("{host}: the server answered {status}{message} to {tries} tries; try again later")]
    Server {
        /// The registry.
        host: String,
        /// The last status.
        status: u16,
        /// How often it was asked.
        tries: u32,
        /// The registry's own code and message.
        message: RegistryMessage,
    },
    /// An answer that the protocol doesn't have here.
    #[error(
        "{image}: {host} answered {status}{message} to {doing}; the registry does not take this"
    )]
    Unexpected {
        /// What was asked for.
        image: String,
        /// The registry.
        host: String,
        /// Which step.
        doing: &'static str,
        /// The status.
        status: u16,
        /// The registry's own code and message.
        message: RegistryMessage,
    },
    /// An answer whose content can't be used.
    #[error(
        "{image}: {host} answered {doing} with {what}; the registry, or something between, is broken"
    )]
    BadAnswer {
        /// What was asked for.
        image: String,
        /// The registry.
        host: String,
        /// Which step.
        doing: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// No connection, or it was cut each time.
    #[error("{host}: not reachable: {cause}; check the name, the network and the proxy variables")]
    Unreachable {
        /// The registry.
        host: String,
        /// The error of the system.
        cause: String,
    },
    /// No answer in time.
    #[error(
        "{host}: no answer in time ({tries} tries); check the network and the proxy variables, or try again later"
    )]
    TimedOut {
        /// The registry.
        host: String,
        /// How often it was asked.
        tries: u32,
    },
    /// Answers or uploads that hardly move.
    #[error(
        "{host}: too slow: {cause} ({tries} tries); check the registry and the network, or try again later"
    )]
    TooSlow {
        /// The registry.
        host: String,
        /// How slow it was.
        cause: String,
        /// How often it was asked.
        tries: u32,
    },
    /// The TLS handshake failed.
    #[error(
        "{host}: no trusted TLS connection: {cause}; put its CA in --cert-dir, or use --tls-verify=false for a registry you trust"
    )]
    Tls {
        /// The registry.
        host: String,
        /// What was wrong.
        cause: String,
    },
    /// It doesn't speak TLS at all.
    #[error(
        "the registry at {host} answers in plain HTTP; use --tls-verify=false, or insecure = true in registries.conf, if that is meant"
    )]
    PlainHttp {
        /// The registry.
        host: String,
    },
    /// It speaks TLS, and on loopback plain HTTP was tried.
    #[error(
        "the registry at {host} speaks TLS, and without certificates for it plain HTTP is tried on loopback; put its CA as ca.crt in --cert-dir, or use --tls-verify=false for a registry you trust"
    )]
    TlsOnLoopback {
        /// The registry.
        host: String,
    },
    /// A certificate file that can't be used.
    #[error("{}: {cause}; want PEM: CAs in *.crt, client certificates in *.cert with their *.key", file.display())]
    Certificate {
        /// The file or folder.
        file: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// A proxy variable that is no URL.
    #[error("proxy variable {0}")]
    Proxy(#[from] BadProxy),
    /// Bytes that are not what their name says.
    #[error(
        "{image}: {what} should be {want}, but its bytes are {found}; the registry or folder is damaged or lies"
    )]
    DigestMismatch {
        /// The image.
        image: String,
        /// A manifest, config, blob.
        what: &'static str,
        /// The name.
        want: Digest,
        /// What the bytes hash to.
        found: Digest,
    },
    /// Fewer or more bytes than the descriptor says.
    #[error(
        "{image}: blob {digest} should have {want} bytes, but has {found}; the registry or folder is damaged or lies"
    )]
    SizeMismatch {
        /// The image.
        image: String,
        /// The blob.
        digest: Digest,
        /// Size of its descriptor.
        want: u64,
        /// Size that was seen; where more than `want` arrived, where we stopped.
        found: u64,
    },
    /// A manifest or index that can't be read.
    #[error("{image}: manifest not readable: {cause}; the image is damaged or no container image")]
    ManifestInvalid {
        /// The image.
        image: String,
        /// What is wrong.
        cause: String,
    },
    /// More bytes than we read into memory.
    #[error(
        "{image}: {what} has {found} bytes, and no more than {limit} are read, which no image needs"
    )]
    TooLarge {
        /// The image.
        image: String,
        /// A manifest, config, answer.
        what: &'static str,
        /// The most we read.
        limit: u64,
        /// As many as it should have, or as came before we stopped.
        found: u64,
    },
    /// Schema 1, an artifact, something else.
    #[error(
        "{image}: {media_type:?} is not an image that can be built upon; want an OCI or Docker schema 2 image"
    )]
    UnsupportedMediaType {
        /// The image.
        image: String,
        /// The type.
        media_type: String,
    },
    /// No image for the platform that was asked for.
    #[error("{image}: no image for {wanted}; it has {}", list(has))]
    PlatformMissing {
        /// The image.
        image: String,
        /// `--platform`.
        wanted: Platform,
        /// What there is.
        has: Vec<String>,
    },
    /// Several platforms, or several images of one, and none was chosen.
    #[error("{image}: an index of several images ({}); choose one with --platform", list(has))]
    PlatformAmbiguous {
        /// The image.
        image: String,
        /// What there is.
        has: Vec<String>,
    },
    /// The config's platform can't be read.
    #[error("{image}: platform of its config not readable")]
    Platform {
        /// The image.
        image: String,
        /// Why.
        source: PlatformError,
    },
    /// An OCI layout or `dir:` folder that can't be read or written.
    #[error("{}: {cause}", dir.display())]
    Layout {
        /// The folder.
        dir: PathBuf,
        /// What is wrong, and what to do.
        cause: String,
    },
    /// The folder's file system rejected it.
    #[error("{}: {doing}; {}", path.display(), remedy(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A layout with several images, and neither tag nor digest.
    #[error("oci:{}: several images ({}); write oci:{}:TAG or oci:{}@DIGEST", dir.display(), list(has), dir.display(), dir.display())]
    LayoutAmbiguous {
        /// The folder.
        dir: PathBuf,
        /// Their tags, or digests where there is no tag.
        has: Vec<String>,
    },
    /// Text that is neither an image nor a target.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// Text that was to be a target.
    #[error("{0}; for a folder write oci:DIR")]
    Target(#[source] ReferenceError),
    /// A location whose folder or tag can't be used.
    #[error("{text:?}: {cause}")]
    Location {
        /// As it was written.
        text: String,
        /// What is wrong, and what is wanted.
        cause: &'static str,
    },
    /// The digest of a location.
    #[error("{text:?}: {source}")]
    LocationDigest {
        /// As it was written.
        text: String,
        /// What is wrong.
        source: DigestError,
    },
    /// A token server without TLS, of a registry with TLS.
    #[error(
        "{image}: its registry has TLS and names {realm} as its token server, which has none and is not asked; correct the registry's settings"
    )]
    TokenServer {
        /// What a token is needed for.
        image: String,
        /// Scheme, host and port.
        realm: String,
    },
    /// A file with credentials, or a helper, that can't be used. Never holds a credential.
    #[error("{origin}: {cause}")]
    Credentials {
        /// File or helper.
        origin: String,
        /// What is wrong, and what to do.
        cause: String,
    },
    /// registries.conf.
    #[error("{}: {cause}", file.display())]
    RegistriesConf {
        /// The file.
        file: PathBuf,
        /// What is wrong, and what to do.
        cause: String,
    },
    /// A layer of a base that was read.
    #[error(transparent)]
    Layer(#[from] layer::Error),
    /// A `policy.json` that can't be used.
    #[error("{}: {cause}", file.display())]
    SignaturePolicy {
        /// The file.
        file: PathBuf,
        /// What is wrong, and what to do.
        cause: String,
    },
    /// `reject`, or a registry that is not among the allowed ones.
    #[error(
        "{image}: rejected by {scope:?} of the policy {}; allow it there, or use another image", file.display()
    )]
    Rejected {
        /// The image.
        image: String,
        /// The scope.
        scope: String,
        /// The policy.
        file: PathBuf,
    },
    /// `blocked = true`.
    #[error("{image}: blocked by {:?} in registries.conf", prefix)]
    Blocked {
        /// The image.
        image: String,
        /// The entry.
        prefix: String,
    },
}

/// What to do about an error of the system.
fn remedy(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            "check the name"
        }
        ErrorKind::PermissionDenied => "check that this user may do that",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room, or choose another folder",
        ErrorKind::ReadOnlyFilesystem => "choose a folder that can be written to",
        _ => "check the disk that it is on",
    }
}

fn list(items: &[String]) -> String {
    const SHOWN: usize = 20;
    let mut text = items.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if items.len() > SHOWN {
        text.push_str(&format!(" and {} more", items.len() - SHOWN));
    }
    if text.is_empty() { "none".to_owned() } else { text }
}

impl Error {
    /// Whether the registry answered, and refused. Asked before a push, that says nothing of what is there: many registries
    /// refuse to answer for a repository that the first push creates (docs/registries.md).
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Denied { .. } => true,
            Self::Unexpected { status, .. } => (400..500).contains(status),
            _ => false,
        }
    }

    /// Adds the refused check before a push to its refusal.
    #[must_use]
    pub(super) fn after_check(self, check: &Self) -> Self {
        let (about, asked, answered) = match check {
            Self::Denied { image, status, message, .. }
            | Self::Unexpected { image, status, message, .. } => (image, *status, message),
            _ => return self,
        };
        match self {
            Self::Denied { image, status, with, message } => Self::Denied {
                image,
                status,
                with,
                message: message.after_check(about, asked, answered),
            },
            Self::NotFound { image, message } => {
                Self::NotFound { image, message: message.after_check(about, asked, answered) }
            }
            Self::Unexpected { image, host, doing, status, message } => Self::Unexpected {
                image,
                host,
                doing,
                status,
                message: message.after_check(about, asked, answered),
            },
            other => other,
        }
    }

    /// What the caller should do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Layer(error) => error.class(),
            Self::Denied { .. } | Self::Unexpected { .. } | Self::TokenServer { .. } => {
                ErrorClass::Rejected
            }
            Self::TooManyRequests { .. }
            | Self::Server { .. }
            | Self::BadAnswer { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::TooSlow { .. }
            | Self::Tls { .. }
            | Self::PlainHttp { .. }
            | Self::TlsOnLoopback { .. } => ErrorClass::Transient,
            Self::Io { source, .. } => match source.kind() {
                std::io::ErrorKind::NotFound
                | std::io::ErrorKind::NotADirectory
                | std::io::ErrorKind::AlreadyExists
                | std::io::ErrorKind::PermissionDenied
                | std::io::ErrorKind::ReadOnlyFilesystem => ErrorClass::InvalidInput,
                _ => ErrorClass::Rejected,
            },
            Self::NotFound { .. }
            | Self::Certificate { .. }
            | Self::Proxy(_)
            | Self::DigestMismatch { .. }
            | Self::SizeMismatch { .. }
            | Self::ManifestInvalid { .. }
            | Self::TooLarge { .. }
            | Self::UnsupportedMediaType { .. }
            | Self::PlatformMissing { .. }
            | Self::PlatformAmbiguous { .. }
            | Self::Platform { .. }
            | Self::Layout { .. }
            | Self::LayoutAmbiguous { .. }
            | Self::Reference(_)
            | Self::Target(_)
            | Self::Location { .. }
            | Self::LocationDigest { .. }
            | Self::Credentials { .. }
            | Self::RegistriesConf { .. }
            | Self::SignaturePolicy { .. }
            | Self::Rejected { .. }
            | Self::Blocked { .. } => ErrorClass::InvalidInput,
        }
    }

    /// Its word in events, conditions, metrics and `-o json`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Layer(error) => error.reason(),
            Self::Denied { .. } => "denied",
            Self::NotFound { .. } => "not-found",
            Self::TooManyRequests { .. } => "too-many-requests",
            Self::Server { .. } => "registry-error",
            Self::Unexpected { .. } => "registry-refused",
            Self::TokenServer { .. } => "unsafe-token-server",
            Self::BadAnswer { .. } => "bad-answer",
            Self::Unreachable { .. } => "unreachable",
            Self::TimedOut { .. } => "timed-out",
            Self::TooSlow { .. } => "too-slow",
            Self::Tls { .. } | Self::PlainHttp { .. } | Self::TlsOnLoopback { .. } => {
                "untrusted-tls"
            }
            Self::Certificate { .. } => "bad-certificate",
            Self::Proxy(_) => "bad-proxy",
            Self::DigestMismatch { .. } => "digest-mismatch",
            Self::SizeMismatch { .. } => "size-mismatch",
            Self::ManifestInvalid { .. } => "bad-manifest",
            Self::TooLarge { .. } => "too-large",
            Self::UnsupportedMediaType { .. } => "unsupported-media-type",
            Self::PlatformMissing { .. } => "platform-missing",
            Self::PlatformAmbiguous { .. } => "platform-ambiguous",
            Self::Platform { .. } => "bad-platform",
            Self::Layout { .. } => "bad-layout",
            Self::LayoutAmbiguous { .. } => "layout-ambiguous",
            Self::Io { .. } => "file-error",
            Self::Reference(_)
            | Self::Target(_)
            | Self::Location { .. }
            | Self::LocationDigest { .. } => "bad-reference",
            Self::Credentials { .. } => "bad-credentials",
            Self::RegistriesConf { .. } => "bad-registries-conf",
            Self::SignaturePolicy { .. } => "bad-signature-policy",
            Self::Rejected { .. } => "rejected",
            Self::Blocked { .. } => "blocked",
        }
    }
}
