//! The OS image of a stream: a stream names a release, and `release.json` beside the artifacts of that
//! release names its image for each architecture.
//!
//! Input: both documents as a server sent them. Output: a digest. Invariant: a stream leads only to
//! its own server.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::{Architecture, Release, Stream};
use mosb_image::{Digest, PinnedRef};
use mosb_types::Diagnostic;

/// Those of Fedora CoreOS have 60 KB.
const MAX_BYTES: usize = 2 << 20;
/// Every architecture has its artifacts.
const PLATFORM: &str = "metal";
const MAX_QUOTED_CHARS: usize = 200;

/// A stream, and where it is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedStream {
    url: Url,
    stream: Stream,
}

/// The release that a stream names for an architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRelease {
    pub version: Release,
    /// Its `release.json`.
    pub url: Url,
}

/// The OS images of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseImages {
    url: Url,
    architectures: BTreeMap<String, ReleaseArchitecture>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReleaseDocument {
    release: String,
    architectures: BTreeMap<String, ReleaseArchitecture>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct ReleaseArchitecture {
    oci_image: Option<OciImage>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct OciImage {
    digest_ref: String,
}

/// Why the documents of a stream name no OS image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum OsImageError {
    #[error(
        "{url}: {bytes} bytes, and a document of a stream has at most {MAX_BYTES}; check baseStream"
    )]
    #[diagnostic(code = "bad-stream", class = InvalidInput)]
    TooLarge { url: Url, bytes: usize },
    /// The position alone: the server may be one whose answers are secret.
    #[error(
        "{url}: line {line}, column {column}: not the JSON of a stream of Fedora CoreOS; check baseStream"
    )]
    #[diagnostic(code = "bad-stream", class = InvalidInput)]
    Json { url: Url, line: usize, column: usize },
    #[error(
        "{url}: {architecture} has no release with artifacts for {PLATFORM}; name the base by a tag in baseStream"
    )]
    #[diagnostic(code = "not-in-stream", class = InvalidInput)]
    NoRelease { url: Url, architecture: Architecture },
    #[error(
        "{url}: {location:?} is not below a folder {version} on the same server, so release.json of {version} is not found; serve both from one server by https"
    )]
    #[diagnostic(code = "bad-stream", class = InvalidInput)]
    Location { url: Url, version: String, location: String },
    #[error("{url}: it is release {found:?}, not {want}; publish the stream again")]
    #[diagnostic(code = "bad-stream", class = InvalidInput)]
    OtherRelease { url: Url, found: String, want: String },
    #[error(
        "{url}: no OS image for {architecture} (oci-image with a digest-ref); name the base by a tag in baseStream"
    )]
    #[diagnostic(code = "not-in-stream", class = InvalidInput)]
    NoImage { url: Url, architecture: Architecture },
}

fn quoted(text: &str) -> String {
    text.chars().take(MAX_QUOTED_CHARS).collect()
}

fn parse<T: DeserializeOwned>(url: &Url, bytes: &[u8]) -> Result<T, OsImageError> {
    if bytes.len() > MAX_BYTES {
        return Err(OsImageError::TooLarge { url: url.clone(), bytes: bytes.len() });
    }
    serde_json::from_slice(bytes).map_err(|error| OsImageError::Json {
        url: url.clone(),
        line: error.line(),
        column: error.column(),
    })
}

impl PublishedStream {
    /// # Errors
    /// Too many bytes, or not the JSON of a stream.
    pub fn parse(url: Url, bytes: &[u8]) -> Result<Self, OsImageError> {
        let stream = parse(&url, bytes)?;
        Ok(Self { url, stream })
    }

    /// Where it is published.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The release of an architecture: that of its artifacts for bare metal.
    ///
    /// # Errors
    /// There is none, or its artifacts are on another server.
    pub fn release(&self, architecture: Architecture) -> Result<StreamRelease, OsImageError> {
        let url = self.url.clone();
        let images = self.stream.images_of(architecture);
        let artifact = images.and_then(|images| images.artifacts.get(PLATFORM));
        let version = artifact.and_then(|artifact| artifact.release.as_deref()?.parse().ok());
        let (Some(artifact), Some(version)) = (artifact, version) else {
            return Err(OsImageError::NoRelease { url, architecture });
        };
        let version: Release = version;
        let disks = artifact.formats.values().filter_map(|format| format.disk.as_ref());
        let location = disks.filter_map(|disk| disk.location.as_deref()).next().unwrap_or_default();
        match release_document(&url, &version, location) {
            Some(url) => Ok(StreamRelease { version, url }),
            None => Err(OsImageError::Location {
                url,
                version: version.as_str().to_owned(),
                location: quoted(location),
            }),
        }
    }
}

/// `…/builds/<version>/release.json` from `…/builds/<version>/<architecture>/<artifact>`.
fn release_document(stream: &Url, version: &Release, location: &str) -> Option<Url> {
    let mut url = Url::parse(location).ok().filter(|url| url.origin() == stream.origin())?;
    let segments: Vec<&str> = url.path_segments()?.collect();
    let at = segments.iter().position(|segment| *segment == version.as_str())?;
    let path = [&segments[..=at], &["release.json"]].concat().join("/");
    url.set_path(&path);
    url.set_query(None);
    url.set_fragment(None);
    // Messages show it.
    (url.username().is_empty() && url.password().is_none()).then_some(url)
}

impl ReleaseImages {
    /// # Errors
    /// Too many bytes, not the JSON of a release, or of another release.
    pub fn parse(release: &StreamRelease, bytes: &[u8]) -> Result<Self, OsImageError> {
        let url = release.url.clone();
        let document: ReleaseDocument = parse(&url, bytes)?;
        if document.release != release.version.as_str() {
            let want = release.version.as_str().to_owned();
            return Err(OsImageError::OtherRelease { url, found: quoted(&document.release), want });
        }
        Ok(Self { url, architectures: document.architectures })
    }

    /// The digest of the image for an architecture. The repository that the release names does not
    /// count: machines pull from that of their base.
    ///
    /// # Errors
    /// There is none.
    pub fn digest(&self, architecture: Architecture) -> Result<Digest, OsImageError> {
        let found = self.architectures.get(architecture.rpm_name());
        let image = found.and_then(|found| found.oci_image.as_ref());
        let image = image.and_then(|image| image.digest_ref.parse::<PinnedRef>().ok());
        let none = || OsImageError::NoImage { url: self.url.clone(), architecture };
        Ok(image.ok_or_else(none)?.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const VERSION: &str = "44.20260707.3.1";
    const SERVER: &str = "https://builds.coreos.fedoraproject.org";

    fn url() -> Url {
        format!("{SERVER}/streams/stable.json").parse().unwrap()
    }

    fn document() -> Url {
        format!("{SERVER}/prod/streams/stable/builds/{VERSION}/release.json").parse().unwrap()
    }

    /// As Fedora CoreOS publishes it, of fewer platforms.
    fn stream(release: &str, location: &str) -> Value {
        let disk =
            json!({ "location": location, "signature": format!("{location}.sig"), "sha256": "0" });
        json!({
            "stream": "stable",
            "metadata": { "last-modified": "2026-07-21T14:07:12Z", "generator": "v0.2.19" },
            "architectures": { "x86_64": {
                "artifacts": { "metal": { "release": release, "formats": {
                    "iso": { "disk": disk },
                    "pxe": { "kernel": disk, "initramfs": disk, "rootfs": disk },
                } } },
                "images": { "kubevirt": {
                    "release": release,
                    "image": "quay.io/fedora/fedora-coreos-kubevirt:stable",
                    "digest-ref": format!("quay.io/fedora/fedora-coreos-kubevirt@{}", Digest::of(b"disk")),
                } },
            } },
        })
    }

    fn artifact(release: &str) -> String {
        format!(
            "{SERVER}/prod/streams/stable/builds/{release}/x86_64/fedora-coreos-{release}-live-iso.x86_64.iso"
        )
    }

    fn of_stream(stream: &Value) -> Result<StreamRelease, OsImageError> {
        PublishedStream::parse(url(), stream.to_string().as_bytes())?.release(Architecture::X86_64)
    }

    #[test]
    fn a_stream_leads_to_the_document_of_its_release() {
        let found = of_stream(&stream(VERSION, &artifact(VERSION))).unwrap();
        assert_eq!((found.version.as_str(), found.url), (VERSION, document()));
        for (what, stream, code) in [
            ("no artifacts", json!({}), "not-in-stream"),
            ("no release", stream("", &artifact(VERSION)), "not-in-stream"),
            ("an odd release", stream("../..", &artifact("../..")), "not-in-stream"),
            ("no location", stream(VERSION, ""), "bad-stream"),
            ("of another release", stream("44.20260720.3.0", &artifact(VERSION)), "bad-stream"),
            (
                "another server",
                stream(VERSION, &format!("https://169.254.169.254/builds/{VERSION}/x86_64/a.iso")),
                "bad-stream",
            ),
            (
                "another port",
                stream(VERSION, &artifact(VERSION).replace(".org/", ".org:8443/")),
                "bad-stream",
            ),
            (
                "without TLS",
                stream(VERSION, &artifact(VERSION).replace("https", "http")),
                "bad-stream",
            ),
            (
                "a password",
                stream(VERSION, &artifact(VERSION).replace("https://", "https://a:secret@")),
                "bad-stream",
            ),
            ("a list", json!([]), "not-in-stream"),
            ("another type", json!({ "architectures": 4 }), "bad-stream"),
        ] {
            let error = of_stream(&stream).unwrap_err();
            assert_eq!(error.code(), code, "{what}: {error}");
        }
        let deep = "[".repeat(100_000);
        let error = PublishedStream::parse(url(), deep.as_bytes()).unwrap_err();
        assert!(matches!(error, OsImageError::Json { .. }), "{error}");
        let long = " ".repeat(MAX_BYTES + 1);
        let error = PublishedStream::parse(url(), long.as_bytes()).unwrap_err();
        assert!(matches!(error, OsImageError::TooLarge { .. }), "{error}");
        let secret = PublishedStream::parse(url(), br#"{"architectures": "secret"}"#).unwrap_err();
        assert!(!format!("{secret} {secret:?}").contains("secret"), "{secret:?}");
    }

    #[test]
    fn a_release_has_one_image_an_architecture() {
        let release = StreamRelease { version: VERSION.parse().unwrap(), url: document() };
        let digest = Digest::of(b"os");
        let of = |release_name: &str, image: Value| {
            let document = json!({
                "release": release_name, "stream": "stable", "metadata": { "last-modified": "" },
                "architectures": { "x86_64": { "commit": "0", "oci-image": image, "media": {} } },
            });
            let images = ReleaseImages::parse(&release, document.to_string().as_bytes())?;
            images.digest(Architecture::X86_64)
        };
        let image = |digest_ref: &str| json!({ "image": "quay.io/fedora/fedora-coreos:stable", "digest-ref": digest_ref });
        let pinned = format!("quay.io/fedora/fedora-coreos@{digest}");
        assert_eq!(of(VERSION, image(&pinned)), Ok(digest));
        for (what, name, image, code) in [
            ("another release", "44.20260720.3.0", image(&pinned), "bad-stream"),
            ("no image", VERSION, Value::Null, "not-in-stream"),
            ("a tag", VERSION, image("quay.io/fedora/fedora-coreos:stable"), "not-in-stream"),
            ("a list", VERSION, json!([]), "not-in-stream"),
            ("a number", VERSION, json!(4), "bad-stream"),
        ] {
            let error = of(name, image).unwrap_err();
            assert_eq!(error.code(), code, "{what}: {error}");
        }
    }
}
