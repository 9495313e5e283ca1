//! `mosb controller --render`: where nobody else does, the MachineConfigs of a pool become its rendered one.
//!
//! As for builds: what is seen of a pool becomes a [`RenderSnapshot`], [`decide`] says what should change, and it is changed. In come
//! metadata of MachineConfigs; their contents are read only when what a pool was rendered from changed ([`Inputs`]), which is
//! known from a fingerprint on the pool, so that a restart reads nothing and fetches nothing anew.
//!
//! The invariant: a pool names a rendered config only after the API server has it, made of all that the pool selects; what
//! can't be rendered is told on the pool, which then stays as it is. Only configs that mosb made for this very pool, and that
//! nobody names, are deleted.
//!
//! | file | does |
//! | --- | --- |
//! | `observe` | stores → snapshot, and which pools a change concerns |
//! | `decide`, `collect` | snapshot → steps |
//! | `answer`, `contents` | reads MachineConfigs, renders, fetches, compares with what was |
//! | `act` | carries out steps |
//! | `renderer` | the queue of pools, and the rounds |

mod apply;
mod contents;
mod decide;
mod garbage;
mod lookups;
mod observe;
mod renderer;
mod snapshot;

#[cfg(test)]
mod tests;

pub use decide::{RenderAction, RenderDecision, RenderLookup, RenderReason, decide};
pub(super) use lookups::without_components;
pub use observe::observe;
pub use renderer::Renderer;
pub use snapshot::{Inputs, Made, Member, RenderResults, RenderSnapshot, SeenRendered};
