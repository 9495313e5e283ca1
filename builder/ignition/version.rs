//! The versions of the Ignition spec that are read.

use std::fmt;
use std::str::FromStr;

use super::error::Error;

/// A stable version of spec 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpecVersion {
    /// 3.0.0
    V3_0,
    /// 3.1.0
    V3_1,
    /// 3.2.0
    V3_2,
    /// 3.3.0
    V3_3,
    /// 3.4.0
    V3_4,
    /// 3.5.0
    V3_5,
}

impl SpecVersion {
    /// All of them, oldest first.
    pub const ALL: [Self; 6] = [
        Self::V3_0,
        Self::V3_1,
        Self::V3_2,
        Self::V3_3,
        Self::V3_4,
        Self::V3_5,
    ];

    /// As it stands in `ignition.version`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V3_0 => "3.0.0",
            Self::V3_1 => "3.1.0",
            Self::V3_2 => "3.2.0",
            Self::V3_3 => "3.3.0",
            Self::V3_4 => "3.4.0",
            Self::V3_5 => "3.5.0",
        }
    }

    /// The accepted versions, for a message.
    pub(super) fn accepted() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}

impl fmt::Display for SpecVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SpecVersion {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self, Error> {
        if let Some(version) = Self::ALL.into_iter().find(|v| v.as_str() == s) {
            return Ok(version);
        }
        let older = matches!(s.split('.').next(), Some("1" | "2"));
        Err(if older {
            Error::OldSpec {
                found: s.to_owned(),
            }
        } else {
            Error::UnknownSpec {
                found: s.to_owned(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_it_is_printed() {
        for version in SpecVersion::ALL {
            assert_eq!(version.to_string().parse::<SpecVersion>().unwrap(), version);
        }
    }

    #[test]
    fn other_versions_say_what_to_do() {
        for (found, want) in [
            ("2.2.0", "old-ignition-spec"),
            ("2.4.0-experimental", "old-ignition-spec"),
            ("1.0.0", "old-ignition-spec"),
            ("3.6.0", "unknown-ignition-spec"),
            ("3.5.0-experimental", "unknown-ignition-spec"),
            ("3.5", "unknown-ignition-spec"),
            ("03.5.0", "unknown-ignition-spec"),
            ("", "unknown-ignition-spec"),
        ] {
            let error = found.parse::<SpecVersion>().unwrap_err();
            assert_eq!(error.reason(), want, "{found:?}");
            let message = error.to_string();
            let remedy = if want == "old-ignition-spec" {
                "render the config first"
            } else {
                "3.0.0, 3.1.0"
            };
            assert!(message.contains(remedy), "{found:?}: {message}");
        }
    }
}
