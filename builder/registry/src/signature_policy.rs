//! The `policy.json` that a client obeys, and what messages call the settings: the user's file, or the
//! setting of a cluster that a temporary file was made of, which the reader doesn't have.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mosb_image::ImageRef;
use mosb_image::signature_policy::{DEFAULT, Requirement, SignaturePolicy, Verdict};
use mosb_trust::evaluate::PreparedRequirement;
use mosb_types::Diagnostic as _;

use crate::error::Error;
use crate::signature_rule::{SignatureRule, read_key};

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
    /// Whether the files with keys that it names are on this machine.
    has_key_files: bool,
}

impl LoadedPolicy {
    pub fn read(file: &Path, named: bool, names: &SettingNames) -> Result<Self, Error> {
        Ok(Self {
            policy: read_policy(file)?,
            name: names.of_file(file),
            allowed: names.allowed.clone(),
            holds_for_pushes: named,
            has_key_files: !names.files.contains_key(file),
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

    /// Whether it requires a signature of any image.
    pub fn requires_signatures(&self) -> bool {
        self.policy.requires_signatures()
    }

    /// What it requires of an image; `None` if it accepts it without a signature.
    pub fn signature_rule(&self, image: &ImageRef) -> Result<Option<SignatureRule>, Error> {
        self.check_pull(&image.to_string())?;
        let read = |path: &Path| {
            if self.has_key_files {
                read_key(path)
            } else {
                Err("it is not a file of this machine; write the key as keyData".to_owned())
            }
        };
        let rule = SignatureRule::new(&self.policy, &self.name, image, read)?;
        Ok(Some(rule).filter(|rule| rule.required != PreparedRequirement::Accept))
    }
}

/// Reads a `policy.json`.
///
/// # Errors
/// It can't be read, or is none.
pub fn read_policy(file: &Path) -> Result<SignaturePolicy, Error> {
    let wrong = |cause| Error::SignaturePolicy { file: file.display().to_string(), cause };
    let text =
        std::fs::read(file).map_err(|error| wrong(format!("not readable: {error}").into()))?;
    SignaturePolicy::parse(&text).map_err(|error| wrong(error.explained()))
}

/// Reads a `policy.json`, and the keys that it names for this image.
///
/// # Errors
/// The policy can't be read, or asks for something that can't be evaluated.
pub fn read_signature_rule(file: &Path, image: &ImageRef) -> Result<SignatureRule, Error> {
    SignatureRule::new(&read_policy(file)?, &file.display().to_string(), image, read_key)
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
