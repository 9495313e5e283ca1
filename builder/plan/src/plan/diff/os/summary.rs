//! What of the OS changes from one image to the next, in one line.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{KernelChange, PackageChanges};
use mosb_api::{Metadata, labels};
use mosb_image::Digest;
use mosb_image::packages::Installed;
use mosb_image::tree::BaseTree;

/// The most bytes that are read of an annotation; two lists of kernels have a fraction of it.
const LIMIT: usize = 4096;

/// What of the OS a build changes, compared with the image in service when it was made (annotation
/// `mosb.dev/os-summary` of a MachineOSBuild).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OsSummary {
    /// The digest of the image that was in service.
    #[schemars(with = "String")]
    pub from: Digest,
    /// Its kernel, and the kernel of the build.
    pub kernel: KernelChange,
    /// How many packages were added, removed, or have another version; absent if the packages of one
    /// image are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<u64>,
}

impl OsSummary {
    /// Compares what the layers of two images are put on. `from`: the image before.
    pub fn between(from: Digest, before: &BaseTree, after: &BaseTree) -> Self {
        let installed = [before, after].map(Installed::of);
        let is_known = |one: &Installed| one.warnings.is_empty() && !one.packages.is_empty();
        let packages = installed.iter().all(is_known).then(|| {
            let [before, after] = &installed;
            let changes = PackageChanges::between(before.packages.iter(), after.packages.iter());
            changes.all().len() as u64
        });
        Self { from, kernel: KernelChange::between(before, after), packages }
    }

    /// That of a MachineOSBuild; none if it is not known, or can't be read.
    pub fn of(build: &Metadata) -> Option<Self> {
        let text = build.annotation(labels::OS_SUMMARY).filter(|text| text.len() <= LIMIT)?;
        serde_json::from_str(text).ok()
    }

    /// The value of the annotation.
    pub fn to_annotation(&self) -> String {
        serde_json::to_string(self).expect("it has only texts and a number")
    }
}

impl fmt::Display for OsSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KernelChange { from, to } = &self.kernel;
        let version = |version: &Option<String>| version.clone().unwrap_or("none".to_owned());
        if self.kernel.is_same() {
            write!(f, "the same kernel")?;
        } else {
            write!(f, "kernel {} → {}", version(from), version(to))?;
        }
        match self.packages {
            None => Ok(()),
            Some(0) => write!(f, ", the same packages"),
            Some(1) => write!(f, ", 1 package"),
            Some(packages) => write!(f, ", {packages} packages"),
        }
    }
}
