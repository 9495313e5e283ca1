//! Validation of objects that the program prints.

use std::fs;

use serde_json::Value;

/// Asserts that an object is valid for the schema of its kind in `docs/schemas`.
#[track_caller]
pub fn valid(object: &Value) {
    let kind = object["kind"].as_str().unwrap();
    let schemas = crate::repository().join("docs/schemas");
    let schema = fs::read(schemas.join(format!("{kind}.json"))).unwrap();
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let problems: Vec<_> =
        validator.iter_errors(object).map(|problem| problem.to_string()).collect();
    assert!(problems.is_empty(), "{problems:?}\n{object:#}");
}
