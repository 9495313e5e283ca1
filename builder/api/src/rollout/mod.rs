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
mod soak;

pub use history::{History, HistoryEntry};
pub use machine_part::{EtcReport, MachinePart, PathList};
pub use mode::{OnDelete, RolloutMode, SoftRebootMode, VerifyOnMachines};
pub use node_report::{
    AttemptedTarget, Deployment, ExitCode, NodeReport, NodeTool, ReportError, SoftReboot,
};
pub use node_target::NodeTarget;
pub use slot::{
    Applying, ConfirmedTarget, Fallback, PinnedBuild, STOCK, Slot, SlotFailure, StagedMark,
};
pub use soak::{FailedTarget, Soak, SoakPhase, WentBack};
