//! What keeps the image of a build out of service. Pure.
//!
//! Invariant: an image that no person rejected, and that is or was in service, passes; any other one
//! passes only if nothing that its MachineOSConfig asks for is missing. What can't be read keeps it out.

use mosb_api::image_checks::{CheckOverrides, CheckRecord, CheckResult};
use mosb_api::promotion::{Approval, Approvals, Promote, Stage};
use mosb_api::rollout::PinnedBuild;
use mosb_api::{AnnotationError, MachineOsBuild, MachineOsConfig};
use mosb_image::PinnedRef;

/// Whether the image of a build may be in service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// It is in service.
    InService,
    Open,
    /// Its checks are outstanding.
    NotChecked,
    /// These own checks have not ended.
    Checking(Vec<String>),
    /// What these checks found keeps it out.
    ChecksFailed(Vec<CheckResult>),
    AwaitingApproval,
    Rejected(Approval),
    /// An annotation can't be read: why, and what to do.
    Invalid(String),
}

impl Gate {
    /// The reasons of the condition `ImageInService` while an image is kept out of service.
    pub const HELD: [&'static str; 6] = [
        "NotChecked",
        "Checking",
        "ChecksFailed",
        "AwaitingApproval",
        "ImageRejected",
        "BadPromotion",
    ];

    /// Of a build with this image, `host/repository@sha256:…`, and the checks that are recorded.
    pub fn recorded(config: &MachineOsConfig, build: &MachineOsBuild, image: &str) -> Self {
        let digest = image.parse().ok().map(|image: PinnedRef| image.digest());
        let checks = digest.and_then(|digest| CheckRecord::of(&build.metadata, digest));
        Self::of(config, build, image, checks.as_ref())
    }

    /// Of a build with this image and these results of its checks.
    pub fn of(
        config: &MachineOsConfig,
        build: &MachineOsBuild,
        image: &str,
        checks: Option<&CheckRecord>,
    ) -> Self {
        // An image stays in service until there is another one, whatever is decided about it.
        if config.status.current_image_pull_spec == image {
            return Self::InService;
        }
        let image: PinnedRef = match image.parse() {
            Ok(image) => image,
            Err(error) => return Self::Invalid(format!("{image}: {error}; rebuild the pool")),
        };
        let metadata = &config.metadata;
        let read = || -> Result<_, AnnotationError> {
            let promote = Promote::of(metadata)?;
            Ok((promote, Approvals::of(metadata)?, CheckOverrides::of(metadata)?))
        };
        let (promote, approvals, overrides) = match read() {
            Ok(read) => read,
            Err(error) => return Self::Invalid(error.to_string()),
        };
        let approval = approvals.find(image.digest());
        if let Some(rejected) = approval.filter(|approval| !approval.approved) {
            return Self::Rejected(rejected.clone());
        }
        if Stage::of(&build.metadata).is_some_and(Stage::is_served) {
            return Self::Open;
        }
        let Some(checks) = checks else {
            return Self::NotChecked;
        };
        let blocking: Vec<CheckResult> = checks.blocking(&overrides).cloned().collect();
        if !blocking.is_empty() {
            return Self::ChecksFailed(blocking);
        }
        let outstanding: Vec<String> =
            checks.outstanding().map(|result| result.check.clone()).collect();
        if !outstanding.is_empty() {
            return Self::Checking(outstanding);
        }
        match promote {
            Promote::Manual if approval.is_none() => Self::AwaitingApproval,
            Promote::Manual | Promote::Automatic => Self::Open,
        }
    }

    pub fn is_open(&self) -> bool {
        match self {
            Self::InService | Self::Open => true,
            Self::NotChecked
            | Self::Checking(_)
            | Self::ChecksFailed(_)
            | Self::AwaitingApproval
            | Self::Rejected(_)
            | Self::Invalid(_) => false,
        }
    }

    /// The stage of the build; none while the image comes into service.
    pub fn stage(&self) -> Option<Stage> {
        match self {
            Self::Open => None,
            Self::InService => Some(Stage::InService),
            Self::Checking(_) => Some(Stage::Checking),
            Self::AwaitingApproval => Some(Stage::Checked),
            Self::Rejected(_) => Some(Stage::Rejected),
            Self::NotChecked | Self::ChecksFailed(_) | Self::Invalid(_) => Some(Stage::Built),
        }
    }

    /// The code for scripts; the reason of the condition is the same in CamelCase.
    pub fn word(&self) -> &'static str {
        match self {
            Self::InService | Self::Open => "in-service",
            Self::NotChecked => "not-checked",
            Self::Checking(_) => "checking",
            Self::ChecksFailed(_) => "checks-failed",
            Self::AwaitingApproval => "awaiting-approval",
            Self::Rejected(_) => "image-rejected",
            Self::Invalid(_) => "bad-promotion",
        }
    }

    /// What keeps the image out of service, and what to do.
    pub fn message(&self, pool: &str, build: &PinnedBuild) -> String {
        match self {
            Self::InService | Self::Open => build.to_string(),
            Self::NotChecked => format!("{build} is built, and its checks are outstanding"),
            Self::Checking(checks) => {
                format!("{build} is built, and its checks have not ended: {}", checks.join(", "))
            }
            Self::ChecksFailed(failed) => {
                let all = failed.iter().map(|one| format!("check {}: {}", one.check, one.message));
                let overrides = failed.iter().map(|one| format!("{}@{}", one.check, build.digest));
                format!(
                    "{build}: {}; to use it nevertheless, annotate the MachineOSConfig with mosb.dev/override-check={}",
                    all.collect::<Vec<_>>().join("; "),
                    overrides.collect::<Vec<_>>().join(",")
                )
            }
            Self::AwaitingApproval => format!(
                "{build} awaits approval: mosb approve {pool} {build}, or mosb reject {pool} {build}"
            ),
            Self::Rejected(Approval { by, at, reason, .. }) => {
                let why = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
                format!(
                    "{build} was rejected by {by} at {}{why}; change the config, or mosb approve {pool} {build}",
                    at.0
                )
            }
            Self::Invalid(cause) => format!("{build}: {cause}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::camel_case;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;
    use mosb_api::image_checks::{CheckMode, CheckVerdict};
    use mosb_api::labels;
    use mosb_image::Digest;

    fn image() -> PinnedRef {
        format!("reg.example/os@{}", Digest::of(b"image")).parse().unwrap()
    }

    fn pin() -> PinnedBuild {
        PinnedBuild { name: "worker-0".to_owned(), digest: image().digest() }
    }

    fn decided(approved: bool) -> String {
        let approval = Approval {
            build: pin(),
            approved,
            by: "alice".to_owned(),
            at: Time(Timestamp::from_second(1).unwrap()),
            reason: Some("it crashes".to_owned()),
        };
        Approvals::default().with(approval).to_json()
    }

    /// What a check with this mode found.
    fn checked(verdict: CheckVerdict, mode: CheckMode) -> String {
        let result = CheckResult {
            check: "size".to_owned(),
            verdict,
            code: Some("too-large".to_owned()),
            message: "9 MiB; make it smaller".to_owned(),
            mode,
            overridden: false,
            job: None,
        };
        let at = Time(Timestamp::from_second(1).unwrap());
        CheckRecord::new(image().digest(), String::new(), at, vec![result]).to_json()
    }

    /// The gate with these annotations on the MachineOSConfig, and this stage of the build, whose
    /// image passed its checks.
    fn gate(annotations: &[(&str, &str)], stage: &str) -> Gate {
        let mut config = MachineOsConfig::default();
        let set = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        config.metadata.annotations.extend(set);
        let mut build = MachineOsBuild::default();
        build.metadata.annotations.insert(labels::STAGE.to_owned(), stage.to_owned());
        let passed = checked(CheckVerdict::Passed, CheckMode::Block);
        build.metadata.annotations.insert(labels::CHECKED.to_owned(), passed);
        Gate::recorded(&config, &build, &image().to_string())
    }

    #[test]
    fn failed_check_keeps_image_out_until_overridden() {
        use CheckMode::{Block, Warn};
        use CheckVerdict::{Failed, Outstanding, Passed, Unknown};
        let mut config = MachineOsConfig::default();
        let mut build = MachineOsBuild::default();
        let image = image().to_string();
        assert_eq!(Gate::recorded(&config, &build, &image), Gate::NotChecked);
        for (verdict, mode, want) in [
            (Passed, Block, "in-service"),
            (Failed, Warn, "in-service"),
            (Unknown, Block, "in-service"),
            (Outstanding, Block, "checking"),
            (Outstanding, Warn, "checking"),
            (Failed, Block, "checks-failed"),
        ] {
            let record = checked(verdict, mode);
            build.metadata.annotations.insert(labels::CHECKED.to_owned(), record);
            let gate = Gate::recorded(&config, &build, &image);
            assert_eq!(gate.word(), want, "{verdict:?} {mode:?}");
            let reason = camel_case(gate.word());
            assert_eq!(Gate::HELD.contains(&&*reason), !gate.is_open(), "{verdict:?} {mode:?}");
        }
        let message = Gate::recorded(&config, &build, &image).message("worker", &pin());
        let overrides = format!("size@{}", pin().digest);
        assert!(message.contains("make it smaller"), "{message}");
        assert!(message.contains(&format!("mosb.dev/override-check={overrides}")), "{message}");
        config.metadata.annotations.insert(labels::OVERRIDE_CHECK.to_owned(), overrides);
        assert_eq!(Gate::recorded(&config, &build, &image), Gate::Open);
        config.metadata.annotations.insert(labels::PROMOTE.to_owned(), "manual".to_owned());
        assert_eq!(Gate::recorded(&config, &build, &image), Gate::AwaitingApproval);
    }

    #[test]
    fn image_needs_what_its_config_asks_for() {
        let manual = (labels::PROMOTE, "manual");
        let (yes, no) = (decided(true), decided(false));
        let (approved, rejected) = ((labels::APPROVALS, &*yes), (labels::APPROVALS, &*no));
        for (what, annotations, stage, want) in [
            ("automatic", &[][..], "", "in-service"),
            ("manual", &[manual], "", "awaiting-approval"),
            ("approved", &[manual, approved], "", "in-service"),
            ("was in service", &[manual], "replaced", "in-service"),
            ("was checked", &[manual], "checked", "awaiting-approval"),
            ("rejected", &[rejected], "", "image-rejected"),
            ("rejected after it was in service", &[rejected], "replaced", "image-rejected"),
            ("bad mode", &[(labels::PROMOTE, "never")], "", "bad-promotion"),
            ("bad decisions", &[(labels::APPROVALS, "{")], "", "bad-promotion"),
            ("bad overrides", &[(labels::OVERRIDE_CHECK, "size")], "", "bad-promotion"),
        ] {
            let gate = gate(annotations, stage);
            assert_eq!(gate.word(), want, "{what}");
            let reason = camel_case(gate.word());
            assert_eq!(Gate::HELD.contains(&&*reason), !gate.is_open(), "{what}");
            assert_eq!(gate.is_open(), want == "in-service", "{what}");
        }
        let message = gate(&[rejected], "").message("worker", &pin());
        for part in ["rejected by alice", "it crashes", "mosb approve worker worker-0@sha256:"] {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn image_in_service_stays_whatever_is_decided() {
        let mut config = MachineOsConfig::default();
        config.status.current_image_pull_spec = image().to_string();
        let set = [(labels::PROMOTE, "manual".to_owned()), (labels::APPROVALS, decided(false))];
        config.metadata.annotations.extend(set.map(|(key, value)| (key.to_owned(), value)));
        let gate = Gate::recorded(&config, &MachineOsBuild::default(), &image().to_string());
        assert_eq!(gate, Gate::InService);
    }
}
