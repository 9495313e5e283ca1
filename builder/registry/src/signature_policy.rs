//! The `policy.json` that a client obeys.

use std::path::{Path, PathBuf};

use super::error::Error;
use mosb_image::signature_policy::{Requirement, SignaturePolicy, Verdict};
use mosb_types::Finding;

/// A policy, and where it came from.
#[derive(Debug, Clone)]
pub(super) struct LoadedPolicy {
    policy: SignaturePolicy,
    file: PathBuf,
    /// Whether the user or the cluster named the policy. It then applies to pushes too, because a
    /// client with this policy could not read a pushed image that the policy rejects.
    holds_for_pushes: bool,
}

impl LoadedPolicy {
    pub fn read(file: &Path, named: bool) -> Result<Self, Error> {
        Ok(Self { policy: read_policy(file)?, file: file.to_owned(), holds_for_pushes: named })
    }

    pub fn check_pull(&self, image: &str) -> Result<(), Error> {
        let Verdict { scope, requirement } = self.policy.verdict(image);
        match requirement {
            Requirement::Reject => {
                Err(Error::Rejected { image: image.to_owned(), scope, file: self.file.clone() })
            }
            Requirement::Accept | Requirement::Signature(_) => Ok(()),
        }
    }

    pub fn check_push(&self, repo: &str) -> Result<(), Error> {
        if self.holds_for_pushes { self.check_pull(repo) } else { Ok(()) }
    }

    /// What is not checked of an image that is read.
    pub fn unchecked(&self, image: &str) -> Option<Finding> {
        let Verdict { scope, requirement } = self.policy.verdict(image);
        let Requirement::Signature(kind) = requirement else {
            return None;
        };
        let message = format!(
            "{scope:?} of the policy {} asks for a signature ({kind}), which mosb does not check",
            self.file.display()
        );
        Some(Finding::new("signature-not-checked", message).object(image))
    }
}

/// Reads a `policy.json`.
///
/// # Errors
/// It can't be read, or is none.
pub fn read_policy(file: &Path) -> Result<SignaturePolicy, Error> {
    let wrong = |cause: String| Error::SignaturePolicy { file: file.to_owned(), cause };
    let text = std::fs::read(file).map_err(|error| wrong(format!("not readable: {error}")))?;
    SignaturePolicy::parse(&text).map_err(|error| wrong(error.to_string()))
}
