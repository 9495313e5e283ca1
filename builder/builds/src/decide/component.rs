//! The component MachineConfig, by which a pool's rendered config names its pre-built image: when
//! it is created, claimed, replaced and deleted (`docs/reference/api.md`, Pre-built images).
//!
//! The claim is the annotation `mosb.dev/machine-os-config`. An object without a claim is never
//! removed, so that manifests can be applied in any order.

use serde_json::json;

use super::DecisionBuilder;
use crate::action::{Action, new_object};
use crate::snapshot::{SeenComponent, Snapshot};
use mosb_api::{self as api, PoolName, component_name, condition, labels};
use mosb_cluster::status::SEEDED;
use mosb_image::PinnedRef;
use mosb_reconcile::write::{Patch, Target};

/// The state of the component MachineConfig.
pub(super) enum Component {
    /// It exists, is claimed and sets the image.
    Ready(String),
    /// It is being deleted and will be created again.
    Deleting(String),
    /// These actions are needed.
    Pending {
        name: String,
        /// Whether they change the pool's image.
        changes_image: bool,
        actions: Vec<Action>,
    },
}

/// Deletes component MachineConfigs that this MachineOSConfig claimed and whose pool has no
/// MachineOSConfig any more.
pub(super) fn obsolete_components(snapshot: &Snapshot) -> Vec<Action> {
    let components = snapshot.components.iter().filter(|one| {
        one.claim.as_ref() == Some(&snapshot.name) && !one.is_wanted && !one.deleting
    });
    components.map(|one| Action::Delete(Target::from(one).any_version())).collect()
}

/// The component that brings a pool this image. One with the alternative name is used if it sets
/// the image.
pub(super) fn component(pool: &PoolName, image: &PinnedRef, snapshot: &Snapshot) -> Component {
    let name = component_name(pool);
    let of_pool = || snapshot.components.iter().filter(|one| one.pool == *pool);
    let own = of_pool().find(|one| one.name == name);
    let Some(found) = own.or_else(|| of_pool().find(|one| one.brings(image))) else {
        let mut new = api::component(pool, &image.to_string());
        new.metadata.annotations.insert(labels::SERVES.to_owned(), snapshot.name.clone());
        let create = Action::Create(new_object::component(&new));
        return Component::Pending { name, changes_image: true, actions: vec![create] };
    };
    if found.deleting {
        return Component::Deleting(found.name.clone());
    }
    let changes_image = !found.brings(image);
    let update = |one: &SeenComponent| {
        let image = (one.name == found.name && changes_image).then_some(image);
        let claimed = one.claim.as_ref() == Some(&snapshot.name);
        let done = image.is_none() && claimed || one.deleting;
        (!done).then(|| claim(one, image, &snapshot.name))
    };
    let actions: Vec<Action> = of_pool().filter_map(update).collect();
    let name = found.name.clone();
    if actions.is_empty() {
        Component::Ready(name)
    } else {
        Component::Pending { name, changes_image, actions }
    }
}

/// Claims a component, and sets another image if there is one.
fn claim(one: &SeenComponent, image: Option<&PinnedRef>, config: &str) -> Action {
    let mut patch = Patch::default();
    patch.set(labels::SERVES, config);
    if let Some(image) = image {
        patch.set(labels::PRE_BUILT_IMAGE, image.to_string());
        patch.spec = json!({ "osImageURL": image.to_string() });
    }
    Action::Patch(one.into(), patch)
}

impl DecisionBuilder<'_> {
    /// The components of the pool, with any claim.
    fn components(&self) -> impl Iterator<Item = &SeenComponent> {
        let of_pool = |one: &&SeenComponent| one.pool == self.desired.pool && !one.deleting;
        self.snapshot.components.iter().filter(of_pool)
    }

    /// Whether the MachineConfig that brought the pool's first image was deleted.
    pub(super) fn is_component_missing(&self) -> bool {
        self.components().next().is_none()
    }

    /// Restores a lost claim, so that the component is deleted with the MachineOSConfig.
    pub(super) fn reclaim_components(&mut self) {
        let seeded = condition(&self.config.status.conditions, SEEDED).is_some();
        let lost = |one: &&SeenComponent| match one.claim {
            None => seeded,
            Some(_) => !one.is_claim_good,
        };
        let name = &self.snapshot.name;
        let actions: Vec<_> =
            self.components().filter(lost).map(|one| claim(one, None, name)).collect();
        self.actions.extend(actions);
    }
}
