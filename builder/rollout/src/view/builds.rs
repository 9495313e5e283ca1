//! The images of a pool, and where they run. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::machine_state::MachineState;
use crate::snapshot::RolloutSnapshot;
use mosb_api::promotion::Stage;
use mosb_api::rollout::{History, PinnedBuild};
use mosb_api::{MachineOsBuild, labels};
use mosb_image::{Digest, PinnedRef};
use mosb_plan::plan::diff::OsSummary;

/// A build, or an image that was in service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PoolBuild")]
pub struct BuildView {
    /// Name of the MachineOSBuild. A rebuild has the same name and another image.
    pub build: String,
    /// Its pool.
    pub pool: String,
    /// The rendered config.
    pub config: String,
    /// The base, pinned; none if the MachineOSBuild is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// What of the OS changes with it, compared with the image that was in service when it was built; absent if
    /// it has the same base, or if not both are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<OsSummary>,
    /// `direct` or `containerfile`; none if the MachineOSBuild is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Whether the registry had the image already, so that nothing was built; only if it had.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub found: bool,
    /// Digest of what its machines need beside the image; none if that is not recorded.
    #[serde(skip)]
    pub machine_part: Option<Digest>,
    /// The image, with its digest; none before the build succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// `Prepared`, `Building`, `Failed`, `Interrupted` or `Succeeded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// How far the image is on its way to service, `built`, `checked`, `rejected`, `in-service` or `replaced`;
    /// none if that is not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Fingerprint of the key that the controller signed it with; none if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed: Option<String>,
    /// When it was built, or came into service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub time: Option<Timestamp>,
    /// Whether it is the image in service.
    pub in_service: bool,
    /// Whether the pool is pinned to it.
    pub pinned: bool,
    /// The nodes that have staged it.
    pub staged_on: Vec<String>,
    /// The nodes that run it.
    pub running_on: Vec<String>,
}

impl BuildView {
    /// `NAME@sha256:…`, as annotations have it.
    pub(super) fn pin(&self) -> Option<PinnedBuild> {
        Some(PinnedBuild { name: self.build.clone(), digest: self.digest()? })
    }

    fn digest(&self) -> Option<Digest> {
        let image: PinnedRef = self.image.as_deref()?.parse().ok()?;
        Some(image.digest())
    }
}

/// The builds and former images of a pool, newest first.
pub fn build_views(snapshot: &RolloutSnapshot) -> Vec<BuildView> {
    let mut views: Vec<BuildView> = snapshot.builds.iter().map(of_build).collect();
    let pool = &snapshot.pool.metadata.name;
    let Some(config) = &snapshot.config else {
        views.iter_mut().for_each(|view| view.pool.clone_from(pool));
        return views;
    };
    for entry in History::of(&config.metadata).entries() {
        let image = Some(entry.image.to_string());
        if !views.iter().any(|view| view.build == entry.build && view.image == image) {
            views.push(BuildView {
                build: entry.build.clone(),
                config: entry.config.to_string(),
                machine_part: entry.machine_part,
                image,
                time: Some(entry.since.0),
                ..BuildView::default()
            });
        }
    }
    let states: Vec<MachineState<'_>> = snapshot.machines.iter().map(MachineState::of).collect();
    let pin = PinnedBuild::in_annotation(&config.metadata, labels::ROLLOUT_BUILD).ok().flatten();
    let in_service = &config.status.current_image_pull_spec;
    // Several builds may have its image.
    let named = config.status.machine_os_build.as_ref().map(|build| &*build.name);
    let named = named.filter(|named| {
        views.iter().any(|view| view.build == *named && view.image.as_ref() == Some(in_service))
    });
    let named = named.map(str::to_owned);
    let named = named.as_deref();
    let parts: BTreeSet<_> =
        views.iter().filter_map(|view| Some((view.digest()?, view.machine_part))).collect();
    for view in &mut views {
        view.pool.clone_from(pool);
        let digest = view.digest();
        let names = |has: &dyn Fn(&MachineState<'_>, Digest) -> bool| -> Vec<String> {
            let on = states.iter().filter(|state| digest.is_some_and(|it| has(state, it)));
            on.map(|state| state.name().to_owned()).collect()
        };
        view.staged_on = names(&|state, digest| {
            state.staged.as_ref().is_some_and(|target| target.image.digest() == digest)
        });
        view.running_on = names(&|state, digest| {
            // Of several builds with one image, a machine has that of its machine part.
            let is_known = parts.contains(&(digest, state.machine_part()));
            state.runs(digest) && (!is_known || state.machine_part() == view.machine_part)
        });
        let is_named = named.is_none_or(|named| named == view.build);
        view.in_service = view.image.as_ref() == Some(in_service) && is_named;
        view.pinned = pin.is_some() && view.pin() == pin;
    }
    views.sort_by(|a, b| (b.time, &a.build).cmp(&(a.time, &b.build)));
    views
}

fn of_build(build: &MachineOsBuild) -> BuildView {
    let (metadata, status) = (&build.metadata, &build.status);
    let annotation = |key| metadata.annotation(key).map(str::to_owned);
    let times = [&status.build_end, &status.build_start, &metadata.creation_timestamp];
    BuildView {
        build: metadata.name.clone(),
        config: build.spec.machine_config.name.clone(),
        base: annotation(labels::BASE),
        os: OsSummary::of(metadata),
        method: annotation(labels::METHOD),
        found: build.is_found(),
        machine_part: metadata.annotation(labels::MACHINE_PART).and_then(|part| part.parse().ok()),
        image: status.image().map(str::to_owned),
        state: status.state().map(|state| state.as_str().to_owned()),
        stage: Stage::of(metadata),
        signed: annotation(labels::SIGNED),
        time: times.into_iter().flatten().next().map(|time| time.0),
        ..BuildView::default()
    }
}
