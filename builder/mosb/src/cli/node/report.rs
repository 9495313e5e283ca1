//! What a machine reports about itself.

use schemars::JsonSchema;
use serde::Serialize;

use mosb_api::rollout::{
    self, AttemptedTarget, Deployment, EtcReport, NodeReport, NodeTarget, NodeTool, ReportError,
    SoftReboot, WentBack,
};
use mosb_commands::output::Object;
use mosb_commands::page::Page;

/// What a machine runs, has staged and may go back to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineReport {
    /// The boot that this was observed in.
    #[serde(rename = "bootID")]
    pub boot_id: String,
    /// `bootc` or `rpm-ostree`; absent if the machine has neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub tool: Option<NodeTool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub booted: Option<Deployment>,
    /// What the next reboot applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged: Option<Deployment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Deployment>,
    /// Whether the next reboot boots `rollback`; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub rollback_queued: bool,
    /// The last target that was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied: Option<NodeTarget>,
    /// How it rebooted into `applied`; absent if a soft reboot was not allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft_reboot: Option<SoftReboot>,
    /// Whether it may have some files only of an image that it did not boot; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub live_incomplete: bool,
    /// Whether `/boot` has too little space for the kernel of the staged image, beside those that are there;
    /// absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub boot_full: bool,
    /// The last target that the machine rebooted for and does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempted: Option<AttemptedTarget>,
    /// Whether the checks of this boot still run; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub unchecked: bool,
    /// Whether the machine leaves what it booted by itself if later boots of it fail; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub unconfirmed: bool,
    /// The image that the machine left by itself, until another one is staged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub went_back: Option<WentBack>,
    /// Its `/etc`; absent if it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etc: Option<NodeEtc>,
    /// Why the command failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ReportError>,
}

impl From<NodeReport> for MachineReport {
    fn from(report: NodeReport) -> Self {
        Self {
            boot_id: report.boot_id,
            tool: report.tool,
            booted: report.booted,
            staged: report.staged,
            rollback: report.rollback,
            rollback_queued: report.rollback_queued,
            applied: report.applied,
            soft_reboot: report.soft_reboot,
            live_incomplete: report.live_incomplete,
            boot_full: report.boot_full,
            attempted: report.attempted,
            unchecked: report.unchecked,
            unconfirmed: report.unconfirmed,
            went_back: report.went_back,
            etc: report.etc.as_ref().map(NodeEtc::from),
            error: report.error,
        }
    }
}

/// The `/etc` of a machine beside that of its image, and beside what its first config wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEtc {
    /// Paths of the booted image that the machine hides.
    pub hidden: PathList,
    /// Paths that are still as the config left them, and are not the image's; absent if the machine
    /// has no record of its config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adoptable: Option<PathList>,
    /// Paths of the config that were changed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<PathList>,
    /// Whether the next image brings those that can be adopted.
    pub adopted: bool,
}

/// How many paths there are, and the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathList {
    pub count: usize,
    /// At most 16; `mosb node drift` and `mosb node adopt` on the machine list all.
    pub paths: Vec<String>,
}

impl From<&EtcReport> for NodeEtc {
    fn from(report: &EtcReport) -> Self {
        let list =
            |list: &rollout::PathList| PathList { count: list.count, paths: list.paths.clone() };
        Self {
            hidden: list(&report.hidden),
            adoptable: report.adoptable.as_ref().map(list),
            kept: report.kept.as_ref().map(list),
            adopted: report.adopted,
        }
    }
}

impl Object for MachineReport {
    const KIND: &'static str = "NodeReport";

    fn text(&self) -> String {
        let mut page = Page::default();
        if self.boot_id.is_empty() {
            // Nothing could be observed; stderr has the reason.
            return page.into_text();
        }
        let tool = self.tool.map(|tool| tool.to_string());
        let tool = tool.as_deref().unwrap_or("neither bootc nor rpm-ostree");
        page.line(&format!("boot {}, {tool}", self.boot_id));
        let [booted, staged, rollback] =
            [&self.booted, &self.staged, &self.rollback].map(|one| one.as_ref().map(described));
        let attempted = self.attempted.as_ref();
        let attempted =
            attempted.map(|last| format!("{}, attempt {}", last.target.image, last.attempt));
        let applied = self.applied.as_ref().map(|target| target.image.to_string());
        let soft_reboot = self.soft_reboot.as_ref().map(ToString::to_string);
        let went_back =
            self.went_back.as_ref().map(|left| format!("from {}: {}", left.image, left.cause));
        page.pairs(&[
            ("booted", booted.as_deref()),
            ("staged", staged.as_deref()),
            ("rollback", rollback.as_deref()),
            ("next boot", self.rollback_queued.then_some("the rollback")),
            ("applied", applied.as_deref()),
            ("rebooted", soft_reboot.as_deref()),
            ("live", self.live_incomplete.then_some("incomplete: some files of another image")),
            ("/boot", self.boot_full.then_some("no space for the staged kernel beside the others")),
            ("attempted", attempted.as_deref()),
            ("checks", self.unchecked.then_some("not ended in this boot")),
            ("confirmed", self.unconfirmed.then_some("no: it goes back by itself if boots fail")),
            ("went back", went_back.as_deref()),
        ]);
        page.into_text()
    }
}

/// The image with its digest once.
fn described(deployment: &Deployment) -> String {
    let name = match &*deployment.image {
        "" => "no image",
        name => name,
    };
    match &deployment.digest {
        Some(digest) if !name.contains(&digest.to_string()) => format!("{name} ({digest})"),
        _ => name.to_owned(),
    }
}
