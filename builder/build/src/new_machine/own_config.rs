//! Configs that are merged over that of a pool's new machines: what joins a node to its cluster, and
//! what is of one machine only.
//!
//! Input: the pool's config, and other Ignition configs. Output: one config, in the oldest spec that
//! has all of it. Invariant: no message quotes contents, keys, passwords or addresses of a config.

use serde_json::{Value, json};

use mosb_api::RenderedConfig;
use mosb_ignition::{self as ignition, Document, Merger};
use mosb_types::{Diagnostic, Secret};

use super::listed;

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

/// The arguments of the Ignition config, then those of the MachineConfigs, without duplicates;
/// `None` if there are none.
pub(super) fn of(rendered: &RenderedConfig, ignition: &Value) -> Option<Value> {
    let texts = |field: &str| {
        let list = listed(ignition, &["kernelArguments", field]);
        let list = list.and_then(|list| serde_json::from_value::<Vec<String>>(list).ok());
        list.unwrap_or_default()
    };
    let (mut wanted, unwanted) = (texts("shouldExist"), texts("shouldNotExist"));
    for argument in rendered.kernel_arguments.iter().flat_map(|text| split(text)) {
        if !wanted.contains(&argument) {
            wanted.push(argument);
        }
    }
    let mut arguments = json!({});
    for (field, list) in [("shouldExist", wanted), ("shouldNotExist", unwanted)] {
        if !list.is_empty() {
            arguments[field] = json!(list);
        }
    }
    (arguments != json!({})).then_some(arguments)
}

/// Splits an entry of `spec.kernelArguments` at blanks outside of double quotes, as the kernel
/// does.
fn split(text: &str) -> Vec<String> {
    let mut quoted = false;
    let blank = |c: char| {
        quoted ^= c == '"';
        c.is_whitespace() && !quoted
    };
    let parts = text.split(blank).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_may_hold_several_arguments() {
        for (text, want) in [
            ("quiet", &["quiet"][..]),
            (" a=b  quiet ", &["a=b", "quiet"]),
            ("dyndbg=\"file x +p\" b", &["dyndbg=\"file x +p\"", "b"]),
            ("", &[]),
        ] {
            assert_eq!(split(text), want, "{text:?}");
        }
    }
}
