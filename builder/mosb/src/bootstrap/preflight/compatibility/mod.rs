//! Whether an image is compatible with the machines of a cluster, according to its labels. Pure.

use std::collections::BTreeMap;

use super::Cluster;
use super::report::{ImageCheck, Kind, Outcome};
use mosb_api::labels;
use mosb_image::{Digest, ImageRef, Platform};
use mosb_plan::plan::Base;

/// Label that the on-cluster builder of older releases set.
const RELEASE_VERSION: &str = "releaseversion";
/// Labels with the OS version, the most reliable first: of OpenShift's build system, then of
/// CoreOS.
const VERSIONS: [&str; 3] =
    ["io.openshift.build.versions", "org.opencontainers.image.version", "version"];

/// Checks that the image has a label of bootable images.
pub(super) fn bootable(image: &Base) -> ImageCheck {
    if image.is_bootable() {
        ImageCheck::passed(Kind::Bootable, "it is labelled as an image that machines boot")
    } else {
        ImageCheck::not_passed(
            Kind::Bootable,
            Outcome::Failed,
            "not-bootable",
            format!(
                "{} has neither of the labels containers.bootc and ostree.bootable: machines don't boot it",
                image.image
            ),
            "build it on the cluster's OS image, or on another bootable one",
        )
    }
}

/// Checks the architecture. `wanted` is the machines' platform with its source, or the reason why
/// it is unknown.
pub(super) fn architecture(image: &Base, wanted: Result<(&Platform, &str), &str>) -> ImageCheck {
    let is = &image.config.platform;
    let (wanted, who) = match wanted {
        Ok(wanted) => wanted,
        Err(why) => {
            let message = format!("it is for {is}, and what the machines are is not known: {why}");
            return ImageCheck::skipped(Kind::Architecture, message);
        }
    };
    // The variant is not compared, because many configs omit it.
    if wanted.os() == is.os() && wanted.architecture() == is.architecture() {
        ImageCheck::passed(Kind::Architecture, format!("it is for {is}, as {who}"))
    } else {
        ImageCheck::not_passed(
            Kind::Architecture,
            Outcome::Failed,
            "platform-missing",
            format!("{} is for {is}, not for {wanted} as {who}", image.image),
            format!("build it for {wanted}"),
        )
    }
}

/// Checks the release. `stock` is the cluster's own OS image, or the reason why it can't be read.
pub(super) fn release(image: &Base, cluster: &Cluster, stock: &Result<Base, String>) -> ImageCheck {
    let image_labels = &image.config.labels;
    if let Some(base) = &cluster.base
        && let Some(digest) = base.digest()
        && built_on(image) == Some(digest)
    {
        let message = "it was built on the cluster's own OS image";
        return ImageCheck::passed(Kind::Release, message);
    }
    if let (Some(built), Some(release)) = (image_labels.get(RELEASE_VERSION), &cluster.release)
        && let (Some(of), Some(wanted)) = (minor(built), minor(release))
    {
        return compare(&image.image, (built, of), (release, wanted), cluster);
    }
    let stock = match stock {
        Ok(stock) => stock,
        Err(why) => return ImageCheck::skipped(Kind::Release, why.clone()),
    };
    match (version(image_labels), version(&stock.config.labels)) {
        (Some(is), Some(wanted)) => compare(&image.image, is, wanted, cluster),
        (None, _) => ImageCheck::skipped(Kind::Release, "it has no label with an OS version"),
        (_, None) => {
            let message = "the cluster's OS image has no label with an OS version";
            ImageCheck::skipped(Kind::Release, message)
        }
    }
}

fn compare(
    image: &str,
    is: (&str, String),
    wanted: (&str, String),
    cluster: &Cluster,
) -> ImageCheck {
    if is.1 == wanted.1 {
        let message = format!("it is of {}, the cluster of {}", is.0, wanted.0);
        return ImageCheck::passed(Kind::Release, message);
    }
    let on = match &cluster.base {
        Some(base) => format!("build it again on {base}"),
        None => "build it again on the cluster's OS image".to_owned(),
    };
    ImageCheck::not_passed(
        Kind::Release,
        Outcome::Failed,
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

#[cfg(test)]
mod tests;
