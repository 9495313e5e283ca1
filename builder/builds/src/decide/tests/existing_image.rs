//! Direct builds whose image the registry has already.

use super::fake_cluster::*;
use super::rows::is_idle;
use mosb_api::*;
use mosb_cluster::status::EventReason;
use mosb_types::ErrorClass;

use BuildCondition::Succeeded;

/// A pool with an image of its first config, for whose second one CI pushed an image.
fn pushed() -> (FakeCluster, String) {
    let mut fake = FakeCluster::built();
    let mut ci = fake.clone();
    ci.render(2);
    ci.build();
    let image = ci.image().to_owned();
    fake.images.insert(image.parse().unwrap());
    fake.existing = Ok(true);
    fake.render(2);
    (fake, image)
}

#[test]
fn image_from_elsewhere_is_in_service_without_job() {
    let (mut fake, image) = pushed();
    fake.round(usize::MAX);
    let found = fake.round(usize::MAX);
    assert_eq!(found.reason.code(), "found");
    assert_eq!(fake.build().reason.code(), "up-to-date");
    assert_eq!((fake.image(), fake.made.len()), (&*image, 1));
    let build = fake.current();
    assert_eq!(build.metadata.annotation(labels::METHOD), Some("direct"));
    assert_eq!(build.metadata.annotation(labels::STAGE), Some("in-service"));
    assert_eq!((&build.status.builder, &build.status.build_start), (&None, &None));
    let succeeded = condition(&build.status.conditions, Succeeded.as_str()).unwrap();
    assert!(succeeded.message.contains("already"), "{}", succeeded.message);
    let uid = build.metadata.uid().to_owned();
    let events = fake.events.iter().filter(|event| event.on.uid == uid);
    let notes: Vec<_> = events.map(|event| (event.reason, &*event.note)).collect();
    let note = format!("the registry had {image} already, so nothing was built");
    assert_eq!(notes, [(EventReason::BuildCompleted.as_str(), &*note)]);
    is_idle(&mut fake);
}

#[test]
fn image_from_elsewhere_passes_the_same_gate() {
    let (mut fake, image) = pushed();
    let before = fake.image().to_owned();
    fake.annotate(labels::PROMOTE, "manual");
    assert_eq!(fake.build().reason.code(), "awaiting-approval");
    assert_eq!((fake.image(), fake.made.len()), (&*before, 1));
    fake.decide_about(&image, true);
    fake.touch();
    fake.build();
    assert_eq!((fake.image(), fake.made.len()), (&*image, 1));
}

/// The image of a build exists when the build is created anew.
#[test]
fn only_the_very_image_of_a_direct_build_is_taken() {
    type Change = fn(&mut FakeCluster);
    fn delete_current(fake: &mut FakeCluster) {
        let name = fake.current().metadata.name.clone();
        fake.delete_build(&name);
    }
    fn nothing(_: &mut FakeCluster) {}
    let all: [(&str, Change, Change, usize); 10] = [
        ("it is there", nothing, delete_current, 0),
        (
            "the MachineOSConfig is made anew",
            nothing,
            |fake| {
                fake.snapshot.config = None;
                fake.opt_in();
            },
            0,
        ),
        (
            "it is not there",
            nothing,
            |fake| {
                delete_current(fake);
                fake.images.clear();
            },
            1,
        ),
        (
            "the tag names another image",
            nothing,
            |fake| {
                delete_current(fake);
                fake.existing = Ok(false);
            },
            1,
        ),
        (
            "the registry does not answer",
            nothing,
            |fake| {
                delete_current(fake);
                fake.existing = Err(problem(ErrorClass::Transient, "away"));
            },
            1,
        ),
        (
            "the registry rejects the request",
            nothing,
            |fake| {
                delete_current(fake);
                fake.existing = Err(problem(ErrorClass::Rejected, "no"));
            },
            1,
        ),
        ("a Containerfile", |fake| fake.containerfile("RUN true"), delete_current, 1),
        (
            "a builder of Containerfiles",
            |fake| fake.annotate(labels::BUILDER, ImageBuilderType::OpenShiftImage.as_str()),
            delete_current,
            1,
        ),
        ("a rebuild was asked for", nothing, |fake| fake.annotate(labels::REBUILD, ""), 1),
        (
            "it is being deleted",
            nothing,
            |fake| {
                let build = fake.snapshot.builds.first_mut().unwrap();
                let mark = (labels::IMAGE_DELETED, "deleting 2026-01-01T00:00:00Z");
                build.metadata.annotations.insert(mark.0.to_owned(), mark.1.to_owned());
            },
            1,
        ),
    ];
    for (what, before, after, jobs) in all {
        let mut fake = FakeCluster::opted_in();
        before(&mut fake);
        fake.build();
        let (image, uid) = (fake.image().to_owned(), fake.current().metadata.uid.clone());
        fake.existing = Ok(true);
        after(&mut fake);
        let decision = fake.build();
        assert_eq!(decision.reason.code(), "up-to-date", "{what}");
        assert_ne!(fake.current().metadata.uid, uid, "{what}");
        assert_eq!((fake.image(), fake.made.len()), (&*image, 1 + jobs), "{what}");
        for key in [labels::REBUILD, labels::REBUILD_OF] {
            assert_eq!(fake.annotation(key), None, "{what}");
        }
        is_idle(&mut fake);
    }
}

#[test]
fn unknown_image_delays_no_build() {
    let mut fake = FakeCluster::opted_in();
    fake.existing = Err(problem(ErrorClass::Transient, "away"));
    fake.round(usize::MAX);
    let decision = fake.round(usize::MAX);
    assert_eq!((decision.reason.code(), fake.made.len()), ("preparing", 1));
    assert_eq!(decision.requeue_after, None);
    assert!(fake.blocked().is_none_or(|(status, _)| status == "False"));
}

/// A rebuild makes the image even if its first plan fails, when the request is removed already.
#[test]
fn rebuild_is_remembered_over_a_failed_plan() {
    let mut fake = FakeCluster::built();
    fake.existing = Ok(true);
    fake.annotate(labels::REBUILD, "");
    for _ in 0..10 {
        fake.round(usize::MAX);
        if fake.snapshot.builds.first().is_some_and(|build| build.status.image().is_none()) {
            fake.problem = Some(problem(ErrorClass::Transient, "away"));
        }
    }
    assert_eq!((fake.annotation(labels::REBUILD), fake.made.len()), (None, 1));
    fake.problem = None;
    fake.build();
    assert_eq!(fake.made.len(), 2);
}
