//! `mosb boot-images`.

mod golden;

pub use golden::golden;
