//! When images are changed: not during an upgrade, and not from images that are newer than what the
//! cluster runs. Pure.

use std::cmp::Ordering;

use super::machine_set::MachineSet;
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

/// Why images of this stream are not used now, on a cluster without ClusterVersion: there, the
/// ConfigMap says what the cluster runs.
pub(super) fn stream_wait(
    snapshot: &BootImageSnapshot,
    golden: &Golden,
    stream: &Stream,
    architecture: Architecture,
) -> Option<String> {
    if snapshot.is_openshift() {
        return None;
    }
    let name = &snapshot.golden_name;
    let Some(running) = golden.release_version() else {
        return Some(format!(
            "ConfigMap {name} has no releaseVersion; set it to the release of the OS that the cluster runs"
        ));
    };
    let images = stream.images_of(architecture)?;
    let releases = images.artifacts.values().filter_map(|artifact| artifact.release.as_deref());
    let mut releases = releases.collect::<Vec<_>>();
    releases.dedup();
    releases.into_iter().find_map(|release| newer_than_cluster(name, release, running))
}

/// That no image waits for the OS of the pools, if the ConfigMap was made without their release.
pub(super) fn open_gate(snapshot: &BootImageSnapshot, golden: &Golden) -> Option<String> {
    let release = golden.release_version().filter(|_| !snapshot.is_openshift())?;
    let stream = golden.stream(None).ok()?;
    let images = stream.architectures.values().flat_map(|images| images.artifacts.values());
    let is_of_stream = images.into_iter().any(|one| one.release.as_deref() == Some(release));
    let is_open = |one| stream_wait(snapshot, golden, stream, one).is_none();
    (is_of_stream && Architecture::ALL.into_iter().all(is_open)).then(|| {
        let name = &snapshot.golden_name;
        format!(
            "releaseVersion of ConfigMap {name} is {release}, the newest of its stream, so no image waits for the OS of the pools; if they run an older release, make it with `mosb boot-images golden --release-version RELEASE`"
        )
    })
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
