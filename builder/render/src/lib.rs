//! `mosb controller --render`: renders the MachineConfigs of each pool, in clusters where no other
//! controller does.
//!
//! As for builds, the state of a pool is a [`RenderSnapshot`], [`decide`] turns it into actions,
//! and these are applied. Input: metadata of MachineConfigs. Their contents are read only if the
//! pool's inputs changed ([`Inputs`]). The pool has a fingerprint of them, so a restart reads and
//! fetches nothing again.
//!
//! Invariant: a pool names a rendered config only after the API server has stored it, made of all
//! that the pool selects. If the pool can't be rendered, its condition says why and it keeps its
//! config. Only configs that mosb created for this pool, and that nothing names, are deleted.
//!
//! | file | does |
//! | --- | --- |
//! | `observe` | cache → snapshot, and which pools a change affects |
//! | `decide`, `garbage` | snapshot → actions |
//! | `lookups`, `contents` | reads MachineConfigs, renders, fetches, compares with the old config |
//! | `pins` | digests in place of tags |
//! | `rendered_object` | the rendered config as an object, and whether one that exists is the same |
//! | `renderer` | gives these functions to the driver |

mod contents;
mod decide;
mod garbage;
mod lookups;
mod observe;
mod pins;
mod rendered_object;
mod renderer;
mod snapshot;

#[cfg(test)]
mod tests;

pub use decide::{Action, RenderDecision, RenderLookup, RenderReason, decide};
pub use lookups::{with_origins, without_components};
pub use observe::observe;
pub use renderer::Renderer;
pub use snapshot::{
    Inputs, Member, RenderLookupResults, RenderOutput, RenderSnapshot, SeenRendered,
};
