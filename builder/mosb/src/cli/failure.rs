//! How a command fails: one code, one class and one sentence, for the errors of all crates.

use anyhow::Error;

use super::error;
use super::objects;
use crate::bootstrap;
use mosb_build::fetch;
use mosb_ignition as ignition;
use mosb_image as image;
use mosb_plan::containerfile;
use mosb_plan::payload;
use mosb_plan::plan;
use mosb_plan::render;
use mosb_registry as registry;
use mosb_types::{ErrorClass, Finding, error_text};

/// A failure as it is told.
#[derive(Debug)]
pub struct Failure {
    /// What the caller should do.
    pub class: ErrorClass,
    /// The word for scripts.
    pub code: &'static str,
    /// Object, cause, remedy, with the chain of causes.
    pub message: String,
    /// Each problem by itself, where there are several.
    pub findings: Vec<Finding>,
}

/// ErrorClass, code and findings of the first error of the chain that is of this type.
macro_rules! first_known {
    ($error:expr, $($(#[$gate:meta])* $known:ty => $findings:expr),+ $(,)?) => {
        $error.chain().find_map(|cause| {
            $($(#[$gate])* if let Some(known) = cause.downcast_ref::<$known>() {
                return Some((known.class(), known.reason(), $findings(known)));
            })+
            None
        })
    };
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::of(&error)
    }
}

impl Failure {
    /// What an error is told as.
    pub fn of(error: &Error) -> Self {
        let known = first_known!(error,
            error::Error => |_: &error::Error| Vec::new(),
            plan::Error => plan_findings,
            render::Error => |error: &render::Error| error.findings().to_vec(),
            fetch::Error => fetch::Error::findings,
            bootstrap::Error => bootstrap::Error::findings,
            bootstrap::preflight::Error => bootstrap::preflight::Error::findings,
            plan::PreBuiltError => |_: &plan::PreBuiltError| Vec::new(),
            mosb_build::registry_client::RegistryClientError => |_: &mosb_build::registry_client::RegistryClientError| Vec::new(),
            registry::Error => |_: &registry::Error| Vec::new(),
            mosb_build::Error => |_: &mosb_build::Error| Vec::new(),
            mosb_build::resolve::Error => |_: &mosb_build::resolve::Error| Vec::new(),
            #[cfg(feature = "cluster")]
            mosb_controller::sidecar::Error => |_: &mosb_controller::sidecar::Error| Vec::new(),
            mosb_build::result_dir::Error => |_: &mosb_build::result_dir::Error| Vec::new(),
            #[cfg(feature = "cluster")]
            mosb_controller::Error => |_: &mosb_controller::Error| Vec::new(),
            containerfile::Error => |_: &containerfile::Error| Vec::new(),
            payload::Error => |_: &payload::Error| Vec::new(),
            mosb_build::buildah::Error => |_: &mosb_build::buildah::Error| Vec::new(),
            image::layer::Error => |_: &image::layer::Error| Vec::new(),
        );
        // Whatever has no class was not foreseen, so it is ours.
        let (class, code, findings) =
            known.unwrap_or((ErrorClass::Internal, "internal", Vec::new()));
        Self { class, code, message: sentence(error), findings }
    }
}

fn plan_findings(error: &plan::Error) -> Vec<Finding> {
    match error {
        plan::Error::Ignition { source: ignition::Error::Invalid { problems }, .. } => {
            problems.clone()
        }
        other => other.findings(),
    }
}

/// What one error of the chain says. A path of the config may hold a line's end, which is none of the sentence.
fn line(cause: &(dyn std::error::Error + 'static)) -> String {
    let text = error_text(cause);
    let of_a_path = cause.is::<plan::ApplyError>()
        || matches!(cause.downcast_ref::<plan::Error>(), Some(plan::Error::Apply { .. }));
    match of_a_path {
        true => harmless(&text),
        false => text,
    }
}

/// Control characters as they are written in a program.
fn harmless(text: &str) -> String {
    let shown = |c: char| match c.is_control() {
        true => c.escape_default().collect(),
        false => vec![c],
    };
    text.chars().flat_map(shown).collect()
}

/// The chain as one sentence. A cause that its parent repeats already is left out.
fn sentence(error: &Error) -> String {
    let mut told = String::new();
    for cause in error.chain() {
        let text = line(cause);
        if told.is_empty() {
            told = text;
        } else if !told.contains(&text) {
            // The cause belongs before the remedy, which stands behind the last semicolon.
            match told.rsplit_once("; ") {
                Some((object, remedy)) => told = format!("{object}: {text}; {remedy}"),
                None => told = format!("{told}: {text}"),
            }
        }
    }
    told
}

impl Failure {
    /// The exit code; `diff` keeps 1 for "differs".
    pub fn exit_code(&self, of_diff: bool) -> u8 {
        match self.class {
            ErrorClass::InvalidInput => 2,
            ErrorClass::Rejected if !of_diff => 1,
            ErrorClass::Rejected | ErrorClass::Transient | ErrorClass::Internal => 3,
        }
    }

    /// What is printed on stderr, without `error: `.
    pub fn text(&self) -> String {
        let mut text = self.message.clone();
        let told = |finding: &&Finding| !self.message.contains(&finding.message);
        for finding in self.findings.iter().filter(told) {
            text.push_str("\n  ");
            for place in [&finding.object, &finding.path].into_iter().flatten() {
                text.push_str(&format!("{place}: "));
            }
            text.push_str(&finding.message);
        }
        // What comes from a registry or a config may hold anything; a terminal obeys control characters.
        let lines: Vec<String> = text.split('\n').map(harmless).collect();
        lines.join("\n")
    }

    /// What is printed on stdout with `-o json`.
    pub fn object(&self, exit_code: u8) -> objects::Error {
        objects::Error {
            code: self.code.to_owned(),
            message: self.message.clone(),
            findings: self.findings.clone(),
            exit_code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;
    use mosb_plan::plan::Reason;
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
        for (what, error, code, exit, diff) in [
            ("wrong use", error::Error::Usage("x".to_owned()).into(), "wrong-use", 2, 2),
            ("denied", denied().into(), "denied", 1, 3),
            ("unreachable", unreachable.into(), "unreachable", 3, 3),
            ("unforeseen", anyhow::anyhow!("x"), "internal", 3, 3),
            ("with context", Err::<(), _>(denied()).context("base").unwrap_err(), "denied", 1, 3),
        ] {
            let failure = Failure::from(error);
            assert_eq!(
                (failure.code, failure.exit_code(false), failure.exit_code(true)),
                (code, exit, diff),
                "{what}"
            );
        }
    }

    #[test]
    fn one_sentence_with_the_cause_before_the_remedy() {
        let source = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let file = "worker.yaml".to_owned();
        let failure = Failure::from(Error::from(error::Error::Read { file, source }));
        assert_eq!(
            failure.text(),
            "worker.yaml: not readable: no such file; check the name and that this user may read it"
        );
        // A source that the message has already is not told again.
        let source =
            ignition::parse(&serde_json::json!({"ignition": {"version": "2.2.0"}})).unwrap_err();
        let cause = source.to_string();
        let config = "rendered-x".to_owned();
        let failure = Failure::from(Error::from(plan::Error::Ignition { config, source }));
        assert_eq!(failure.text(), format!("rendered-x: spec.config: {cause}"));
        assert_eq!(failure.code, "old-ignition-spec");
    }

    #[test]
    fn several_problems_are_listed_once_and_control_characters_are_harmless() {
        let reasons = vec![Reason::Requested, Reason::AppendToBase("/etc/a\u{1b}[31m".to_owned())];
        let config = "rendered-x".to_owned();
        let failure = Failure::from(Error::from(plan::Error::NotDirect { config, reasons }));
        assert_eq!(failure.findings.len(), 2);
        assert_eq!(failure.text().matches("/etc/a").count(), 1);
        assert!(!failure.text().contains('\u{1b}'));
    }
}
