//! What was found.

use std::fmt;
use std::time::Duration;

use super::error::Error;
use mosb_types::Finding;

/// All that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Each image, in the order in which they were given.
    pub images: Vec<ImageReport>,
    /// How long it took.
    pub took: Duration,
}

/// What was checked of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageReport {
    /// The object that names it; empty by hand.
    pub what: String,
    pub image: String,
    /// Each check, in the order of [`Kind`].
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was options.
    pub kind: Kind,
    /// The answer.
    pub outcome: Outcome,
    /// The word for scripts; none where it passed.
    pub code: Option<&'static str>,
    /// One sentence: what was seen, or why it could not be.
    pub message: String,
    /// What to do; none where there is nothing to be done.
    pub remedy: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// What is options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Does the registry answer?
    Registry,
    /// May the image be pulled: its manifest, and what it names?
    Pull,
    /// Is it an image that machines boot?
    Bootable,
    /// Is it for the machines' architecture?
    Architecture,
    /// Is it of the cluster's release?
    Release,
    /// May later images be pushed?
    Push,
}

/// The answer to a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Yes.
    Passed,
    /// It was not asked: nothing says what would be right, or another check has to pass first.
    Skipped,
    /// Nobody can tell now; another time may be better.
    Unknown,
    /// No.
    Failed,
}

impl Kind {
    /// All, in their order, without that which only some images have.
    pub const OF_IMAGE: [Self; 5] =
        [Self::Registry, Self::Pull, Self::Bootable, Self::Architecture, Self::Release];

    /// As it is printed.
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
    /// As it is printed.
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
    /// One that passed.
    pub fn passed(kind: Kind, message: impl Into<String>) -> Self {
        Self::new(kind, Outcome::Passed, None, message.into(), None)
    }

    /// One that was not made.
    pub fn skipped(kind: Kind, message: impl Into<String>) -> Self {
        Self::new(kind, Outcome::Skipped, None, message.into(), None)
    }

    /// One that did not pass.
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

    /// Whether somebody must do something.
    pub fn is_bad(&self) -> bool {
        matches!(self.outcome, Outcome::Failed | Outcome::Unknown)
    }

    /// What was seen, and what to do.
    pub fn sentence(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}; {remedy}", self.message),
            None => self.message.clone(),
        }
    }
}

impl Report {
    /// `Failed` if any check failed, else `Unknown` if any could not be explain, else `Passed`.
    pub fn outcome(&self) -> Outcome {
        let all = self.images.iter().flat_map(|image| &image.checks);
        let seen = |outcome| all.clone().any(|check| check.outcome == outcome);
        match (seen(Outcome::Failed), seen(Outcome::Unknown)) {
            (true, _) => Outcome::Failed,
            (false, true) => Outcome::Unknown,
            (false, false) => Outcome::Passed,
        }
    }

    /// Whether an installation may go on.
    ///
    /// # Errors
    /// A check failed, or could not be made.
    pub fn verdict(&self) -> Result<(), Error> {
        let findings = self.findings();
        match self.outcome() {
            Outcome::Passed | Outcome::Skipped => Ok(()),
            Outcome::Failed => Err(Error::Failed { findings }),
            Outcome::Unknown => Err(Error::Unknown { findings }),
        }
    }

    /// What failed and what could not be explain, on the object that names the image; each once.
    pub fn findings(&self) -> Vec<Finding> {
        let of_image = |image: &ImageReport| {
            let object = match image.what.is_empty() {
                true => image.image.clone(),
                false => image.what.clone(),
            };
            let bad = image.checks.iter().filter(|check| check.is_bad());
            bad.map(|check| {
                let code = check.code.unwrap_or("internal");
                Finding::new(code, check.sentence()).object(object.clone())
            })
            .collect::<Vec<_>>()
        };
        let mut findings: Vec<Finding> = Vec::new();
        for finding in self.images.iter().flat_map(of_image) {
            // A registry that does not answer hinders pulling and pushing alike.
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
    fn what_hinders_several_checks_is_told_once() {
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
