//! The Ignition configs of the MachineConfigs: read, resolved, merged, and everything remote embedded.

use serde_json::Value;

use super::attribute::Attributed;
use super::{Component, Error};
use crate::api::PoolName;
use crate::canonical;
use crate::ignition::snapshot::{self, Contents, Reference, Resolution};
use crate::ignition::{self, Document, Merger, Provenance, ReadDocument};
use crate::report::Finding;

/// What was merged.
#[derive(Debug)]
pub(super) struct Merged {
    /// `spec.config` of the rendered config.
    pub config: Value,
    /// Of what the merged config says, by the numbers of the MachineConfigs; empty unless it was asked for.
    pub provenance: Vec<Provenance>,
    /// Of configs that were referred to.
    pub warnings: Vec<Finding>,
}

/// The configs as they stand; none where a MachineConfig has none.
pub(super) fn read(
    chosen: &[&Component],
    problems: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) -> Vec<Option<ReadDocument>> {
    let read = chosen.iter().map(|one| {
        let config = one.config.spec.get("config")?;
        if config.is_null() {
            return None;
        }
        match Document::read(config) {
            Ok(mut read) => {
                warnings.extend(read.warnings.drain(..).map(|it| within(one, it)));
                Some(read)
            }
            Err(error) => {
                problems.extend(told(one, error));
                None
            }
        }
    });
    read.collect()
}

/// Merges them all, in their order.
pub(super) fn merge(
    pool: &PoolName,
    chosen: &[&Component],
    read: Vec<Option<ReadDocument>>,
    contents: &Contents,
    explain: bool,
) -> Result<Resolution<Merged>, Error> {
    let (documents, warnings) = match resolve(pool, chosen, read, contents)? {
        Resolution::Needs(needs) => return Ok(Resolution::Needs(needs)),
        Resolution::Done(resolved) => resolved,
    };
    let mut merger = match explain {
        true => Merger::explaining(),
        false => Merger::new(),
    };
    for (from, document) in documents {
        merger.add(from, document);
    }
    let ignition::Merged {
        document,
        provenance,
    } = merger.finish();
    let merged = document.with_file_defaults();
    // Who said what is only found out where someone wants to know.
    let attributed = || match explain {
        true => Attributed::new(&merged, chosen, &provenance),
        false => Attributed::new(&merged, chosen, &again(chosen, contents)),
    };
    let problems = |error: ignition::Error| {
        let attributed = attributed();
        let problems = findings(error).into_iter();
        problems.map(|it| attributed.finding(it)).collect()
    };
    // What can't be embedded is wrong in whichever MachineConfig refers to it.
    let unusable = |error: ignition::Error| Error::Invalid {
        pool: pool.to_string(),
        problems: problems(error),
    };
    let whole = match snapshot::contents(merged.clone(), contents).map_err(unusable)? {
        Resolution::Needs(needs) => {
            let attributed = attributed();
            let of = |need: Reference| {
                let who = attributed.who(need.place());
                need.of(&format!("{who}: spec.config"))
            };
            return Ok(Resolution::Needs(needs.into_iter().map(of).collect()));
        }
        Resolution::Done(whole) => whole,
    };
    let config = whole.into_json();
    ignition::parse(&config).map_err(|error| Error::Merged {
        pool: pool.to_string(),
        problems: problems(error),
    })?;
    Ok(Resolution::Done(Merged {
        config,
        provenance,
        warnings,
    }))
}

type Resolved = (Vec<(usize, Document)>, Vec<Finding>);

/// Follows the references to other configs.
fn resolve(
    pool: &PoolName,
    chosen: &[&Component],
    read: Vec<Option<ReadDocument>>,
    contents: &Contents,
) -> Result<Resolution<Resolved>, Error> {
    let (mut needs, mut problems) = (Vec::new(), Vec::new());
    let (mut documents, mut warnings) = (Vec::with_capacity(read.len()), Vec::new());
    for (from, read) in read.into_iter().enumerate() {
        let (one, Some(read)) = (chosen[from], read) else {
            continue;
        };
        match snapshot::configs(read.document, read.spec, contents) {
            Ok(Resolution::Done(resolved)) => {
                let told = resolved.warnings.into_iter();
                warnings.extend(told.map(|it| within(one, it)));
                documents.push((from, resolved.document));
            }
            Ok(Resolution::Needs(references)) => {
                let place = one.place("spec.config");
                needs.extend(references.into_iter().map(|need| need.of(&place)));
            }
            Err(error) => problems.extend(told(one, error)),
        }
    }
    if !problems.is_empty() {
        let pool = pool.to_string();
        return Err(Error::Invalid { pool, problems });
    }
    Ok(match needs.is_empty() {
        true => Resolution::Done((documents, warnings)),
        false => Resolution::Needs(needs),
    })
}

/// What was merged without an account of who said what, merged with one. It worked before.
fn again(chosen: &[&Component], contents: &Contents) -> Vec<Provenance> {
    let mut merger = Merger::explaining();
    let read = read(chosen, &mut Vec::new(), &mut Vec::new());
    for (from, read) in read.into_iter().enumerate() {
        let Some(read) = read else { continue };
        let resolved = snapshot::configs(read.document, read.spec, contents);
        if let Ok(Resolution::Done(resolved)) = resolved {
            merger.add(from, resolved.document);
        }
    }
    merger.finish().provenance
}

fn findings(error: ignition::Error) -> Vec<Finding> {
    match error {
        ignition::Error::Invalid { problems } => problems,
        other => vec![Finding::new(other.reason(), other.to_string())],
    }
}

fn told(one: &Component, error: ignition::Error) -> Vec<Finding> {
    let problems = findings(error).into_iter();
    problems.map(|it| within(one, it)).collect()
}

/// The same finding, of this MachineConfig.
fn within(one: &Component, mut finding: Finding) -> Finding {
    let field = match finding.object.as_deref() {
        None | Some("the config") => "spec.config".to_owned(),
        Some(field) => format!("spec.config.{field}"),
    };
    finding.object = Some(one.place(&field));
    finding
}

/// Name and size of the largest MachineConfig.
pub(super) fn largest(chosen: &[&Component]) -> String {
    let size = |one: &&&Component| canonical::canonical(&one.config.spec).len();
    let largest = chosen.iter().max_by_key(size);
    largest.map_or_else(String::new, |one| {
        format!("{} ({} bytes)", one.name(), size(&one))
    })
}
