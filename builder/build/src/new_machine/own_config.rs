//! Configs that are merged over that of a pool's new machines: what joins a node to its cluster, and
//! what is of one machine only.
//!
//! Input: the pool's config, and other Ignition configs. Output: one config, in the oldest spec that
//! has all of it. Invariant: no message quotes contents, keys, passwords or addresses of a config.

use serde_json::Value;

use mosb_ignition::{self as ignition, Document, Merger};
use mosb_types::Diagnostic;
use mosb_types::Secret;

/// A valid Ignition config. It may refer to others, which machines fetch.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnConfig(Document);

/// Why a config can't be merged.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[diagnostic(code = "bad-own-config", class = InvalidInput)]
#[non_exhaustive]
pub enum OwnConfigError {
    #[error("{origin}: line {line}, column {column}: not JSON; give an Ignition config")]
    Json {
        origin: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    #[error("{origin}: {source}; correct the Ignition config")]
    Invalid { origin: String, source: ignition::Error },
    #[error(
        "{origin}: ignition.config.replace would discard what mosb adds; merge the other config instead"
    )]
    Replaces { origin: String },
    #[error(
        "pool {pool}: its config and those merged over it are not valid together: {source}; correct the latter"
    )]
    Together { pool: String, source: ignition::Error },
}

impl OwnConfig {
    /// Reads a config. `origin` is its place, for messages.
    ///
    /// # Errors
    /// It is not valid, or replaces all others.
    pub fn parse(origin: &str, bytes: &[u8]) -> Result<Self, OwnConfigError> {
        let origin = || origin.to_owned();
        // serde's own message may quote the input.
        let value: Value = serde_json::from_slice(bytes).map_err(|error| OwnConfigError::Json {
            origin: origin(),
            line: error.line(),
            column: error.column(),
        })?;
        let read = Document::read(&value)
            .map_err(|source| OwnConfigError::Invalid { origin: origin(), source })?;
        if read.document.as_json().pointer("/ignition/config/replace").is_some() {
            return Err(OwnConfigError::Replaces { origin: origin() });
        }
        Ok(Self(read.document))
    }
}

/// The config of a pool's new machines, and others over it; the later one takes precedence.
///
/// # Errors
/// They are not valid together.
pub fn merge(
    pool: &str,
    config: &Value,
    own: Vec<OwnConfig>,
) -> Result<Secret<Value>, OwnConfigError> {
    let together = |source| OwnConfigError::Together { pool: pool.to_owned(), source };
    let mut merger = Merger::new();
    merger.add(0, Document::read(config).map_err(together)?.document);
    for (at, OwnConfig(document)) in own.into_iter().enumerate() {
        merger.add(at + 1, document);
    }
    let merged = merger.finish().document;
    let checked = Document::read(merged.as_json()).map_err(together)?;
    Ok(Secret::new(checked.document.into_oldest_version()))
}
