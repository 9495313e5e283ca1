//! The failure of a command: the error of any crate, with a code, a class and a sentence.
//!
//! An error becomes a `Failure` by `?`, which it can if it declares its code and class
//! ([`Diagnostic`]). The class gives the exit code.

use std::error::Error;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::output::Object;
use mosb_types::{Diagnostic, ErrorClass, Finding, error_text, escape_control};

/// The error that a command ends with.
#[derive(Debug)]
pub struct Failure(Box<dyn Diagnostic + Send + Sync>);

/// The result of a part of the command line.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl<E: Diagnostic + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

/// clap reports one as the error of a value.
impl Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl Failure {
    /// The error, if it is of this type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        let error: &(dyn Error + 'static) = &*self.0;
        error.downcast_ref()
    }

    /// Decides the exit code.
    pub fn class(&self) -> ErrorClass {
        self.0.class()
    }

    /// The code for scripts.
    pub fn code(&self) -> &'static str {
        self.0.code()
    }

    /// Each problem, if there are several.
    pub fn findings(&self) -> Vec<Finding> {
        self.0.findings()
    }

    /// Object, cause and remedy: the chain of errors as one sentence. A cause that the text repeats
    /// already is left out.
    pub fn message(&self) -> String {
        let mut message = error_text(&*self.0);
        let remedy = self.0.remedy().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        let mut source = self.0.source();
        while let Some(cause) = source {
            let text = error_text(cause);
            if !message.contains(&text) {
                let before_remedy = message.strip_suffix(&remedy).unwrap_or(&message).len();
                message.insert_str(before_remedy, &format!(": {text}"));
            }
            source = cause.source();
        }
        message
    }

    /// The exit code; `diff` keeps 1 for "differs".
    pub fn exit_code(&self, of_diff: bool) -> u8 {
        match self.class() {
            ErrorClass::InvalidInput => 2,
            ErrorClass::Rejected if !of_diff => 1,
            ErrorClass::Rejected | ErrorClass::Transient | ErrorClass::Internal => 3,
        }
    }

    /// The text for stderr, without `error: `.
    pub fn text(&self) -> String {
        let message = self.message();
        let mut text = message.clone();
        for finding in self.findings().iter().filter(|it| !message.contains(&it.message)) {
            text.push_str("\n  ");
            for place in [&finding.object, &finding.path].into_iter().flatten() {
                text.push_str(&format!("{place}: "));
            }
            text.push_str(&finding.message);
        }
        let lines: Vec<String> = text.split('\n').map(escape_control).collect();
        lines.join("\n")
    }

    /// The object for stdout with `-o json`.
    pub fn report(&self, exit_code: u8) -> FailureReport {
        FailureReport {
            code: self.code().to_owned(),
            message: self.message(),
            findings: self.findings(),
            exit_code,
        }
    }
}

/// How a command failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureReport {
    /// One of a fixed, documented set of words, such as `denied`.
    pub code: String,
    /// What failed, why, and what to do.
    pub message: String,
    /// Each problem, if there are several.
    pub findings: Vec<Finding>,
    /// The exit code of the program.
    pub exit_code: u8,
}

impl Object for FailureReport {
    const KIND: &'static str = "Error";

    fn text(&self) -> String {
        format!("{}\n", self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use mosb_ignition as ignition;
    use mosb_plan::plan::{self, CheckError, Reason};
    use mosb_registry as registry;
    use std::io;

    fn denied() -> registry::Error {
        registry::Error::Denied {
            image: "quay.io/os".to_owned(),
            status: 403,
            with: "without credentials".to_owned(),
            message: Default::default(),
        }
    }

    #[test]
    fn exit_codes_come_from_the_class() {
        let unreachable =
            registry::Error::Unreachable { host: "quay.io".to_owned(), cause: "x".to_owned() };
        for (what, failure, code, exit, diff) in [
            ("wrong use", Error::Usage("x".to_owned()).into(), "wrong-use", 2, 2),
            ("denied", denied().into(), "denied", 1, 3),
            ("unreachable", unreachable.into(), "unreachable", 3, 3),
            ("a bug", Error::System(io::Error::other("x")).into(), "internal", 3, 3),
        ] {
            let failure: Failure = failure;
            assert_eq!(
                (failure.code(), failure.exit_code(false), failure.exit_code(true)),
                (code, exit, diff),
                "{what}"
            );
        }
    }

    #[test]
    fn one_sentence_with_the_cause_before_the_remedy() {
        let source = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let file = "worker.yaml".to_owned();
        let failure = Failure::from(Error::Read { file, source });
        assert_eq!(
            failure.text(),
            "worker.yaml: not readable: no such file; check the name and that this user may read it"
        );
        // A source that the message contains already is not repeated.
        let source =
            ignition::parse(&serde_json::json!({"ignition": {"version": "2.2.0"}})).unwrap_err();
        let cause = source.to_string();
        let config = "rendered-x".to_owned();
        let failure = Failure::from(plan::Error::Ignition { config, source });
        assert_eq!(failure.text(), format!("rendered-x: spec.config: {cause}"));
        assert_eq!(failure.code(), "old-ignition-spec");
    }

    #[test]
    fn several_problems_are_listed_once_and_control_characters_are_harmless() {
        let reasons = vec![Reason::Requested, Reason::AppendToBase("/etc/a\u{1b}[31m".to_owned())];
        let config = "rendered-x".to_owned();
        let failure = Failure::from(plan::Error::from(CheckError::NotDirect { config, reasons }));
        assert_eq!(failure.findings().len(), 2);
        assert_eq!(failure.text().matches("/etc/a").count(), 1);
        assert!(!failure.text().contains('\u{1b}'));
    }
}
