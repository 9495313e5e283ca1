//! The values of a roll-out in the API: the settings on a MachineOSConfig, the marks on a Node, and
//! what the controller and a machine exchange.
//!
//! All are read from annotations, files or termination messages that others may have written, so
//! each is parsed with a limit into a type that can't be wrong.

mod history;
mod machine_part;
mod mode;
mod node_report;
mod node_target;
mod slot;

pub use history::{History, HistoryEntry};
pub use machine_part::{EtcReport, MachinePart, PathList};
pub use mode::{OnDelete, RolloutMode};
pub use node_report::{AttemptedTarget, Deployment, ExitCode, NodeReport, NodeTool, ReportError};
pub use node_target::NodeTarget;
pub use slot::{Applying, Fallback, PinnedBuild, STOCK, Slot, SlotFailure, StagedMark};

/// Why an annotation is not what its kind needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, mosb_types::Diagnostic)]
#[error("annotation {annotation}: {value:?}: {cause}; {remedy}")]
#[diagnostic(code = "bad-annotation", class = InvalidInput)]
pub struct AnnotationError {
    pub annotation: &'static str,
    /// At most 100 characters of the value.
    pub value: String,
    pub cause: String,
    pub remedy: &'static str,
}

impl AnnotationError {
    pub(super) fn new(
        annotation: &'static str,
        value: &str,
        cause: impl Into<String>,
        remedy: &'static str,
    ) -> Self {
        Self { annotation, value: value.chars().take(100).collect(), cause: cause.into(), remedy }
    }
}
