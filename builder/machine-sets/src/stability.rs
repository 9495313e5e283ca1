//! When images are changed: not during an upgrade, and not from images that are newer than what the
//! cluster runs. Pure.

use std::cmp::Ordering;

use super::machine_set::MachineSet;
use super::pool_os::{PoolOs, pools_of};
use super::snapshot::BootImageSnapshot;
use mosb_boot_image::{Architecture, Golden, Release, Stream};
use mosb_cluster::cluster_cache::{BootImageKind, SeenObject};

/// Why no image of the cluster is changed now.
pub(super) fn cluster_wait(snapshot: &BootImageSnapshot, golden: &Golden) -> Option<String> {
    let version = snapshot.cluster_version.as_ref()?;
    let last = &version.status["history"][0];
    if last["state"] != "Completed" {
        return Some(
            "an upgrade is under way: the newest entry in status.history of ClusterVersion version is not Completed"
                .to_owned(),
        );
    }
    let running = last["version"].as_str().unwrap_or_default();
    let stamp = golden.stamp().map(|stamp| &*stamp.release_image_version);
    let Some(release) = stamp.or(golden.release_version()) else {
        let name = &snapshot.golden_name;
        return Some(format!(
            "ConfigMap {name} has no releaseVersion, so it is not known whether the cluster runs its release"
        ));
    };
    newer_than_cluster(&snapshot.golden_name, release, running)
}

/// Why images of this stream are not used for a set now, on a cluster without ClusterVersion: there, a
/// new machine must not have to go back to the OS of its pool. Where the images of pools do not tell
/// that, the ConfigMap says what the cluster runs.
pub(super) fn stream_wait(
    set: MachineSet<'_>,
    snapshot: &BootImageSnapshot,
    golden: &Golden,
    stream: &Stream,
    architecture: Architecture,
) -> Option<String> {
    if snapshot.is_openshift() {
        return None;
    }
    let pools = pools_of(set, &snapshot.pools);
    let mut releases = releases(stream, architecture).into_iter();
    releases.find_map(|release| release_wait(release, &pools, snapshot, golden))
}

/// The releases of the images of a stream.
fn releases(stream: &Stream, architecture: Architecture) -> Vec<&str> {
    let images = stream.images_of(architecture);
    let artifacts = images.into_iter().flat_map(|images| images.artifacts.values());
    let mut releases: Vec<&str> =
        artifacts.filter_map(|artifact| artifact.release.as_deref()).collect();
    releases.dedup();
    releases
}

/// Why images of this release are not used for machines of these pools.
fn release_wait(
    release: &str,
    pools: &[&PoolOs],
    snapshot: &BootImageSnapshot,
    golden: &Golden,
) -> Option<String> {
    let name = &snapshot.golden_name;
    let orders = known_orders(release, pools.iter().copied());
    if !orders.is_empty() {
        let (pool, _) = orders.into_iter().find(|(_, order)| order.is_lt())?;
        let PoolOs { pool, release: os, .. } = pool;
        let os = os.as_ref().map(Release::as_str).unwrap_or_default();
        return Some(format!(
            "the images of ConfigMap {name} are of {release}, and new machines of pool {pool} get {os}, which is older; they wait until the pool has an image on {release}"
        ));
    }
    let Some(running) = golden.release_version() else {
        return Some(format!(
            "ConfigMap {name} has no releaseVersion; set it to the release of the OS that the cluster runs"
        ));
    };
    newer_than_cluster(name, release, running)
}

/// Pools whose OS can be compared with a release, and how it compares.
fn known_orders<'s>(
    release: &str,
    pools: impl Iterator<Item = &'s PoolOs>,
) -> Vec<(&'s PoolOs, Ordering)> {
    let Ok(release) = release.parse::<Release>() else { return Vec::new() };
    pools.filter_map(|pool| Some((pool, pool.compare(&release)?))).collect()
}

/// That no image waits for the OS of the pools, if the ConfigMap was made without their release and
/// their images do not have it.
pub(super) fn open_gate(snapshot: &BootImageSnapshot, golden: &Golden) -> Option<String> {
    let release = golden.release_version().filter(|_| !snapshot.is_openshift())?;
    let stream = golden.stream(None).ok()?;
    let images = stream.architectures.values().flat_map(|images| images.artifacts.values());
    let is_of_stream = images.into_iter().any(|one| one.release.as_deref() == Some(release));
    let is_open = |architecture| {
        let mut releases = releases(stream, architecture).into_iter();
        releases.all(|one| release_wait(one, &[], snapshot, golden).is_none())
    };
    let is_open = is_of_stream && Architecture::ALL.into_iter().all(is_open);
    let is_unknown = known_orders(release, snapshot.pools.iter()).is_empty();
    (is_open && is_unknown).then(|| {
        let name = &snapshot.golden_name;
        format!(
            "releaseVersion of ConfigMap {name} is {release}, the newest of its stream, so no image waits for the OS of the pools; if they run an older release, make it with `mosb boot-images golden --release-version RELEASE`"
        )
    })
}

/// That the images to follow are older than what a pool runs by now.
pub(super) fn old_stream(snapshot: &BootImageSnapshot, golden: &Golden) -> Option<String> {
    if snapshot.is_openshift() {
        return None;
    }
    let stream = golden.stream(None).ok()?;
    let all = Architecture::ALL.into_iter().flat_map(|one| releases(stream, one));
    let parsed: Vec<Release> = all.filter_map(|text| text.parse().ok()).collect();
    let is_behind =
        |os: &&PoolOs| parsed.iter().all(|one| os.compare(one) == Some(Ordering::Greater));
    let PoolOs { pool, release: os, .. } = snapshot.pools.iter().find(is_behind)?;
    let (os, release) = (os.as_ref()?, parsed.first()?);
    let name = &snapshot.golden_name;
    Some(format!(
        "ConfigMap {name} has images of {release}, and new machines of pool {pool} get {os}, which is newer; make the ConfigMap from the stream as it is now"
    ))
}

fn newer_than_cluster(golden: &str, release: &str, running: &str) -> Option<String> {
    if release == running {
        return None;
    }
    let parsed = (release.parse::<Release>(), running.parse::<Release>());
    let order = match &parsed {
        (Ok(release), Ok(running)) => release.compare(running),
        _ => None,
    };
    match order {
        Some(Ordering::Greater) => Some(format!(
            "the images of ConfigMap {golden} are of {release}, and the cluster runs {running}"
        )),
        Some(_) => None,
        None => Some(format!(
            "the release {release} of ConfigMap {golden} can't be compared with {running}, which the cluster runs"
        )),
    }
}

/// Why the sets of this Cluster of Cluster API are not changed now.
pub(super) fn cluster_api_wait(
    set: MachineSet<'_>,
    snapshot: &BootImageSnapshot,
) -> Option<String> {
    let key = set.cluster()?;
    let Some(cluster) = snapshot.get(BootImageKind::Cluster, &key) else {
        return Some(format!("Cluster {key} does not exist"));
    };
    match available(cluster) {
        Some("True") => None,
        Some("Unknown") if has_unknown_control_plane(cluster) => {
            let mut parts = PARTS.into_iter();
            let part = parts.find(|part| cluster.condition(part) != Some("True"))?;
            Some(format!("Cluster {key} has not the condition {part}"))
        }
        Some(_) => Some(format!("Cluster {key} is not available")),
        None => Some(format!("Cluster {key} does not report whether it is available")),
    }
}

/// What `Available` is made of, but for the control plane.
const PARTS: [&str; 3] = ["InfrastructureReady", "RemoteConnectionProbe", "WorkersAvailable"];

/// Whether the Cluster names no control plane. Cluster API never calls such a one available.
fn has_unknown_control_plane(cluster: &SeenObject) -> bool {
    cluster.spec["controlPlaneRef"].is_null() && cluster.spec["topology"].is_null()
}

/// The status of condition `Available`; of `Ready`, where a Cluster has no other.
fn available(cluster: &SeenObject) -> Option<&str> {
    cluster.condition("Available").or_else(|| cluster.condition("Ready"))
}
