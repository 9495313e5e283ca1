//! Running child processes.
