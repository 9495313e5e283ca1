//! The I/O edge of `mosb controller`: it watches a cluster, and makes builds of what it sees.
//!
//! In come watch events of the kinds that matter; out go writes to the API. Between them nothing is remembered: an event only
//! wakes the key of a MachineOSConfig ([`queue`]), all that is known is put into one value, a pure function says what should
//! be done, and it is done. The invariant: whatever is written carries the UID and resourceVersion of what it was decided
//! from, so a stale view costs another round and never an object.

mod error;
pub mod kinds;
pub mod lease;
pub mod queue;
pub mod serve;
pub mod shelf;
pub mod watch;

pub use error::Error;

/// The name under which mosb writes fields, and tells events.
pub const FIELD_MANAGER: &str = "mosb-controller";
