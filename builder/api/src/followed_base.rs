//! How a pool follows the base of its images, and the base that was recorded for it.

use std::fmt;

use super::annotation::{AnnotationError, one_of};
use super::{Metadata, labels};
use mosb_image::{Digest, ImageRef, PinnedRef};

/// How a pool follows its base (annotation `mosb.dev/follow-base`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FollowBase {
    /// Its tag is not looked at.
    #[default]
    None,
    /// A newer base is reported.
    Notify,
    /// A newer base is recorded, and an image is built on it.
    Build,
}

impl FollowBase {
    /// The mode of a MachineOSConfig.
    ///
    /// # Errors
    /// The value is none of the three.
    pub fn of(config: &Metadata) -> Result<Self, AnnotationError> {
        let words = [Self::None, Self::Notify, Self::Build].map(|mode| (mode.as_str(), mode));
        one_of(config, labels::FOLLOW_BASE, &words)
    }

    /// As the annotation spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Notify => "notify",
            Self::Build => "build",
        }
    }
}

/// The base that a pool is built on as long as its base is named by this tag (annotation
/// `mosb.dev/base` of a MachineOSConfig): `host/repository:tag@sha256:…`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordedBase {
    /// Without a digest.
    tag: ImageRef,
    digest: Digest,
}

impl RecordedBase {
    /// None if `tag` has a digest.
    pub fn new(tag: ImageRef, digest: Digest) -> Option<Self> {
        tag.digest().is_none().then_some(Self { tag, digest })
    }

    /// That of a MachineOSConfig.
    ///
    /// # Errors
    /// The value is not a reference with a digest.
    pub fn of(config: &Metadata) -> Result<Option<Self>, AnnotationError> {
        let Some(text) = config.annotation(labels::BASE) else {
            return Ok(None);
        };
        let remedy = "write host/repository:tag@sha256:<64 hex digits>, or use `mosb base update`";
        let wrong = |cause: String| AnnotationError::new(labels::BASE, text, cause, remedy);
        let (tag, _) = text.split_once('@').ok_or_else(|| wrong("no digest".to_owned()))?;
        let pinned: PinnedRef = text.parse().map_err(|cause| wrong(format!("{cause}")))?;
        let tag: ImageRef = tag.parse().map_err(|cause| wrong(format!("{cause}")))?;
        Ok(Some(Self { tag, digest: pinned.digest() }))
    }

    /// The tag that it is the image of.
    pub fn tag(&self) -> &ImageRef {
        &self.tag
    }

    pub fn pinned(&self) -> PinnedRef {
        self.tag.repo().pinned(self.digest)
    }

    /// Whether a text names this tag.
    pub fn is_of(&self, named: &str) -> bool {
        named.parse::<ImageRef>().is_ok_and(|named| named == self.tag)
    }
}

impl fmt::Display for RecordedBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.tag, self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotation::tests::annotated as config;

    #[test]
    fn mode_is_one_of_three_defaulting_to_none() {
        assert_eq!(FollowBase::of(&Metadata::default()), Ok(FollowBase::None));
        for mode in [FollowBase::None, FollowBase::Notify, FollowBase::Build] {
            assert_eq!(FollowBase::of(&config(labels::FOLLOW_BASE, mode.as_str())), Ok(mode));
        }
        let error = FollowBase::of(&config(labels::FOLLOW_BASE, "yes")).unwrap_err();
        assert!(error.to_string().contains("set none, notify or build"), "{error}");
    }

    #[test]
    fn recorded_base_holds_for_its_tag() {
        let digest = format!("sha256:{}", "1".repeat(64));
        let of = |text: &str| RecordedBase::of(&config(labels::BASE, text));
        let text = format!("quay.io/acme/os:stable@{digest}");
        let recorded = of(&text).unwrap().unwrap();
        assert_eq!(recorded.to_string(), text);
        assert_eq!(recorded.pinned().to_string(), format!("quay.io/acme/os@{digest}"));
        for (named, want) in [
            ("quay.io/acme/os:stable", true),
            ("quay.io/acme/os:next", false),
            ("quay.io/acme/os", false),
            (&*text, false),
            ("", false),
        ] {
            assert_eq!(recorded.is_of(named), want, "{named}");
        }
        assert_eq!(RecordedBase::of(&Metadata::default()), Ok(None));
        for bad in ["quay.io/acme/os:stable", "quay.io/acme/os@sha256:12", "os:stable@sha256:12"] {
            let error = of(bad).unwrap_err().to_string();
            assert!(error.contains("mosb base update"), "{error}");
        }
        let pinned: ImageRef = text.parse().unwrap();
        assert_eq!(RecordedBase::new(pinned, digest.parse().unwrap()), None);
    }
}
