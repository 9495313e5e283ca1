//! What is not known of the cluster, and which sets wait for it: a kind that the API server serves
//! and does not list for mosb, or an object that can't be read. Taken for missing, it would let mosb
//! change what another controller has, or what is pinned or paused. Pure.

use std::collections::BTreeMap;

use super::machine_set::{MachineSet, SET_KINDS};
use super::obstacle::{Failure, Obstacle};
use super::snapshot::BootImageSnapshot;
use mosb_api::boot_images::MachineConfiguration;
use mosb_cluster::cluster_cache::{BootImageKind, SeenObject};
use mosb_reconcile::Problem;

/// Which sets need what is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    MachineApi,
    ClusterApi,
    /// The sets of Cluster API with a template of this kind.
    Template(BootImageKind),
    /// Only what is reported needs it.
    None,
}

/// What is not known, and what the cluster's own choice is.
#[derive(Debug)]
pub(super) struct Unread<'s> {
    snapshot: &'s BootImageSnapshot,
    gaps: BTreeMap<BootImageKind, Failure>,
    /// Whether the Machine Config Operator has yet to see the newest MachineConfiguration.
    is_unobserved: bool,
    /// MachineConfiguration `cluster`; none if there is none, or if it is not known.
    pub machine_configuration: Option<MachineConfiguration>,
}

impl<'s> Unread<'s> {
    pub fn new(snapshot: &'s BootImageSnapshot) -> Self {
        let kinds = snapshot.unread.iter();
        let mut gaps: BTreeMap<_, _> =
            kinds.map(|(kind, why)| (*kind, unlisted(*kind, why))).collect();
        let singletons = [&snapshot.cluster_version, &snapshot.infrastructure];
        for object in singletons.into_iter().flatten().filter(|object| object.is_too_large) {
            gaps.entry(object.kind).or_insert_with(|| too_large(object));
        }
        let machine_configuration = match read(snapshot.machine_configuration.as_deref()) {
            Ok(read) => read,
            Err(failure) => {
                gaps.entry(BootImageKind::MachineConfiguration).or_insert(failure);
                None
            }
        };
        let observed =
            machine_configuration.as_ref().and_then(|one| one.status.observed_generation);
        let generation = snapshot.machine_configuration.as_ref().map(|one| one.generation);
        let is_unobserved = snapshot.other_controller.is_some()
            && observed.zip(generation).is_some_and(|(observed, newest)| observed < newest);
        Self { snapshot, gaps, is_unobserved, machine_configuration }
    }

    /// The errors of the whole pass, while mosb manages sets.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.gaps.values()
    }

    /// The error if it is not known which sets are managed.
    pub fn choice(&self) -> Option<&Failure> {
        self.gaps.get(&BootImageKind::MachineConfiguration)
    }

    /// Why nothing is decided of this set.
    pub fn check(&self, set: MachineSet<'_>) -> Result<(), Obstacle> {
        if let Some(kind) = self.gaps.keys().find(|kind| scope(**kind).has(set)) {
            return Err(Obstacle::Wait(format!("{kind} can't be read")));
        }
        let mut doubtful = self.snapshot.doubtful.iter();
        let doubt = doubtful.find(|(kind, _)| scope(**kind).has(set)).map(|(_, watch)| watch);
        if let Some(watch) = doubt.or(self.snapshot.golden_doubt.as_ref()) {
            return Err(Obstacle::Wait(Problem::of_watch(watch).message));
        }
        if self.is_unobserved {
            return Err(Obstacle::Wait(
                "the Machine Config Operator has not seen the newest MachineConfiguration cluster"
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

impl Scope {
    fn has(self, set: MachineSet<'_>) -> bool {
        match self {
            Self::All => true,
            Self::MachineApi => set.is_machine_api(),
            Self::ClusterApi => !set.is_machine_api(),
            Self::Template(kind) => {
                !set.is_machine_api() && set.template().is_ok_and(|one| one.kind == kind)
            }
            Self::None => false,
        }
    }
}

fn scope(kind: BootImageKind) -> Scope {
    match kind {
        // Who manages the sets, when, and what was found and pinned in them.
        BootImageKind::MachineConfiguration
        | BootImageKind::ClusterVersion
        | BootImageKind::BootImageHistory => Scope::All,
        // A stub that is converted may be that of any set.
        kind if SET_KINDS.contains(&kind) => Scope::All,
        BootImageKind::Infrastructure => Scope::MachineApi,
        BootImageKind::Cluster | BootImageKind::AwsCluster | BootImageKind::OpenStackCluster => {
            Scope::ClusterApi
        }
        BootImageKind::BootImageStatus => Scope::None,
        template => Scope::Template(template),
    }
}

fn unlisted(kind: BootImageKind, why: &str) -> Failure {
    let what = match scope(kind) {
        Scope::All => "no boot image is changed",
        Scope::MachineApi => "no boot image of the machine API is changed",
        Scope::ClusterApi => "no boot image of Cluster API is changed",
        Scope::Template(_) => "no boot image in such a template is changed",
        Scope::None => "nothing is reported there",
    };
    Failure::new(
        "kind-unread",
        format!(
            "{kind}: the API server has this kind and does not list it for mosb, so {what}: {why}; \
             apply deploy/boot-images (on OpenShift deploy/boot-images-openshift), which has the \
             rights to list and watch it, or repair what serves it"
        ),
    )
}

/// The MachineConfiguration, if there is one.
fn read(object: Option<&SeenObject>) -> Result<Option<MachineConfiguration>, Failure> {
    let Some(object) = object else { return Ok(None) };
    if object.is_too_large {
        return Err(too_large(object));
    }
    let value = serde_json::json!({
        "metadata": { "name": object.name }, "spec": object.spec, "status": object.status,
    });
    let read = serde_json::from_value(value).map_err(|error| {
        let name = &object.name;
        let message = format!(
            "MachineConfiguration {name}: it can't be read, so no boot image is changed: {error}; correct this field"
        );
        Failure::new("bad-machine-configuration", message)
    });
    read.map(Some)
}

pub(super) fn too_large(object: &SeenObject) -> Failure {
    let (kind, key) = (object.kind.as_str(), object.key());
    Failure::new(
        "object-too-large",
        format!("{kind} {key} is larger than mosb reads (256 KiB); remove what it does not need"),
    )
}
