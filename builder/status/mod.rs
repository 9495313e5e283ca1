//! What was observed becomes what is reported: conditions, statuses, the pool's condition, events.
//!
//! In come an [`Observation`](crate::backend::job::Observation) or a confirmed image, the old status and the time; out goes the new status. The
//! invariant: a digest is only reported once a registry answered for it, and a transition time moves only when a status flips.

mod event;

pub use event::{Event, EventKind, EventReason, Regarding};
