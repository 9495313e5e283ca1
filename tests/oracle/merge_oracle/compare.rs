//! What both make of the same configs, and whether that is the same.

use std::collections::BTreeSet;

use mosb_ignition::{Document, Error, Merger};
use serde_json::Value;

use crate::ignition_oracle::STRICTER;
use mosb_tests::Oracle;
use mosb_types::Diagnostic as _;

/// How the two agree.
#[derive(Debug, PartialEq, Eq)]
pub enum Agreement {
    /// They made the same of it.
    Same,
    /// Both refuse the configs.
    Refused,
    /// We refuse what Ignition takes, for things that it can't apply.
    Stricter(BTreeSet<String>),
}

/// Merges the configs both ways; a single one is only translated.
///
/// # Errors
/// In what the two differ.
pub fn compare(oracle: &mut Oracle, configs: &[Value]) -> Result<Agreement, String> {
    let answer = oracle.merge_as_decided(configs);
    let refused = answer["refused"].as_u64();
    let own = match (merge(configs), refused) {
        (Ok(own), None) => own,
        (Ok(own), Some(at)) => return Err(format!("we take config {at}: {own}\noracle: {answer}")),
        (Err(Refused { at, codes }), theirs) => {
            let stricter = codes.iter().all(|code| STRICTER.contains(&code.as_str()));
            return match theirs {
                Some(theirs) if theirs == at => Ok(Agreement::Refused),
                Some(theirs) if theirs < at => {
                    Err(format!("we take config {theirs}\noracle: {answer}"))
                }
                _ if stricter => Ok(Agreement::Stricter(codes)),
                _ => Err(format!("we refuse config {at}: {codes:?}\noracle: {answer}")),
            };
        }
    };
    let theirs = without_empties(&answer["config"]);
    if without_empties(&own) != theirs {
        return Err(format!("we make of it\n{own}\noracle:\n{theirs}"));
    }
    match (Document::read(&own), answer["valid"] == true) {
        (Ok(_), true) => Ok(Agreement::Same),
        (Err(_), false) => Ok(Agreement::Same),
        (Ok(_), false) => Err(format!("we take the result {own}\noracle: {answer}")),
        (Err(why), true) => {
            let codes = codes(why);
            if codes.iter().all(|code| STRICTER.contains(&code.as_str())) {
                Ok(Agreement::Stricter(codes))
            } else {
                Err(format!("we refuse the result {own}: {codes:?}"))
            }
        }
    }
}

/// The config that can't be read, and why.
#[derive(Debug)]
pub struct Refused {
    pub at: u64,
    pub codes: BTreeSet<String>,
}

/// What we make of the configs.
pub fn merge(configs: &[Value]) -> Result<Value, Refused> {
    let mut merger = Merger::new();
    for (at, config) in configs.iter().enumerate() {
        let read =
            Document::read(config).map_err(|why| Refused { at: at as u64, codes: codes(why) })?;
        merger.add(at, read.document);
    }
    Ok(merger.finish().document.into_json())
}

fn codes(why: Error) -> BTreeSet<String> {
    match why {
        Error::Invalid { problems } => problems.into_iter().map(|problem| problem.code).collect(),
        other => BTreeSet::from([other.code().to_owned()]),
    }
}

/// Without what says nothing: nulls, and objects and lists that are empty or become so.
pub fn without_empties(value: &Value) -> Value {
    let has_value = |value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    };
    match value {
        Value::Array(items) => Value::Array(items.iter().map(without_empties).collect()),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| (name.clone(), without_empties(member)))
            .filter(|(_, member)| has_value(member))
            .collect(),
        other => other.clone(),
    }
}
