//! The bases of pools: whether the tag of each, or stream metadata, names a newer image, and whether
//! that is built on.
//!
//! Input: MachineOSConfigs with annotation `mosb.dev/follow-base`, the base of the image in service as
//! its build has it, and the answer for the tag or for the stream metadata. Output: the condition `NewerBase`, and with
//! `build` the annotation `mosb.dev/base`, from which rendering or the next build takes the base.
//!
//! Invariants: a tag or stream is asked for once an interval, however many pools follow it. A base that is older
//! than the one in service is never recorded. A release of OpenShift decides its base itself, so
//! nothing is recorded there.
//!
//! | file | does |
//! | --- | --- |
//! | `snapshot` | the input of a decision; cache → snapshot |
//! | `streams` | asks registries, once for all pools |
//! | `stream_metadata` | fetches stream metadata, once for all pools |
//! | `state` | where a pool and its base stand: the condition follows from it |
//! | `decide` | snapshot → lookups or actions |
//! | `overridden` | pools whose OS image a MachineConfig sets: a controller of its own |
//! | `metrics` | age of bases, and which have a newer one |
//! | `reconciler` | gives these functions to the driver |
//! | `view` | what `mosb base` shows and changes |

mod decide;
mod failure;
mod metrics;
mod overridden;
mod reconciler;
mod snapshot;
mod state;
mod stream_metadata;
mod streams;
mod view;

#[cfg(test)]
mod tests;

pub use metrics::BaseMetrics;
pub use overridden::{OverriddenReconciler, os_overridden};
pub use reconciler::BaseReconciler;
pub use state::NEWER_BASE;
pub use view::{
    BaseChange, BaseRequest, BaseRequestError, BaseView, NewerView, base_view, decide_request,
    write_request,
};
