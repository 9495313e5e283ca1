//! Decisions about bases.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::decide::{Action, decide, lookup};
use super::snapshot::{BaseSnapshot, FollowedBase, NotFollowed, SeenBase, stream_of};
use super::state::{BaseState, NEWER_BASE};
use super::streams::{Newest, StreamName, Streams};
use super::view::{BaseRequest, BaseRequestError, change};
use mosb_api::{ClusterSettings, Condition, condition, labels};
use mosb_image::{Digest, PinnedRef};
use mosb_plan::plan::BaseRelease;
use mosb_reconcile::Problem;
use mosb_reconcile::write::NewStatus;
use mosb_types::ErrorClass;

const TAG: &str = "quay.io/os:stable";
const INTERVAL: Duration = Duration::from_secs(3600);

fn digest(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

fn pinned(name: &str) -> PinnedRef {
    format!("quay.io/os@{}", digest(name)).parse().unwrap()
}

fn made(day: i64, version: &str) -> BaseRelease {
    let created = Timestamp::from_second(day * 86_400).ok();
    BaseRelease { created, version: Some(version.to_owned()) }
}

fn newest(name: &str, day: i64, version: &str) -> Newest {
    Newest { digest: digest("index"), image: pinned(name), release: made(day, version) }
}

fn base() -> SeenBase {
    SeenBase {
        image: pinned("a"),
        name: TAG.to_owned(),
        release: made(10, "1"),
        platform: "linux/amd64".parse().unwrap(),
    }
}

fn stream(metadata: Option<&str>) -> StreamName {
    let metadata = metadata.map(|url| url.parse().unwrap());
    StreamName { tag: TAG.parse().unwrap(), metadata }
}

/// A pool in service on base `a` of day 10.
fn snapshot(annotations: Value, newest: Option<Result<Newest, Problem>>) -> BaseSnapshot {
    let object = json!({
        "metadata": { "name": "worker", "uid": "u", "resourceVersion": "1", "annotations": annotations },
        "spec": { "machineConfigPool": { "name": "worker" } },
    });
    BaseSnapshot {
        config: serde_json::from_value(object).unwrap(),
        followed: Ok(FollowedBase { base: base(), stream: stream(None) }),
        interval: INTERVAL,
        is_release: false,
        versions: Default::default(),
        due: newest.is_some().then_some(Duration::from_secs(60)),
        newest,
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(20 * 86_400).unwrap()
}

/// The annotations that are set or removed, the condition that is written, and events.
#[derive(Debug, Default, PartialEq)]
struct Written {
    annotations: Vec<(String, Option<String>)>,
    condition: Option<Condition>,
    events: Vec<&'static str>,
}

fn written(snapshot: &BaseSnapshot) -> Written {
    let mut written = Written::default();
    for action in decide(snapshot, now()).actions {
        match action {
            Action::Patch(_, patch) => written.annotations.extend(
                patch.annotations.iter().map(|(key, value)| ((*key).to_owned(), value.clone())),
            ),
            Action::ReplaceStatus(_, NewStatus::Whole(status)) => {
                let all: Vec<Condition> =
                    serde_json::from_value(status["conditions"].clone()).unwrap_or_default();
                written.condition = condition(&all, NEWER_BASE).cloned();
            }
            Action::Event(event) => written.events.push(event.reason),
            other => panic!("{other}"),
        }
    }
    written
}

/// The same after the condition was written.
fn with_condition(mut snapshot: BaseSnapshot) -> BaseSnapshot {
    let written = written(&snapshot);
    snapshot.config.status.conditions = written.condition.into_iter().collect();
    snapshot
}

#[test]
fn a_newer_base_is_reported_or_recorded() {
    let recorded = format!("{TAG}@{}", digest("index"));
    let recording = Some((labels::BASE.to_owned(), Some(recorded.clone())));
    let request = |hold: bool| {
        let mut removed = vec![(labels::UPDATE_BASE.to_owned(), None)];
        removed.extend(hold.then(|| (labels::HOLD_BASE.to_owned(), None)));
        removed
    };
    let (newer, event) = ("NewerBase", "BaseRecorded");
    for (what, annotations, is_release, reason, want, events) in [
        ("notify", json!({ labels::FOLLOW_BASE: "notify" }), false, "Newer", vec![], vec![newer]),
        (
            "build",
            json!({ labels::FOLLOW_BASE: "build" }),
            false,
            "Building",
            recording.clone().into_iter().collect(),
            vec![event, newer],
        ),
        (
            "held",
            json!({ labels::FOLLOW_BASE: "build", labels::HOLD_BASE: "true" }),
            false,
            "Held",
            vec![],
            vec![newer],
        ),
        (
            "recorded before",
            json!({ labels::FOLLOW_BASE: "build", labels::BASE: recorded }),
            false,
            "Building",
            vec![],
            vec![newer],
        ),
        (
            "of a release",
            json!({ labels::FOLLOW_BASE: "build" }),
            true,
            "ReleaseDecides",
            vec![],
            vec![newer],
        ),
        (
            "asked for",
            json!({ labels::UPDATE_BASE: "true", labels::HOLD_BASE: "true" }),
            false,
            "Building",
            recording.clone().into_iter().chain(request(true)).collect(),
            vec![event, newer],
        ),
        (
            "asked for with a release",
            json!({ labels::UPDATE_BASE: "true" }),
            true,
            "ReleaseDecides",
            request(false),
            vec![newer],
        ),
    ] {
        let mut snapshot = snapshot(annotations, Some(Ok(newest("b", 11, "2"))));
        snapshot.is_release = is_release;
        let mut found = written(&snapshot);
        found.annotations.sort();
        let mut want = want;
        want.sort();
        assert_eq!((found.annotations, found.events), (want, events), "{what}");
        let condition = found.condition.unwrap();
        assert_eq!((&*condition.status, &*condition.reason), ("True", reason), "{what}");
        for part in ["version 2", "version 1", "1970-01-11", &digest("b").to_string()] {
            assert!(condition.message.contains(part), "{what}: {}", condition.message);
        }
        let again = written(&with_condition(snapshot.clone()));
        assert_eq!(again.condition, None, "{what}: it is written once");
    }
}

#[test]
fn an_older_or_equal_base_is_not_followed() {
    let follow = || json!({ labels::FOLLOW_BASE: "build" });
    for (what, newest, reason, is_wanted) in [
        ("the same", newest("a", 10, "1"), "UpToDate", false),
        ("older", newest("b", 9, "0"), "TagMovedBack", false),
        ("older, and asked for", newest("b", 9, "0"), "TagMovedBack", true),
    ] {
        let mut annotations = follow();
        if is_wanted {
            annotations[labels::UPDATE_BASE] = json!("true");
        }
        let found = written(&snapshot(annotations, Some(Ok(newest))));
        let ended = is_wanted.then(|| (labels::UPDATE_BASE.to_owned(), None));
        assert_eq!(found.annotations, ended.into_iter().collect::<Vec<_>>(), "{what}");
        let condition = found.condition.unwrap();
        assert_eq!((&*condition.status, &*condition.reason), ("False", reason), "{what}");
    }
    // The condition names the metadata, and the tag is what is recorded.
    let url = "https://builds.example.com/streams/stable.json";
    let mut of_stream = snapshot(follow(), Some(Ok(newest("b", 11, "2"))));
    of_stream.followed.as_mut().unwrap().stream = stream(Some(url));
    let found = written(&of_stream);
    let recorded = format!("{TAG}@{}", digest("index"));
    assert_eq!(found.annotations, [(labels::BASE.to_owned(), Some(recorded))]);
    let message = found.condition.unwrap().message;
    assert!(message.starts_with(&format!("{url} is sha256:")), "{message}");
    // A base that does not say when it was made is another one.
    let mut undated = snapshot(follow(), Some(Ok(newest("b", 9, "0"))));
    undated.followed.as_mut().unwrap().base.release.created = None;
    assert_eq!(written(&undated).condition.unwrap().reason, "Building");
}

#[test]
fn without_an_answer_nothing_is_recorded() {
    let follow = json!({ labels::FOLLOW_BASE: "build" });
    let problem = |class, reason: &str| Problem {
        class,
        reason: reason.to_owned(),
        message: "quay.io/os:stable: no".to_owned(),
    };
    let asking = decide(&snapshot(follow.clone(), None), now());
    assert_eq!((asking.lookups.len(), asking.actions.len()), (1, 0));
    for (class, code, want) in [
        (ErrorClass::Transient, "unreachable", "Unreachable"),
        (ErrorClass::InvalidInput, "not-found", "NotFound"),
    ] {
        let failed = Some(Err(problem(class, code)));
        let first = snapshot(follow.clone(), failed.clone());
        let condition = written(&first).condition.unwrap();
        assert_eq!((&*condition.status, &*condition.reason), ("Unknown", want));
        let mut known = with_condition(snapshot(follow.clone(), Some(Ok(newest("b", 11, "2")))));
        known.newest = failed;
        let kept = written(&known).condition.is_none();
        assert_eq!(kept, class == ErrorClass::Transient, "what was known stays for a moment");
    }
    for (what, annotations, followed, reason) in [
        ("a bad mode", json!({ labels::FOLLOW_BASE: "yes" }), Ok(()), "BadAnnotation"),
        ("no image", follow.clone(), Err(NotFollowed::NoBase), "NoBase"),
        ("a digest", follow.clone(), Err(NotFollowed::Pinned(base())), "NoTag"),
        ("overridden", follow, Err(NotFollowed::Overridden(base())), "OSOverridden"),
    ] {
        let mut snapshot = snapshot(annotations, None);
        snapshot.followed = followed.and(snapshot.followed);
        let condition = written(&snapshot).condition.unwrap();
        assert_eq!((&*condition.status, &*condition.reason), ("Unknown", reason), "{what}");
    }
}

#[test]
fn a_pool_that_stops_following_loses_its_condition() {
    let mut following = with_condition(snapshot(
        json!({ labels::FOLLOW_BASE: "notify" }),
        Some(Ok(newest("b", 11, "2"))),
    ));
    following.config.metadata.annotations.clear();
    let decision = decide(&following, now());
    assert_eq!(decision.reason, BaseState::Off);
    assert_eq!(decision.actions.len(), 1);
    assert_eq!(written(&following).condition, None);
    following.config.status.conditions.clear();
    assert_eq!(decide(&following, now()).actions, []);
}

#[test]
fn requests_annotate_and_a_release_refuses_them() {
    let of = |snapshot: &BaseSnapshot, request, rendering| {
        change(snapshot, "worker", request, rendering).map(|change| change.annotations)
    };
    let set = |text: &str| Some(text.to_owned());
    let at = |digest: Digest| set(&format!("{TAG}@{digest}"));
    let plain = snapshot(json!({}), None);
    let to = digest("x");
    assert_eq!(
        of(&plain, BaseRequest::Update(None), false),
        Ok([(labels::UPDATE_BASE, set("true"))].into())
    );
    let held = (labels::HOLD_BASE, set("true"));
    assert_eq!(
        of(&plain, BaseRequest::Update(Some(to)), false),
        Ok([(labels::BASE, at(to)), held.clone()].into())
    );
    assert_eq!(
        of(&plain, BaseRequest::Hold, false),
        Ok([(labels::BASE, at(digest("a"))), held.clone()].into()),
        "the next build would resolve the tag"
    );
    assert_eq!(of(&plain, BaseRequest::Hold, true), Ok([held].into()), "the config has the digest");
    let holding = snapshot(json!({ labels::HOLD_BASE: "true" }), None);
    assert_eq!(of(&holding, BaseRequest::Hold, true), Ok([].into()), "it is held already");
    let mut release = plain.clone();
    release.is_release = true;
    let mut no_tag = plain;
    no_tag.followed = Err(NotFollowed::NoBase);
    for request in [BaseRequest::Update(None), BaseRequest::Update(Some(to))] {
        let refused = of(&release, request, false);
        assert!(matches!(refused, Err(BaseRequestError::Release { .. })), "{refused:?}");
        let refused = of(&no_tag, request, false);
        assert!(matches!(refused, Err(BaseRequestError::NotFollowed { .. })), "{refused:?}");
    }
}

#[test]
fn a_base_is_followed_by_its_tag_or_the_stream() {
    let (tag, other, pinned) = (TAG, "quay.io/own:1", &*pinned("a").to_string());
    let url = "https://builds.example.com/streams/stable.json";
    let next = "quay.io/os:next";
    let of = |tag: &str, metadata: Option<&str>| {
        let metadata = metadata.map(|url| url.parse().unwrap());
        Ok(StreamName { tag: tag.parse().unwrap(), metadata })
    };
    for (what, named, setting, is_rendering, want) in [
        ("a tag", tag, None, true, of(tag, None)),
        ("a digest", pinned, None, true, Err(NotFollowed::Pinned(base()))),
        ("a stream", tag, Some(next), true, of(next, None)),
        ("a digest of the stream", pinned, Some(next), true, of(next, None)),
        ("of another one", other, Some(next), true, Err(NotFollowed::Overridden(base()))),
        ("the default", "quay.io/default:1", Some(next), true, of(next, None)),
        ("of another one, not rendered here", other, Some(next), false, of(next, None)),
        ("metadata", tag, Some(url), true, of(tag, Some(url))),
        ("metadata, not rendered here", tag, Some(url), false, of(tag, Some(url))),
        ("metadata and a digest", pinned, Some(url), true, Err(NotFollowed::Pinned(base()))),
    ] {
        let settings = ClusterSettings {
            base_os_container_image: Some("quay.io/default:1".to_owned()),
            base_stream: setting.map(str::to_owned),
            ..ClusterSettings::default()
        };
        let found = stream_of(base(), named, &settings, is_rendering);
        assert_eq!(found.map(|followed| followed.stream), want, "{what}");
    }
}

/// Carries out what is decided, and returns the number of writes.
fn settle(snapshot: &mut BaseSnapshot) -> usize {
    let decision = decide(snapshot, now());
    assert_eq!(decision.lookups, [], "it is known");
    let found = written(snapshot);
    let metadata = &mut snapshot.config.metadata;
    for (key, value) in found.annotations {
        match value {
            Some(value) => drop(metadata.annotations.insert(key, value)),
            None => drop(metadata.annotations.remove(&key)),
        }
    }
    if let Some(condition) = found.condition {
        snapshot.config.status.conditions = vec![condition];
    }
    decision.actions.len()
}

#[tokio::test(start_paused = true)]
async fn a_thousand_pools_at_rest_write_nothing() {
    let streams = Streams::default();
    let follow = json!({ labels::FOLLOW_BASE: "build" });
    let mut pools: Vec<BaseSnapshot> = (0..1000).map(|_| snapshot(follow.clone(), None)).collect();
    for (number, pool) in pools.iter_mut().enumerate() {
        let tag = format!("{TAG}-{}", number % 5).parse().unwrap();
        pool.followed.as_mut().unwrap().stream.tag = tag;
    }
    for (what, moved, want) in [
        // The condition of each.
        ("at first", false, 1000),
        ("at rest", false, 0),
        ("still at rest", false, 0),
        // Condition, annotation and an event for each of both.
        ("one of the tags moved", true, 4 * 200),
        ("at rest again", true, 0),
    ] {
        let (mut requests, mut writes) = (0, 0);
        for pool in &mut pools {
            let lookup = lookup(pool).unwrap();
            let moved = moved && lookup.stream.tag.to_string() == format!("{TAG}-3");
            let answer = if moved { newest("b", 11, "2") } else { newest("a", 10, "1") };
            let registry = |_| {
                requests += 1;
                std::future::ready(Ok(answer))
            };
            pool.newest = Some(Ok(streams.ask(&lookup, None, registry).await.unwrap()));
            writes += settle(pool);
        }
        assert_eq!((requests, writes), (5, want), "{what}");
        tokio::time::advance(INTERVAL).await;
    }
}
