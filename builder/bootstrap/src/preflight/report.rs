//! The results of preflight checks.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use mosb_api::image_checks::CheckName;
use mosb_types::{Diagnostic, Finding};

/// The result of the checks before an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// `failed` if any check failed, else `unknown` if any could not be made, else `passed`.
    #[schemars(with = "String")]
    pub outcome: Outcome,
    /// Each image, in the order in which they were given.
    pub images: Vec<CheckedImage>,
    /// Duration of all checks, in milliseconds.
    #[serde(rename = "millis", serialize_with = "millis")]
    #[schemars(with = "u64")]
    pub took: Duration,
}

/// The checks of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckedImage {
    /// The object that names it, such as `MachineOSConfig worker`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The image.
    pub image: String,
    /// Each check.
    pub checks: Vec<ImageCheck>,
}

/// One check of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageCheck {
    /// The check: `registry`, `pull`, those that clusters make (docs/checks.md), `push`.
    #[serde(rename = "check")]
    #[schemars(with = "String")]
    pub kind: Kind,
    /// `passed`, `failed`, `unknown` (it could not be made; try again) or `skipped`.
    #[schemars(with = "String")]
    pub outcome: Outcome,
    /// One of a fixed, documented set of words, such as `denied`, if it did not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// The observation.
    pub message: String,
    /// The remedy, if one is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Duration, in milliseconds.
    #[serde(rename = "millis", serialize_with = "millis")]
    #[schemars(with = "u64")]
    pub took: Duration,
}

fn millis<S: Serializer>(took: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
}

/// The property that is checked, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The registry answers.
    Registry,
    /// The manifest and its blobs can be pulled.
    Pull,
    /// A check that clusters make before an image comes into service, by its name.
    Listed(String),
    /// Later images can be pushed.
    Push,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Passed,
    /// Not checked: the expected value is unknown, or another check has to pass first.
    Skipped,
    /// A transient error; a retry may succeed.
    Unknown,
    Failed,
}

impl Kind {
    /// A built-in check.
    pub fn built_in(name: CheckName) -> Self {
        Self::Listed(name.as_str().to_owned())
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Registry => "registry",
            Self::Pull => "pull",
            Self::Listed(name) => name,
            Self::Push => "push",
        }
    }

    /// Its place among those of an image; listed ones are in the order of the list.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Registry => 0,
            Self::Pull => 1,
            Self::Listed(_) => 2,
            Self::Push => 3,
        }
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Skipped => "skipped",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        }
    }
}

impl ImageCheck {
    pub fn passed(kind: Kind, message: impl Into<String>) -> Self {
        Self::new(kind, Outcome::Passed, None, message.into(), None)
    }

    /// A check that was not made.
    pub fn skipped(kind: Kind, message: impl Into<String>) -> Self {
        Self::new(kind, Outcome::Skipped, None, message.into(), None)
    }

    /// A check with another outcome than `Passed`.
    pub fn not_passed(
        kind: Kind,
        outcome: Outcome,
        code: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let remedy = Some(remedy.into());
        Self::new(kind, outcome, Some(code), message.into(), remedy)
    }

    fn new(
        kind: Kind,
        outcome: Outcome,
        code: Option<&'static str>,
        message: String,
        remedy: Option<String>,
    ) -> Self {
        Self { kind, outcome, code, message, remedy, took: Duration::ZERO }
    }

    /// Whether it failed or could not be made.
    pub fn is_bad(&self) -> bool {
        matches!(self.outcome, Outcome::Failed | Outcome::Unknown)
    }

    /// Message and remedy.
    pub fn sentence(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}; {remedy}", self.message),
            None => self.message.clone(),
        }
    }
}

impl Report {
    pub fn new(images: Vec<CheckedImage>, took: Duration) -> Self {
        let all = images.iter().flat_map(|image| &image.checks);
        let seen = |outcome| all.clone().any(|check| check.outcome == outcome);
        let outcome = match (seen(Outcome::Failed), seen(Outcome::Unknown)) {
            (true, _) => Outcome::Failed,
            (false, true) => Outcome::Unknown,
            (false, false) => Outcome::Passed,
        };
        Self { outcome, images, took }
    }

    /// Returns an error if the installation can't continue.
    ///
    /// # Errors
    /// A check failed or could not be made.
    pub fn verdict(&self) -> Result<(), Error> {
        let findings = self.findings();
        match self.outcome {
            Outcome::Passed | Outcome::Skipped => Ok(()),
            Outcome::Failed => Err(Error::Failed { findings }),
            Outcome::Unknown => Err(Error::Unknown { findings }),
        }
    }

    /// The checks that failed or could not be made, on the object that refers to the image, without
    /// duplicates.
    pub fn findings(&self) -> Vec<Finding> {
        let of_image = |image: &CheckedImage| {
            let object = image.object.as_ref().unwrap_or(&image.image);
            let bad = image.checks.iter().filter(|check| check.is_bad());
            bad.map(|check| {
                let code = check.code.unwrap_or("internal");
                Finding::new(code, check.sentence()).object(object.clone())
            })
            .collect::<Vec<_>>()
        };
        let mut findings: Vec<Finding> = Vec::new();
        for finding in self.images.iter().flat_map(of_image) {
            // A registry that does not answer fails several checks alike.
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
        findings
    }
}

/// The checks did not pass.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// At least one check failed.
    #[error(
        "the images of the installation can't be used; correct what is listed, nothing was written"
    )]
    #[diagnostic(code = "preflight-failed", class = Rejected, findings = findings.clone())]
    Failed {
        /// Checks that failed or could not be made.
        findings: Vec<Finding>,
    },
    /// No check failed, but at least one could not be made.
    #[error("the images of the installation can't be checked now; try again, nothing was written")]
    #[diagnostic(code = "preflight-unknown", class = Transient, findings = findings.clone())]
    Unknown {
        /// Checks that could not be made.
        findings: Vec<Finding>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_several_checks_is_reported_once() {
        let silent = |kind| {
            ImageCheck::not_passed(kind, Outcome::Failed, "unreachable", "no answer", "wait")
        };
        let image = |what: &str| CheckedImage {
            object: Some(what.to_owned()),
            image: "registry.example/os".to_owned(),
            checks: vec![silent(Kind::Registry), silent(Kind::Push)],
        };
        let report = Report::new(vec![image("a"), image("b")], Duration::ZERO);
        let findings = report.findings().into_iter();
        let objects: Vec<_> = findings.filter_map(|finding| finding.object).collect();
        assert_eq!(objects, ["a", "b"]);
    }
}
