//! What every crate shares: error classes, findings, canonical JSON.

pub mod canonical;
pub mod report;
