//! What is in an image, as the tree of what its layer is on shows it, and the checks of that.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::{CheckFailure, Facts, Verdict};
use crate::plan::diff::kernels;
use crate::plan::unified_kernel;
use mosb_image::packages::Installed;
use mosb_image::tree::BaseTree;

/// The names of packages with the kubelet; Fedora's have a version in the name.
const KUBELETS: [&str; 3] = ["kubelet", "openshift-kubelet", "kubernetes-node"];
/// OpenShift 4.N has Kubernetes 1.(N + 13).
const OPENSHIFT_MINORS: u32 = 13;
/// How many minors a kubelet may be older than the API server, since Kubernetes 1.28.
const MAX_SKEW: u32 = 3;

/// The kernels and packages of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    pub kernels: Vec<String>,
    /// Of a sealed image, without the leading slash.
    pub unified_kernel: Option<String>,
    /// The versions of each package, by name; none if the image has no database, or one can't be read.
    pub packages: Option<BTreeMap<String, Vec<String>>>,
}

/// A minor version of Kubernetes: `1.33`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubernetesMinor {
    major: u32,
    minor: u32,
}

impl Contents {
    pub fn of(tree: &BaseTree) -> Self {
        let installed = Installed::of(tree);
        let is_known = installed.warnings.is_empty() && !installed.packages.is_empty();
        let packages = is_known.then(|| {
            let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for package in installed.packages.iter() {
                versions.entry(package.name.clone()).or_default().push(package.version.clone());
            }
            versions
        });
        Self { kernels: kernels(tree), unified_kernel: unified_kernel(tree), packages }
    }

    /// The newest kubelet, and the package that has it.
    fn kubelet(&self) -> Option<(KubernetesMinor, String)> {
        let packages = self.packages.iter().flatten();
        let is_kubelet = |name: &str| {
            let is_fedoras = name.strip_prefix("kubernetes1.").is_some_and(|rest| {
                rest.trim_end_matches("-kubelet").bytes().all(|b| b.is_ascii_digit())
            });
            KUBELETS.contains(&name) || is_fedoras
        };
        let kubelets =
            packages.filter(|(name, _)| is_kubelet(name)).flat_map(|(name, versions)| {
                versions.iter().filter_map(move |version| {
                    Some((KubernetesMinor::of_package(name, version)?, format!("{name} {version}")))
                })
            });
        kubelets.max()
    }
}

impl KubernetesMinor {
    /// Of the version of a package: `[epoch:]1.33.2-1`, or OpenShift's `4.18.0-…`.
    fn of_package(name: &str, version: &str) -> Option<Self> {
        let version = version.split_once(':').map_or(version, |(_, version)| version);
        let Self { major, minor } = version.parse().ok()?;
        match (name, major) {
            ("openshift-kubelet", 4) => Some(Self { major: 1, minor: minor + OPENSHIFT_MINORS }),
            _ => Some(Self { major, minor }),
        }
    }
}

/// From `v1.33.2+k3s1`, `1.33` and similar texts.
impl FromStr for KubernetesMinor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "not a version of Kubernetes";
        let mut parts = text.trim_start_matches('v').split('.');
        let mut number = || {
            let digits = parts.next()?;
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            // No more than four digits, so that sums don't overflow.
            digits[..end].parse().ok().filter(|number| *number < 10_000)
        };
        let major = number().ok_or(wrong)?;
        Ok(Self { major, minor: number().ok_or(wrong)? })
    }
}

impl fmt::Display for KubernetesMinor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

pub(super) fn kubelet_skew(facts: Facts<'_>) -> Verdict {
    let contents = match packages(facts) {
        Ok((contents, _)) => contents,
        Err(unknown) => return unknown,
    };
    let Some((kubelet, package)) = contents.kubelet() else {
        return Verdict::Unknown("no package in it is known to have the kubelet".to_owned());
    };
    let server = match facts.kubernetes {
        Ok(server) => server,
        Err(why) => {
            return Verdict::Unknown(format!(
                "it has {package}, and the version of the API server is not known: {why}"
            ));
        }
    };
    let image = &facts.image.image;
    let remedy = format!("take a base with a kubelet of {server}, or update the control plane");
    let oldest = KubernetesMinor { minor: server.minor.saturating_sub(MAX_SKEW), ..server };
    if kubelet > server {
        let message = format!("{image} has {package}, newer than the API server ({server})");
        CheckFailure::found("kubelet-too-new", message, remedy)
    } else if kubelet < oldest {
        let message = format!(
            "{image} has {package}, and the API server ({server}) works with kubelets from {oldest} on"
        );
        CheckFailure::found("kubelet-too-old", message, remedy)
    } else {
        Verdict::Passed(format!("it has {package}, the API server is {server}"))
    }
}

pub(super) fn packages_held(facts: Facts<'_>) -> Verdict {
    if facts.held_packages.is_empty() {
        return Verdict::Passed("no package is held".to_owned());
    }
    let packages = match packages(facts) {
        Ok((_, packages)) => packages,
        Err(unknown) => return unknown,
    };
    let wrong = facts.held_packages.iter().filter_map(|(name, held)| {
        let has = packages.get(name)?.iter().find(|version| !is_of(version, held))?;
        Some(format!("{name} {has} instead of {held}"))
    });
    let wrong: Vec<String> = wrong.collect();
    if wrong.is_empty() {
        return Verdict::Passed("held packages have their versions".to_owned());
    }
    CheckFailure::found(
        "packages-held",
        format!("{} has {}", facts.image.image, wrong.join(", ")),
        "build it on a base with these versions, or change checks.heldPackages of ConfigMap mosb-config",
    )
}

/// Whether a version is this one, or begins with it up to a separator.
fn is_of(version: &str, held: &str) -> bool {
    version.strip_prefix(held).is_some_and(|rest| {
        let next = rest.chars().next();
        next.is_none_or(|next| !next.is_ascii_alphanumeric())
    })
}

type Packages = BTreeMap<String, Vec<String>>;

fn packages(facts: Facts<'_>) -> Result<(&Contents, &Packages), Verdict> {
    let unknown = |why: &str| Verdict::Unknown(format!("its packages are not known: {why}"));
    let contents = facts.contents.map_err(unknown)?;
    let packages = contents.packages.as_ref();
    let packages =
        packages.ok_or_else(|| unknown("it has no package database that can be read"))?;
    Ok((contents, packages))
}
