//! The words for how far the roll-out of a pool is: commands print them, and metrics have them as a
//! label.

/// Reasons of the condition `RolloutDegraded` that machines cause.
pub(super) const MACHINES_FAILED: [&str; 2] = ["MachineLost", "MachinesFailed"];

/// How far a roll-out is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutPhase {
    /// All machines run the target.
    Updated,
    /// All machines have staged it or run it, and nothing reboots.
    Staged,
    /// No machine gets an image.
    Off,
    Progressing,
    Paused,
    /// Somebody must change something first.
    Blocked,
    /// Machines failed, and nothing goes on by itself.
    Failed,
}

impl RolloutPhase {
    pub const ALL: [Self; 7] = [
        Self::Updated,
        Self::Staged,
        Self::Off,
        Self::Progressing,
        Self::Paused,
        Self::Blocked,
        Self::Failed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Updated => "updated",
            Self::Staged => "staged",
            Self::Off => "off",
            Self::Progressing => "progressing",
            Self::Paused => "paused",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
        }
    }
}
