//! Fake machines: what is on them, how they boot, and what the commands of Jobs do on them.

use super::fleet::{arguments_of, keys_of};
use crate::*;
use mosb_api::rollout::*;
use mosb_api::{Metadata, labels};
use mosb_cluster::cluster_cache::SeenMachine;
use mosb_cluster::node_pool::may_run_etcd;
use mosb_image::Digest;
use std::collections::BTreeSet;

#[derive(Clone)]
pub struct FakeNode {
    pub pool: String,
    /// As the API has it, without Jobs and the record of its drain.
    pub machine: SeenMachine,
    pub booted: Digest,
    pub staged: Option<Digest>,
    /// Whether its policy had to accept what is staged.
    pub is_staged_verified: bool,
    /// Images that its policy does not accept.
    pub refuses: BTreeSet<Digest>,
    /// The image whose files `/etc` has.
    pub files: Digest,
    /// `apply --no-reboot` finds that files of another image need a reboot.
    pub takes_nothing_live: bool,
    pub boot: u32,
    /// How often its user space began anew in this boot.
    pub soft_boots: u64,
    /// bootc can boot what is staged and leave the kernel running.
    pub can_soft_reboot: bool,
    /// The reboot that has begun leaves the kernel running.
    pub is_soft: bool,
    /// Of the record of `apply`, and of what was completed last.
    pub asked_soft: Option<SoftReboot>,
    pub soft_reboot: Option<SoftReboot>,
    pub is_down: bool,
    /// Images whose finalizing fails.
    pub not_bootable: BTreeSet<Digest>,
    /// Images from which it falls back once it is in service again.
    pub falls_back: BTreeSet<Digest>,
    /// Images whose boot check brings it back at once, and the one that did last.
    pub goes_back: BTreeSet<Digest>,
    pub went_back: Option<WentBack>,
    /// It leaves what it runs if boots of it fail.
    pub is_unconfirmed: bool,
    /// The checks of a boot after the first one don't end.
    pub checks_nothing: bool,
    /// What it ran before the last reboot.
    pub ran_before: Digest,
    /// Its other deployment.
    pub rollback: Option<Digest>,
    pub is_lost: bool,
    /// `apply` ends with exit code 1.
    pub is_busy: bool,
    /// `report` ends with exit code 1.
    pub reports_nothing: bool,
    /// At the last record of its readiness.
    pub was_ready: bool,
    pub has_no_tool: bool,
    /// How many files of its image it hides.
    pub hidden_files: usize,
    /// Its `/boot` has no space for another kernel.
    pub is_boot_full: bool,
    /// A staged image can't be removed.
    pub holds_staged: bool,
    /// What each check of a policy selects on it.
    pub checked_pods: Vec<CheckedPod>,
    /// An administrator cordoned it.
    pub is_cordoned_by_hand: bool,
    pub is_finalized: bool,
    pub record: Option<(NodeTarget, u32, u32)>,
    /// What was completed last, and the part that was brought last.
    pub applied: Option<NodeTarget>,
    pub part: Option<Digest>,
    /// Kernel arguments of the booted and of the staged deployment.
    pub arguments: u32,
    pub staged_arguments: u32,
    /// `apply --no-reboot` ends with exit code 1.
    pub refuses_part: bool,
    pub pods: Vec<SeenPod>,
    /// Names of pods that a PodDisruptionBudget holds.
    pub held: BTreeSet<String>,
    /// Names of pods that come again when they have ended, and of pods that don't end.
    pub comes_back: BTreeSet<String>,
    pub never_end: BTreeSet<String>,
}

#[derive(Clone)]
pub struct FakeJob {
    pub node: String,
    pub seen: MachineJob,
    pub may_be_soft: bool,
    pub confirms: bool,
    /// It has changed the machine, and has not ended.
    pub has_changed: bool,
}

impl FakeNode {
    pub fn new(metadata: Metadata, pool: &str, booted: Digest) -> Self {
        let boot_id = "boot-0".to_owned();
        let machine = SeenMachine { metadata, boot_id, ready: true, ..SeenMachine::default() };
        let mut node = Self {
            pool: pool.to_owned(),
            machine,
            booted,
            staged: None,
            is_staged_verified: false,
            refuses: BTreeSet::new(),
            files: booted,
            takes_nothing_live: false,
            boot: 0,
            soft_boots: 0,
            can_soft_reboot: true,
            is_soft: false,
            asked_soft: None,
            soft_reboot: None,
            is_down: false,
            not_bootable: BTreeSet::new(),
            falls_back: BTreeSet::new(),
            goes_back: BTreeSet::new(),
            went_back: None,
            is_unconfirmed: false,
            checks_nothing: false,
            ran_before: booted,
            rollback: None,
            is_lost: false,
            is_busy: false,
            reports_nothing: false,
            was_ready: true,
            has_no_tool: false,
            hidden_files: 0,
            is_boot_full: false,
            holds_staged: false,
            checked_pods: Vec::new(),
            is_cordoned_by_hand: false,
            is_finalized: false,
            record: None,
            applied: None,
            part: None,
            arguments: 0,
            staged_arguments: 0,
            refuses_part: false,
            pods: Vec::new(),
            held: BTreeSet::new(),
            comes_back: BTreeSet::new(),
            never_end: BTreeSet::new(),
        };
        node.schedule_pods();
        node
    }

    /// Pods run on it again.
    pub fn schedule_pods(&mut self) {
        let pod = |name: &str| SeenPod {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
            ..SeenPod::default()
        };
        self.pods = vec![
            pod("app"),
            pod("db"),
            SeenPod { is_of_daemon_set: true, ..pod("agent") },
            SeenPod { is_mirror: true, ..pod("static") },
        ];
    }

    pub fn slot(&self) -> Option<Slot> {
        let text = self.machine.metadata.annotation(labels::NODE_SLOT)?;
        Some(serde_json::from_str(text).unwrap())
    }

    pub fn state(&self) -> &str {
        self.machine.metadata.annotation(labels::NODE_STATE).unwrap_or_default()
    }

    pub fn reason(&self) -> &str {
        self.machine.metadata.annotation(labels::NODE_REASON).unwrap_or_default()
    }

    pub fn is_control_plane(&self) -> bool {
        may_run_etcd(&self.machine.metadata.labels)
    }

    /// Whether pods are left that a drain evicts.
    pub fn is_drained(&self) -> bool {
        self.pods.iter().all(|pod| pod.stays() || pod.tolerates_cordon)
    }

    fn boot_id(&self) -> String {
        format!("boot-{}", self.boot)
    }

    pub fn report(&self) -> NodeReport {
        let deployment =
            |digest| Deployment { image: "reg.example/os".to_owned(), digest: Some(digest) };
        NodeReport {
            boot_id: self.boot_id(),
            user_space_since: self.soft_boots,
            soft_reboot: self.soft_reboot.clone(),
            tool: (!self.has_no_tool).then_some(NodeTool::Bootc),
            booted: Some(deployment(self.booted)),
            staged: self.staged.map(deployment),
            rollback: self.rollback.map(deployment),
            rollback_queued: false,
            applied: self.applied.clone(),
            live_incomplete: self.has_some_files(),
            boot_full: self.is_boot_full && self.staged.is_some(),
            attempted: self.record.as_ref().map(|(target, attempt, _)| AttemptedTarget {
                target: target.clone(),
                attempt: *attempt,
            }),
            unchecked: self.is_unchecked(),
            unconfirmed: self.is_unconfirmed,
            went_back: self.went_back.clone(),
            etc: Some(EtcReport {
                hidden: PathList { count: self.hidden_files, paths: Vec::new() },
                ..EtcReport::default()
            }),
            error: None,
        }
    }

    /// Whether the checks of this boot have not ended.
    pub fn is_unchecked(&self) -> bool {
        self.checks_nothing && self.boot > 0
    }

    /// Whether nothing of this image has to be pulled.
    pub fn has(&self, image: Digest) -> bool {
        self.booted == image || self.files == image && self.staged == Some(image)
    }

    /// Whether `apply --no-reboot` was killed while it wrote.
    fn has_some_files(&self) -> bool {
        self.files == some_of_both()
    }

    /// The machine goes down in order.
    pub fn reboot(&mut self) {
        if let Some(staged) = self.staged.take() {
            self.is_finalized = true;
            if !self.not_bootable.contains(&staged) {
                self.ran_before = self.booted;
                self.rollback = Some(self.booted);
                (self.booted, self.files) = (staged, staged);
                self.arguments = self.staged_arguments;
                self.is_unconfirmed = true;
            }
        }
        self.is_down = true;
        // A soft reboot may take less time than a Node needs to be not Ready.
        self.machine.ready = self.is_soft;
    }

    /// What is staged is lost.
    pub fn cut_power(&mut self) {
        self.staged = None;
        self.is_soft = false;
        self.is_finalized = false;
        self.is_down = true;
        self.machine.ready = false;
    }

    /// Somebody reboots it, and nothing is staged.
    pub fn boot_again(&mut self) {
        self.cut_power();
        self.boot_up();
    }

    /// Whether the report in its annotation is of this boot.
    pub fn has_current_report(&self) -> bool {
        let report = self.machine.metadata.annotation(labels::NODE_REPORT);
        let report = report.and_then(|text| NodeReport::parse(text).ok());
        report.is_some_and(|report| report.boot_id == self.boot_id())
    }

    /// Its health check goes back, some time after it is in service. Returns whether it rebooted.
    pub fn fall_back(&mut self) -> bool {
        let is_due = !self.is_down
            && self.slot().is_none()
            && self.ran_before != self.booted
            && self.falls_back.contains(&self.booted)
            && self.has_current_report();
        if is_due {
            self.go_back();
        }
        is_due
    }

    /// Its health check goes back at once.
    pub fn go_back(&mut self) {
        self.rollback = Some(self.booted);
        (self.booted, self.files) = (self.ran_before, self.ran_before);
        self.is_unconfirmed = false;
        self.boot_again();
    }

    /// It stops in the middle of whatever it does.
    pub fn go_away(&mut self) {
        (self.is_lost, self.is_down, self.machine.ready) = (true, true, false);
    }

    pub fn boot_up(&mut self) {
        if self.is_down && !self.is_lost {
            self.is_down = false;
            if self.goes_back.contains(&self.booted) {
                self.went_back = Some(WentBack::new(self.booted, "its check failed"));
                self.rollback = Some(self.booted);
                (self.booted, self.files) = (self.ran_before, self.ran_before);
                (self.boot, self.is_unconfirmed) = (self.boot + 2, false);
            }
            if std::mem::take(&mut self.is_soft) {
                self.soft_boots += 1;
            } else {
                (self.boot, self.soft_boots) = (self.boot + 1, 0);
            }
            self.machine.ready = true;
            self.machine.boot_id = self.boot_id();
        }
    }
}

fn some_of_both() -> Digest {
    Digest::of(b"some of both")
}

pub type JobResult = Result<(), (i32, &'static str)>;

impl FakeNode {
    /// The kernel arguments that it has with this target. One without a part leaves them.
    fn wanted_arguments(&self, target: &NodeTarget) -> u32 {
        target.machine_part.map_or(self.arguments, arguments_of)
    }

    /// It has all of this target.
    fn complete(&mut self, target: &NodeTarget) {
        self.part = target.machine_part.or(self.part);
        self.applied = Some(target.clone());
    }

    pub fn stage(&mut self, target: &NodeTarget, is_registry_down: bool) -> JobResult {
        let (digest, arguments) = (target.image.digest(), self.wanted_arguments(target));
        if self.booted == digest && self.arguments == arguments {
            if self.staged.is_some() {
                if self.holds_staged {
                    return Err((3, "still staged"));
                }
                self.staged = None;
            }
            let has_all = self.files == digest && target.machine_part.is_some();
            if has_all && keys_of(self.part) == keys_of(target.machine_part) {
                self.complete(target);
            }
            return Ok(());
        }
        // Its own image is on the machine.
        let is_verified = self.is_staged_verified || !target.verify;
        let has_image = self.booted == digest || self.staged == Some(digest) && is_verified;
        if is_registry_down && !has_image {
            return Err((1, "reg.example: no answer"));
        }
        if !has_image && target.verify && self.refuses.contains(&digest) {
            self.staged = self.staged.filter(|_| self.is_staged_verified);
            return Err((1, "refused by the policy.json of this machine"));
        }
        self.went_back = None;
        if !has_image {
            self.is_staged_verified = target.verify;
        }
        self.staged = Some(digest);
        self.staged_arguments = arguments;
        Ok(())
    }

    /// Follows the contract of `mosb node apply`; `None` if the machine reboots.
    pub fn apply(
        &mut self,
        target: &NodeTarget,
        attempt: u32,
        is_registry_down: bool,
        may_be_soft: bool,
    ) -> Option<JobResult> {
        if self.booted == target.image.digest() && self.arguments == self.wanted_arguments(target) {
            self.files = self.booted;
            self.complete(target);
            // The record becomes that of what it runs.
            if self.record.take().is_some() {
                self.soft_reboot = self.asked_soft.take();
            }
            return Some(Ok(()));
        }
        if let Some((recorded, number, boot)) = &self.record
            && (recorded, *number) == (target, attempt)
            && *boot != self.boot
        {
            let code = if self.is_finalized { (42, "finalizing failed") } else { (43, "power") };
            return Some(Err(code));
        }
        if self.is_busy {
            return Some(Err((1, "the tool is busy")));
        }
        if let Err(error) = self.stage(target, is_registry_down) {
            return Some(Err(error));
        }
        let was_tried =
            self.record.as_ref().is_some_and(|(of, number, boot)| {
                (of, *number, *boot) == (target, attempt, self.boot)
            }) && self.asked_soft == Some(SoftReboot::USED);
        self.is_soft = may_be_soft && self.can_soft_reboot && !was_tried;
        let asked = if self.is_soft { SoftReboot::USED } else { SoftReboot::not_used("it can't") };
        self.asked_soft = may_be_soft.then_some(asked);
        self.record = Some((target.clone(), attempt, self.boot));
        self.is_finalized = false;
        None
    }

    /// `mosb node apply --no-reboot`.
    pub fn apply_part(&mut self, target: &NodeTarget) -> JobResult {
        if self.refuses_part {
            // Some of the files are written.
            if self.files != target.image.digest() {
                self.files = some_of_both();
            }
            return Err((1, "no user core"));
        }
        let digest = target.image.digest();
        if self.booted != digest {
            let is_live = target.live_from == Some(self.booted) && self.staged == Some(digest);
            if !is_live || self.takes_nothing_live {
                return Err((45, "another image needs a reboot"));
            }
        }
        if self.arguments != self.wanted_arguments(target) {
            return Err((45, "the kernel arguments differ"));
        }
        self.files = digest;
        self.complete(target);
        Ok(())
    }
}
