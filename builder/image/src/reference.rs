//! References to images in registries: `host/repository[:tag][@digest]` (OCI distribution spec;
//! grammar of the distribution project's reference package). A host is always written: there is no
//! default registry.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::digest::{Digest, DigestError};
use super::ostree_reference::remedy_of_other_form;

/// Why a text is not a reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// No host, or something that can't be one.
    #[error(
        "{0:?}: the registry host is missing; write host/repository, for example quay.io/acme/os"
    )]
    Host(String),
    /// A form of another tool.
    #[error("{image:?}: {remedy}")]
    OtherForm {
        /// As it was given.
        image: String,
        /// What it is, and what to write.
        remedy: String,
    },
    /// The repository breaks the grammar.
    #[error(
        "{0:?}: the repository may hold lower-case letters, digits, and single separators . _ - / between them"
    )]
    Repository(String),
    /// The tag breaks the grammar.
    #[error("{0:?}: a tag has at most 128 letters, digits, _ . - and does not begin with . or -")]
    Tag(String),
    /// What follows `@` is not a digest.
    #[error("{image:?}: {source}")]
    Digest {
        /// The reference as it was given.
        image: String,
        /// What is wrong with its digest.
        source: DigestError,
    },
    /// A digest is required here.
    #[error("{0}: a digest is required; write the image as host/repository@sha256:…")]
    NoDigest(String),
}

/// A repository in a registry: `host/repository`, no tag, no digest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RepoRef {
    host: String,
    repository: String,
}

/// Any reference to an image: a repository with a tag, a digest, both or neither.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageRef {
    repo: RepoRef,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// A reference that surely has a digest, and no tag: `host/repository@sha256:…`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PinnedRef {
    repo: RepoRef,
    digest: Digest,
}

fn is_host(s: &str) -> bool {
    let (name, port) = match s.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, rest)) if v6.parse::<std::net::Ipv6Addr>().is_ok() => match rest {
            "" => return true,
            _ => ("v6", rest.strip_prefix(':')),
        },
        Some(_) => return false,
        None => match s.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (s, Some("0")),
        },
    };
    let label = |l: &str| {
        let is_plain = l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        !l.is_empty() && is_plain && !l.starts_with('-') && !l.ends_with('-')
    };
    let is_host = s.starts_with('[') || s.contains('.') || s.contains(':') || s == "localhost";
    is_host
        && name.split('.').all(label)
        && port.is_some_and(|p| {
            !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()) && p.parse::<u16>().is_ok()
        })
}

fn is_repository(s: &str) -> bool {
    let component = |c: &str| {
        // Alphanumeric runs joined by one `.`, one or two `_`, or any number of `-`.
        let mut rest = c;
        loop {
            let run =
                rest.bytes().take_while(|b| b.is_ascii_lowercase() || b.is_ascii_digit()).count();
            if run == 0 {
                return false;
            }
            rest = &rest[run..];
            if rest.is_empty() {
                return true;
            }
            let separator = rest.bytes().take_while(|b| b"._-".contains(b)).count();
            let joined = &rest[..separator];
            let fine = matches!(joined, "." | "_" | "__")
                || (separator > 0 && joined.bytes().all(|b| b == b'-'));
            if !fine {
                return false;
            }
            rest = &rest[separator..];
        }
    };
    s.len() <= 255 && s.split('/').all(component)
}

fn without_host(text: &str) -> ReferenceError {
    other_form(text).unwrap_or_else(|| ReferenceError::Host(text.to_owned()))
}

fn other_form(text: &str) -> Option<ReferenceError> {
    let remedy = remedy_of_other_form(text)?;
    Some(ReferenceError::OtherForm { image: text.to_owned(), remedy })
}

/// Whether a text can be a tag (OCI distribution spec).
pub fn is_tag(s: &str) -> bool {
    let first = s.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    first && s.len() <= 128 && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

/// Whether a text is `host[:port]`, also without a dot, or a repository with its host.
pub(crate) fn is_host_or_name(s: &str) -> bool {
    let is_any_host = |s: &str| is_host(s) || is_host(&format!("{s}.x"));
    match s.split_once('/') {
        None => is_any_host(s),
        Some((host, repository)) => is_any_host(host) && is_repository(repository),
    }
}

impl RepoRef {
    /// `host[:port]`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The name below `/v2/`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The image of this digest here.
    pub fn pinned(&self, digest: Digest) -> PinnedRef {
        PinnedRef { repo: self.clone(), digest }
    }

    /// The image of this tag here.
    pub fn tagged(&self, tag: &str) -> Result<ImageRef, ReferenceError> {
        if !is_tag(tag) {
            return Err(ReferenceError::Tag(format!("{self}:{tag}")));
        }
        Ok(ImageRef { repo: self.clone(), tag: Some(tag.to_owned()), digest: None })
    }
}

impl ImageRef {
    /// Where the image lives.
    pub fn repo(&self) -> &RepoRef {
        &self.repo
    }

    /// The tag, if one was written.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, if one was written.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The reference to request from a registry: the digest, else the tag, else `latest`.
    pub fn manifest_reference(&self) -> String {
        match (self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        }
    }
}

impl PinnedRef {
    /// Where the image lives.
    pub fn repo(&self) -> &RepoRef {
        &self.repo
    }

    /// The digest of its manifest or index.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

impl From<PinnedRef> for ImageRef {
    fn from(pinned: PinnedRef) -> Self {
        Self { repo: pinned.repo, tag: None, digest: Some(pinned.digest) }
    }
}

impl FromStr for RepoRef {
    type Err = ReferenceError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let (host, repository) = s.split_once('/').ok_or_else(|| without_host(s))?;
        if !is_host(host) {
            return Err(without_host(s));
        }
        if !is_repository(repository) {
            return Err(ReferenceError::Repository(s.to_owned()));
        }
        Ok(Self { host: host.to_owned(), repository: repository.to_owned() })
    }
}

impl FromStr for ImageRef {
    type Err = ReferenceError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        if let Some(error) = other_form(s) {
            return Err(error);
        }
        let (name, digest) = match s.split_once('@') {
            Some((name, digest)) => {
                let digest = digest
                    .parse()
                    .map_err(|source| ReferenceError::Digest { image: s.to_owned(), source })?;
                (name, Some(digest))
            }
            None => (s, None),
        };
        // A colon before the last slash is the port's.
        let slash = name.rfind('/').ok_or_else(|| without_host(s))?;
        let (repo, tag) = match name[slash..].find(':') {
            Some(colon) => (&name[..slash + colon], Some(&name[slash + colon + 1..])),
            None => (name, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(ReferenceError::Tag(s.to_owned()));
        }
        Ok(Self { repo: repo.parse()?, tag: tag.map(str::to_owned), digest })
    }
}

impl FromStr for PinnedRef {
    type Err = ReferenceError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let image: ImageRef = s.parse()?;
        let digest = image.digest.ok_or_else(|| ReferenceError::NoDigest(s.to_owned()))?;
        Ok(Self { repo: image.repo, digest })
    }
}

impl fmt::Display for RepoRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.repository)
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.repo)?;
        self.tag.as_ref().map_or(Ok(()), |tag| write!(f, ":{tag}"))?;
        self.digest.map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

impl fmt::Display for PinnedRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.repo, self.digest)
    }
}

macro_rules! through_text {
    ($($name:ident),*) => {$(
        impl TryFrom<String> for $name {
            type Error = ReferenceError;
            fn try_from(s: String) -> Result<Self, Self::Error> {
                s.parse()
            }
        }
        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    )*};
}
through_text!(RepoRef, ImageRef, PinnedRef);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_registries_write_them() {
        let digest = Digest::of(b"");
        for good in [
            "quay.io/acme/os".to_owned(),
            "localhost/os".to_owned(),
            "localhost:5000/a/b/c:v1.0_x-y".to_owned(),
            "127.0.0.1:5000/os:v1".to_owned(),
            "[::1]:5000/os".to_owned(),
            format!("quay.io/a__b/c-d.e@{digest}"),
            format!("quay.io/a/b---c:tag@{digest}"),
            "svc.ns.svc:5000/ns/name:latest".to_owned(),
        ] {
            assert_eq!(
                good.parse::<ImageRef>().map(|image| image.to_string()),
                Ok(good.clone()),
                "{good}"
            );
        }
        type Want = fn(String) -> ReferenceError;
        for (bad, want) in [
            ("os", ReferenceError::Host as Want),
            ("acme/os", ReferenceError::Host),
            ("-x.io/os", ReferenceError::Host),
            ("quay.io:99999/os", ReferenceError::Host),
            ("quay.io/Acme/os", ReferenceError::Repository),
            ("quay.io//os", ReferenceError::Repository),
            ("quay.io/os/", ReferenceError::Repository),
            ("quay.io/a..b", ReferenceError::Repository),
            ("quay.io/../x", ReferenceError::Repository),
            ("quay.io/a b", ReferenceError::Repository),
            ("quay.io/a\nb", ReferenceError::Repository),
        ] {
            assert_eq!(bad.parse::<ImageRef>(), Err(want(bad.to_owned())), "{bad:?}");
        }
        for bad in ["quay.io/os:", "quay.io/os:-x", "quay.io/os:a b", "quay.io/os:a:b"] {
            assert_eq!(
                bad.parse::<ImageRef>(),
                Err(ReferenceError::Tag(bad.to_owned())),
                "{bad:?}"
            );
        }
        for (other, want) in [
            (
                "oci-archive:fedora-coreos.ociarchive",
                "`skopeo copy oci-archive:fedora-coreos.ociarchive oci:DIR`",
            ),
            ("docker-archive:os.tar", "oci:DIR"),
            ("docker-daemon:os:1", "oci:DIR"),
            ("containers-storage:localhost/os", "oci:DIR"),
            ("ostree-unverified-registry:quay.io/example/os:1", "write quay.io/example/os:1"),
            ("ostree-unverified-image:docker://quay.io/example/os:1", "write quay.io/example/os:1"),
            ("ostree-image-signed:registry:quay.io/os@sha256:00", "write quay.io/os@sha256:00"),
            ("ostree-remote-registry:fedora:quay.io/os:1", "write quay.io/os:1"),
            ("ostree-remote-image:fedora:docker://quay.io/os:1", "write quay.io/os:1"),
            (
                "ostree-remote-image:fedora:containers-storage:localhost/os",
                "`skopeo copy containers-storage:localhost/os oci:DIR`",
            ),
            ("ostree-unverified-image:oci-archive:/os.tar", "oci-archive:/os.tar oci:DIR"),
            ("https://quay.io/example/os:1", "write quay.io/example/os:1"),
            ("docker://quay.io/example/os:1", "write quay.io/example/os:1"),
            ("oci:out", "a directory is not taken here"),
        ] {
            let error = other.parse::<ImageRef>().unwrap_err().to_string();
            assert!(error.contains(want) && !error.contains("missing"), "{error}");
            assert!(other.parse::<RepoRef>().is_err(), "{other}");
        }
        assert!(matches!(
            "quay.io/os@sha256:00".parse::<ImageRef>(),
            Err(ReferenceError::Digest { .. })
        ));
        assert_eq!(
            "quay.io/os:v1".parse::<PinnedRef>(),
            Err(ReferenceError::NoDigest("quay.io/os:v1".to_owned()))
        );
    }
}
