//! Whether a built image comes into service by itself, how far it is, and what people decided about it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::annotation::{AnnotationError, one_of};
use super::rollout::PinnedBuild;
use super::{Metadata, labels};
use mosb_image::Digest;

/// The most decisions of a pool: an annotation has little space.
const ENTRIES: usize = 20;
/// The most bytes that are read.
const LIMIT: usize = 64 * 1024;
/// The most characters of a reason.
pub const MAX_REASON: usize = 500;
/// The most characters of a user's name.
const MAX_USER: usize = 256;

/// Whether a built image comes into service by itself (annotation `mosb.dev/promote`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Promote {
    /// Once its checks passed.
    #[default]
    Automatic,
    /// Once a person approved it, too.
    Manual,
}

impl Promote {
    /// The mode of a MachineOSConfig.
    ///
    /// # Errors
    /// The value is neither of the two.
    pub fn of(config: &Metadata) -> Result<Self, AnnotationError> {
        let words = [("automatic", Self::Automatic), ("manual", Self::Manual)];
        one_of(config, labels::PROMOTE, &words)
    }
}

/// How far the image of a build is on its way to service (annotation `mosb.dev/stage` of a
/// MachineOSBuild).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "BuildStage")]
pub enum Stage {
    /// The registry has it.
    Built,
    /// Own checks of it run.
    Checking,
    /// No check keeps it out of service.
    Checked,
    /// A person rejected it.
    Rejected,
    InService,
    /// It was in service.
    Replaced,
}

impl Stage {
    const ALL: [Self; 6] = [
        Self::Built,
        Self::Checking,
        Self::Checked,
        Self::Rejected,
        Self::InService,
        Self::Replaced,
    ];

    /// That of a MachineOSBuild; none if it is not recorded.
    pub fn of(build: &Metadata) -> Option<Self> {
        let word = build.annotation(labels::STAGE)?;
        Self::ALL.into_iter().find(|stage| stage.as_str() == word)
    }

    /// As the annotation spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Built => "built",
            Self::Checking => "checking",
            Self::Checked => "checked",
            Self::Rejected => "rejected",
            Self::InService => "in-service",
            Self::Replaced => "replaced",
        }
    }

    /// Whether the image is or was in service.
    pub fn is_served(self) -> bool {
        matches!(self, Self::InService | Self::Replaced)
    }
}

/// The images that people approved or rejected (annotation `mosb.dev/approvals` of a
/// MachineOSConfig), newest first. A decision is about a digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Approvals(Vec<Approval>);

/// What a person decided about one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    pub build: PinnedBuild,
    pub approved: bool,
    /// The user, as the API server named it.
    pub by: String,
    pub at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Approvals {
    /// Those of a MachineOSConfig.
    ///
    /// # Errors
    /// The annotation can't be read, so what was decided is unknown.
    pub fn of(config: &Metadata) -> Result<Self, AnnotationError> {
        let Some(text) = config.annotation(labels::APPROVALS) else {
            return Ok(Self::default());
        };
        let remedy = "remove the annotation, and decide again with `mosb approve` or `mosb reject`";
        let wrong = |cause: String| AnnotationError::new(labels::APPROVALS, text, cause, remedy);
        if text.len() > LIMIT {
            return Err(wrong(format!("more than {LIMIT} bytes")));
        }
        serde_json::from_str(text).map_err(|error| wrong(error.to_string()))
    }

    /// With this decision instead of an earlier one about the image, and without the oldest.
    #[must_use]
    pub fn with(&self, new: Approval) -> Self {
        let cut = |text: String, most| text.chars().take(most).collect::<String>();
        let digest = new.build.digest;
        let new = Approval {
            by: cut(new.by, MAX_USER),
            reason: new.reason.map(|reason| cut(reason, MAX_REASON)),
            ..new
        };
        let older = self.0.iter().filter(|old| old.build.digest != digest).cloned();
        Self(std::iter::once(new).chain(older).take(ENTRIES).collect())
    }

    /// The decision about an image.
    pub fn find(&self, digest: Digest) -> Option<&Approval> {
        self.0.iter().find(|one| one.build.digest == digest)
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("it is JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotation::tests::annotated as config;
    use k8s_openapi::jiff::Timestamp;

    fn approval(image: &str, approved: bool) -> Approval {
        Approval {
            build: PinnedBuild {
                name: "worker-0".to_owned(),
                digest: Digest::of(image.as_bytes()),
            },
            approved,
            by: "alice".to_owned(),
            at: Time(Timestamp::from_second(1).unwrap()),
            reason: None,
        }
    }

    #[test]
    fn images_come_into_service_by_themselves_by_default() {
        let of = |value: &str| Promote::of(&config(labels::PROMOTE, value));
        assert_eq!(Promote::of(&Metadata::default()), Ok(Promote::Automatic));
        assert_eq!((of("automatic"), of("manual")), (Ok(Promote::Automatic), Ok(Promote::Manual)));
        let error = of("Manual").unwrap_err().to_string();
        assert!(error.contains("set automatic or manual"), "{error}");
    }

    #[test]
    fn each_stage_reads_as_it_is_written() {
        for stage in Stage::ALL {
            assert_eq!(Stage::of(&config(labels::STAGE, stage.as_str())), Some(stage));
            assert_eq!(serde_json::to_value(stage).unwrap(), stage.as_str());
        }
        assert_eq!(Stage::of(&config(labels::STAGE, "new")), None);
    }

    #[test]
    fn newest_decision_about_an_image_counts() {
        let approvals = Approvals::default().with(approval("a", true)).with(approval("b", true));
        let approvals = approvals.with(approval("a", false));
        let of = |image: &str| approvals.find(Digest::of(image.as_bytes())).map(|one| one.approved);
        assert_eq!((of("a"), of("b"), of("c")), (Some(false), Some(true), None));
        let config = config(labels::APPROVALS, &approvals.to_json());
        assert_eq!(Approvals::of(&config), Ok(approvals));
    }

    #[test]
    fn longest_record_is_bounded_and_readable() {
        let mut approvals = Approvals::default();
        for number in 0..3 * ENTRIES {
            let long = |most: usize| "€".repeat(2 * most);
            approvals = approvals.with(Approval {
                by: long(MAX_USER),
                reason: Some(long(MAX_REASON)),
                ..approval(&number.to_string(), true)
            });
        }
        assert_eq!(approvals.0.len(), ENTRIES);
        let read = Approvals::of(&config(labels::APPROVALS, &approvals.to_json()));
        assert_eq!(read, Ok(approvals));
        for wrong in ["{}".to_owned(), "[1]".to_owned(), "[".repeat(LIMIT + 1)] {
            let error = Approvals::of(&config(labels::APPROVALS, &wrong)).unwrap_err().to_string();
            assert!(error.contains("decide again") && error.len() < 500, "{error}");
        }
    }
}
