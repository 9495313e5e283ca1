//! Skew: whether a machine that starts from the oldest boot image in use can still reach the OS
//! that the cluster runs.

use crate::{BootImage, Release};

/// What OpenShift requires of boot images since 4.13: older ones can't pull today's OS images.
pub const OPENSHIFT_OLDEST_RHEL: (u32, u32) = (9, 2);
/// The first version of OpenShift whose OS releases do not begin with OpenShift's version.
const FIRST_WITHOUT_VERSION: (u32, u32) = (4, 19);

/// The image that a set's new machines start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetImage<'a> {
    /// The set, as messages name it.
    pub set: &'a str,
    pub image: &'a BootImage,
    /// The image's release, if it is known ([`crate::release_of`]).
    pub release: Option<&'a Release>,
}

/// The oldest boot image from which a machine still reaches the cluster's OS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    /// An OS release, or a version of OpenShift.
    Release(Release),
    Rhel(u32, u32),
}

/// The boot images of all sets against a limit. Sets are in the order of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skew<'a> {
    /// Of the images whose release is known.
    pub oldest: Option<Oldest<'a>>,
    pub too_old: Vec<&'a str>,
    /// Sets whose image can't be compared with the limit; empty without a limit.
    pub unknown: Vec<&'a str>,
}

/// The oldest boot image in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oldest<'a> {
    pub set: &'a str,
    pub image: &'a BootImage,
    pub release: &'a Release,
    pub age_in_days: i64,
}

impl Limit {
    /// Whether a boot image of this release is too old; `None` if they can't be compared.
    pub fn is_above(&self, release: &Release) -> Option<bool> {
        match self {
            Self::Rhel(major, minor) => Some(release.rhel()? < (*major, *minor)),
            Self::Release(limit) => match (limit.cluster_version(), release.is_of_os()) {
                (Some((major, minor, _)), true) => match release.openshift() {
                    Some(version) => Some(version < (major, minor)),
                    // It is of that version or a later one.
                    None => {
                        release.rhel()?;
                        ((major, minor) <= FIRST_WITHOUT_VERSION).then_some(false)
                    }
                },
                (Some(_) | None, _) => release.compare(limit).map(std::cmp::Ordering::is_lt),
            },
        }
    }
}

/// Compares all sets. `now` is in seconds since 1970. Without a limit there are only ages.
pub fn skew<'a>(sets: &[SetImage<'a>], limit: Option<&Limit>, now: i64) -> Skew<'a> {
    let ages = sets.iter().filter_map(|one| {
        let release = one.release?;
        let age_in_days = release.age_in_days(now)?;
        Some(Oldest { set: one.set, image: one.image, release, age_in_days })
    });
    let oldest =
        ages.reduce(|one, other| if other.age_in_days > one.age_in_days { other } else { one });
    let (mut too_old, mut unknown) = (Vec::new(), Vec::new());
    if let Some(limit) = limit {
        for one in sets {
            match one.release.and_then(|release| limit.is_above(release)) {
                Some(true) => too_old.push(one.set),
                Some(false) => {}
                None => unknown.push(one.set),
            }
        }
    }
    Skew { oldest, too_old, unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> Release {
        text.parse().unwrap()
    }

    #[test]
    fn limits() {
        let at = |text: &str| Limit::Release(release(text));
        let rhel = Limit::Rhel(OPENSHIFT_OLDEST_RHEL.0, OPENSHIFT_OLDEST_RHEL.1);
        let cases = [
            ("RHEL 8.6", &rhel, "412.86.202301010000-0", Some(true)),
            ("RHEL 9.2", &rhel, "413.92.202301010000-0", Some(false)),
            ("RHEL 9.6", &rhel, "9.6.20260210-0", Some(false)),
            ("RHEL 10.0", &rhel, "10.0.20260210-0", Some(false)),
            ("Fedora has no RHEL", &rhel, "42.20250609.3.0", None),
            ("OpenShift 4.12", &at("4.13.0"), "412.86.202301010000-0", Some(true)),
            ("OpenShift 4.13", &at("4.13.0"), "413.92.202301010000-0", Some(false)),
            ("OpenShift 4.19 or later", &at("4.13.0"), "9.6.20260210-0", Some(false)),
            ("OpenShift 4.19 at least", &at("4.19.0"), "9.6.20260210-0", Some(false)),
            ("OpenShift 4.19 or 4.20?", &at("4.20.0"), "9.6.20260210-0", None),
            ("Fedora has no OpenShift", &at("4.13.0"), "42.20250609.3.0", None),
            ("a version that an administrator stated", &at("4.13.0"), "4.12.9", Some(true)),
            ("a newer stated version", &at("4.13.0"), "4.13.0", Some(false)),
            ("a release of Fedora", &at("41.20250105.3.0"), "40.20241006.3.0", Some(true)),
            ("the limit itself", &at("41.20250105.3.0"), "41.20250105.3.0", Some(false)),
            ("another stream of Fedora", &at("41.20250105.3.0"), "40.20241006.2.0", None),
            ("an OS release as the limit of a version", &at("9.2.20230101-0"), "4.13.0", None),
        ];
        for (what, limit, image, want) in cases {
            assert_eq!(limit.is_above(&release(image)), want, "{what}");
        }
    }

    #[test]
    fn the_oldest_image_in_use() {
        let images: Vec<BootImage> = ["a", "b", "c"].map(|text| text.parse().unwrap()).into();
        let (old, new) = (release("413.92.202302100000-0"), release("9.6.20260210-0"));
        let of = |at: usize, set, release| SetImage { set, image: &images[at], release };
        let sets = [of(0, "new", Some(&new)), of(1, "old", Some(&old)), of(2, "ami", None)];
        // 2026-02-12
        let now = 1_770_887_411;
        let oldest = Oldest { set: "old", image: &images[1], release: &old, age_in_days: 1098 };
        let limit = Limit::Rhel(9, 4);
        let got = skew(&sets, Some(&limit), now);
        let want = Skew { oldest: Some(oldest), too_old: vec!["old"], unknown: vec!["ami"] };
        assert_eq!(got, want);
        let got = skew(&sets, None, now);
        assert_eq!(got, Skew { oldest: Some(oldest), too_old: vec![], unknown: vec![] });
        let got = skew(&sets[2..], Some(&limit), now);
        assert_eq!(got, Skew { oldest: None, too_old: vec![], unknown: vec!["ami"] });
        let got = skew(&[], Some(&limit), now);
        assert_eq!(got, Skew { oldest: None, too_old: vec![], unknown: vec![] });
    }
}
