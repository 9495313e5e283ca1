//! Between a build and its service: approval, rejection, and what is shown meanwhile.

use super::fake_cluster::*;
use super::fake_seed::*;
use super::rows::is_idle;
use crate::*;
use mosb_api::image_checks::{CheckName, CheckRecord};
use mosb_api::promotion::{Approval, Approvals, Stage};
use mosb_api::rollout::PinnedBuild;
use mosb_api::*;
use mosb_cluster::status::{EventReason, IMAGE_CHECKED, IMAGE_IN_SERVICE};
use mosb_image::{Digest, PinnedRef};
use mosb_plan::image_checks::{CheckFailure, Verdict};
use mosb_reconcile::waits::IMAGE_RECHECK;
use mosb_types::ErrorClass;
use mosb_workload::BuildNodes;

/// What a check finds: it passes, fails, or does not know.
pub fn verdict(what: u8) -> Verdict {
    let text = |text: &str| text.to_owned();
    match what {
        0 => Verdict::Passed(text("as it must be")),
        1 => Verdict::Failed(CheckFailure {
            code: "too-large",
            message: text("9 MiB, and the limit is 8 MiB"),
            remedy: text("make it smaller"),
        }),
        _ => Verdict::Unknown(text("the registry does not say")),
    }
}

impl FakeCluster {
    /// A person decides about an image.
    pub fn decide_about(&mut self, image: &str, approved: bool) {
        let image: PinnedRef = image.parse().unwrap();
        let metadata = &self.snapshot.config.as_ref().unwrap().metadata;
        let approval = Approval {
            build: PinnedBuild { name: "worker-0".to_owned(), digest: image.digest() },
            approved,
            by: "alice".to_owned(),
            at: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now),
            reason: None,
        };
        let approvals = Approvals::of(metadata).unwrap_or_default().with(approval);
        self.annotate(labels::APPROVALS, &approvals.to_json());
    }

    fn stage(&self, build: &str) -> Option<Stage> {
        Stage::of(&self.find(build).expect("it is there").metadata)
    }

    fn in_service(&self) -> (String, String) {
        self.condition(IMAGE_IN_SERVICE)
    }

    fn condition(&self, kind: &str) -> (String, String) {
        let conditions = &self.snapshot.config.as_ref().unwrap().status.conditions;
        let found = condition(conditions, kind).expect("an image");
        (found.status.clone(), found.reason.clone())
    }

    fn is_in_service(&self, image: &str) -> bool {
        let pool = self.snapshot.pool.as_ref().unwrap();
        let newest = pool.metadata.annotation(labels::NEWEST_IMAGE_EQUIVALENT_CONFIG);
        assert_eq!(newest.unwrap_or_default(), self.image(), "the pool agrees");
        self.image() == image
    }
}

fn words(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// A pool with an image in service, and a newer one that awaits approval; the images of both.
fn awaiting_approval() -> (FakeCluster, String, String) {
    let mut fake = FakeCluster::built();
    let before = fake.image().to_owned();
    fake.annotate(labels::PROMOTE, "manual");
    fake.render(2);
    assert_eq!(fake.build().reason.code(), "awaiting-approval");
    let built = fake.current().status.image().expect("it is built").to_owned();
    (fake, before, built)
}

/// A pod reports its prepared base, and the build records that only when it ends.
#[test]
fn checks_know_a_base_before_it_is_recorded() {
    let mut fake = FakeCluster::opted_in();
    fake.containerfile("FROM base\nRUN true");
    let inputs = Digest::of(b"what is run");
    fake.prepared = Some(inputs);
    fake.build();
    let push = "quay.io/acme/os".parse().unwrap();
    let key = PreparedBaseKey::new(&push, None, &BuildNodes::Any, &inputs);
    let base = fake.snapshot.cluster.prepared_bases.get(&key).expect("a record").image;
    let checks = fake.asked.iter().filter_map(|lookup| match lookup {
        Lookup::Checks(lookup) => Some(lookup.lower),
        _ => None,
    });
    assert_eq!(checks.collect::<Vec<_>>(), [Some(base)]);
}

/// A controller is killed before it records that an image is in service, and the pool moves on.
#[test]
fn image_in_service_is_recorded_after_a_kill() {
    let mut fake = FakeCluster::built();
    let first = fake.current().metadata.name.clone();
    let lose_stage = |fake: &mut FakeCluster| {
        fake.snapshot.builds[0]
            .metadata
            .annotations
            .insert(labels::STAGE.to_owned(), "checked".to_owned());
    };
    lose_stage(&mut fake);
    fake.annotate(labels::PROMOTE, "manual");
    fake.render(2);
    assert_eq!(fake.build().reason.code(), "awaiting-approval");
    assert_eq!(fake.stage(&first), Some(Stage::InService));
    lose_stage(&mut fake);
    fake.annotate(labels::PROMOTE, "automatic");
    fake.settle();
    assert_eq!(fake.stage(&first), Some(Stage::Replaced));
    is_idle(&mut fake);
}

#[test]
fn image_awaits_approval_and_old_one_stays() {
    let (mut fake, before, built) = awaiting_approval();
    let (first, second) = (fake.snapshot.builds[0].clone(), fake.current().clone());
    let (first, second) = (&*first.metadata.name, &*second.metadata.name);
    assert!(fake.is_in_service(&before) && before != built);
    assert_eq!(fake.stage(first), Some(Stage::InService));
    assert_eq!(fake.stage(second), Some(Stage::Checked));
    assert_eq!(fake.in_service(), words("False", "AwaitingApproval"));
    assert_eq!(fake.event_count(EventReason::ImageHeld), 1);
    assert!(fake.snapshot.workloads.is_empty(), "it is built");
    is_idle(&mut fake);

    fake.decide_about(&before, true);
    assert_eq!(fake.settle().reason.code(), "awaiting-approval", "another digest");
    fake.decide_about(&built, true);
    assert_eq!(fake.settle().reason, PoolReason::UpToDate(built.clone()));
    assert!(fake.is_in_service(&built));
    assert_eq!(fake.stage(first), Some(Stage::Replaced));
    assert_eq!(fake.stage(second), Some(Stage::InService));
    assert_eq!(fake.in_service(), words("True", "InService"));
    is_idle(&mut fake);

    // What was in service needs no approval, whatever became of the decisions.
    fake.config().metadata.annotations.remove(labels::APPROVALS);
    fake.render(1);
    fake.settle();
    assert!(fake.is_in_service(&before));
    assert_eq!(fake.stage(second), Some(Stage::Replaced));
    is_idle(&mut fake);
}

#[test]
fn rejected_image_stays_out_of_service() {
    let (mut fake, before, built) = awaiting_approval();
    fake.decide_about(&built, false);
    assert_eq!(fake.settle().reason.code(), "image-rejected");
    fake.annotate(labels::PROMOTE, "automatic");
    assert_eq!(fake.settle().reason.code(), "image-rejected");
    assert!(fake.is_in_service(&before));
    assert_eq!(fake.stage(&fake.current().metadata.name.clone()), Some(Stage::Rejected));
    assert_eq!(fake.in_service(), words("False", "ImageRejected"));
    assert_eq!(fake.event_count(EventReason::ImageHeld), 2);
    is_idle(&mut fake);
    fake.decide_about(&built, true);
    fake.settle();
    assert!(fake.is_in_service(&built));
}

#[test]
fn unreadable_decisions_keep_image_out() {
    for (key, value) in [(labels::APPROVALS, "{"), (labels::PROMOTE, "later")] {
        let mut fake = FakeCluster::opted_in();
        fake.annotate(key, value);
        assert_eq!(fake.build().reason.code(), "bad-promotion");
        assert!(fake.is_in_service(""), "{key}");
        fake.config().metadata.annotations.remove(key);
        fake.settle();
        assert!(!fake.is_in_service(""), "{key}");
    }
}

#[test]
fn approved_image_comes_into_service_after_any_kill() {
    for most in 0..4 {
        let (mut fake, _, built) = awaiting_approval();
        fake.decide_about(&built, true);
        fake.round(most);
        let reached = fake.settle().reason;
        assert_eq!(reached, PoolReason::UpToDate(built.clone()), "killed after {most}");
        assert!(fake.is_in_service(&built));
        let stages: Vec<_> =
            fake.snapshot.builds.iter().map(|build| Stage::of(&build.metadata)).collect();
        assert_eq!(stages, [Some(Stage::Replaced), Some(Stage::InService)]);
    }
}

#[test]
fn pre_built_image_awaits_approval() {
    let mut fake = FakeCluster::to_be_seeded();
    fake.annotate(labels::PROMOTE, "manual");
    assert_eq!(fake.settle().reason.code(), "awaiting-approval");
    assert!(fake.is_in_service(""));
    assert_eq!(fake.annotation(labels::CURRENT_MACHINE_OS_BUILD), None);
    assert_eq!(fake.annotation(labels::PRE_BUILT_IMAGE), Some(SEED), "still asked for");
    assert_eq!(fake.decide().actions, []);
    let mut approved = fake.clone();
    approved.decide_about(SEED, true);
    approved.settle();
    assert!(approved.is_in_service(SEED));
    let current = approved.current().metadata.name.clone();
    assert_eq!(approved.stage(&current), Some(Stage::InService));

    // Without the request, the pool's own image is built instead of a rejected one.
    fake.decide_about(SEED, false);
    assert_eq!(fake.settle().reason.code(), "image-rejected");
    fake.config().metadata.annotations.remove(labels::PRE_BUILT_IMAGE);
    fake.annotate(labels::PROMOTE, "automatic");
    fake.build();
    assert!(!fake.image().is_empty() && !fake.is_in_service(SEED));
}

/// A pool whose next image fails the check `size`; the image in service, and that one.
fn failing() -> (FakeCluster, String, String) {
    let mut fake = FakeCluster::built();
    let before = fake.image().to_owned();
    fake.verdicts.insert(CheckName::Size, verdict(1));
    fake.render(2);
    assert_eq!(fake.settle().reason.code(), "pending");
    fake.run();
    fake.settle();
    fake.succeed();
    assert_eq!(fake.settle().reason.code(), "checks-failed");
    let built = fake.current().status.image().expect("it is built").to_owned();
    (fake, before, built)
}

#[test]
fn failed_check_keeps_image_out_until_overridden() {
    let (mut fake, before, built) = failing();
    let name = fake.current().metadata.name.clone();
    assert!(fake.is_in_service(&before));
    assert_eq!(fake.stage(&name), Some(Stage::Built));
    assert_eq!(fake.condition(IMAGE_CHECKED), words("False", "ChecksFailed"));
    assert_eq!(fake.in_service(), words("False", "ChecksFailed"));
    fake.asked.clear();
    let decision = fake.decide();
    assert_eq!((decision.actions, fake.asked.len()), (Vec::new(), 0), "a restart checks nothing");
    let left = decision.requeue_after.expect("it is checked again");
    assert!(left <= IMAGE_RECHECK && left.as_secs() >= IMAGE_RECHECK.as_secs() - 1, "{left:?}");

    let (image, other): (PinnedRef, PinnedRef) = (built.parse().unwrap(), before.parse().unwrap());
    for wrong in [format!("size@{}", other.digest()), format!("release@{}", image.digest())] {
        fake.annotate(labels::OVERRIDE_CHECK, &wrong);
        assert_eq!(fake.settle().reason.code(), "checks-failed", "{wrong}");
    }
    fake.annotate(labels::OVERRIDE_CHECK, &format!("size@{}", image.digest()));
    fake.settle();
    assert!(fake.is_in_service(&built));
    assert_eq!(fake.condition(IMAGE_CHECKED), words("True", "Overridden"));
    let record = CheckRecord::of(&fake.current().metadata, image.digest()).unwrap();
    assert!(record.results.iter().any(|result| result.overridden), "{record:?}");
    is_idle(&mut fake);
    fake.config().metadata.annotations.remove(labels::OVERRIDE_CHECK);
    fake.settle();
    assert!(fake.is_in_service(&built), "it stays");
    is_idle(&mut fake);
}

#[test]
fn failed_check_is_made_again_later() {
    let (mut fake, _, built) = failing();
    fake.verdicts.clear();
    fake.wait(IMAGE_RECHECK.as_secs() as i64 - 1);
    assert_eq!(fake.settle().reason.code(), "checks-failed");
    fake.wait(1);
    fake.registry_problem = Some(problem(ErrorClass::Transient, "away"));
    fake.settle();
    assert_eq!(fake.condition(IMAGE_CHECKED), words("False", "ChecksFailed"), "what was found");
    fake.registry_problem = None;
    fake.settle();
    assert!(fake.is_in_service(&built));
    assert_eq!(fake.condition(IMAGE_CHECKED), words("True", "Passed"));
}

#[test]
fn mode_of_a_check_counts_at_once() {
    let (mut fake, _, built) = failing();
    fake.asked.clear();
    fake.annotate(labels::CHECKS, "size=warn");
    fake.settle();
    assert!(fake.is_in_service(&built));
    assert_eq!(fake.condition(IMAGE_CHECKED), words("True", "Warnings"));
    assert!(fake.asked.is_empty(), "nothing is checked again");
    let (mut fake, ..) = failing();
    fake.annotate(labels::CHECKS, "size");
    assert_eq!(fake.settle().reason.code(), "bad-promotion");
    fake.annotate(labels::CHECKS, "");
    fake.snapshot.cluster.checks = None;
    assert_eq!(fake.settle().reason.code(), "bad-promotion");
}

#[test]
fn image_is_built_and_not_checked_while_registry_is_away() {
    let mut fake = FakeCluster::built();
    let before = fake.image().to_owned();
    fake.verdicts.insert(CheckName::Release, verdict(2));
    fake.render(2);
    fake.settle();
    fake.run();
    fake.settle();
    fake.succeed();
    // It is confirmed, and then the registry goes away.
    let mut decision = decide(&fake.snapshot, fake.now);
    let mut seen = fake.snapshot.clone();
    while let Some(lookup) = decision.lookups.first().cloned() {
        match &lookup {
            Lookup::Exists { image, .. } => {
                fake.confirmed.insert(image.clone());
                let confirmed = mosb_registry::Confirmed::in_a_test(image.clone());
                seen.lookup_results.exists.insert(image.clone(), ImageStatus::Present(confirmed));
            }
            _ => seen.lookup_results.fail(&lookup, &problem(ErrorClass::Transient, "away")),
        }
        decision = decide(&seen, fake.now);
    }
    assert_eq!(decision.reason.code(), "not-checked");
    let mut versions = Default::default();
    for action in &decision.actions {
        fake.act(action, &mut versions).unwrap();
    }
    fake.collect();
    assert!(fake.is_in_service(&before));
    assert_eq!(fake.state(), Some(BuildCondition::Succeeded));
    assert_eq!(fake.condition(IMAGE_CHECKED), words("Unknown", "NotChecked"));
    assert_eq!(fake.event_count(EventReason::ImageHeld), 0);
    fake.settle();
    assert_eq!(fake.condition(IMAGE_CHECKED), words("True", "NotAllKnown"));
    assert!(!fake.is_in_service(&before));
}
