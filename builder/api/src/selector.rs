//! Label selectors, validated and evaluated as Kubernetes does (`metav1.LabelSelectorAsSelector`).

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::names::is_subdomain;
use mosb_types::null_is_empty;

/// A `LabelSelector` as the wire has it.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must have these values.
    pub match_labels: BTreeMap<String, String>,
    /// What else must hold.
    pub match_expressions: Vec<Expression>,
}

/// One of `matchExpressions`.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Expression {
    /// Key of the label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// For the first two.
    pub values: Vec<String>,
}

/// A selector that Kubernetes would take.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Selector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

/// A problem of a selector: its place and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct SelectorError {
    /// As `matchExpressions[0].operator`; empty for the selector itself.
    pub field: String,
    /// The problem and the remedy.
    pub problem: String,
}

impl Selector {
    /// Objects whose label `key` has one of these values.
    pub fn label_in(key: &str, values: &[&str]) -> Self {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Self(vec![Requirement { key: key.to_owned(), test: Test::In(values) }])
    }

    /// Checks a selector as Kubernetes does; one that selects everything is refused too.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn new(wire: &LabelSelector) -> Result<Self, Vec<SelectorError>> {
        let selector = Self::allowing_all(wire)?;
        if selector.0.is_empty() {
            let problem = "it is empty and would select every MachineConfig; select some by matchLabels or matchExpressions";
            return Err(vec![SelectorError { field: String::new(), problem: problem.to_owned() }]);
        }
        Ok(selector)
    }

    /// Checks a selector as Kubernetes does; an empty one selects everything.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn allowing_all(wire: &LabelSelector) -> Result<Self, Vec<SelectorError>> {
        let mut problems = Problems::default();
        let mut requirements = Vec::new();
        for (key, value) in &wire.match_labels {
            problems.key("matchLabels", key);
            problems.value(&format!("matchLabels[{key:?}]"), value);
            requirements
                .push(Requirement { key: key.clone(), test: Test::In(vec![value.clone()]) });
        }
        for (index, expression) in wire.match_expressions.iter().enumerate() {
            let at = |field: &str| format!("matchExpressions[{index}].{field}");
            problems.key(&at("key"), &expression.key);
            for value in &expression.values {
                problems.value(&at("values"), value);
            }
            let (values, none) = (expression.values.clone(), expression.values.is_empty());
            let test = match (expression.operator.as_str(), none) {
                ("In", false) => Test::In(values),
                ("NotIn", false) => Test::NotIn(values),
                ("Exists", true) => Test::Exists,
                ("DoesNotExist", true) => Test::DoesNotExist,
                ("In" | "NotIn", true) => {
                    problems.add(&at("values"), "In and NotIn need at least one value");
                    continue;
                }
                ("Exists" | "DoesNotExist", false) => {
                    problems.add(&at("values"), "Exists and DoesNotExist take no values");
                    continue;
                }
                (other, _) => {
                    problems.add(
                        &at("operator"),
                        &format!("{other:?} is none of In, NotIn, Exists, DoesNotExist"),
                    );
                    continue;
                }
            };
            let key = expression.key.clone();
            requirements.push(Requirement { key, test });
        }
        if problems.0.is_empty() { Ok(Self(requirements)) } else { Err(problems.0) }
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|Requirement { key, test }| {
            let value = labels.get(key);
            match test {
                Test::In(values) => value.is_some_and(|value| values.contains(value)),
                Test::NotIn(values) => !value.is_some_and(|value| values.contains(value)),
                Test::Exists => value.is_some(),
                Test::DoesNotExist => value.is_none(),
            }
        })
    }
}

/// As requests have it.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Requirement { key, test }) in self.0.iter().enumerate() {
            f.write_str(if index > 0 { "," } else { "" })?;
            match test {
                Test::In(values) => match &**values {
                    [value] => write!(f, "{key}={value}")?,
                    values => write!(f, "{key} in ({})", values.join(","))?,
                },
                Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Test::Exists => f.write_str(key)?,
                Test::DoesNotExist => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Problems(Vec<SelectorError>);

impl Problems {
    fn add(&mut self, field: &str, problem: &str) {
        self.0.push(SelectorError { field: field.to_owned(), problem: problem.to_owned() });
    }

    fn key(&mut self, field: &str, key: &str) {
        let good = match key.split_once('/') {
            Some((prefix, name)) => is_subdomain(prefix) && is_label_part(name),
            None => is_label_part(key),
        };
        if !good {
            self.add(field, &format!("{key:?} is not a key of a label"));
        }
    }

    fn value(&mut self, field: &str, value: &str) {
        if !value.is_empty() && !is_label_part(value) {
            self.add(field, &format!("{value:?} is not a value of a label"));
        }
    }
}

/// The longest value of a label, and the longest name in its key.
const LABEL: usize = 63;

/// Letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_label_part(text: &str) -> bool {
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= LABEL
        && end(bytes.first())
        && end(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn selector(wire: Value) -> Result<Selector, String> {
        let wire: LabelSelector = serde_json::from_value(wire).unwrap();
        Selector::new(&wire).map_err(|problems| {
            let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
            texts.join("; ")
        })
    }

    #[test]
    fn labels_are_selected_as_kubernetes_selects() {
        let expression = |operator: &str, values: Value| json!({ "matchExpressions": [{ "key": "r", "operator": operator, "values": values }] });
        for (what, wire, want) in [
            // Which of these label sets: r=a, r=b, none, r="".
            ("label", json!({ "matchLabels": { "r": "a" } }), "a"),
            ("in", expression("In", json!(["a", "b"])), "ab"),
            ("not in", expression("NotIn", json!(["a"])), "bn0"),
            ("exists", expression("Exists", json!(null)), "ab0"),
            ("does not exist", expression("DoesNotExist", json!([])), "n"),
            ("empty value", json!({ "matchLabels": { "r": "" } }), "0"),
            (
                "both",
                json!({ "matchLabels": { "r": "a" }, "matchExpressions": [{ "key": "x", "operator": "DoesNotExist" }] }),
                "a",
            ),
            (
                "contradiction",
                json!({ "matchLabels": { "r": "a" }, "matchExpressions": [{ "key": "r", "operator": "NotIn", "values": ["a"] }] }),
                "",
            ),
        ] {
            let selector = selector(wire).unwrap();
            let labels = |value: &str| BTreeMap::from([("r".to_owned(), value.to_owned())]);
            let found: String =
                [('a', labels("a")), ('b', labels("b")), ('n', BTreeMap::new()), ('0', labels(""))]
                    .into_iter()
                    .filter_map(|(name, labels)| selector.matches(&labels).then_some(name))
                    .collect();
            assert_eq!(found, want, "{what}");
        }
    }

    #[test]
    fn invalid_selectors_are_rejected_with_all_problems() {
        let long = "x".repeat(64);
        for (what, wire, want) in [
            ("nothing", json!({}), "it is empty"),
            ("null", json!({ "matchLabels": null, "matchExpressions": null }), "it is empty"),
            ("key", json!({ "matchLabels": { "a b": "c" } }), "matchLabels: \"a b\" is not a key"),
            ("prefix", json!({ "matchLabels": { "A/b": "c" } }), "is not a key"),
            ("value", json!({ "matchLabels": { "a": "-" } }), "is not a value"),
            ("long", json!({ "matchLabels": { "a": long } }), "is not a value"),
            (
                "operator",
                json!({ "matchExpressions": [{ "key": "a", "operator": "Gt", "values": ["1"] }] }),
                "matchExpressions[0].operator: \"Gt\" is none of",
            ),
            (
                "no values",
                json!({ "matchExpressions": [{ "key": "a", "operator": "In" }] }),
                "matchExpressions[0].values: In and NotIn need",
            ),
            (
                "values",
                json!({ "matchExpressions": [{ "key": "a", "operator": "Exists", "values": ["x"] }] }),
                "take no values",
            ),
            (
                "two",
                json!({ "matchExpressions": [{ "key": "", "operator": "in" }] }),
                "\"\" is not a key of a label; matchExpressions[0].operator",
            ),
        ] {
            let problems = selector(wire).unwrap_err();
            assert!(problems.contains(want), "{what}: {problems}");
        }
        assert!(selector(json!({ "matchLabels": { "a.b/c_d": "e.f-G" } })).is_ok());
        let all = Selector::allowing_all(&LabelSelector::default()).unwrap();
        assert!(all.matches(&BTreeMap::new()));
    }
}
