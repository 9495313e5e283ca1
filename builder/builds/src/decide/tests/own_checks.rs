//! Own checks: their Jobs, what they found, and what is shown meanwhile.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::fake_cluster::*;
use super::promotion::verdict;
use super::rows::is_idle;
use super::server::owner_of;
use crate::*;
use mosb_api::image_checks::{CheckMode, CheckModes, CheckName, CheckOverrides, CheckRecord};
use mosb_api::promotion::Stage;
use mosb_api::*;
use mosb_cluster::status::{EventReason, IMAGE_CHECKED};
use mosb_image::PinnedRef;
use mosb_reconcile::waits::IMAGE_RECHECK;
use mosb_workload::Workload;

/// How the Job of a check ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckEnd {
    Passed,
    Failed,
    OverItsTime,
}

impl FakeCluster {
    /// The settings have this check.
    pub fn set_own_check(&mut self, name: &str, check: OwnCheck) {
        let settings = self.snapshot.cluster.checks.as_mut().unwrap();
        settings.own.insert(name.to_owned(), check);
        self.touch();
    }

    pub(super) fn create_check_job(&mut self, mut job: Job) {
        let name = job.metadata.name.clone().unwrap();
        let mut there = self.snapshot.check_jobs.iter();
        // The executor finds that it exists.
        if there.any(|seen| seen.workload.name() == name) {
            return;
        }
        job.metadata.uid = Some(format!("uid-{}", self.id()));
        job.metadata.resource_version = Some("1".to_owned());
        job.metadata.creation_timestamp = Some(Time(self.now));
        self.made_checks.push(name);
        let seen = SeenWorkload { workload: job.into(), pods: Vec::new(), quiet: Duration::MAX };
        self.snapshot.check_jobs.push(seen);
    }

    pub(super) fn check_job(&mut self, uid: &str) -> Option<&mut SeenWorkload> {
        self.snapshot.check_jobs.iter_mut().find(|seen| seen.workload.uid() == uid)
    }

    /// All Jobs of checks end like this.
    pub fn end_checks(&mut self, end: CheckEnd) {
        let mut jobs = std::mem::take(&mut self.snapshot.check_jobs);
        for seen in &mut jobs {
            let owner = owner_of(&seen.workload).name.clone();
            let image = self.find(&owner).and_then(|build| build.status.image());
            let image = image.expect("only an image is checked").to_owned();
            let key = (image, command_of(&seen.workload));
            self.ended_checks.insert(key, end == CheckEnd::Passed);
            end_job(seen, end);
        }
        self.snapshot.check_jobs = jobs;
    }

    /// Whether the own checks that keep an image out of service passed, or are overridden.
    pub(super) fn own_checks_passed(&self, image: &str) -> bool {
        let (Some(config), Some(settings)) = (&self.snapshot.config, &self.snapshot.cluster.checks)
        else {
            return false;
        };
        let Ok(image) = image.parse::<PinnedRef>() else {
            return true;
        };
        let modes = CheckModes::of(&config.metadata, settings);
        let (Ok(modes), Ok(overrides)) = (modes, CheckOverrides::of(&config.metadata)) else {
            return false;
        };
        settings.own.iter().filter(|(name, _)| modes.is_on(name)).all(|(name, check)| {
            match self.ended_checks.get(&(image.to_string(), check.command.clone())) {
                Some(true) => true,
                Some(false) => {
                    modes.get(name) == Some(CheckMode::Warn)
                        || overrides.covers(name, image.digest())
                }
                None => false,
            }
        })
    }

    fn stage_of_current(&self) -> Option<Stage> {
        Stage::of(&self.current().metadata)
    }

    fn checked(&self) -> Condition {
        let conditions = &self.snapshot.config.as_ref().unwrap().status.conditions;
        condition(conditions, IMAGE_CHECKED).expect("an image").clone()
    }

    fn record(&self) -> CheckRecord {
        let image: PinnedRef = self.current().status.image().unwrap().parse().unwrap();
        CheckRecord::of(&self.current().metadata, image.digest()).expect("a record")
    }
}

fn command_of(workload: &Workload) -> Vec<String> {
    let Workload::Job(job) = workload else { panic!("a Job") };
    let pod = job.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    pod.containers[0].command.clone().unwrap()
}

fn end_job(seen: &mut SeenWorkload, end: CheckEnd) {
    let (kind, reason, terminated) = match end {
        CheckEnd::Passed => ("Complete", "", json!({ "exitCode": 0 })),
        CheckEnd::Failed => (
            "Failed",
            "BackoffLimitExceeded",
            json!({ "exitCode": 3, "message": "looking\n\u{7}/usr has no OS\n" }),
        ),
        CheckEnd::OverItsTime => ("Failed", "DeadlineExceeded", Value::Null),
    };
    let Workload::Job(job) = &mut seen.workload else { panic!("a Job") };
    let condition = json!({ "type": kind, "status": "True", "reason": reason });
    job.status = serde_json::from_value(json!({ "conditions": [condition] })).unwrap();
    let pod = json!({
        "metadata": { "name": "p", "ownerReferences":
            [{ "apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": job.metadata.uid }] },
        "spec": { "containers": [{ "name": "lint" }] },
        "status": { "containerStatuses": [{ "name": "lint", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": { "terminated": terminated } }] },
    });
    // The Job controller deletes the pod of a Job that takes too long.
    seen.pods = match end {
        CheckEnd::OverItsTime => Vec::new(),
        CheckEnd::Passed | CheckEnd::Failed => vec![serde_json::from_value(pod).unwrap()],
    };
}

fn lint() -> OwnCheck {
    OwnCheck { command: vec!["lint".to_owned()], ..OwnCheck::default() }
}

/// A pool with an image in service, and a newer one whose own check runs; the images of both.
fn checking() -> (FakeCluster, String, String) {
    let mut fake = FakeCluster::built();
    let before = fake.image().to_owned();
    fake.set_own_check("lint", lint());
    let built = build_next(&mut fake);
    assert_eq!(fake.settle().reason.code(), "checking");
    (fake, before, built)
}

/// Builds another image, and does not end its own checks.
fn build_next(fake: &mut FakeCluster) -> String {
    fake.render(2);
    fake.settle();
    fake.run();
    fake.settle();
    fake.succeed();
    fake.settle();
    fake.current().status.image().expect("it is built").to_owned()
}

#[test]
fn own_check_runs_once_before_service() {
    let (mut fake, before, built) = checking();
    assert_eq!(fake.image(), before);
    assert_eq!(fake.stage_of_current(), Some(Stage::Checking));
    let checked = fake.checked();
    assert_eq!((&*checked.status, &*checked.reason), ("Unknown", "Checking"));
    assert!(checked.message.contains("lint: Job check-lint-"), "{checked:?}");
    assert_eq!(fake.event_count(EventReason::ImageHeld), 0);
    fake.asked.clear();
    is_idle(&mut fake);
    assert!(fake.asked.is_empty(), "the other checks are recorded");

    fake.end_checks(CheckEnd::Passed);
    assert_eq!(fake.settle().reason, PoolReason::UpToDate(built.clone()));
    assert_eq!(fake.image(), built);
    assert!(fake.snapshot.check_jobs.is_empty() && fake.made_checks.len() == 1);
    let uid = fake.current().metadata.uid().to_owned();
    assert!(fake.logs.contains(&(uid, 1)), "{:?}", fake.logs);
    is_idle(&mut fake);
}

#[test]
fn failed_own_check_keeps_image_out_until_overridden() {
    let (mut fake, before, built) = checking();
    fake.end_checks(CheckEnd::Failed);
    let decision = fake.settle();
    assert_eq!(decision.reason.code(), "checks-failed");
    let message = decision.reason.to_string();
    for part in ["exit code 3: looking / /usr has no OS; correct", "override-check=lint@sha256:"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(fake.image(), before);
    assert!(fake.snapshot.check_jobs.is_empty());

    // What it found stays.
    fake.wait(IMAGE_RECHECK.as_secs() as i64 + 1);
    assert_eq!(fake.settle().reason.code(), "checks-failed");
    assert_eq!(fake.made_checks.len(), 1);
    let image: PinnedRef = built.parse().unwrap();
    fake.annotate(labels::OVERRIDE_CHECK, &format!("lint@{}", image.digest()));
    fake.settle();
    assert_eq!(fake.image(), built);
    assert!(fake.record().results.iter().any(|result| result.overridden));
    is_idle(&mut fake);
}

#[test]
fn changed_own_check_runs_again() {
    let (mut fake, _, built) = checking();
    fake.end_checks(CheckEnd::Failed);
    fake.settle();
    let longer = OwnCheck { active_deadline_seconds: 700, ..lint() };
    fake.set_own_check("lint", longer);
    assert_eq!(fake.settle().reason.code(), "checking");
    // A change while it runs replaces the Job.
    fake.set_own_check("lint", OwnCheck { mode: CheckMode::Warn, ..lint() });
    fake.settle();
    assert_eq!((fake.snapshot.check_jobs.len(), fake.made_checks.len()), (1, 3));
    fake.end_checks(CheckEnd::Failed);
    fake.settle();
    assert_eq!(fake.image(), built, "it only warns");
    assert_eq!(fake.checked().reason, "Warnings");
}

#[test]
fn own_check_over_its_time_is_made_again() {
    let (mut fake, before, built) = checking();
    fake.end_checks(CheckEnd::OverItsTime);
    assert_eq!(fake.settle().reason.code(), "checks-failed");
    assert_eq!(fake.image(), before);
    let failed = fake.record();
    assert_eq!(failed.results.last().unwrap().code.as_deref(), Some("check-not-ended"));
    is_held_until_recheck(&mut fake);
    fake.wait(IMAGE_RECHECK.as_secs() as i64);
    assert_eq!(fake.settle().reason.code(), "checking");
    assert_eq!(fake.made_checks.len(), 2);
    fake.end_checks(CheckEnd::Passed);
    fake.settle();
    assert_eq!(fake.image(), built);
}

fn is_held_until_recheck(fake: &mut FakeCluster) {
    let decision = fake.decide();
    assert_eq!(decision.actions, []);
    assert!(decision.requeue_after.is_some_and(|left| left <= IMAGE_RECHECK));
}

#[test]
fn own_check_ends_the_same_after_any_kill() {
    for end in [CheckEnd::Passed, CheckEnd::Failed, CheckEnd::OverItsTime] {
        for most in 0..8 {
            let mut fake = FakeCluster::built();
            fake.set_own_check("lint", lint());
            fake.render(2);
            fake.settle();
            fake.run();
            fake.settle();
            fake.succeed();
            fake.round(most);
            fake.settle();
            fake.end_checks(end);
            fake.round(most);
            let reached = fake.settle().reason;
            let want = if end == CheckEnd::Passed { "up-to-date" } else { "checks-failed" };
            assert_eq!(reached.code(), want, "{end:?}, killed after {most}");
            assert_eq!(fake.made_checks.len(), 1, "{end:?}, killed after {most}");
            assert!(fake.snapshot.check_jobs.is_empty(), "{end:?}, killed after {most}");
        }
    }
}

#[test]
fn own_check_waits_for_the_other_checks() {
    let mut fake = FakeCluster::built();
    fake.set_own_check("lint", lint());
    fake.verdicts.insert(CheckName::Size, verdict(1));
    let built = build_next(&mut fake);
    assert_eq!(fake.settle().reason.code(), "checks-failed");
    assert!(fake.made_checks.is_empty());
    let image: PinnedRef = built.parse().unwrap();
    fake.annotate(labels::OVERRIDE_CHECK, &format!("size@{}", image.digest()));
    assert_eq!(fake.settle().reason.code(), "checking");
    fake.end_checks(CheckEnd::Passed);
    fake.settle();
    assert_eq!(fake.image(), built);
}

#[test]
fn own_check_that_nobody_needs_ends() {
    for what in ["off", "rejected", "replaced"] {
        let (mut fake, before, built) = checking();
        match what {
            "off" => fake.annotate(labels::CHECKS, "lint=off"),
            "rejected" => fake.decide_about(&built, false),
            _ => fake.render(1),
        }
        fake.touch();
        fake.settle();
        assert!(fake.snapshot.check_jobs.is_empty(), "{what}");
        let in_service = if what == "off" { &built } else { &before };
        assert_eq!(fake.image(), in_service, "{what}");
    }
}
