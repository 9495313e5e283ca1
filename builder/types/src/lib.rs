//! What every crate shares: error classes and codes, findings, canonical JSON, secrets, null in objects
//! of the API.

mod canonical_json;
mod diagnostic;
mod error_class;
mod error_text;
mod finding;
mod json_object;
mod secret;

pub use canonical_json::{canonical_json, canonical_value};
pub use diagnostic::{Diagnostic, Explained};
pub use error_class::ErrorClass;
pub use error_text::{error_text, escape_control};
pub use finding::Finding;
pub use json_object::JsonObject;
pub use mosb_diagnostic_derive::{Diagnostic, null_is_empty};
pub use secret::{Secret, Wipe};

use serde::{Deserialize, Deserializer};

/// Reads null as the empty value of a field, as Go does. The attribute of the same name does so for
/// all fields of a struct.
///
/// # Errors
/// Another value that the type can't be read from.
pub fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
