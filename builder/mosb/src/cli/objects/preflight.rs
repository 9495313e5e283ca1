//! The result of the checks before an installation.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::bootstrap::preflight::{Check, ImageReport, Report};

/// The result of the checks before an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preflight {
    /// `failed` if any check failed, else `unknown` if any could not be made, else `passed`.
    pub outcome: String,
    /// Each image, in the order in which they were given.
    pub images: Vec<CheckedImage>,
    /// Duration of all checks, in milliseconds.
    pub millis: u64,
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
    /// The check: `registry`, `pull`, `bootable`, `architecture`, `release`, `push`.
    pub check: String,
    /// `passed`, `failed`, `unknown` (it could not be made; try again) or `skipped`.
    pub outcome: String,
    /// One of a fixed, documented set of words, such as `denied`, if it did not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The observation.
    pub message: String,
    /// The remedy, if one is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Duration, in milliseconds.
    pub millis: u64,
}

impl From<&Report> for Preflight {
    fn from(report: &Report) -> Self {
        Self {
            outcome: report.outcome().to_string(),
            images: report.images.iter().map(CheckedImage::from).collect(),
            millis: millis(report.took),
        }
    }
}

impl From<&ImageReport> for CheckedImage {
    fn from(image: &ImageReport) -> Self {
        Self {
            object: Some(image.what.clone()).filter(|what| !what.is_empty()),
            image: image.image.clone(),
            checks: image.checks.iter().map(ImageCheck::from).collect(),
        }
    }
}

impl From<&Check> for ImageCheck {
    fn from(check: &Check) -> Self {
        Self {
            check: check.kind.to_string(),
            outcome: check.outcome.to_string(),
            code: check.code.map(str::to_owned),
            message: check.message.clone(),
            remedy: check.remedy.clone(),
            millis: millis(check.took),
        }
    }
}

fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}
