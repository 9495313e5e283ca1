//! What every crate shares: error classes and codes, findings, canonical JSON, secrets.

mod canonical_json;
mod diagnostic;
mod error_class;
mod error_text;
mod finding;
mod secret;

pub use canonical_json::{canonical_json, canonical_value};
pub use diagnostic::Diagnostic;
pub use error_class::ErrorClass;
pub use error_text::{error_text, escape_control};
pub use finding::Finding;
pub use mosb_diagnostic_derive::Diagnostic;
pub use secret::{Secret, Wipe};
