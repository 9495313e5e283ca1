//! What a machine reports about itself: the termination message of the Jobs on it, and the
//! annotation `mosb.dev/node-report`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EtcReport, NodeTarget, WentBack};
use mosb_image::Digest;

/// The most bytes of a report: the kubelet keeps 4096 bytes of a termination message.
const LIMIT: usize = 4096;
/// The most characters of an error's message.
const MESSAGE: usize = 1024;

/// What a machine runs, observed on it. It counts for this machine only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// `/proc/sys/kernel/random/boot_id` of the machine.
    #[serde(rename = "bootID")]
    pub boot_id: String,
    /// When the user space began that runs, in microseconds since the kernel booted. A soft reboot keeps
    /// the boot ID, and begins another one. 0 if it is not known.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub user_space_since: u64,
    /// What changes the machine's image; none if it has neither.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<NodeTool>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub booted: Option<Deployment>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub staged: Option<Deployment>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rollback: Option<Deployment>,
    /// Whether the next reboot boots `rollback`, without anything staged.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub rollback_queued: bool,
    /// The last target that was completed here, with its machine part, from the record of the
    /// machine.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub applied: Option<NodeTarget>,
    /// How the machine rebooted into `applied`, if it was allowed to keep its kernel running.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub soft_reboot: Option<SoftReboot>,
    /// Whether the machine may have files, brought without a reboot, that are not those of `applied`: the
    /// command that writes them was killed, or another deployment with such files was booted.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub live_incomplete: bool,
    /// Whether `/boot` has too little space for the kernel of the staged image, beside those that are there: ostree
    /// then deletes what the machine may go back to before it writes it, or does not finalize it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub boot_full: bool,
    /// The last attempt that the machine rebooted for, from its record; none if it runs the target
    /// of that attempt.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attempted: Option<AttemptedTarget>,
    /// Whether the checks of this boot still run: until they end, the machine may leave what it booted.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub unchecked: bool,
    /// Whether the machine leaves what it booted by itself if later boots of it fail.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub unconfirmed: bool,
    /// The image that the machine left by itself; none once another one is staged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub went_back: Option<WentBack>,
    /// Its `/etc`; none if it could not be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub etc: Option<EtcReport>,
    /// Why the command failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ReportError>,
}

/// What became of a soft reboot that was allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NodeSoftReboot")]
pub struct SoftReboot {
    /// Whether the machine rebooted its user space alone.
    pub used: bool,
    /// Why its kernel booted too.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
}

impl SoftReboot {
    pub const USED: Self = Self { used: true, cause: None };
    /// The most characters of a cause: a report has little space.
    const CAUSE: usize = 300;

    pub fn not_used(cause: &str) -> Self {
        Self { used: false, cause: Some(cause.chars().take(Self::CAUSE).collect()) }
    }
}

impl fmt::Display for SoftReboot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            _ if self.used => f.write_str("soft reboot"),
            Some(cause) => write!(f, "no soft reboot: {cause}"),
            None => f.write_str("no soft reboot"),
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A target that a machine rebooted for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptedTarget {
    pub target: NodeTarget,
    /// From 1.
    pub attempt: u32,
}

/// A deployment of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NodeDeployment")]
pub struct Deployment {
    /// The image as the tool spells it; empty for a deployment of another origin.
    #[serde(default)]
    #[schemars(!default, description = "The image, or the ref of a deployment that is not an image.")]
    pub image: String,
    /// Digest of the manifest; none for a deployment that is not an image or has more than one, and for
    /// one that is staged and that no reboot boots.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "Option<String>", description = "Digest of the image's manifest.")]
    pub digest: Option<Digest>,
}

/// What changes the machine's image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeTool {
    Bootc,
    RpmOstree,
}

impl fmt::Display for NodeTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bootc => "bootc",
            Self::RpmOstree => "rpm-ostree",
        })
    }
}

/// Why a command on a machine failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NodeError")]
pub struct ReportError {
    /// For scripts.
    pub code: String,
    /// For people.
    pub message: String,
}

/// The exit codes of `mosb node` that decide what happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// The machine booted another image than the target, which was finalized or fell back: another
    /// try ends the same.
    WrongImage = 42,
    /// The machine rebooted, and the staged image was lost before it was finalized (a power cut
    /// looks like this): another attempt may succeed.
    NotFinalized = 43,
    /// The machine has no tool that changes its image.
    Unreconcilable = 44,
    /// What was asked for without a reboot needs one; nothing was changed.
    NeedsReboot = 45,
}

impl ExitCode {
    pub const ALL: [Self; 4] =
        [Self::WrongImage, Self::NotFinalized, Self::Unreconcilable, Self::NeedsReboot];

    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as i32 == code)
    }
}

impl NodeReport {
    /// Reads a termination message or an annotation.
    ///
    /// # Errors
    /// It is too long, or no report.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LIMIT {
            return Err(format!("a report of {} bytes; at most {LIMIT} are read", text.len()));
        }
        serde_json::from_str(text).map_err(|error| format!("no report: {error}"))
    }

    /// Identifies the boot of the kernel, and in it the user space: a later one has a higher number.
    pub fn user_space(&self) -> (&str, u64) {
        (&self.boot_id, self.user_space_since)
    }

    /// The target whose files the machine has while it runs another image: they came without a
    /// reboot. None if it may have only some of them.
    pub fn live(&self) -> Option<&NodeTarget> {
        let booted = self.booted.as_ref().filter(|_| !self.live_incomplete)?.digest?;
        let applied = self.applied.as_ref()?;
        (applied.live_from == Some(booted) && applied.image.digest() != booted).then_some(applied)
    }

    /// The digest of the image that the machine has: the one that it booted, or the one whose files it
    /// has if its next boot boots that one. None if the next boot would take such files away again, or
    /// if it may have only some of them.
    pub fn effective_image(&self) -> Option<Digest> {
        let digest = |one: &Option<Deployment>| one.as_ref().and_then(|one| one.digest);
        match self.live() {
            _ if self.live_incomplete => None,
            Some(live) => digest(&self.staged).filter(|staged| *staged == live.image.digest()),
            None => digest(&self.booted),
        }
    }

    /// Whether the machine has this target.
    pub fn has(&self, target: &NodeTarget) -> bool {
        let part = self.applied.as_ref().and_then(|applied| applied.machine_part);
        self.effective_image() == Some(target.image.digest()) && target.accepts_part(part)
    }

    /// Whether the next reboot boots another image than the booted one, or a rollback.
    pub fn boots_other_next(&self) -> bool {
        let digest = |one: &Option<Deployment>| one.as_ref().and_then(|one| one.digest);
        let is_other_staged = self.staged.is_some()
            && (digest(&self.staged).is_none() || digest(&self.staged) != digest(&self.booted));
        is_other_staged || self.rollback_queued
    }

    /// One line of JSON that [`parse`](Self::parse) takes.
    pub fn to_json(&self) -> String {
        let mut report = self.clone();
        if let Some(error) = &mut report.error {
            error.message = error.message.chars().take(MESSAGE).collect();
        }
        let text = |report: &Self| serde_json::to_string(report).expect("a report is JSON");
        if text(&report).len() > LIMIT
            && let Some(etc) = &mut report.etc
        {
            etc.remove_paths();
        }
        if text(&report).len() > LIMIT {
            // Names of images are only for people; what decides are the digests.
            let deployments = [&mut report.booted, &mut report.staged, &mut report.rollback];
            deployments.into_iter().flatten().for_each(|one| one.image.clear());
            if let Some(soft) = &mut report.soft_reboot {
                soft.cause = None;
            }
            if let Some(went_back) = &mut report.went_back {
                went_back.cause = went_back.cause.chars().take(WentBack::CAUSE / 5).collect();
            }
            if let Some(error) = &mut report.error {
                error.message = error.message.chars().take(MESSAGE / 8).collect();
            }
        }
        text(&report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::PathList;

    #[test]
    fn report_fits_a_termination_message_whatever_it_contains() {
        let deployment =
            || Some(Deployment { image: "\u{1}".repeat(5000), digest: Some(Digest::of(b"image")) });
        let report = NodeReport {
            boot_id: "b0".to_owned(),
            user_space_since: u64::MAX,
            soft_reboot: Some(SoftReboot::not_used(&"\u{1}".repeat(9000))),
            tool: Some(NodeTool::RpmOstree),
            booted: deployment(),
            staged: deployment(),
            rollback: deployment(),
            rollback_queued: true,
            applied: None,
            live_incomplete: true,
            boot_full: true,
            attempted: None,
            unchecked: true,
            unconfirmed: true,
            went_back: Some(WentBack::new(Digest::of(b"image"), &"\u{fffd}".repeat(9000))),
            etc: Some(EtcReport {
                hidden: PathList { count: 9, paths: vec!["\u{1}".repeat(5000)] },
                ..EtcReport::default()
            }),
            error: Some(ReportError { code: "io".to_owned(), message: "\u{1}".repeat(9000) }),
        };
        let text = report.to_json();
        assert!(text.len() <= LIMIT, "{}", text.len());
        let read = NodeReport::parse(&text).unwrap();
        assert_eq!(read.booted.unwrap().digest, Some(Digest::of(b"image")));
        assert_eq!(read.etc.unwrap().hidden, PathList { count: 9, paths: Vec::new() });
        assert!(NodeReport::parse(&" ".repeat(LIMIT + 1)).is_err());
    }

    #[test]
    fn machine_has_booted_part_or_staged_live_part() {
        let image = |name: &str| format!("reg.example/os@{}", Digest::of(name.as_bytes()));
        let target = |name: &str, from: &str, part: &str| NodeTarget {
            image: image(name).parse().unwrap(),
            config: None,
            machine_part: (!part.is_empty()).then(|| Digest::of(part.as_bytes())),
            live_from: (!from.is_empty()).then(|| Digest::of(from.as_bytes())),
            verify: false,
        };
        let deployment = |name: &str| {
            let digest = Some(Digest::of(name.as_bytes()));
            (!name.is_empty()).then(|| Deployment { image: image(name), digest })
        };
        let b = || target("b", "a", "");
        for (booted, staged, applied, what, has) in [
            ("a", "", None, "nothing was brought", "a"),
            ("a", "b", None, "it is only staged", "a"),
            ("a", "b", Some(target("a", "", "")), "another one was brought", "a"),
            ("a", "b", Some(b()), "live", "b"),
            ("a", "", Some(b()), "live, and a power cut lost what was staged", ""),
            ("a", "c", Some(b()), "live, and another one is staged", ""),
            ("b", "", Some(b()), "it has rebooted since", "b"),
            ("c", "b", Some(b()), "somebody booted another one", "c"),
            ("b", "a", Some(target("a", "b", "")), "live, and back", "a"),
            ("a", "", Some(target("a", "b", "")), "back at what it booted", "a"),
            ("a", "b", Some(target("b", "", "")), "not live", "a"),
        ] {
            let report = NodeReport {
                booted: deployment(booted),
                staged: deployment(staged),
                applied,
                ..NodeReport::default()
            };
            for name in ["a", "b", "c"] {
                assert_eq!(report.has(&target(name, "", "")), name == has, "{what}: {name}");
            }
            assert!(!report.has(&target(has, "", "keys")), "{what}");
            let killed = NodeReport { live_incomplete: true, ..report };
            assert_eq!((killed.effective_image(), killed.live()), (None, None), "{what}");
        }
        let report = NodeReport {
            booted: deployment("a"),
            staged: deployment("b"),
            applied: Some(target("b", "a", "keys")),
            ..NodeReport::default()
        };
        assert!(report.has(&target("b", "a", "keys")) && report.has(&b()));
        assert!(!report.has(&target("b", "a", "others")));
        assert!(!NodeReport::default().has(&b()));
    }

    #[test]
    fn what_boots_next_is_staged_or_queued_rollback() {
        let of = |name: &str| {
            let digest = Some(Digest::of(name.as_bytes()));
            (!name.is_empty()).then(|| Deployment { image: "reg.example/os".to_owned(), digest })
        };
        for (booted, staged, rollback_queued, want) in [
            ("a", "", false, false),
            ("a", "a", false, false),
            ("a", "b", false, true),
            ("a", "", true, true),
        ] {
            let (booted, staged) = (of(booted), of(staged));
            let report = NodeReport { booted, staged, rollback_queued, ..NodeReport::default() };
            assert_eq!(report.boots_other_next(), want, "{}", report.to_json());
            assert_eq!(NodeReport::parse(&report.to_json()), Ok(report));
        }
    }

    #[test]
    fn later_field_is_ignored_and_missing_boot_rejected() {
        let report = NodeReport::parse(r#"{"bootID":"b0","tool":"bootc","later":1}"#).unwrap();
        assert_eq!((report.boot_id.as_str(), report.tool), ("b0", Some(NodeTool::Bootc)));
        assert!(!report.live_incomplete && !report.to_json().contains("live"));
        assert_eq!(report.attempted, None);
        assert!(NodeReport::parse(r#"{"tool":"bootc"}"#).is_err());
    }
}
