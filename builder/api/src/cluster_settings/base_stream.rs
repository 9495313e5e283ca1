//! What names the newest base of pools that follow their base.

use std::str::FromStr;

use url::Url;

use mosb_image::{ImageRef, ReferenceError};

/// The setting `baseStream`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseStream {
    /// Without a digest.
    Tag(ImageRef),
    /// Stream metadata as Fedora CoreOS publishes it. Without user, password and query.
    Metadata(Url),
}

/// Why a text is none of both.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BaseStreamError {
    #[error("{0}")]
    Reference(#[from] ReferenceError),
    #[error("want host/repository:tag, without a digest")]
    NoTag,
    #[error("want https://host/….json, without user, query and fragment")]
    Url,
}

impl FromStr for BaseStream {
    type Err = BaseStreamError;

    fn from_str(text: &str) -> Result<Self, BaseStreamError> {
        if !text.contains("://") {
            let tag: ImageRef = text.parse()?;
            let is_tag = tag.tag().is_some() && tag.digest().is_none();
            return if is_tag { Ok(Self::Tag(tag)) } else { Err(BaseStreamError::NoTag) };
        }
        let url = Url::parse(text).map_err(|_| BaseStreamError::Url)?;
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if url.scheme() != "https" || !url.path().ends_with(".json") || !is_plain {
            return Err(BaseStreamError::Url);
        }
        Ok(Self::Metadata(url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_or_url_of_metadata() {
        let url = "https://builds.coreos.fedoraproject.org/streams/stable.json";
        assert_eq!(url.parse(), Ok(BaseStream::Metadata(url.parse().unwrap())));
        let tag = "quay.io/fedora/fedora-coreos:stable";
        assert_eq!(tag.parse(), Ok(BaseStream::Tag(tag.parse().unwrap())));
        let digest = format!("quay.io/os:1@sha256:{}", "1".repeat(64));
        for (what, text) in [
            ("no tag", "quay.io/os"),
            ("a digest", &*digest),
            ("no TLS", "http://builds.example.com/stable.json"),
            ("another kind of file", "https://builds.example.com/stable"),
            ("no host", "https:///stable.json"),
            ("a password", "https://me:secret@builds.example.com/stable.json"),
            ("a query", "https://builds.example.com/stable.json?token=secret"),
            ("a query that ends so", "https://builds.example.com/?stable.json"),
            ("a fragment", "https://builds.example.com/stable.json#a"),
            ("nothing", ""),
        ] {
            let error = text.parse::<BaseStream>().unwrap_err().to_string();
            assert!(!error.contains("secret"), "{what}: {error}");
        }
    }
}
