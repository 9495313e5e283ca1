//! The Ignition configs of the MachineConfigs: parses, resolves and merges them, and embeds remote
//! resources.

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use mosb_ignition as ignition;
use mosb_ignition::snapshot::{self, Contents, Reference, Resolution};
use mosb_ignition::{Document, Merger, Provenance, ReadDocument};
use mosb_types::{Finding, canonical_json, canonical_value};

use super::attribute::Attributed;
use super::{Component, Error};
use mosb_api::{NameError, PoolName, RenderedName};

#[derive(Debug)]
pub(super) struct Merged {
    /// `spec.config` of the rendered config.
    pub config: Value,
    /// The origins of the fields, by the numbers of the MachineConfigs; empty unless requested.
    pub provenance: Vec<Provenance>,
    /// Of configs that were referred to.
    pub warnings: Vec<Finding>,
}

/// The result of the configs merged so far.
#[derive(Debug, Default)]
pub(super) struct Read {
    merger: Merger,
    needs: Vec<Reference>,
    /// Of configs that were referred to.
    problems: Vec<Finding>,
    warnings: Vec<Finding>,
}

/// Parses all configs, and merges them in order until one is invalid. Each is merged before the
/// next is parsed, so that overridden parts are not in memory twice.
pub(super) fn read(
    chosen: &[&Component],
    contents: &Contents,
    explain: bool,
    problems: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) -> Read {
    let mut so_far = Read::default();
    if explain {
        so_far.merger = Merger::explaining();
    }
    for (from, one) in chosen.iter().enumerate() {
        let config = one.config.spec.get("config");
        let Some(config) = config.filter(|config| !config.is_null()) else {
            continue;
        };
        match Document::read(config) {
            Ok(mut read) => {
                warnings.extend(read.warnings.drain(..).map(|it| within(one, it)));
                if problems.is_empty() {
                    so_far.add(from, one, read, contents);
                }
            }
            Err(error) => problems.extend(component_findings(one, error)),
        }
    }
    so_far
}

impl Read {
    /// Resolves the references of a config to others, and merges the result.
    fn add(&mut self, from: usize, one: &Component, read: ReadDocument, contents: &Contents) {
        match snapshot::configs(read.document, read.spec, contents) {
            Ok(Resolution::Done(resolved)) => {
                let component_findings = resolved.warnings.into_iter();
                self.warnings.extend(component_findings.map(|it| within(one, it)));
                self.merger.add(from, resolved.document);
            }
            Ok(Resolution::Needs(references)) => {
                let place = one.place("spec.config");
                let needs = references.into_iter().map(|need| need.of(&place));
                self.needs.extend(needs);
            }
            Err(error) => self.problems.extend(component_findings(one, error)),
        }
    }
}

/// The merged config of all MachineConfigs.
pub(super) fn merge(
    pool: &PoolName,
    chosen: &[&Component],
    read: Read,
    contents: &Contents,
    explain: bool,
) -> Result<Resolution<Merged>, Error> {
    if !read.problems.is_empty() {
        let (pool, problems, warnings) = (pool.to_string(), read.problems, read.warnings);
        return Err(Error::Invalid { pool, problems, warnings });
    }
    if !read.needs.is_empty() {
        return Ok(Resolution::Needs(read.needs));
    }
    let ignition::Merged { document, provenance } = read.merger.finish();
    let merged = document.with_file_defaults();
    // Origins are only recorded if they are requested.
    let attributed = || {
        if explain {
            Attributed::new(&merged, chosen, &provenance)
        } else {
            Attributed::new(&merged, chosen, &provenance_of(chosen, contents))
        }
    };
    let problems = |error: ignition::Error| {
        let attributed = attributed();
        let problems = findings(error).into_iter();
        problems.map(|it| attributed.finding(it)).collect()
    };
    // A reference that can't be embedded is a problem of each MachineConfig that contains it.
    let unusable = |error: ignition::Error| Error::Invalid {
        pool: pool.to_string(),
        problems: problems(error),
        warnings: Vec::new(),
    };
    let embedded = match snapshot::contents(merged.clone(), contents).map_err(unusable)? {
        Resolution::Needs(needs) => {
            let attributed = attributed();
            let of = |need: Reference| {
                let origins = attributed.origins(need.place());
                need.of(&format!("{origins}: spec.config"))
            };
            return Ok(Resolution::Needs(needs.into_iter().map(of).collect()));
        }
        Resolution::Done(embedded) => embedded,
    };
    let config = embedded.into_json();
    ignition::parse(&config).map_err(|error| Error::Merged {
        pool: pool.to_string(),
        problems: problems(error),
        warnings: Vec::new(),
    })?;
    Ok(Resolution::Done(Merged { config, provenance, warnings: read.warnings }))
}

/// Merges again with origins, after a merge without them succeeded.
fn provenance_of(chosen: &[&Component], contents: &Contents) -> Vec<Provenance> {
    let read = read(chosen, contents, true, &mut Vec::new(), &mut Vec::new());
    read.merger.finish().provenance
}

fn findings(error: ignition::Error) -> Vec<Finding> {
    match error {
        ignition::Error::Invalid { problems } => problems,
        other => vec![Finding::from(&other)],
    }
}

fn component_findings(one: &Component, error: ignition::Error) -> Vec<Finding> {
    let problems = findings(error).into_iter();
    problems.map(|it| within(one, it)).collect()
}

/// Attributes a finding to this MachineConfig.
fn within(one: &Component, mut finding: Finding) -> Finding {
    let field = match finding.object.as_deref() {
        None | Some("the config") => "spec.config".to_owned(),
        Some(field) => format!("spec.config.{field}"),
    };
    finding.object = Some(one.place(&field));
    finding
}

/// The name and size of the largest MachineConfig.
pub(super) fn largest(chosen: &[&Component]) -> String {
    let size = |one: &&&Component| canonical_json(&one.config.spec).len();
    let largest = chosen.iter().max_by_key(size);
    largest.map_or_else(String::new, |one| format!("{} ({} bytes)", one.name(), size(&one)))
}

/// `rendered-<pool>-<hex>`, where the hex is the first half of the SHA-256 of the spec's canonical
/// JSON (RFC 8785).
///
/// # Errors
/// The pool's name is too long.
pub(super) fn rendered_name(pool: &PoolName, spec: &Value) -> Result<RenderedName, NameError> {
    let hash = Sha256::digest(canonical_value(spec));
    let hex = HEXLOWER.encode(&hash[..16]);
    format!("rendered-{pool}-{hex}").parse()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn name_is_the_hash_of_the_canonical_spec() {
        let pool: PoolName = "worker".parse().unwrap();
        // printf '{"a":[],"b":"x"}' | sha256sum
        let name = rendered_name(&pool, &json!({ "b": "x", "a": [] })).unwrap();
        assert_eq!(name.as_str(), "rendered-worker-d4aa9cd279871d2e2cf6a1ec605ae0bc");
        let long: PoolName = "p".repeat(220).parse().unwrap();
        assert!(rendered_name(&long, &json!({})).is_err());
    }
}
