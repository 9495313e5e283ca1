mod active_reconciles;
mod worker;

pub use active_reconciles::ActiveReconciles;
pub use worker::Worker;
