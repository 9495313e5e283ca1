//! The version of buildah, and the syntax that it can't read.

use std::fmt;
use std::str::FromStr;

use super::commands::INSTALL;
use super::error::Error;
use crate::exec::Command;
use mosb_plan::containerfile::{self, Need};

/// A version of buildah.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl FromStr for Version {
    type Err = Error;
    /// Reads `buildah version 1.28.2 (image-spec 1.1.0-rc2, runtime-spec 1.0.2-dev)`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let number = |part: Option<&str>| {
            let digits = part?.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse::<u32>().ok()
        };
        let mut parts = text.strip_prefix("buildah version ").unwrap_or_default().splitn(3, '.');
        match (number(parts.next()), number(parts.next()), number(parts.next())) {
            (Some(major), Some(minor), patch) => Ok(Self(major, minor, patch.unwrap_or(0))),
            _ => Err(Error::Version(text.trim().chars().take(80).collect())),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// The version of the `buildah` in the `PATH`.
///
/// # Errors
/// There is none, or its output is something else.
pub async fn version() -> Result<Version, Error> {
    let answer = Command::new("buildah", INSTALL).arg("--version").run(|_, _| ()).await?;
    String::from_utf8_lossy(&answer).parse()
}

/// Rejects a Containerfile of the administrator that this buildah would refuse or misread.
///
/// # Errors
/// Something in it that only later versions know.
pub fn check_needs(text: &str, version: Version) -> Result<(), Error> {
    let since = |need: &Need| Version(need.since.0, need.since.1, 0);
    match containerfile::needs(text).into_iter().find(|need| version < since(need)) {
        Some(need) => Err(Error::TooOld { found: version, since: since(&need), need }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_types::Diagnostic as _;

    #[test]
    fn versions_are_read_and_compared() {
        for (text, want) in [
            (
                "buildah version 1.28.2 (image-spec 1.1.0-rc2, runtime-spec 1.0.2-dev)\n",
                Some(Version(1, 28, 2)),
            ),
            ("buildah version 1.39.3", Some(Version(1, 39, 3))),
            ("buildah version 1.40-dev (x)", Some(Version(1, 40, 0))),
            ("podman version 4.3.1", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok(), want, "{text:?}");
        }
        for (text, since) in [
            ("RUN <<EOF\ntrue\nEOF\n", Some(Version(1, 33, 0))),
            ("RUN --network=none true", Some(Version(1, 30, 0))),
            ("COPY --link --from=extract a b", Some(Version(1, 37, 0))),
            ("ADD --checksum=sha256:a https://x /x", Some(Version(1, 33, 0))),
            ("WORKDIR ${A:?none}", Some(Version(1, 30, 0))),
            ("RUN --mount=type=tmpfs,target=x true", Some(Version(1, 30, 0))),
            ("RUN --mount=type=bind,from=a,target=/x,relabel=shared true", Some(Version(1, 31, 0))),
            ("RUN true", None),
        ] {
            let old = check_needs(text, Version(1, 28, 2));
            assert_eq!(
                old.err().map(|error| error.code()),
                since.map(|_| "buildah-too-old"),
                "{text}"
            );
            let new = since.map_or(Ok(()), |since| check_needs(text, since));
            assert!(new.is_ok(), "{text}: {new:?}");
        }
    }
}
