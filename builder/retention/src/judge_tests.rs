//! What keeps an image, one thing at a time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::judge::KeepReason;
use crate::judge::{BuiltImage, RetentionFacts, Tags, judge};
use mosb_api::cluster_settings::Retention;
use mosb_image::Digest;
use mosb_plan::plan::PreparedTag;
use mosb_registry::TaggedImage;

const NOW: Timestamp = Timestamp::constant(1_000_000_000, 0);

fn digest(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

fn days_ago(days: i64) -> Timestamp {
    NOW - SignedDuration::from_hours(24 * days)
}

fn build(name: &str, age: i64) -> BuiltImage {
    BuiltImage {
        build: format!("worker-{name}"),
        digest: digest(name),
        tags: [format!("worker-{name}"), format!("rendered-worker-{name}")].into(),
        time: days_ago(age),
        is_made_here: true,
        prepared: None,
        names: BTreeSet::new(),
        deleting_since: None,
        is_deleted: false,
    }
}

/// Three images, of which the two oldest are older than limits allow.
fn facts() -> RetentionFacts {
    RetentionFacts {
        builds: vec![build("a", 90), build("b", 60), build("c", 1)],
        retention: Retention { keep: 1, days: 30 },
        ..RetentionFacts::default()
    }
}

fn tags_of_builds(facts: &RetentionFacts) -> Tags {
    let named = facts.builds.iter().flat_map(|build| {
        let image = TaggedImage { digest: build.digest, instances: Vec::new() };
        build.tags.iter().map(move |tag| (tag.clone(), image.clone()))
    });
    named.collect()
}

/// The images that are deleted, and why the others are kept.
fn judged(facts: &RetentionFacts, tags: &Tags) -> (Vec<Digest>, BTreeMap<Digest, String>) {
    let mut deleted = Vec::new();
    let mut kept = BTreeMap::new();
    for image in judge(facts, tags, NOW) {
        if image.is_kept() {
            let reasons: Vec<String> = image.reasons.iter().map(ToString::to_string).collect();
            kept.insert(image.digest, reasons.join(", "));
        } else {
            deleted.push(image.digest);
        }
    }
    (deleted, kept)
}

#[test]
fn old_images_that_nothing_needs_are_deleted() {
    let facts = facts();
    let (deleted, kept) = judged(&facts, &tags_of_builds(&facts));
    assert_eq!(deleted, [digest("b"), digest("a")]);
    assert_eq!(kept[&digest("c")], "one of the 1 newest, younger than 30 days");
}

#[test]
fn each_reason_alone_keeps_an_image() {
    type Change = fn(&mut RetentionFacts, &mut Tags);
    let cases: [(&str, Change); 11] = [
        ("node n booted it", |facts, _| {
            facts.needed.insert(digest("a"), [KeepReason::Booted("n".to_owned())].into());
        }),
        ("worker is pinned to it", |facts, _| {
            facts.needed.insert(digest("a"), [KeepReason::Pinned("worker".to_owned())].into());
        }),
        ("one of the 3 newest", |facts, _| facts.retention.keep = 3),
        ("younger than 91 days", |facts, _| facts.retention.days = 91),
        ("not made by a build of this MachineOSConfig", |facts, _| {
            facts.builds[0].is_made_here = false;
        }),
        ("tag golden", |_, tags| {
            let image = TaggedImage { digest: digest("a"), instances: Vec::new() };
            tags.insert("golden".to_owned(), image);
        }),
        ("in the index of tag all", |_, tags| {
            let index = TaggedImage { digest: digest("index"), instances: vec![digest("a")] };
            tags.insert("all".to_owned(), index);
        }),
        ("build worker-z runs and pushes its tag", |facts, _| {
            facts.running_tags.insert("worker-a".to_owned(), "worker-z".to_owned());
        }),
        ("worker-c is kept and names it", |facts, _| {
            facts.builds[2].names.insert(digest("a"));
        }),
        ("tag rendered-worker-a", |facts, _| {
            // The config of a build that is kept.
            facts.builds[2].tags.insert("rendered-worker-a".to_owned());
        }),
        ("younger than 30 days", |facts, _| {
            // Another build with the same image.
            let again = BuiltImage { build: "worker-y".to_owned(), ..facts.builds[0].clone() };
            facts.builds.push(BuiltImage { time: days_ago(2), ..again });
        }),
    ];
    for (why, change) in cases {
        let mut facts = facts();
        let mut tags = tags_of_builds(&facts);
        change(&mut facts, &mut tags);
        let (deleted, kept) = judged(&facts, &tags);
        assert!(!deleted.contains(&digest("a")), "{why}");
        assert!(kept[&digest("a")].contains(why), "{why}: {}", kept[&digest("a")]);
    }
}

#[test]
fn image_of_deleted_image_goes_with_it() {
    let mut facts = facts();
    facts.builds[1].names.insert(digest("a"));
    let (deleted, _) = judged(&facts, &tags_of_builds(&facts));
    assert_eq!(deleted, [digest("b"), digest("a")]);
    // One that is kept keeps what the other names, too.
    facts.builds[2].names.insert(digest("b"));
    assert_eq!(judged(&facts, &tags_of_builds(&facts)).0, []);
}

#[test]
fn prepared_base_goes_with_its_last_image() {
    let base = digest("base");
    let mut facts = facts();
    for at in [0, 1] {
        facts.builds[at].prepared = Some(base);
        facts.builds[at].names.insert(base);
    }
    let mut tags = tags_of_builds(&facts);
    let tag = format!("prepared-{}", "0".repeat(32));
    assert!(tag.parse::<PreparedTag>().is_ok());
    tags.insert(tag, TaggedImage { digest: base, instances: Vec::new() });
    let (deleted, _) = judged(&facts, &tags);
    assert!(deleted.contains(&base), "{deleted:?}");
    // Also if a pass ended before it.
    let mut gone = facts.clone();
    gone.builds[0].is_deleted = true;
    gone.builds[1].is_deleted = true;
    assert_eq!(judged(&gone, &tags).0, [base]);
    for change in [
        (|facts: &mut RetentionFacts| facts.retention.keep = 2) as fn(&mut RetentionFacts),
        |facts| {
            let why = KeepReason::Named("configmap mosb-prepared-bases".to_owned());
            facts.needed.insert(digest("base"), [why].into());
        },
    ] {
        let mut facts = facts.clone();
        change(&mut facts);
        assert!(judged(&facts, &tags).1.contains_key(&base));
    }
}

#[test]
fn clock_before_the_build_keeps_it() {
    let mut facts = facts();
    facts.builds[0].time = days_ago(-90);
    facts.retention.keep = 1;
    assert!(judged(&facts, &tags_of_builds(&facts)).1.contains_key(&digest("a")));
}
