//! What the caller of a failed operation should do.

use serde::{Deserialize, Serialize};

/// What the caller should do about an error. The serialized words are those of a build pod's
/// result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorClass {
    /// The other side did not answer, or not now: retry. Exit code 3.
    #[serde(rename = "retry")]
    Transient,
    /// The input is wrong or incomplete. Exit code 2.
    #[serde(rename = "user-input")]
    InvalidInput,
    /// The build itself failed, or the registry rejected it. Exit code 1.
    #[serde(rename = "refused")]
    Rejected,
    /// A bug in mosb. Exit code 3.
    #[serde(rename = "bug")]
    Internal,
}
