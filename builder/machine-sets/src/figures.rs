//! The figures of a pass, for metrics and for the condition about old images. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::plan::BootImagePlan;
use super::snapshot::{BootImageSnapshot, GoldenState};
use mosb_api::boot_images::ManagedKind;
use mosb_boot_image::skew::{Limit, OPENSHIFT_OLDEST_RHEL, SetImage, skew};
use mosb_boot_image::{BootImage, History, Release, release_of};
use mosb_cluster::cluster_cache::BootImageKind;
use mosb_cluster::secret_ref::SecretRef;

/// Seconds before its end at which a CA is reported: 90 days.
const EXPIRES_SOON: i64 = 90 * 24 * 60 * 60;

/// What the metrics show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootImageFigures {
    /// Sets by kind and result.
    pub sets: BTreeMap<(ManagedKind, &'static str), i64>,
    /// Days between the oldest image in use, as far as its release is known, and the newest OS that new
    /// machines of a pool get; if that is not known, and on OpenShift, the golden image.
    pub days_behind: Option<i64>,
    /// Old images; none without a limit.
    pub skew: Option<SkewFigures>,
    /// Secrets with user data whose CA expires soon; none if the CA of no Secret is known.
    pub expiring: Option<Vec<ExpiringStub>>,
}

/// A Secret with user data whose CA expires soon, or expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiringStub {
    /// `namespace/name`.
    pub secret: String,
    /// The date.
    pub on: String,
}

/// The images in use against the oldest that machines can start from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkewFigures {
    /// The limit, as messages have it.
    pub limit: String,
    /// Sets whose image is older.
    pub too_old: Vec<String>,
    /// Sets that may have an old image whose release is not known.
    pub unknown: usize,
}

pub(super) fn figures(
    plan: &BootImagePlan,
    snapshot: &BootImageSnapshot,
    now: Timestamp,
) -> BootImageFigures {
    let mut figures = BootImageFigures::default();
    for set in &plan.sets {
        *figures.sets.entry((set.kind, set.outcome.result())).or_default() += 1;
    }
    figures.expiring = expiring(plan, now);
    let golden = match &snapshot.golden {
        GoldenState::Found(golden) => golden.releases(),
        GoldenState::Missing | GoldenState::Unreadable(_) => BTreeMap::new(),
    };
    let newest_of = |releases: &mut dyn Iterator<Item = &Release>| {
        releases.filter_map(|one| one.age_in_days(now.as_second())).min()
    };
    let pools = snapshot.pools.iter().filter(|_| !snapshot.is_openshift());
    let newest = newest_of(&mut pools.filter_map(|pool| pool.release.as_ref()));
    let newest = newest.or_else(|| newest_of(&mut golden.values()));
    let (named, recorded) = (named_releases(snapshot, golden), recorded_releases(snapshot));
    let counted = || plan.sets.iter().filter(|set| set.outcome.blocks_skew());
    let images = counted().filter_map(|set| {
        let image: BootImage = set.image.as_deref()?.parse().ok()?;
        let release = release_of(&image, &named);
        let release = release.or_else(|| recorded.get(image.as_str()).cloned());
        Some((&*set.set, image, release))
    });
    let images: Vec<(&str, BootImage, Option<Release>)> = images.collect();
    let sets: Vec<SetImage<'_>> = images
        .iter()
        .map(|(set, image, release)| SetImage { set, image, release: release.as_ref() })
        .collect();
    let limit = limit(snapshot);
    let found = skew(&sets, limit.as_ref().map(|(limit, _)| limit), now.as_second());
    let behind = |(oldest, newest): (i64, i64)| (oldest - newest).max(0);
    figures.days_behind = found.oldest.map(|one| one.age_in_days).zip(newest).map(behind);
    figures.skew = limit.map(|(_, limit)| SkewFigures {
        limit,
        too_old: found.too_old.iter().map(|set| (*set).to_owned()).collect(),
        unknown: found.unknown.len() + counted().count() - images.len(),
    });
    figures
}

/// The releases of images that the golden ConfigMap, or else the settings, name.
fn named_releases(
    snapshot: &BootImageSnapshot,
    golden: BTreeMap<String, Release>,
) -> BTreeMap<String, Release> {
    let images = snapshot.settings.iter().flat_map(|settings| &settings.images);
    // A release of another form has no date and can't be compared.
    let parse = |release: &String| release.parse::<Release>().ok();
    let mut releases: BTreeMap<_, _> =
        images.filter_map(|(release, image)| Some((image.clone(), parse(release)?))).collect();
    releases.extend(golden);
    releases
}

/// The releases that the histories of all sets have, as earlier golden ConfigMaps named them. Of two
/// for one image the older one, so that no history makes the image of another set look new.
fn recorded_releases(snapshot: &BootImageSnapshot) -> BTreeMap<String, Release> {
    let mut releases: BTreeMap<String, Release> = BTreeMap::new();
    let histories = snapshot.list(BootImageKind::BootImageHistory).into_iter();
    for detail in histories.flat_map(|one| History::read(&one.status).details) {
        // Empty if it was not known.
        let Ok(release) = detail.release.parse::<Release>() else { continue };
        let is_older = |other: &Release| release.age_in_days(0) > other.age_in_days(0);
        if releases.get(&detail.boot_image_ref).is_none_or(is_older) {
            releases.insert(detail.boot_image_ref, release);
        }
    }
    releases
}

fn expiring(plan: &BootImagePlan, now: Timestamp) -> Option<Vec<ExpiringStub>> {
    if plan.stub_expiries.is_empty() {
        return None;
    }
    let limit = now.as_second().saturating_add(EXPIRES_SOON);
    let soon = plan.stub_expiries.iter().filter(|(_, time)| **time < limit);
    let stub = |(secret, time): (&SecretRef, &i64)| ExpiringStub {
        secret: secret.to_string(),
        on: Timestamp::from_second(*time)
            .map(|time| time.strftime("%Y-%m-%d").to_string())
            .unwrap_or_default(),
    };
    Some(soon.map(stub).collect())
}

/// The limit of the settings; on OpenShift its own without one.
fn limit(snapshot: &BootImageSnapshot) -> Option<(Limit, String)> {
    let settings = snapshot.settings.as_ref().ok()?;
    if let Some(text) = &settings.oldest {
        let release: Release = text.parse().ok()?;
        return Some((Limit::Release(release), text.clone()));
    }
    let (major, minor) = OPENSHIFT_OLDEST_RHEL;
    let limit = (Limit::Rhel(major, minor), format!("RHEL {major}.{minor}"));
    snapshot.is_openshift().then_some(limit)
}
