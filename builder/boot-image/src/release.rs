//! Releases of an OS or of a cluster, as streams, golden ConfigMaps and image names spell them.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use mosb_types::Diagnostic;

/// Longer than any release.
const MAX_BYTES: usize = 64;

/// A release. Displayed as it was written. Only releases of schemes with a common order compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    text: String,
    scheme: Scheme,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Scheme {
    /// `9.6.20260210-0`, of RHEL CoreOS and CentOS Stream CoreOS.
    Rhel { rhel: (u32, u32), day: Day, build: u32 },
    /// `418.94.202511191518-0`, of RHEL CoreOS before OpenShift 4.19. `time` is HHMM.
    Ocp { ocp: (u32, u32), rhel: (u32, u32), day: Day, time: u32, build: u32 },
    /// `41.20250105.3.0`, of Fedora CoreOS; the third number is the stream.
    Fedora { fedora: u32, day: Day, stream: u32, build: u32 },
    /// `4.18.3`, `4.19.0-rc.1`, of a cluster.
    Version { numbers: (u32, u32, u32), pre: Option<String> },
}

/// Days since 1970-01-01.
type Day = i64;

/// Why a text is not a release.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[error(
    "{0:?} is not a release; want one such as 9.6.20260210-0, 418.94.202511191518-0, 41.20250105.3.0 \
     or 4.18.3"
)]
#[diagnostic(code = "bad-release", class = InvalidInput)]
pub struct ReleaseError(String);

impl Release {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The order of two releases; `None` if their schemes have none. Fedora CoreOS releases of
    /// different streams, and OS releases and cluster versions, can't be compared.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        use Scheme::{Fedora, Ocp, Rhel, Version};
        match (&self.scheme, &other.scheme) {
            (Rhel { rhel, day, build }, Rhel { rhel: r, day: d, build: b }) => {
                Some((rhel, day, build).cmp(&(r, d, b)))
            }
            (
                Ocp { ocp, rhel, day, time, build },
                Ocp { ocp: o, rhel: r, day: d, time: t, build: b },
            ) => Some((ocp, rhel, day, time, build).cmp(&(o, r, d, t, b))),
            // Both name their RHEL; equal ones are ordered by day, and then not at all.
            (Ocp { rhel, day, .. }, Rhel { rhel: r, day: d, .. })
            | (Rhel { rhel, day, .. }, Ocp { rhel: r, day: d, .. }) => {
                Some((rhel, day).cmp(&(r, d))).filter(|order| order.is_ne())
            }
            (
                Fedora { fedora, day, stream, build },
                Fedora { fedora: f, day: d, stream: s, build: b },
            ) if stream == s => Some((fedora, day, build).cmp(&(f, d, b))),
            (Version { numbers, pre }, Version { numbers: n, pre: p }) => {
                Some(numbers.cmp(n).then_with(|| compare_prereleases(pre.as_deref(), p.as_deref())))
            }
            (Rhel { .. } | Ocp { .. } | Fedora { .. } | Version { .. }, _) => None,
        }
    }

    /// Days from the date in the release to an instant, in seconds since 1970; negative if it is
    /// of a later day. Cluster versions have no date.
    pub fn age_in_days(&self, now: i64) -> Option<i64> {
        match self.scheme {
            Scheme::Rhel { day, .. } | Scheme::Ocp { day, .. } | Scheme::Fedora { day, .. } => {
                Some(now.div_euclid(86_400) - day)
            }
            Scheme::Version { .. } => None,
        }
    }

    /// The version of RHEL that an OS release is made of.
    pub fn rhel(&self) -> Option<(u32, u32)> {
        match self.scheme {
            Scheme::Rhel { rhel, .. } | Scheme::Ocp { rhel, .. } => Some(rhel),
            Scheme::Fedora { .. } | Scheme::Version { .. } => None,
        }
    }

    /// The version of OpenShift that an OS release begins with, before 4.19.
    pub fn openshift(&self) -> Option<(u32, u32)> {
        match self.scheme {
            Scheme::Ocp { ocp, .. } => Some(ocp),
            Scheme::Rhel { .. } | Scheme::Fedora { .. } | Scheme::Version { .. } => None,
        }
    }

    /// The numbers of a cluster's version.
    pub fn cluster_version(&self) -> Option<(u32, u32, u32)> {
        match self.scheme {
            Scheme::Version { numbers, .. } => Some(numbers),
            Scheme::Rhel { .. } | Scheme::Ocp { .. } | Scheme::Fedora { .. } => None,
        }
    }

    /// Whether it is of an OS, and so a boot image can have it.
    pub fn is_of_os(&self) -> bool {
        !matches!(self.scheme, Scheme::Version { .. })
    }
}

/// A version without a prerelease is newer than all of its prereleases (semver.org §11).
fn compare_prereleases(one: Option<&str>, other: Option<&str>) -> Ordering {
    let (Some(one), Some(other)) = (one, other) else {
        return one.is_none().cmp(&other.is_none());
    };
    let (mut ones, mut others) = (one.split('.'), other.split('.'));
    loop {
        let order = match (ones.next(), others.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) => match (number(a), number(b)) {
                (Some(a), Some(b)) => a.cmp(&b),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => a.cmp(b),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
}

fn number(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// A day as eight digits, such as `20260210`.
fn day(digits: &str) -> Option<Day> {
    if digits.len() != 8 || number(digits).is_none() {
        return None;
    }
    let part = |range| number(&digits[range]).map(i64::from);
    let (year, month, day) = (part(0..4)?, part(4..6)?, part(6..8)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year < 2000 {
        return None;
    }
    // Years begin in March, so that the leap day is their last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    Some(year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468)
}

/// RHEL's version without its dot: `94` is 9.4, `810` is 8.10, `100` is 10.0.
fn rhel_version(digits: &str) -> Option<(u32, u32)> {
    number(digits)?;
    let major = if digits.starts_with('1') { 2 } else { 1 };
    Some((number(digits.get(..major)?)?, number(digits.get(major..).filter(|s| !s.is_empty())?)?))
}

/// OpenShift's version without its dot: `46` is 4.6, `418` is 4.18.
fn ocp_version(digits: &str) -> Option<(u32, u32)> {
    let minor = digits.strip_prefix('4')?;
    Some((4, number(minor).filter(|_| (1..=2).contains(&minor.len()))?))
}

impl Scheme {
    fn parse(text: &str) -> Option<Self> {
        let (main, suffix) = match text.split_once('-') {
            Some((main, suffix)) => (main, Some(suffix)),
            None => (text, None),
        };
        let parts: Vec<&str> = main.split('.').collect();
        match (&parts[..], suffix) {
            ([fedora, date, stream, build], None) => Some(Self::Fedora {
                fedora: number(fedora)?,
                day: day(date)?,
                stream: number(stream)?,
                build: number(build)?,
            }),
            ([major, minor, date], Some(build)) if date.len() == 8 => Some(Self::Rhel {
                // Three digits are OpenShift's version, as Azure writes it without a time.
                rhel: (number(major).filter(|major| *major < 100)?, number(minor)?),
                day: day(date)?,
                build: number(build)?,
            }),
            ([ocp, rhel, date], Some(build)) if date.len() == 12 => Some(Self::Ocp {
                ocp: ocp_version(ocp)?,
                rhel: rhel_version(rhel)?,
                day: day(date.get(..8)?)?,
                time: number(date.get(8..)?)?,
                build: number(build)?,
            }),
            ([major, minor, patch], pre) if minor.len().max(patch.len()) <= 5 => {
                Some(Self::Version {
                    numbers: (number(major)?, number(minor)?, number(patch)?),
                    pre: match pre {
                        Some("") => return None,
                        pre => pre.map(str::to_owned),
                    },
                })
            }
            _ => None,
        }
    }
}

impl FromStr for Release {
    type Err = ReleaseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_ours = |b: u8| b.is_ascii_alphanumeric() || b".-".contains(&b);
        let scheme = Some(text).filter(|text| text.len() <= MAX_BYTES && text.bytes().all(is_ours));
        match scheme.and_then(Scheme::parse) {
            Some(scheme) => Ok(Self { text: text.to_owned(), scheme }),
            None => Err(ReleaseError(text.chars().take(MAX_BYTES).collect())),
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
