//! The results of preflight checks.

use std::fmt;
use std::time::Duration;

use super::error::Error;
use mosb_types::Finding;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// In the order of the input.
    pub images: Vec<ImageReport>,
    /// How long it took.
    pub took: Duration,
}

/// The checks of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageReport {
    /// The object that refers to the image; empty for a command-line argument.
    pub what: String,
    pub image: String,
    /// In the order of [`Kind`].
    pub checks: Vec<Check>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub kind: Kind,
    pub outcome: Outcome,
    /// The code for scripts; `None` if the check passed.
    pub code: Option<&'static str>,
    /// One sentence: the result, or why there is none.
    pub message: String,
    /// `None` if nothing needs to change.
    pub remedy: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// The property that is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The registry answers.
    Registry,
    /// The manifest and its blobs can be pulled.
    Pull,
    /// It is a bootable image.
    Bootable,
    /// It is for the machines' architecture.
    Architecture,
    /// It is of the cluster's release.
    Release,
    /// Later images can be pushed.
    Push,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// Not checked: the expected value is unknown, or another check has to pass first.
    Skipped,
    /// A transient error; a retry may succeed.
    Unknown,
    Failed,
}

impl Kind {
    /// All kinds in order, except those that only some images have.
    pub const OF_IMAGE: [Self; 5] =
        [Self::Registry, Self::Pull, Self::Bootable, Self::Architecture, Self::Release];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Registry => "registry",
            Self::Pull => "pull",
            Self::Bootable => "bootable",
            Self::Architecture => "architecture",
            Self::Release => "release",
            Self::Push => "push",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Check {
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
    /// `Failed` if any check failed, else `Unknown` if any could not be made, else `Passed`.
    pub fn outcome(&self) -> Outcome {
        let all = self.images.iter().flat_map(|image| &image.checks);
        let seen = |outcome| all.clone().any(|check| check.outcome == outcome);
        match (seen(Outcome::Failed), seen(Outcome::Unknown)) {
            (true, _) => Outcome::Failed,
            (false, true) => Outcome::Unknown,
            (false, false) => Outcome::Passed,
        }
    }

    /// Returns an error if the installation can't continue.
    ///
    /// # Errors
    /// A check failed or could not be made.
    pub fn verdict(&self) -> Result<(), Error> {
        let findings = self.findings();
        match self.outcome() {
            Outcome::Passed | Outcome::Skipped => Ok(()),
            Outcome::Failed => Err(Error::Failed { findings }),
            Outcome::Unknown => Err(Error::Unknown { findings }),
        }
    }

    /// The checks that failed or could not be made, on the object that refers to the image, without
    /// duplicates.
    pub fn findings(&self) -> Vec<Finding> {
        let of_image = |image: &ImageReport| {
            let object =
                if image.what.is_empty() { image.image.clone() } else { image.what.clone() };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_several_checks_is_reported_once() {
        let silent =
            |kind| Check::not_passed(kind, Outcome::Failed, "unreachable", "no answer", "wait");
        let image = |what: &str| ImageReport {
            what: what.to_owned(),
            image: "registry.example/os".to_owned(),
            checks: vec![silent(Kind::Registry), silent(Kind::Push)],
        };
        let report = Report { images: vec![image("a"), image("b")], took: Duration::ZERO };
        let findings = report.findings().into_iter();
        let objects: Vec<_> = findings.filter_map(|finding| finding.object).collect();
        assert_eq!(objects, ["a", "b"]);
    }
}
