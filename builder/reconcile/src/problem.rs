//! Why a lookup or an action failed, as a decision sees it.

use std::collections::BTreeSet;
use std::time::Duration;

use mosb_types::{Diagnostic, ErrorClass};

/// A transient problem is reported once it has lasted this long.
pub const REPORT_DELAY: Duration = Duration::from_secs(60);

/// Reason of a [`Problem`]: other lookups at the same registry have not been answered yet.
pub const REGISTRY_BUSY: &str = "registry-busy";

/// Why a lookup or an action failed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// `Transient` problems are retried. All others are reported, as is `no-rendered-config`.
    pub class: ErrorClass,
    /// Code for events and metrics, such as `denied`.
    pub reason: String,
    pub message: String,
}

impl Problem {
    /// Nothing follows from what a watch that failed does not show. `watch`: its name, and why.
    pub fn of_watch(watch: &str) -> Self {
        Self {
            class: ErrorClass::Transient,
            reason: "watch-failed".to_owned(),
            message: format!("the watch failed: {watch}; check the API server"),
        }
    }

    /// A lookup waits for others: at these hosts, or for plans of other pools if there are none.
    pub fn of_busy(hosts: &BTreeSet<String>) -> Self {
        let message = if hosts.is_empty() {
            "all registries: too many plans of other pools are under way; check whether the registries are slow".to_owned()
        } else {
            let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
            format!(
                "{}: lookups of other pools there have not been answered yet, and this pool waits for them; check whether the host or the network is slow",
                hosts.join(", ")
            )
        };
        Self { class: ErrorClass::Transient, reason: REGISTRY_BUSY.to_owned(), message }
    }

    /// Reason and object, without the rest of the message: it may differ each time, for example if
    /// it contains a request ID of the registry.
    pub fn cause(&self) -> String {
        let object = self.message.split_once(": ").map(|(object, _)| object);
        format!("{} {}", self.reason, object.unwrap_or_default())
    }
}

impl<E: Diagnostic + 'static> From<E> for Problem {
    fn from(error: E) -> Self {
        Self { class: error.class(), reason: error.code().to_owned(), message: with_causes(&error) }
    }
}

/// The message of an error with its causes, each once.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let text = mosb_types::error_text(deeper);
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = deeper.source();
    }
    message
}

/// A problem that was reported before with the same inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierProblem {
    pub cause: String,
    /// For how long there have been problems with these inputs.
    pub lasted: Duration,
}
