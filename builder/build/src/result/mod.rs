//! The result of a build pod, as a file, as the data of a ConfigMap, and as a container's
//! termination message.
//!
//! The reader trusts nothing: sizes are bounded, every value is checked, and unknown fields are
//! ignored. A result names its Job's UID and its build, which the caller compares.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::JobMethod;
use mosb_api::BuildName;
use mosb_image::Digest;
use mosb_plan::plan::diff::OsSummary;
use mosb_types::{Diagnostic, ErrorClass, Finding};

/// Key of the ConfigMap: the digest of the image; only there after a success.
pub const DIGEST_KEY: &str = "digest";
/// Key of the ConfigMap, and name of the file in the pod's volumes: all of it.
pub const RESULT_KEY: &str = "result.json";
/// The most that is written or read of a result, in bytes.
pub const RESULT_LIMIT: usize = 64 * 1024;
/// Kubernetes' limit for a container's termination message, in bytes.
pub const TERMINATION_LIMIT: usize = 4096;

/// The last lines of a failed build: so many, and so many bytes of each.
const LINES: usize = 40;
const LINE: usize = 400;
/// The bytes of a message.
const MESSAGE: usize = 2000;
/// So many warnings; a build that has more has them in its log.
const WARNINGS: usize = 40;

/// How a build in a pod ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobResult {
    /// UID of the Job; empty where a build runs outside of one.
    #[serde(default)]
    pub job_uid: String,
    pub build: BuildName,
    #[serde(flatten)]
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all_fields = "camelCase")]
pub enum Outcome {
    /// The registry has confirmed the image.
    Succeeded {
        digest: Digest,
        method: JobMethod,
        /// Bytes pulled from registries.
        #[serde(default)]
        bytes_pulled: u64,
        /// Bytes pushed to the registry.
        #[serde(default)]
        bytes_pushed: u64,
        #[serde(default)]
        phases: Phases,
        /// The image with the base's tree that this build pushed, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base_tree: Option<BaseTreeImage>,
        /// The prepared base that this build made and pushed, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prepared: Option<Box<PreparedImage>>,
        /// What of the OS changes, if the image in service is on something else and both are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        os_summary: Option<Box<OsSummary>>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<Finding>,
    },
    /// The tree of the base, or of the prepared base, shows that a program must run after the config
    /// is written. The image was not pushed.
    NeedsContainerfile {
        /// The reason why a program must be run.
        reasons: Vec<Finding>,
        /// The prepared base that was made and pushed before that was found out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prepared: Option<Box<PreparedImage>>,
    },
    /// The prepared base was made and pushed. Another pod makes the image on it: the last part of the
    /// Containerfile has to run, or a policy requires a signature first. The image was not pushed.
    Prepared {
        prepared: Box<PreparedImage>,
        /// The image with its tree that was pushed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base_tree: Option<BaseTreeImage>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<Finding>,
    },
    /// There is no image.
    Failed {
        step: Step,
        class: ErrorClass,
        /// The word for conditions and metrics.
        reason: String,
        /// One sentence.
        message: String,
        /// The end of the failed program's output.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        last_lines: Vec<String>,
        /// If the push failed: milliseconds from its start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        push: Option<u64>,
    },
}

impl Outcome {
    /// The container that reports it first.
    pub fn step(&self) -> Step {
        match self {
            Self::Failed { step, .. } => *step,
            Self::NeedsContainerfile { .. } => Step::ImageBuild,
            Self::Prepared { .. } => Step::ImagePush,
            Self::Succeeded { method, .. } => match method {
                JobMethod::Direct => Step::ImageBuild,
                JobMethod::Containerfile => Step::ImagePush,
            },
        }
    }
}

/// A container of a build's pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// `image-fetch`: what the last part of a Containerfile starts from.
    ImageFetch,
    /// `image-build`: all of a direct build, or buildah.
    ImageBuild,
    ImagePush,
    WaitForDone,
}

impl Step {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ImageFetch => "image-fetch",
            Self::ImageBuild => "image-build",
            Self::ImagePush => "image-push",
            Self::WaitForDone => "wait-for-done",
        }
    }
}

/// Milliseconds of each part of a build.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Phases {
    /// Asking registries for the base's and other images' manifests.
    pub resolve: u64,
    /// Reading the base's tree, and planning with it.
    pub tree: u64,
    /// Making the layers.
    pub build: u64,
    /// Pushing new layers and the manifest.
    pub push: u64,
    /// Since the program's start.
    pub total: u64,
}

/// Whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The tree of a base as an image in the push repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BaseTreeImage {
    pub base: Digest,
    /// Manifest of the image with its tree.
    pub image: Digest,
}

/// A prepared base as an image in the push repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreparedImage {
    /// Of everything that was run.
    pub inputs: Digest,
    pub image: Digest,
    pub made_at: Timestamp,
}

/// Why something is not a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(code = "bad-job-result", class = Internal)]
#[non_exhaustive]
pub enum Error {
    /// More than any result has.
    #[error("the build's result has {0} bytes, and none has more than {RESULT_LIMIT}")]
    TooLarge(usize),
    /// It is not JSON, or a field of a result is missing.
    #[error("the build's result can't be read ({0}); was something else written in its place?")]
    Malformed(String),
    /// Digest and result contradict each other.
    #[error("the build's result says digest {result}, and key {DIGEST_KEY} says {key:?}")]
    TwoDigests { result: Digest, key: String },
}

impl JobResult {
    /// From a file.
    ///
    /// # Errors
    /// It is too large, or no result.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > RESULT_LIMIT {
            return Err(Error::TooLarge(bytes.len()));
        }
        let result: Self =
            serde_json::from_slice(bytes).map_err(|e| Error::Malformed(e.to_string()))?;
        Ok(result.bounded())
    }

    /// For a file: one line, at most [`RESULT_LIMIT`] bytes.
    pub fn to_json(&self) -> String {
        self.clone().within(RESULT_LIMIT)
    }

    /// From the data of the ConfigMap; `None` while the pod has reported nothing.
    ///
    /// # Errors
    /// As [`Self::from_json`]; digest and result that differ.
    pub fn from_config_map(data: &BTreeMap<String, String>) -> Result<Option<Self>, Error> {
        let Some(text) = data.get(RESULT_KEY).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let result = Self::from_json(text.as_bytes())?;
        if let (Outcome::Succeeded { digest, .. }, Some(key)) =
            (&result.outcome, data.get(DIGEST_KEY))
            && digest.to_string() != key.trim()
        {
            return Err(Error::TwoDigests {
                result: *digest,
                key: key.chars().take(100).collect(),
            });
        }
        Ok(Some(result))
    }

    /// For the data of the ConfigMap.
    pub fn to_config_map(&self) -> BTreeMap<String, String> {
        let mut data = BTreeMap::from([(RESULT_KEY.to_owned(), self.to_json())]);
        if let Outcome::Succeeded { digest, .. } = &self.outcome {
            data.insert(DIGEST_KEY.to_owned(), digest.to_string());
        }
        data
    }

    /// From a container's termination message; `None` for anything that is not a result, as a
    /// container that was killed has none, and other programs write other things.
    pub fn from_termination_message(text: &str) -> Option<Self> {
        Self::from_json(text.trim().as_bytes()).ok()
    }

    /// For a container's termination message: at most [`TERMINATION_LIMIT`] bytes.
    pub fn to_termination_message(&self) -> String {
        self.clone().within(TERMINATION_LIMIT)
    }

    /// Serializes as JSON within a limit; the least important parts are omitted first.
    fn within(self, limit: usize) -> String {
        let mut result = self.bounded();
        loop {
            let text = serde_json::to_string(&result).expect("maps with text keys");
            if text.len() <= limit || !result.shrink() {
                return text;
            }
        }
    }

    /// Truncates every text and list to its limit.
    fn bounded(mut self) -> Self {
        if let Outcome::Succeeded { os_summary: Some(summary), .. } = &mut self.outcome {
            let kernel = &mut summary.kernel;
            for version in [&mut kernel.from, &mut kernel.to] {
                *version = version.as_deref().map(|version| cut(version, LINE));
            }
        }
        match &mut self.outcome {
            Outcome::Succeeded { warnings: findings, .. }
            | Outcome::Prepared { warnings: findings, .. }
            | Outcome::NeedsContainerfile { reasons: findings, .. } => {
                findings.truncate(WARNINGS);
                for finding in findings {
                    finding.message = cut(&finding.message, LINE);
                    for place in [&mut finding.path, &mut finding.object] {
                        *place = place.as_deref().map(|place| cut(place, LINE));
                    }
                }
            }
            Outcome::Failed { message, last_lines, reason, .. } => {
                *reason = cut(reason, 64);
                *message = cut(message, MESSAGE);
                last_lines.drain(..last_lines.len().saturating_sub(LINES));
                for line in last_lines {
                    *line = cut(line, LINE);
                }
            }
        }
        self
    }

    /// Omits one part; returns false if none is left to omit.
    fn shrink(&mut self) -> bool {
        match &mut self.outcome {
            Outcome::Succeeded { warnings: findings, .. }
            | Outcome::Prepared { warnings: findings, .. }
            | Outcome::NeedsContainerfile { reasons: findings, .. } => findings.pop().is_some(),
            Outcome::Failed { message, last_lines, .. } => {
                if !last_lines.is_empty() {
                    last_lines.remove(0);
                    return true;
                }
                let half = cut(message, message.len() / 2);
                let shorter = half.len() < message.len();
                *message = half;
                shorter
            }
        }
    }
}

/// The beginning of a text, in one line without control characters.
fn cut(text: &str, limit: usize) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    if text.len() <= limit {
        return text.chars().map(printable).collect();
    }
    let dots = "…";
    let mut end = limit.saturating_sub(dots.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].chars().map(printable).chain(dots.chars()).collect()
}

#[cfg(test)]
mod tests;
