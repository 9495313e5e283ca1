//! The platform of an image: `os/architecture[/variant]`, as the OCI image index spells it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A platform to build for (OCI image spec, image index, `platform`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Platform {
    os: String,
    architecture: String,
    variant: Option<String>,
}

/// Why a text is not a platform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a platform: want os/architecture[/variant], for example linux/arm64")]
pub struct PlatformError(String);

impl Platform {
    /// From the fields of an index entry or an image config.
    pub fn new(os: &str, architecture: &str, variant: Option<&str>) -> Result<Self, PlatformError> {
        let text = || match variant {
            Some(variant) => format!("{os}/{architecture}/{variant}"),
            None => format!("{os}/{architecture}"),
        };
        let word = |s: &str| {
            !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        };
        if !word(os) || !word(architecture) || !variant.is_none_or(word) {
            return Err(PlatformError(text()));
        }
        Ok(Self {
            os: os.to_owned(),
            architecture: architecture.to_owned(),
            variant: variant.map(str::to_owned),
        })
    }

    /// `GOOS`, such as `linux`.
    pub fn os(&self) -> &str {
        &self.os
    }

    /// `GOARCH`, such as `amd64`.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// Whether an image for `other` matches a request for `self`: variants are compared only if
    /// `self` has one.
    pub fn accepts(&self, other: &Platform) -> bool {
        self.os == other.os
            && self.architecture == other.architecture
            && (self.variant.is_none() || self.variant == other.variant)
    }
}

impl FromStr for Platform {
    type Err = PlatformError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let parts: Vec<_> = s.split('/').collect();
        match parts[..] {
            [os, architecture] => Self::new(os, architecture, None),
            [os, architecture, variant] => Self::new(os, architecture, Some(variant)),
            _ => Err(PlatformError(s.to_owned())),
        }
    }
}

impl TryFrom<String> for Platform {
    type Error = PlatformError;
    fn try_from(s: String) -> Result<Self, Self::Error> {
        s.parse()
    }
}

impl From<Platform> for String {
    fn from(platform: Platform) -> Self {
        platform.to_string()
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_compared_only_if_requested() {
        let platform = |s: &str| s.parse::<Platform>().unwrap();
        assert!(platform("linux/arm64").accepts(&platform("linux/arm64/v8")));
        assert!(!platform("linux/arm64/v9").accepts(&platform("linux/arm64/v8")));
        assert!(!platform("linux/amd64").accepts(&platform("linux/arm64")));
        for wrong in ["linux", "", "linux/", "/amd64", "linux/amd64/", "a/b/c/d", "linux/am d64"] {
            assert_eq!(wrong.parse::<Platform>(), Err(PlatformError(wrong.to_owned())));
        }
    }
}
