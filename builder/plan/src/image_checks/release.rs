//! Whether an image is of the cluster's release, as labels say it.

use std::collections::BTreeMap;

use super::{CheckFailure, Verdict};
use crate::plan::Base;
use mosb_api::labels;
use mosb_image::{Digest, ImageRef};

/// The OS image and release of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Its own OS image (`baseOSContainerImage`).
    pub base: Option<ImageRef>,
    /// Its release (annotation `release-image-version` of the ControllerConfig).
    pub release: Option<String>,
}

/// Label that the on-cluster builder of older releases set.
const RELEASE_VERSION: &str = "releaseversion";
/// Labels with the OS version, the most reliable first: of OpenShift's build system, then of
/// CoreOS.
const VERSIONS: [&str; 3] =
    ["io.openshift.build.versions", "org.opencontainers.image.version", "version"];

/// Checks the release. `stock` is the cluster's own OS image, or the reason why it can't be read.
pub(super) fn release(image: &Base, cluster: &Cluster, stock: Result<&Base, &str>) -> Verdict {
    let image_labels = &image.config.labels;
    if let Some(base) = &cluster.base
        && let Some(digest) = base.digest()
        && built_on(image) == Some(digest)
    {
        return Verdict::Passed("it was built on the cluster's own OS image".to_owned());
    }
    if let (Some(built), Some(release)) = (image_labels.get(RELEASE_VERSION), &cluster.release)
        && let (Some(of), Some(wanted)) = (minor(built), minor(release))
    {
        return compare(&image.image, (built, of), (release, wanted), cluster);
    }
    let stock = match stock {
        Ok(stock) => stock,
        Err(why) => return Verdict::Unknown(why.to_owned()),
    };
    match (version(image_labels), version(&stock.config.labels)) {
        (Some(is), Some(wanted)) => compare(&image.image, is, wanted, cluster),
        (None, _) => Verdict::Unknown("it has no label with an OS version".to_owned()),
        (_, None) => {
            Verdict::Unknown("the cluster's OS image has no label with an OS version".to_owned())
        }
    }
}

fn compare(image: &str, is: (&str, String), wanted: (&str, String), cluster: &Cluster) -> Verdict {
    if is.1 == wanted.1 {
        return Verdict::Passed(format!("it is of {}, the cluster of {}", is.0, wanted.0));
    }
    let on = match &cluster.base {
        Some(base) => format!("build it again on {base}"),
        None => "build it again on the cluster's OS image".to_owned(),
    };
    CheckFailure::found(
        "release-differs",
        format!("{image} is of {}, and the cluster is of {}", is.0, wanted.0),
        format!("{on}, or install the release that it was built for"),
    )
}

/// The digest of the image's base, if its builder recorded it.
fn built_on(image: &Base) -> Option<Digest> {
    let annotation = image.manifest["annotations"][labels::OCI_BASE_DIGEST].as_str();
    let label = image.config.labels.get(labels::IMAGE_BASE);
    let of_label = label.and_then(|text| text.parse::<ImageRef>().ok()?.digest());
    of_label.or_else(|| annotation?.parse().ok())
}

/// The OS version in the labels, and the part of it that must match.
fn version(labels: &BTreeMap<String, String>) -> Option<(&str, String)> {
    let explain = VERSIONS.iter().filter_map(|key| labels.get(*key));
    explain
        .filter_map(|text| {
            // `machine-os=418.94.202501221327-0` among other components.
            let machine_os = text.split(',').find_map(|one| one.trim().strip_prefix("machine-os="));
            let text = machine_os.unwrap_or(text);
            Some((text, stream(text)?))
        })
        .next()
}

/// The part of a CoreOS version before the date: `418.94` of `418.94.202501221327-0`, `41` of
/// `41.20250105.3.0`. A version without a date is a custom one and has none.
fn stream(version: &str) -> Option<String> {
    let is_date = |part: &&str| part.bytes().take_while(u8::is_ascii_digit).count() >= 8;
    let parts: Vec<&str> = version.split('.').collect();
    let date = parts.iter().position(is_date)?;
    (date > 0).then(|| parts[..date].join("."))
}

/// `4.20` of `4.20.1-rc.0`.
fn minor(release: &str) -> Option<String> {
    let mut parts = release.split('.');
    let (major, minor) = (parts.next()?, parts.next()?);
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (number(major) && number(minor)).then(|| format!("{major}.{minor}"))
}
