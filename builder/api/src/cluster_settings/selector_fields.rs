//! A label selector in the settings.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::selector::{Expression, LabelSelector};

// Not the lenient type of the API: a misspelt field would select more than is meant.
/// A label selector.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "LabelSelector")]
pub(super) struct SelectorFields {
    /// Labels that must have these values.
    match_labels: BTreeMap<String, String>,
    /// What else must hold.
    match_expressions: Vec<ExpressionFields>,
}

/// One of `matchExpressions`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LabelExpression")]
struct ExpressionFields {
    /// Key of the label.
    key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    operator: String,
    /// For the first two.
    #[serde(default)]
    values: Vec<String>,
}

impl From<SelectorFields> for LabelSelector {
    fn from(fields: SelectorFields) -> Self {
        let expressions = fields.match_expressions.into_iter().map(|one| {
            let ExpressionFields { key, operator, values } = one;
            Expression { key, operator, values }
        });
        Self { match_labels: fields.match_labels, match_expressions: expressions.collect() }
    }
}
