//! What a decision depends on, from a list of the cluster. Pure.
//!
//! Whatever names a digest counts: not only the fields that are known here.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::judge::KeepReason;
use crate::judge::{BuiltImage, NeededImages, RetentionFacts};
use mosb_api::cluster_settings::Retention;
use mosb_api::rollout::{History, NodeReport, PinnedBuild};
use mosb_api::{MachineOsBuild, MachineOsConfig, Metadata, condition, labels};
use mosb_cluster::cluster_cache::{ClusterCache, SeenMachine};
use mosb_cluster::cluster_names::{BASE_TREES, PREPARED_BASES};
use mosb_cluster::node_pool::PoolSelectors;
use mosb_image::{Digest, ImageRef, PinnedRef, RepoRef};
use mosb_new_machines::USER_DATA;

/// The algorithm of all digests, with its colon.
const PREFIX: &str = "sha256:";
const HEX: usize = 64;

/// What `mosb.dev/image-deleted` begins with until the registry has deleted the image; a blank and the
/// time follow, which tells two processes apart.
const DELETING: &str = "deleting ";

/// The record of a deletion that begins.
pub fn deleting(since: Timestamp) -> String {
    format!("{DELETING}{since}")
}

/// Why nothing of a MachineOSConfig is deleted now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Hold {
    #[error(
        "it is not known which image {} booted: {}; machines of a roll-out report it", if nodes.len() == 1 { "this node" } else { "these nodes" }, mosb_cluster::name_list::name_list(nodes, 5)
    )]
    UnknownMachines { nodes: Vec<String> },
    #[error("the user data of new machines may have an older image; condition UserData shows why")]
    UserData,
    #[error(
        "other clusters delete images in {repository} too ({tags}); give each cluster a repository of its own, or delete the tags of clusters that no longer exist"
    )]
    Shared { repository: String, tags: String },
}

/// The MachineOSConfig's push repository.
pub fn push_repository(config: &MachineOsConfig) -> Option<RepoRef> {
    let push: ImageRef = config.spec.rendered_image_push_spec.parse().ok()?;
    Some(push.repo().clone())
}

/// All builds of a MachineOSConfig.
fn own_builds(cache: &ClusterCache, config: &MachineOsConfig) -> Vec<Arc<MachineOsBuild>> {
    let uid = config.metadata.uid();
    cache.builds.filter_list(|build| build.metadata.is_controlled_by(uid))
}

/// The images that builds made. Of those that were deleted, only those with a prepared base.
pub fn built_images(cache: &ClusterCache, config: &MachineOsConfig) -> Vec<BuiltImage> {
    let repository = push_repository(config);
    let built = |build: Arc<MachineOsBuild>| {
        let image: PinnedRef = build.status.image()?.parse().ok()?;
        let annotation = |key| build.metadata.annotation(key);
        let record = annotation(labels::IMAGE_DELETED);
        let deleting_since = record.and_then(|text| text.strip_prefix(DELETING));
        let is_deleted = record.is_some() && deleting_since.is_none();
        let prepared = annotation(labels::PREPARED).and_then(|digest| digest.parse().ok());
        if Some(image.repo()) != repository.as_ref() || (is_deleted && prepared.is_none()) {
            return None;
        }
        let digest = image.digest();
        let times = [&build.status.build_end, &build.metadata.creation_timestamp];
        let mut names = digests_in_annotations(&build.metadata);
        names.remove(&digest);
        Some(BuiltImage {
            digest,
            tags: own_tags(&build),
            time: times.into_iter().flatten().map(|time| time.0).max()?,
            // Only builds of mosb have inputs, and only those with a workload a builder.
            is_made_here: annotation(labels::INPUTS).is_some()
                && annotation(labels::ADOPTED_FROM).is_none()
                && build.status.builder.is_some()
                && !build.is_pre_built(),
            prepared,
            names,
            is_deleted,
            // One that can't be read is taken over at once.
            deleting_since: deleting_since.map(|text| text.parse().unwrap_or_default()),
            build: build.metadata.name.clone(),
        })
    };
    own_builds(cache, config).into_iter().filter_map(built).collect()
}

/// The tags that a build pushes.
fn own_tags(build: &MachineOsBuild) -> BTreeSet<String> {
    [build.metadata.name.clone(), build.spec.machine_config.name.clone()].into()
}

/// What the decision depends on. `os_images`: the `osImageURL` of each pool's rendered configs.
pub fn retention_facts(
    cache: &ClusterCache,
    config: &MachineOsConfig,
    retention: Retention,
    os_images: &[(String, String)],
) -> RetentionFacts {
    let mut needed = NeededImages::new();
    let mut add = |digest: Digest, reason: KeepReason| {
        needed.entry(digest).or_default().insert(reason);
    };
    for machine in cache.machines.list() {
        of_machine(&machine, &mut add);
    }
    for config in cache.configs.list() {
        of_config(&config, &mut add);
    }
    for pool in cache.pools.list() {
        let name = format!("machineconfigpool {}", pool.metadata.name);
        for digest in digests_in_annotations(&pool.metadata) {
            add(digest, KeepReason::Named(name.clone()));
        }
    }
    for (object, url) in os_images {
        for digest in digests_in(url) {
            add(digest, KeepReason::Named(object.clone()));
        }
    }
    for name in [BASE_TREES, PREPARED_BASES] {
        let map = cache.settings.get(name).and_then(|store| store.get(name));
        let data = map.and_then(|map| map.data.clone()).unwrap_or_default();
        for digest in data.values().flat_map(|text| digests_in(text)) {
            add(digest, KeepReason::Named(format!("configmap {name}")));
        }
    }
    let uid = config.metadata.uid();
    let mut running_tags = std::collections::BTreeMap::new();
    for build in cache.builds.list() {
        let metadata = &build.metadata;
        let is_own = metadata.is_controlled_by(uid);
        let is_running = !build.status.is_terminal();
        if is_running {
            running_tags
                .extend(own_tags(&build).into_iter().map(|tag| (tag, metadata.name.clone())));
        }
        let is_deleted = metadata.annotations.contains_key(labels::IMAGE_DELETED);
        // An own image decides by itself whether what it names is kept.
        if is_running || (!is_own && !is_deleted) {
            let image = digests_in(&build.status.digested_image_push_spec);
            for digest in digests_in_annotations(metadata).into_iter().chain(image) {
                add(digest, KeepReason::Named(format!("machineosbuild {}", metadata.name)));
            }
        }
    }
    // The build that is in use, or on its way.
    let current = config.metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD);
    let builds = built_images(cache, config);
    for build in builds.iter().filter(|build| Some(&*build.build) == current) {
        add(build.digest, KeepReason::InService(config.metadata.name.clone()));
    }
    RetentionFacts { builds, needed, running_tags, retention }
}

/// Why nothing may be deleted, as far as the cluster shows it.
pub fn hold(cache: &ClusterCache, config: &MachineOsConfig) -> Option<Hold> {
    let pool = &config.spec.machine_config_pool.name;
    let selectors = PoolSelectors::of(cache);
    let is_member = selectors.members_of(pool);
    let unknown = cache
        .machines
        .filter_list(|machine| is_member(&machine.metadata.labels) && !is_image_known(machine));
    if !unknown.is_empty() {
        let nodes = unknown.iter().map(|machine| machine.metadata.name.clone()).collect();
        return Some(Hold::UnknownMachines { nodes });
    }
    let has_user_data = config.metadata.annotation(labels::USER_DATA).is_some();
    let is_current = condition(&config.status.conditions, USER_DATA).is_some_and(|it| it.is_true());
    (has_user_data && !is_current).then_some(Hold::UserData)
}

/// Whether the machine, or the Machine Config Operator, wrote which image it booted.
fn is_image_known(machine: &SeenMachine) -> bool {
    let annotation = |key| machine.metadata.annotation(key);
    let report = annotation(labels::NODE_REPORT).and_then(|text| NodeReport::parse(text).ok());
    report.is_some_and(|report| report.booted.is_some())
        || annotation(labels::NODE_CURRENT_IMAGE).is_some()
}

fn of_machine(machine: &SeenMachine, add: &mut impl FnMut(Digest, KeepReason)) {
    let name = machine.metadata.name.clone();
    let report = machine.metadata.annotation(labels::NODE_REPORT);
    let report = report.and_then(|text| NodeReport::parse(text).ok()).unwrap_or_default();
    let deployments = [
        (report.booted, KeepReason::Booted(name.clone())),
        (report.staged, KeepReason::Staged(name.clone())),
        (report.rollback, KeepReason::Rollback(name.clone())),
    ];
    let mut reported = BTreeSet::new();
    for (deployment, reason) in deployments {
        if let Some(digest) = deployment.and_then(|one| one.digest) {
            reported.insert(digest);
            add(digest, reason);
        }
    }
    for digest in digests_in_annotations(&machine.metadata) {
        if !reported.contains(&digest) {
            add(digest, KeepReason::Named(format!("node {name}")));
        }
    }
}

fn of_config(config: &MachineOsConfig, add: &mut impl FnMut(Digest, KeepReason)) {
    let name = config.metadata.name.clone();
    let mut known = BTreeSet::new();
    let in_service = digests_in(&config.status.current_image_pull_spec);
    let in_service = in_service.map(|digest| (digest, KeepReason::InService(name.clone())));
    let pins = [labels::ROLLOUT_BUILD, labels::ROLLOUT_ONCE].into_iter().filter_map(|key| {
        let pin = PinnedBuild::in_annotation(&config.metadata, key).ok().flatten()?;
        Some((pin.digest, KeepReason::Pinned(name.clone())))
    });
    let history = History::of(&config.metadata);
    let history = history.entries().iter();
    let history = history.map(|entry| (entry.image.digest(), KeepReason::History(name.clone())));
    for (digest, reason) in in_service.chain(pins).chain(history) {
        known.insert(digest);
        add(digest, reason);
    }
    // Seeds, the stock image, images in a Containerfile and in conditions.
    let text = serde_json::to_string(config).unwrap_or_default();
    for digest in digests_in(&text).filter(|digest| !known.contains(digest)) {
        add(digest, KeepReason::Named(format!("machineosconfig {name}")));
    }
}

fn digests_in_annotations(metadata: &Metadata) -> BTreeSet<Digest> {
    metadata.annotations.values().flat_map(|text| digests_in(text)).collect()
}

/// Each digest in a text, wherever it is.
pub fn digests_in(text: &str) -> impl Iterator<Item = Digest> {
    text.match_indices(PREFIX).filter_map(|(at, _)| {
        text.get(at..at + PREFIX.len() + HEX).and_then(|digest| digest.parse().ok())
    })
}
