//! A condition of a status, of every kind.

use std::hash::{Hash, Hasher};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use super::metadata::null_is_empty;

/// One of `status.conditions`: `metav1.Condition`, and those of a pool, which have no generation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Of a fixed set for each kind.
    #[serde(rename = "type", deserialize_with = "null_is_empty")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "null_is_empty")]
    pub status: String,
    /// The last change of `status`, to whole seconds; a pool's may have none.
    pub last_transition_time: Option<Time>,
    /// One word for programs.
    #[serde(deserialize_with = "null_is_empty")]
    pub reason: String,
    /// A text for people.
    #[serde(deserialize_with = "null_is_empty")]
    pub message: String,
    /// The generation of the object that it speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// By hand, because `Time` has none.
impl Hash for Condition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { kind, status, last_transition_time, reason, message, observed_generation } =
            self;
        let since = last_transition_time.as_ref().map(|time| time.0);
        (kind, status, since, reason, message, observed_generation).hash(state);
    }
}

impl Condition {
    /// Whether `status` is `True`.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Whether it equals the other one but for the time of the transition.
    pub fn matches(&self, status: &str, reason: &str, message: &str) -> bool {
        self.status == status && self.reason == reason && self.message == message
    }
}

/// The condition of this type.
pub fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}
