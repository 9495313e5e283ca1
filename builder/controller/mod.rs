//! What to do about a pool: everything observed becomes one value, and a pure function says what should change.
//!
//! In comes a [`Snapshot`]; out goes a [`Decision`]. The invariant: same world, same steps; no step needs the memory of an earlier one.

mod because;
mod decide;
mod question;
mod snapshot;
mod step;

pub use because::Because;
pub use decide::decide;
pub use question::{Answers, BaseInstead, Existence, PlanQuestion, Planned, Problem, Question};
pub use snapshot::{Cluster, InputKind, LabelOptIn, SeenInput, SeenJob, Snapshot, Support};
pub use step::{Annotate, Decision, Step};
