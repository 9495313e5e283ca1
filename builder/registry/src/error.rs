//! Errors of registries, layouts and the files that configure access to them.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use mosb_image::{Digest, DigestError, Platform, PlatformError, ReferenceError, layer};
use mosb_trust::SignError;
use mosb_trust::evaluate::{EvaluationError, NotAccepted};
use mosb_types::{Diagnostic, ErrorClass, Explained};

use crate::http::BadProxy;
use crate::transport::request::RegistryMessage;

/// Why an image can't be read or written.
///
/// `image` is a reference as the user wrote it, or a repository with a digest. `tries` counts
/// requests, `message` is what the registry answered, and a `cause` at the end of a message
/// includes the remedy.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// 401 or 403 after authentication was tried.
    #[error(
        "{image}: the registry refused it ({status}{message}) {with}; check that these may do this here, or give others (--authfile, in a cluster the Secret)"
    )]
    #[diagnostic(code = "denied", class = Rejected)]
    Denied {
        image: String,
        status: u16,
        /// Where the credentials came from; never their content.
        with: String,
        message: RegistryMessage,
    },
    /// 404.
    #[error(
        "{image}: not found{message}; check the name, the tag, and that the credentials may see it"
    )]
    #[diagnostic(code = "not-found", class = InvalidInput)]
    NotFound { image: String, message: RegistryMessage },
    /// 429 until we gave up.
    #[error(
        "{host}: too many requests, also after {tries} tries; wait, or log in for a higher limit"
    )]
    #[diagnostic(code = "too-many-requests", class = Transient)]
    TooManyRequests { host: String, tries: u32 },
    /// 5xx until we gave up.
    #[error("{host}: the server answered {status}{message} to {tries} tries; try again later")]
    #[diagnostic(code = "registry-error", class = Transient)]
    Server { host: String, status: u16, tries: u32, message: RegistryMessage },
    /// An answer that the protocol doesn't have here.
    #[error(
        "{image}: {host} answered {status}{message} to {doing}; the registry does not take this"
    )]
    #[diagnostic(code = "registry-refused", class = Rejected)]
    Unexpected {
        image: String,
        host: String,
        doing: &'static str,
        status: u16,
        message: RegistryMessage,
    },
    /// An answer whose content can't be used.
    #[error(
        "{image}: {host} answered {doing} with {what}; the registry, or something between, is broken"
    )]
    #[diagnostic(code = "bad-answer", class = Transient)]
    BadAnswer { image: String, host: String, doing: &'static str, what: String },
    /// No connection, or it was cut each time.
    #[error("{host}: not reachable: {cause}; check the name, the network and the proxy variables")]
    #[diagnostic(code = "unreachable", class = Transient)]
    Unreachable { host: String, cause: String },
    /// No answer in time.
    #[error(
        "{host}: no answer in time ({tries} tries); check the network and the proxy variables, or try again later"
    )]
    #[diagnostic(code = "timed-out", class = Transient)]
    TimedOut { host: String, tries: u32 },
    /// Answers or uploads that hardly move.
    #[error(
        "{host}: too slow: {cause} ({tries} tries); check the registry and the network, or try again later"
    )]
    #[diagnostic(code = "too-slow", class = Transient)]
    TooSlow { host: String, cause: String, tries: u32 },
    /// The TLS handshake failed.
    #[error(
        "{host}: no trusted TLS connection: {cause}; put its CA in --cert-dir (in a cluster imageRegistryBundles of ConfigMap mosb-config), or use --tls-verify=false for a registry you trust"
    )]
    #[diagnostic(code = "untrusted-tls", class = Transient)]
    Tls { host: String, cause: String },
    /// It doesn't speak TLS at all.
    #[error(
        "the registry at {host} answers in plain HTTP; use --tls-verify=false, or insecure = true in registries.conf (in a cluster registrySources.insecureRegistries of ConfigMap mosb-config), if that is meant"
    )]
    #[diagnostic(code = "untrusted-tls", class = Transient)]
    PlainHttp { host: String },
    /// It speaks TLS, and on loopback plain HTTP was tried.
    #[error(
        "the registry at {host} speaks TLS, and without certificates for it plain HTTP is tried on loopback; put its CA as ca.crt in --cert-dir, or use --tls-verify=false for a registry you trust"
    )]
    #[diagnostic(code = "untrusted-tls", class = Transient)]
    TlsOnLoopback { host: String },
    /// A certificate file that can't be used.
    #[error(
        "{file}: {cause}; give PEM: CAs in *.crt, client certificates in *.cert with their *.key"
    )]
    #[diagnostic(code = "bad-certificate", class = InvalidInput)]
    Certificate { file: String, cause: String },
    /// A proxy variable that is not a URL.
    #[error("proxy variable {0}")]
    #[diagnostic(transparent)]
    Proxy(#[from] BadProxy),
    /// Bytes that are not what their name says.
    #[error(
        "{image}: {what} should be {want}, but its bytes are {found}; the registry or folder is damaged or lies"
    )]
    #[diagnostic(code = "digest-mismatch", class = InvalidInput)]
    DigestMismatch { image: String, what: &'static str, want: Digest, found: Digest },
    /// Fewer or more bytes than the descriptor says.
    #[error(
        "{image}: blob {digest} should have {want} bytes, but has {found}; the registry or folder is damaged or lies"
    )]
    #[diagnostic(code = "size-mismatch", class = InvalidInput)]
    SizeMismatch {
        image: String,
        digest: Digest,
        want: u64,
        /// Size that was seen; where more than `want` arrived, where we stopped.
        found: u64,
    },
    /// A manifest or index that can't be read.
    #[error("{image}: manifest not readable: {cause}; the image is damaged or no container image")]
    #[diagnostic(code = "bad-manifest", class = InvalidInput)]
    ManifestInvalid { image: String, cause: String },
    /// More bytes than we read into memory.
    #[error(
        "{image}: {what} has {found} bytes, and no more than {limit} are read, which no image needs"
    )]
    #[diagnostic(code = "too-large", class = InvalidInput)]
    TooLarge {
        image: String,
        what: &'static str,
        limit: u64,
        /// As many as it should have, or as came before we stopped.
        found: u64,
    },
    /// More tags than are looked up.
    #[error(
        "{repository}: more than {limit} {what}, and no more are looked up; push the images of machines to a repository of their own"
    )]
    #[diagnostic(code = "too-many-tags", class = InvalidInput)]
    TooManyTags {
        repository: String,
        limit: usize,
        /// Which tags.
        what: &'static str,
    },
    /// Schema 1, an artifact, something else.
    #[error(
        "{image}: {media_type:?} is not an image that can be built upon; want an OCI or Docker schema 2 image"
    )]
    #[diagnostic(code = "unsupported-media-type", class = InvalidInput)]
    UnsupportedMediaType { image: String, media_type: String },
    /// No image for the platform that was asked for.
    #[error("{image}: no image for {wanted}; it has {}", list(has))]
    #[diagnostic(code = "platform-missing", class = InvalidInput)]
    PlatformMissing { image: String, wanted: Platform, has: Vec<String> },
    /// Several platforms, or several images of one, and none was chosen.
    #[error("{image}: an index of several images ({}); choose one with --platform", list(has))]
    #[diagnostic(code = "platform-ambiguous", class = InvalidInput)]
    PlatformAmbiguous { image: String, has: Vec<String> },
    /// A tag of an image for another platform, which a push would move.
    #[error(
        "{image} is an image for {}, and this one is for {pushed}: whoever pulls by the tag would get an image for another machine; push each platform to a repository of its own",
        list(has)
    )]
    #[diagnostic(code = "tag-of-another-platform", class = InvalidInput)]
    TagOfAnotherPlatform { image: String, pushed: Platform, has: Vec<String> },
    /// The config's platform can't be read.
    #[error("{image}: platform of its config not readable")]
    #[diagnostic(code = "bad-platform", class = InvalidInput)]
    Platform { image: String, source: PlatformError },
    /// An OCI layout or `dir:` folder that can't be read or written.
    #[error("{}: {cause}", dir.display())]
    #[diagnostic(code = "bad-layout", class = InvalidInput)]
    Layout { dir: PathBuf, cause: String },
    /// The folder's file system rejected it.
    #[error("{}: {doing}; {}", path.display(), remedy(source))]
    #[diagnostic(code = "file-error", class = file_error_class(source))]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
    /// A layout with several images, and neither tag nor digest.
    #[error("oci:{}: several images ({}); write oci:{}:TAG or oci:{}@DIGEST", dir.display(), list(has), dir.display(), dir.display())]
    #[diagnostic(code = "layout-ambiguous", class = InvalidInput)]
    LayoutAmbiguous {
        dir: PathBuf,
        /// Their tags, or digests where there is no tag.
        has: Vec<String>,
    },
    /// Text that is neither an image nor a target.
    #[error(transparent)]
    #[diagnostic(code = "bad-reference", class = InvalidInput)]
    Reference(#[from] ReferenceError),
    /// Text that was to be a target.
    #[error("{0}; for a folder write oci:DIR")]
    #[diagnostic(code = "bad-reference", class = InvalidInput)]
    Target(#[source] ReferenceError),
    /// A location whose folder or tag can't be used.
    #[error("{text:?}: {cause}")]
    #[diagnostic(code = "bad-reference", class = InvalidInput)]
    Location { text: String, cause: &'static str },
    /// The digest of a location.
    #[error("{text:?}: {source}")]
    #[diagnostic(code = "bad-reference", class = InvalidInput)]
    LocationDigest { text: String, source: DigestError },
    /// A token server without TLS, of a registry with TLS.
    #[error(
        "{image}: its registry has TLS and names {realm} as its token server, which has none and is not asked; correct the registry's settings"
    )]
    #[diagnostic(code = "unsafe-token-server", class = Rejected)]
    TokenServer { image: String, realm: String },
    /// A file with credentials, or a helper, that can't be used. Never holds a credential.
    #[error("{origin}: {cause}")]
    #[diagnostic(
        code = "bad-credentials",
        class = InvalidInput,
        remedy = cause.remedy.clone()
    )]
    Credentials { origin: String, cause: Explained },
    /// registries.conf.
    #[error("{file}: {cause}")]
    #[diagnostic(
        code = "bad-registries-conf",
        class = InvalidInput,
        remedy = cause.remedy.clone()
    )]
    RegistriesConf { file: String, cause: Explained },
    /// A layer of a base that was read.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Layer(#[from] layer::Error),
    #[error("{image}: not signed: {source}")]
    #[diagnostic(code = "not-signed", class = Rejected)]
    Sign { image: String, source: SignError },
    /// An image that was pushed by its digest only, because its evidence can't be attached.
    #[error("{image}: it could not be signed, so no tag was moved: {source}")]
    #[diagnostic(code = source.code(), class = source.class(), remedy = source.remedy())]
    NotSigned { image: String, source: Box<Error> },
    /// A tag that others write as well, or whose content is not what was written.
    #[error(
        "{image}: others change this tag all the time, or the registry does not return what was pushed; try again later"
    )]
    #[diagnostic(code = "attach-conflict", class = Transient)]
    AttachConflict { image: String },
    /// A `policy.json` that can't be used.
    #[error("{file}: {cause}")]
    #[diagnostic(
        code = "bad-signature-policy",
        class = InvalidInput,
        remedy = cause.remedy.clone()
    )]
    SignaturePolicy { file: String, cause: Explained },
    /// `reject` of a policy.
    #[error(
        "{image}: rejected by {scope:?} of the policy {file}; allow it there, or use another image"
    )]
    #[diagnostic(code = "rejected", class = InvalidInput)]
    Rejected {
        image: String,
        scope: String,
        /// The file, or the setting of a cluster.
        file: String,
    },
    /// A requirement of a policy that mosb can't evaluate, or whose keys can't be read.
    #[error("{image}: {scope:?} of the policy {file}: {source}")]
    #[diagnostic(transparent)]
    UncheckedPolicy {
        image: String,
        scope: String,
        /// The file, or the setting of a cluster.
        file: String,
        source: EvaluationError,
    },
    /// An image without the signatures that a policy requires.
    #[error(
        "{image}: {manifest} is not accepted by {scope:?} of the policy {file}: {missing}; sign it, use another image, or correct the policy (`mosb verify` lists signatures)"
    )]
    #[diagnostic(code = "signature-not-accepted", class = Rejected)]
    SignatureNotAccepted {
        /// The name that signatures must be for.
        image: String,
        manifest: Digest,
        scope: String,
        /// The file, or the setting of a cluster.
        file: String,
        missing: NotAccepted,
    },
    /// A registry that is not among those that are allowed.
    #[error("{image}: {list} does not list its registry; add it there, or use another image")]
    #[diagnostic(code = "rejected", class = InvalidInput)]
    NotAllowed {
        image: String,
        /// The list, with its object.
        list: String,
    },
    /// `blocked = true`.
    #[error("{image}: blocked by {prefix:?} in {by}; take it out there, or use another image")]
    #[diagnostic(code = "blocked", class = InvalidInput)]
    Blocked {
        image: String,
        prefix: String,
        /// The file, or the setting of a cluster.
        by: String,
    },
}

fn file_error_class(error: &io::Error) -> ErrorClass {
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::AlreadyExists
        | ErrorKind::PermissionDenied
        | ErrorKind::ReadOnlyFilesystem => ErrorClass::InvalidInput,
        _ => ErrorClass::Rejected,
    }
}

/// What to do about an error of the system.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            "check the name"
        }
        ErrorKind::PermissionDenied => "check that this user may do that",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free disk space, or choose another folder"
        }
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
