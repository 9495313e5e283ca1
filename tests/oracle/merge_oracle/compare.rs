//! Compares the results of mosb and the real Ignition for the same configs.

use std::collections::BTreeSet;

use mosb_ignition::{Document, Error, Merger};
use serde_json::Value;

use crate::ignition_oracle::STRICTER;
use mosb_tests::Oracle;
use mosb_types::Diagnostic as _;

/// The result of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub enum Agreement {
    /// Both results are equal.
    Same,
    /// Both reject the configs.
    Refused,
    /// Only mosb rejects the configs, because Ignition could not apply them.
    Stricter(BTreeSet<String>),
}

/// Merges the configs on both sides. A single config is only translated.
///
/// # Errors
///
/// A description of the difference.
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

/// A config that can't be read, and the reason.
#[derive(Debug)]
pub struct Refused {
    pub at: u64,
    pub codes: BTreeSet<String>,
}

/// The result of mosb.
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

/// Removes nulls, and objects and lists that are empty or become empty.
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
