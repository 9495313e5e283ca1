//! The component MachineConfig, by which a pool's rendered config names its pre-built image: when
//! it is created, claimed, replaced and deleted (`docs/reference/api.md`, Pre-built images).
//!
//! The claim is the annotation `mosb.dev/machine-os-config`. What nobody claimed is never removed,
//! so that manifests can be applied in any order.

use super::DecisionBuilder;
use super::seed::Seed;
use crate::action::Action;
use crate::snapshot::{SeenComponent, Snapshot};
use crate::status::SEEDED;
use mosb_plan::api::{component_name, condition};

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
    let deleted = components
        .map(|one| Action::DeleteComponent { name: one.name.clone(), uid: one.uid.clone() });
    deleted.collect()
}

impl Seed {
    /// The state of the component. One with the alternative name is used if it sets the image.
    pub fn component(&self, snapshot: &Snapshot) -> Component {
        let name = component_name(&self.pool);
        let of_pool = || snapshot.components.iter().filter(|one| one.pool == self.pool);
        let own = of_pool().find(|one| one.name == name);
        let Some(found) = own.or_else(|| of_pool().find(|one| one.brings(&self.image))) else {
            let create = Action::CreateComponent {
                pool: self.pool.clone(),
                image: self.image.clone(),
                config: snapshot.name.clone(),
            };
            return Component::Pending { name, changes_image: true, actions: vec![create] };
        };
        if found.deleting {
            return Component::Deleting(found.name.clone());
        }
        let changes_image = !found.brings(&self.image);
        let update = |one: &SeenComponent| {
            let image = (one.name == found.name && changes_image).then(|| self.image.clone());
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
}

fn claim(one: &SeenComponent, image: Option<mosb_image::PinnedRef>, config: &str) -> Action {
    Action::UpdateComponent {
        name: one.name.clone(),
        uid: one.uid.clone(),
        resource_version: one.resource_version.clone(),
        image,
        config: config.to_owned(),
    }
}

impl DecisionBuilder<'_> {
    /// The components of the pool, with any claim.
    fn components(&self) -> impl Iterator<Item = &SeenComponent> {
        let of_pool = |one: &&SeenComponent| one.pool == self.desired.pool && !one.deleting;
        self.snapshot.components.iter().filter(of_pool)
    }

    /// Whether the MachineConfig that brought the pool's first image is gone.
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
