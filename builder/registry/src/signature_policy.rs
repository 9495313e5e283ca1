//! The `policy.json` that a client obeys, and what messages call the settings: the user's file, or the
//! setting of a cluster that a temporary file was made of, which the reader doesn't have.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mosb_image::signature_policy::{
    DEFAULT, Requirement, SignaturePolicy, SignatureRequirement, Verdict,
};
use mosb_types::Finding;

use crate::error::Error;

/// A policy, and where it came from.
#[derive(Debug, Clone)]
pub(super) struct LoadedPolicy {
    policy: SignaturePolicy,
    /// What messages call it.
    name: String,
    /// What messages call the list outside of which the policy rejects everything.
    allowed: Option<String>,
    /// Whether the user or the cluster named the policy. It then applies to pushes too, because a
    /// client with this policy could not read a pushed image that the policy rejects.
    holds_for_pushes: bool,
}

impl LoadedPolicy {
    pub fn read(file: &Path, named: bool, names: &SettingNames) -> Result<Self, Error> {
        Ok(Self {
            policy: read_policy(file)?,
            name: names.of_file(file),
            allowed: names.allowed.clone(),
            holds_for_pushes: named,
        })
    }

    pub fn check_pull(&self, image: &str) -> Result<(), Error> {
        let Verdict { scope, requirement } = self.policy.verdict(image);
        match requirement {
            Requirement::Reject => Err(match &self.allowed {
                Some(list) if scope == DEFAULT => {
                    Error::NotAllowed { image: image.to_owned(), list: list.clone() }
                }
                _ => Error::Rejected { image: image.to_owned(), scope, file: self.name.clone() },
            }),
            Requirement::Accept | Requirement::Signatures(_) => Ok(()),
        }
    }

    pub fn check_push(&self, repo: &str) -> Result<(), Error> {
        if self.holds_for_pushes { self.check_pull(repo) } else { Ok(()) }
    }

    /// What is not checked of an image that is read.
    pub fn unchecked(&self, image: &str) -> Option<Finding> {
        let Verdict { scope, requirement } = self.policy.verdict(image);
        let Requirement::Signatures(all) = requirement else {
            return None;
        };
        let kinds: Vec<_> = all.iter().map(SignatureRequirement::kind).collect();
        let message = format!(
            "{scope:?} of the policy {} asks for a signature ({}), which a build does not check; check it with `mosb verify {image}`",
            self.name,
            kinds.join(", ")
        );
        Some(Finding::new("signature-not-checked", message).object(image))
    }
}

/// Reads a `policy.json`.
///
/// # Errors
/// It can't be read, or is none.
pub fn read_policy(file: &Path) -> Result<SignaturePolicy, Error> {
    let wrong = |cause: String| Error::SignaturePolicy { file: file.display().to_string(), cause };
    let text = std::fs::read(file).map_err(|error| wrong(format!("not readable: {error}")))?;
    SignaturePolicy::parse(&text).map_err(|error| wrong(error.to_string()))
}

/// Names of settings in files that the reader doesn't have. Empty for files of the user.
#[derive(Debug, Clone, Default)]
pub struct SettingNames {
    /// By file: the setting that it was made of.
    pub files: BTreeMap<PathBuf, String>,
    /// The list of the registries that are allowed; no other one is.
    pub allowed: Option<String>,
    /// By prefix: the setting that blocks it.
    pub blocked: BTreeMap<String, String>,
}

impl SettingNames {
    pub(super) fn of_file(&self, file: &Path) -> String {
        self.files.get(file).cloned().unwrap_or_else(|| file.display().to_string())
    }
}
