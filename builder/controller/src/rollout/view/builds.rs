//! The images of a pool, and where they run. Pure.

use jiff::Timestamp;

use super::nodes::NodeView;
use crate::rollout::snapshot::RolloutSnapshot;
use mosb_image::{Digest, PinnedRef};
use mosb_plan::api::rollout::{History, PinnedBuild};
use mosb_plan::api::{MachineOsBuild, labels};

/// An image that a pool had in service, or a build of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildView {
    /// Name of the MachineOSBuild. A rebuild has the same name and another image.
    pub build: String,
    /// The rendered config.
    pub config: String,
    /// The base, pinned; not known of an image whose MachineOSBuild is deleted.
    pub base: Option<String>,
    /// `direct` or `containerfile`; as above.
    pub method: Option<String>,
    /// None before the build succeeded.
    pub image: Option<String>,
    /// The state of the MachineOSBuild, if it exists and has one.
    pub state: Option<String>,
    /// When it ended, else began; or when the image came into service.
    pub time: Option<Timestamp>,
    pub in_service: bool,
    /// The machines of the pool get this image instead of the one in service.
    pub pinned: bool,
    /// Names of the nodes.
    pub staged_on: Vec<String>,
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
    let Some(config) = &snapshot.config else {
        return views;
    };
    for entry in History::of(&config.metadata).entries() {
        let image = Some(entry.image.to_string());
        if !views.iter().any(|view| view.build == entry.build && view.image == image) {
            views.push(BuildView {
                build: entry.build.clone(),
                config: entry.config.to_string(),
                image,
                time: Some(entry.since.0),
                ..BuildView::default()
            });
        }
    }
    let nodes: Vec<NodeView> =
        snapshot.machines.iter().map(|machine| NodeView::of(machine, None)).collect();
    let pin = PinnedBuild::in_annotation(&config.metadata, labels::ROLLOUT_BUILD).ok().flatten();
    let in_service = &config.status.current_image_pull_spec;
    for view in &mut views {
        let digest = view.digest();
        let names = |of: fn(&NodeView) -> Option<Digest>| -> Vec<String> {
            let on = nodes.iter().filter(|node| digest.is_some() && of(node) == digest);
            on.map(|node| node.name.clone()).collect()
        };
        view.staged_on = names(|node| node.staged_digest);
        view.running_on = names(|node| node.booted);
        view.in_service = view.image.as_ref() == Some(in_service);
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
        method: annotation(labels::METHOD),
        image: status.image().map(str::to_owned),
        state: status.state().map(|state| state.as_str().to_owned()),
        time: times.into_iter().flatten().next().map(|time| time.0),
        ..BuildView::default()
    }
}
