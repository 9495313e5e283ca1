//! SIGINT and SIGTERM: they drop most work, with its temporary files and child processes, and tell a
//! server to end.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};

use super::error::Error;

/// A signal that ended the work. SIGHUP is left alone, so that `nohup` works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// SIGINT: ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
}

impl Interrupt {
    /// 128 plus the signal's number, as in shells.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupted => "SIGINT",
            Self::Terminated => "SIGTERM",
        }
    }
}

/// Runs work to its end, or to the first signal.
///
/// # Errors
/// Signal handlers can't be installed.
pub async fn until_signal<T>(work: impl Future<Output = T>) -> io::Result<Result<T, Interrupt>> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    Ok(tokio::select! {
        done = work => Ok(done),
        _ = interrupted.recv() => Err(Interrupt::Interrupted),
        _ = terminated.recv() => Err(Interrupt::Terminated),
    })
}

/// [`first_signal`] for a server, which logs it.
///
/// # Errors
/// As [`first_signal`].
pub fn stop_signal() -> Result<impl Future<Output = ()>, Error> {
    let signal = first_signal()?;
    Ok(async move {
        signal.await;
        tracing::info!("ending what is under way");
    })
}

/// The first signal, for work that ends by itself then. From now on, signals end nothing else.
///
/// # Errors
/// Signal handlers can't be installed.
pub fn first_signal() -> Result<impl Future<Output = ()>, Error> {
    let mut interrupted = signal(SignalKind::interrupt()).map_err(Error::System)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(Error::System)?;
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    })
}
