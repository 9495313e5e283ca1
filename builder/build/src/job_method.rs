//! The build method of a pod.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The build method of a Job's pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobMethod {
    /// One container that makes the layer and pushes it.
    Direct,
    /// buildah in one container, the push in another.
    Containerfile,
}

impl JobMethod {
    /// As the annotation `mosb.dev/method` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Containerfile => "containerfile",
        }
    }
}

impl fmt::Display for JobMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
