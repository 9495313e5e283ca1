//! The input of a decision about the base of a pool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::streams::{Newest, StreamName};
use mosb_api::cluster_settings::BaseStream;
use mosb_api::{ClusterSettings, MachineConfigPool, MachineOsBuild, MachineOsConfig, labels};
use mosb_cluster::cluster_cache::{ClusterCache, IndexKey, Trigger};
use mosb_cluster::cluster_names::RENDERER;
use mosb_cluster::versions::{Versions, versions};
use mosb_image::{ImageRef, PinnedRef, Platform};
use mosb_plan::plan::BaseRelease;
use mosb_reconcile::Problem;
use mosb_reconcile::driver::InputsHash;

/// Everything observed for a MachineOSConfig.
#[derive(Debug, Clone)]
pub struct BaseSnapshot {
    pub config: MachineOsConfig,
    /// The base of the image in service and its stream, or why it can't be followed.
    pub followed: Result<FollowedBase, NotFollowed>,
    /// How often the stream is looked at.
    pub interval: Duration,
    /// A release of OpenShift decides the base.
    pub is_release: bool,
    /// Of what the registry is asked with.
    pub versions: Versions,
    /// The registry's last answer, if it is recent.
    pub newest: Option<Result<Newest, Problem>>,
    /// When the stream is looked at again.
    pub due: Option<Duration>,
}

/// The base of an image, as its build has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenBase {
    pub image: PinnedRef,
    /// As the config, or the settings, name it.
    pub name: String,
    pub release: BaseRelease,
    pub platform: Platform,
}

/// A base, and what names the newest one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowedBase {
    pub base: SeenBase,
    pub stream: StreamName,
}

/// Why a base can't be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotFollowed {
    /// Before the first image, and for images of others.
    NoBase,
    /// It is named by digest.
    Pinned(SeenBase),
    /// A MachineConfig of the pool names another image than that of the settings.
    Overridden(SeenBase),
    Settings(SeenBase, Problem),
}

impl SeenBase {
    /// That of a build; none if it is of another builder, or a pre-built image.
    pub fn of(build: &MachineOsBuild) -> Option<Self> {
        let annotation = |key| build.metadata.annotation(key);
        let image: PinnedRef = annotation(labels::BASE)?.parse().ok()?;
        let release = BaseRelease {
            created: annotation(labels::BASE_CREATED).and_then(|text| text.parse().ok()),
            version: annotation(labels::BASE_VERSION).map(str::to_owned),
        };
        Some(Self {
            name: annotation(labels::BASE_NAME)?.to_owned(),
            platform: annotation(labels::PLATFORM)?.parse().ok()?,
            image,
            release,
        })
    }

    /// That of the image in service.
    pub fn in_service<'a>(
        config: &MachineOsConfig,
        mut builds: impl Iterator<Item = &'a MachineOsBuild>,
    ) -> Option<Self> {
        let name = &config.status.machine_os_build.as_ref()?.name;
        Self::of(builds.find(|build| build.metadata.name == *name)?)
    }
}

/// The snapshot of the MachineOSConfig of this name.
pub fn observe(cache: &ClusterCache, name: &str) -> Option<BaseSnapshot> {
    let config = cache.configs.get(name)?;
    if config.metadata.is_being_deleted() {
        return None;
    }
    let builds = cache.builds.by_index([IndexKey::Config(name.to_owned())]);
    let pool = cache.pools.get(&config.spec.machine_config_pool.name);
    let base = SeenBase::in_service(&config, builds.iter().map(Arc::as_ref));
    let settings = cache.settings().map(|(settings, _)| settings);
    let minutes = settings.as_ref().map_or(60, |settings| settings.base_stream_minutes);
    Some(BaseSnapshot {
        followed: followed(cache, base, pool.as_deref()),
        interval: Duration::from_secs(60) * u32::from(minutes),
        is_release: cache.controller_configs.get(RENDERER).is_some(),
        versions: versions(cache, Some(&config), None, &[]),
        config: (*config).clone(),
        newest: None,
        due: None,
    })
}

/// A base with the stream that it is followed by.
fn followed(
    cache: &ClusterCache,
    base: Option<SeenBase>,
    pool: Option<&MachineConfigPool>,
) -> Result<FollowedBase, NotFollowed> {
    let base = base.ok_or(NotFollowed::NoBase)?;
    let (settings, _) = match cache.settings() {
        Ok(settings) => settings,
        Err(error) => return Err(NotFollowed::Settings(base, error.into())),
    };
    let pins = pool.and_then(|pool| pool.metadata.annotation(labels::PINS));
    let pins: BTreeMap<String, String> =
        pins.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    // Rendering replaced the tag by a digest.
    let pin = pins.iter().find(|(_, pinned)| **pinned == base.name);
    let named = pin.map_or(&base.name, |(named, _)| named);
    let named = named.clone();
    stream_of(base, &named, &settings, cache.rendering)
}

/// The stream of a base that the config, or the settings, name so.
pub fn stream_of(
    base: SeenBase,
    named: &str,
    settings: &ClusterSettings,
    is_rendering: bool,
) -> Result<FollowedBase, NotFollowed> {
    let reference = named.parse::<ImageRef>().ok();
    let metadata = match settings.base_stream.as_deref().map(str::parse) {
        Some(Ok(BaseStream::Tag(tag))) => {
            let is_default = settings.base_os_container_image.as_deref() == Some(named);
            let is_of_stream = reference.is_some_and(|named| named.repo() == tag.repo());
            return if !is_rendering || is_default || is_of_stream {
                Ok(FollowedBase { base, stream: StreamName { tag, metadata: None } })
            } else {
                Err(NotFollowed::Overridden(base))
            };
        }
        Some(Ok(BaseStream::Metadata(url))) => Some(url),
        // Settings with an error are not taken.
        Some(Err(_)) | None => None,
    };
    match reference.filter(|named| named.digest().is_none()) {
        Some(tag) => Ok(FollowedBase { base, stream: StreamName { tag, metadata } }),
        None => Err(NotFollowed::Pinned(base)),
    }
}

impl BaseSnapshot {
    /// The base of the image in service, if it is known.
    pub fn base(&self) -> Option<&SeenBase> {
        match &self.followed {
            Ok(followed) => Some(&followed.base),
            Err(not_followed) => not_followed.base(),
        }
    }
}

impl NotFollowed {
    fn base(&self) -> Option<&SeenBase> {
        match self {
            Self::NoBase => None,
            Self::Pinned(base) | Self::Overridden(base) | Self::Settings(base, _) => Some(base),
        }
    }
}

/// The MachineOSConfigs that a change affects.
pub fn affected_configs(cache: &ClusterCache, cause: &Trigger) -> BTreeSet<String> {
    let names = |configs: Vec<Arc<MachineOsConfig>>| {
        configs.iter().map(|config| config.metadata.name.clone()).collect()
    };
    match cause {
        Trigger::Config(name, _) | Trigger::ManagedObject(name) => [name.clone()].into(),
        Trigger::Pool(pool) => names(cache.configs.by_index([IndexKey::Pool(pool.clone())])),
        Trigger::All => names(cache.configs.list()),
        Trigger::Secret(_)
        | Trigger::MachineConfig(..)
        | Trigger::Machine(_)
        | Trigger::NodeJob { .. }
        | Trigger::BootImages
        | Trigger::Unrelated => BTreeSet::new(),
    }
}

/// A hash of everything that a decision depends on, without what it writes.
pub fn inputs(snapshot: &BaseSnapshot) -> InputsHash {
    let annotations = [labels::FOLLOW_BASE, labels::HOLD_BASE, labels::UPDATE_BASE, labels::BASE];
    let metadata = &snapshot.config.metadata;
    let base = snapshot.base().map(|base| (&base.image, &base.name));
    let stream = snapshot.followed.as_ref().map(|followed| followed.stream.to_string()).ok();
    InputsHash::of(&(
        annotations.map(|key| metadata.annotation(key)),
        (base, stream, snapshot.interval, snapshot.is_release),
        &snapshot.config.spec,
        &snapshot.versions,
    ))
}
