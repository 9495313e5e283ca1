//! Errors of programs.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use mosb_types::Diagnostic;

/// The error of a program.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// The program is not installed.
    #[error("{program} is not installed; install {install}")]
    #[diagnostic(code = "program-missing", class = InvalidInput)]
    Missing { program: String, install: &'static str },
    /// It is there and could not be started.
    #[error("{program} could not be started; check that it may be run here")]
    #[diagnostic(code = "program-not-started", class = InvalidInput)]
    Start { program: String, source: io::Error },
    /// It ended with an error.
    #[error("{program} {action} ended with {status}; its last output:\n{last}")]
    #[diagnostic(code = "program-failed", class = Rejected)]
    Failed {
        program: String,
        action: String,
        status: ExitStatus,
        /// The end of its output.
        last: String,
    },
    /// It did not end in time, and was killed.
    #[error("{program} {action} did not end within {} s and was killed; its last output:\n{last}", limit.as_secs())]
    #[diagnostic(code = "program-timed-out", class = Transient)]
    TimedOut {
        program: String,
        action: String,
        limit: Duration,
        /// The end of its output.
        last: String,
    },
    /// Reading or writing its pipes failed.
    #[error("{program}: its output can't be read")]
    #[diagnostic(code = "program-pipe", class = Transient)]
    Pipe { program: String, source: io::Error },
}
