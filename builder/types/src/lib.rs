//! What every crate shares: error classes, findings, canonical JSON.

mod canonical_json;
mod error_class;
mod error_text;
mod finding;

pub use canonical_json::canonical_json;
pub use error_class::ErrorClass;
pub use error_text::error_text;
pub use finding::Finding;
