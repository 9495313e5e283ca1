//! Parses what the command line takes as an image, `host/repo[:tag][@digest]`,
//! `oci:DIR[:TAG][@digest]` or `dir:DIR`, and as the target of a build, `host/repo` or `oci:DIR`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use mosb_image::reference::is_tag;
use mosb_image::{Digest, ImageRef, RepoRef};
use mosb_types::Finding;

use crate::error::Error;

/// An image that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Registry(ImageRef),
    /// In an OCI layout directory.
    Layout {
        /// The directory.
        dir: PathBuf,
        /// `org.opencontainers.image.ref.name` of one of its images.
        tag: Option<String>,
        /// One of its images by digest.
        digest: Option<Digest>,
    },
    /// The one image of a `dir:` directory, as buildah and skopeo write it.
    Dir(PathBuf),
}

/// Where a build goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    destination: Destination,
    ignored_tag: Option<String>,
}

/// The two kinds of [`Target`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A repository of a registry.
    Registry(RepoRef),
    /// An OCI layout directory, made if it isn't there.
    Layout(PathBuf),
}

/// `DIR[:TAG][@digest]`.
fn layout(text: &str, rest: &str) -> Result<(PathBuf, Option<String>, Option<Digest>), Error> {
    let wrong = |cause| Error::Location { text: text.to_owned(), cause };
    let (rest, digest) = match rest.split_once('@') {
        Some((rest, digest)) => {
            let digest = digest
                .parse()
                .map_err(|source| Error::LocationDigest { text: text.to_owned(), source })?;
            (rest, Some(digest))
        }
        None => (rest, None),
    };
    let (dir, tag) = match rest.split_once(':') {
        Some((dir, tag)) => (dir, Some(tag)),
        None => (rest, None),
    };
    if dir.is_empty() {
        return Err(wrong("the folder is missing; write oci:DIR[:TAG][@digest]"));
    }
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err(wrong(
            "a tag has at most 128 letters, digits, _ . - and does not begin with . or -; DIR can't hold : or @",
        ));
    }
    Ok((dir.into(), tag.map(str::to_owned), digest))
}

impl Source {
    /// The digest that was written, if one was.
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Self::Registry(image) => image.digest(),
            Self::Layout { digest, .. } => *digest,
            Self::Dir(_) => None,
        }
    }
}

impl FromStr for Source {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        if let Some(rest) = s.strip_prefix("oci:") {
            let (dir, tag, digest) = layout(s, rest)?;
            return Ok(Self::Layout { dir, tag, digest });
        }
        if let Some(dir) = s.strip_prefix("dir:") {
            if dir.is_empty() {
                return Err(Error::Location {
                    text: s.to_owned(),
                    cause: "the folder is missing; write dir:DIR",
                });
            }
            return Ok(Self::Dir(dir.into()));
        }
        // A transport that containers' tools would strip; here it says the same.
        Ok(Self::Registry(s.strip_prefix("docker://").unwrap_or(s).parse()?))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(image) => image.fmt(f),
            Self::Layout { dir, tag, digest } => {
                write!(f, "oci:{}", dir.display())?;
                tag.as_ref().map_or(Ok(()), |tag| write!(f, ":{tag}"))?;
                digest.map_or(Ok(()), |digest| write!(f, "@{digest}"))
            }
            Self::Dir(dir) => write!(f, "dir:{}", dir.display()),
        }
    }
}

impl Target {
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The repository, where it is one.
    pub fn repo(&self) -> Option<&RepoRef> {
        match &self.destination {
            Destination::Registry(repo) => Some(repo),
            Destination::Layout(_) => None,
        }
    }

    /// A finding for a user that wrote a tag: tags come from the rendered config.
    pub fn notice(&self) -> Option<Finding> {
        let tag = self.ignored_tag.as_ref()?;
        Some(
            Finding::new(
                "target-tag-ignored",
                format!(
                    "tag {tag:?} is ignored: the tags are the rendered name and the build name"
                ),
            )
            .object(self.to_string()),
        )
    }
}

impl Target {
    /// An OCI layout directory.
    pub fn layout(dir: &Path) -> Self {
        Self { destination: Destination::Layout(dir.to_owned()), ignored_tag: None }
    }
}

impl From<RepoRef> for Target {
    fn from(repo: RepoRef) -> Self {
        Self { destination: Destination::Registry(repo), ignored_tag: None }
    }
}

impl FromStr for Target {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let (destination, tag, digest) = match s.strip_prefix("oci:") {
            Some(rest) => {
                let (dir, tag, digest) = layout(s, rest)?;
                (Destination::Layout(dir), tag, digest)
            }
            None if s.starts_with("dir:") => {
                return Err(Error::Location {
                    text: s.to_owned(),
                    cause: "a dir: folder is not written; write oci:DIR or host/repo",
                });
            }
            None if ["oci-archive:", "docker-archive:"].iter().any(|form| s.starts_with(form)) => {
                return Err(Error::Location {
                    text: s.to_owned(),
                    cause: "an archive is not written; write oci:DIR, and make one of it with `skopeo copy`",
                });
            }
            None => {
                let image = s.strip_prefix("docker://").unwrap_or(s);
                let image: ImageRef = image.parse().map_err(Error::Target)?;
                let tag = image.tag().map(str::to_owned);
                (Destination::Registry(image.repo().clone()), tag, image.digest())
            }
        };
        if digest.is_some() {
            return Err(Error::Location {
                text: s.to_owned(),
                cause: "a target can't have a digest: it is what the build finds out; write host/repo or oci:DIR",
            });
        }
        Ok(Self { destination, ignored_tag: tag })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.destination.fmt(f)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(repo) => repo.fmt(f),
            Self::Layout(dir) => write!(f, "oci:{}", Path::display(dir)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_read_and_written_the_same() {
        let digest = Digest::of(b"");
        for good in [
            "quay.io/acme/os:v1".to_owned(),
            "oci:dir".to_owned(),
            "oci:/a/b c/d:tag".to_owned(),
            format!("oci:../x:t@{digest}"),
            format!("oci:x@{digest}"),
            "dir:/x:y@z".to_owned(),
        ] {
            assert_eq!(good.parse::<Source>().unwrap().to_string(), good);
        }
        for bad in ["oci:", "oci::tag", "oci:a:b:c", "oci:a@b", "oci:a:", "dir:", "busybox", ""] {
            assert!(bad.parse::<Source>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn tags_in_targets_are_ignored_and_reported() {
        for (text, shown, tag) in [
            ("quay.io/acme/os", "quay.io/acme/os", None),
            ("localhost:5000/os:v1", "localhost:5000/os", Some("v1")),
            ("oci:out", "oci:out", None),
            ("oci:out:v1", "oci:out", Some("v1")),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), shown);
            assert_eq!(target.notice().is_some(), tag.is_some(), "{text}");
        }
        let pinned = format!("quay.io/os@{}", Digest::of(b""));
        assert!(matches!(pinned.parse::<Target>(), Err(Error::Location { .. })));
        for other in ["dir:x", "oci-archive:x", "docker-archive:x"] {
            assert!(matches!(other.parse::<Target>(), Err(Error::Location { .. })), "{other}");
        }
    }
}
