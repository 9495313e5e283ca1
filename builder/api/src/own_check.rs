//! A check of an administrator's own: a pod that says by its exit code whether an image may be used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cluster_settings::Resources;
use super::image_checks::{CheckMode, CheckName};

/// A check of your own: a program in a pod. The image passes if the program ends with exit code 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OwnCheck {
    /// The image that the pod runs, such as that of a scanner. Without it, the image that is checked.
    pub image: Option<String>,
    /// The program, instead of the entry point of the pod's image. `$(IMAGE)` in it is the image that is checked,
    /// `host/repository@sha256:…`.
    pub command: Vec<String>,
    /// The arguments; `$(IMAGE)` in them is the image that is checked.
    pub args: Vec<String>,
    /// What it does if it fails: `block`, `warn` or `off`. A MachineOSConfig's annotation `mosb.dev/checks` overrides
    /// it.
    pub mode: CheckMode,
    /// The time limit in seconds, from the creation of its Job; 10 to 86400. A check that takes longer fails.
    pub active_deadline_seconds: u32,
    /// The user that the program runs as; 0 is root. Without it, a user without rights.
    pub run_as_user: Option<u32>,
    /// Resource requests and limits of the pod.
    pub resources: Resources,
}

impl Default for OwnCheck {
    fn default() -> Self {
        Self {
            image: None,
            command: Vec::new(),
            args: Vec::new(),
            mode: CheckMode::Block,
            active_deadline_seconds: 600,
            run_as_user: None,
            resources: Resources::default(),
        }
    }
}

impl OwnCheck {
    /// Each runs a pod for each image, and has a result in the record of the image.
    pub const MAX_CHECKS: usize = 8;
    /// The name of its Job contains the whole name.
    const MAX_NAME: usize = 40;
    const SECONDS: std::ops::RangeInclusive<u32> = 10..=86_400;
    /// A pod can be given more, but not a check that people understand.
    const MAX_WORDS: usize = 100;

    /// The field that is wrong, and what it must be. Resources are checked with those of builds.
    pub(crate) fn check(&self, name: &str) -> Result<(), (&'static str, String)> {
        let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let is_word = name.bytes().all(is_name) && !name.starts_with('-') && !name.ends_with('-');
        if name.is_empty() || name.len() > Self::MAX_NAME || !is_word {
            let want = format!("want a name of at most {} of a-z, 0-9 and -", Self::MAX_NAME);
            return Err(("", want));
        }
        if CheckName::ALL.iter().any(|check| check.as_str() == name) {
            return Err(("", "a built-in check has this name; take another one".to_owned()));
        }
        let is_image = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        if self.image.as_deref().is_some_and(|image| !is_image(image)) {
            return Err(("image", "want the name of an image".to_owned()));
        }
        if self.command.is_empty() && self.image.is_none() {
            let want = "want a program: the entry point of an OS image starts the OS";
            return Err(("command", want.to_owned()));
        }
        if self.command.len() + self.args.len() > Self::MAX_WORDS {
            return Err((
                "args",
                format!("want at most {} words with the command", Self::MAX_WORDS),
            ));
        }
        if !Self::SECONDS.contains(&self.active_deadline_seconds) {
            return Err(("activeDeadlineSeconds", "want 10 to 86400".to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_check_needs_name_and_program() {
        let lint = OwnCheck { command: vec!["lint".to_owned()], ..OwnCheck::default() };
        let scan = OwnCheck { image: Some("q.io/scan:1".to_owned()), ..OwnCheck::default() };
        let blank = OwnCheck { image: Some("q.io/scan 1".to_owned()), ..OwnCheck::default() };
        let short = OwnCheck { active_deadline_seconds: 9, ..lint.clone() };
        let long = OwnCheck { args: vec![String::new(); 100], ..lint.clone() };
        let too_long = "x".repeat(41);
        for (name, check, field) in [
            ("lint", &lint, None),
            ("scan-2", &scan, None),
            ("", &lint, Some("")),
            ("-lint", &lint, Some("")),
            ("Lint", &lint, Some("")),
            ("size", &lint, Some("")),
            (&*too_long, &lint, Some("")),
            ("lint", &OwnCheck::default(), Some("command")),
            ("lint", &blank, Some("image")),
            ("lint", &short, Some("activeDeadlineSeconds")),
            ("lint", &long, Some("args")),
        ] {
            assert_eq!(check.check(name).err().map(|(field, _)| field), field, "{name} {check:?}");
        }
    }
}
