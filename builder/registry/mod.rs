//! (room)

pub mod blobs;
