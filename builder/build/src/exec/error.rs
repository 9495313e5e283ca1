//! Why a program did not do what it should.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use mosb_types::ErrorClass;

/// Why a program did not do what it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It isn't there.
    #[error("{program} is not installed; install {install}")]
    Missing {
        /// The program.
        program: String,
        /// What brings it.
        install: &'static str,
    },
    /// It is there and could not be started.
    #[error("{program} could not be started; check that it may be run here")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It ended with an error.
    #[error("{program} {action} ended with {status}; its last output:\n{last}")]
    Failed {
        /// The program.
        program: String,
        /// Its first argument.
        action: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of its output.
        last: String,
    },
    /// It did not end in time, and was killed.
    #[error("{program} {action} did not end within {} s and was killed; its last output:\n{last}", limit.as_secs())]
    TimedOut {
        /// The program.
        program: String,
        /// Its first argument.
        action: String,
        /// The time it had.
        limit: Duration,
        /// The end of its output.
        last: String,
    },
    /// Its pipes broke.
    #[error("{program}: its output can't be read")]
    Pipe {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// What to do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Missing { .. } | Self::Start { .. } => ErrorClass::InvalidInput,
            Self::Failed { .. } => ErrorClass::Rejected,
            Self::TimedOut { .. } | Self::Pipe { .. } => ErrorClass::Transient,
        }
    }

    /// One of `program-missing`, `program-not-started`, `program-failed`, `program-timed-out`, `program-pipe`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "program-missing",
            Self::Start { .. } => "program-not-started",
            Self::Failed { .. } => "program-failed",
            Self::TimedOut { .. } => "program-timed-out",
            Self::Pipe { .. } => "program-pipe",
        }
    }
}
