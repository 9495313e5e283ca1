//! Faults of a pod that makes a prepared base and the image on it: killed at each step and at each
//! write, and a fault at each request. Another run ends the same, and what is in service stays.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::job_pod::{Pod, ended, manifest};
use crate::kills::{Moments, Program, Requests, kill_at};
use crate::pod_faults::{config, contained, debian, kill, tagged};
use mosb_tests::{Fault, FaultProxy, Mosb, Registry, SavedRepository, Seen, wait};

const SOON: Duration = Duration::from_secs(120);
const REPOSITORY: &str = "acme/os";
const OWN: &str = "FROM base\nRUN echo own > /usr/share/own\n";
/// Each run of it has another result, as that of a package manager may have.
const ANOTHER_EACH_TIME: &str =
    "FROM base\nRUN cat /proc/sys/kernel/random/uuid > /usr/share/own; echo ran\n";
const PREPARE: [&str; 1] = ["--prepare"];

/// A registry with a base and an image in service, behind a proxy.
struct Site {
    registry: Registry,
    proxy: FaultProxy,
    /// The tag of the build in service, and its manifest.
    in_service: (String, Value),
    /// The image of the base's tree.
    base_tree: String,
    saved: SavedRepository,
}

impl Site {
    fn new() -> Self {
        let (registry, proxy) = debian();
        let former = Pod::new(&proxy.address(), &config("/etc/former"), None);
        former.run(former.direct(&[])).ok();
        let tree = &former.result("result").unwrap()["baseTree"]["image"];
        let base_tree = format!("{}/{REPOSITORY}@{}", proxy.address(), tree.as_str().unwrap());
        let image = manifest(&registry, REPOSITORY, &former.build).unwrap();
        let saved = registry.save(REPOSITORY);
        Self { registry, proxy, in_service: (former.build, image), base_tree, saved }
    }

    fn pod(&self, containerfile: &str) -> Pod {
        let (address, config) = (self.proxy.address(), config("/etc/mine"));
        Pod::with(contained(), &address, &config, Some(containerfile), &[])
    }

    /// The flags of `image-push` in a cluster that built on the base before.
    fn knowing_the_tree(&self) -> [&str; 3] {
        [PREPARE[0], "--base-tree", &self.base_tree]
    }

    /// Runs `image-push` until the proxy holds a request, and kills it there.
    #[track_caller]
    fn kill_push_at(&self, pod: &Pod, fits: impl Fn(&Seen) -> bool + Send + Sync + 'static) {
        let killed = kill_at(&self.proxy, pod.push(&self.knowing_the_tree()), "-KILL", fits);
        assert!(killed.is_some(), "it ended before");
        assert_eq!(pod.result("result"), None, "it had no time to say so");
    }

    /// What machines run is as it was, and whatever has a tag is whole.
    #[track_caller]
    fn assert_in_service(&self, what: &str) -> Value {
        let now = tagged(&self.registry);
        let (tag, image) = &self.in_service;
        assert_eq!(&now[tag], image, "{what}: {tag}");
        let mut blobs = BTreeSet::new();
        for image in now.as_object().unwrap().values() {
            let layers = image["layers"].as_array().unwrap().iter();
            let all = layers.chain([&image["config"]]);
            blobs.extend(all.map(|blob| blob["digest"].as_str().unwrap()));
        }
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--fail", "--fail-early", "--head"]);
        let host = self.registry.address();
        curl.args(blobs.iter().map(|blob| format!("http://{host}/v2/{REPOSITORY}/blobs/{blob}")));
        assert!(curl.output().unwrap().status.success(), "{what}: a blob of {now:#}");
        now
    }
}

/// What a pod reported, and all tags.
struct Ended {
    image: Value,
    prepared: Value,
    tags: Value,
}

impl Ended {
    /// Runs `image-push` to its end.
    #[track_caller]
    fn of_push(site: &Site, pod: &Pod, what: &str) -> Self {
        Self::of_push_with(site, pod, &site.knowing_the_tree(), what)
    }

    /// The same with these flags.
    #[track_caller]
    fn of_push_with(site: &Site, pod: &Pod, flags: &[&str], what: &str) -> Self {
        let finished = pod.run(pod.push(flags));
        assert!(finished.status.success(), "{what}: {}", finished.stderr);
        Self::of(site, pod, what)
    }

    /// Takes the result out of the volume.
    #[track_caller]
    fn of(site: &Site, pod: &Pod, what: &str) -> Self {
        let result = pod.result("result").unwrap();
        fs::remove_file(pod.volume("result").join("result.json")).unwrap();
        let tags = site.assert_in_service(what);
        let (image, prepared) = (result["digest"].clone(), result["prepared"]["image"].clone());
        Self { image, prepared, tags }
    }

    fn json(&self) -> Value {
        json!({ "image": self.image, "prepared": self.prepared, "tags": self.tags })
    }
}

fn is_write(seen: &Seen) -> bool {
    ["POST", "PATCH", "PUT", "DELETE"].contains(&&*seen.head.method)
}

fn puts_manifest(seen: &Seen, tag_begins: &str) -> bool {
    let path = seen.head.path();
    let tag = path.rsplit_once("/manifests/").map(|(_, tag)| tag);
    seen.head.method == "PUT" && tag.is_some_and(|tag| tag.starts_with(tag_begins))
}

/// Whether a prepared base has a tag, and an image of the pod's build.
fn state(tags: &Value, build: &str) -> (bool, bool) {
    let tags = tags.as_object().unwrap();
    (tags.keys().any(|tag| tag.starts_with("prepared-")), tags.contains_key(build))
}

#[test]
fn prepared_pushes_survive_each_kind_of_request() {
    disturbed_pushes_end_the_same(Requests::OfEachKind);
}

#[test]
#[ignore = "make test-all: killed at each write, each fault at each request"]
fn prepared_pushes_survive_each_request() {
    disturbed_pushes_end_the_same(Requests::All);
}

/// `image-push` of a prepared base and of the image on it.
#[track_caller]
fn disturbed_pushes_end_the_same(requests: Requests) {
    let site = Site::new();
    let pod = site.pod(OWN);
    ended(pod.containerfile(&PREPARE)).ok();
    // Killed at a write: what was written before it is there. Then a fault at a request.
    let faults = [
        Fault::CutBefore,
        Fault::CutAnswer,
        Fault::CutBody(10),
        Fault::CutUpload(100),
        Fault::status(500),
        Fault::too_many(0),
    ];
    let states = RefCell::new(BTreeSet::new());
    let program = Program {
        proxy: &site.proxy,
        clear: &|| site.registry.restore(&site.saved),
        command: &|| pod.push(&site.knowing_the_tree()),
        end: &|what| Ended::of_push(&site, &pod, what).json(),
        left: &|what, _, _| {
            assert_eq!(pod.result("result"), None, "{what}: it had no time to say so");
            states.borrow_mut().insert(state(&site.assert_in_service(what), &pod.build));
        },
    };
    let moments =
        Moments { kills: is_write, faults: &faults, least_kills: 15, ..Moments::of(requests, 30) };
    let want = program.ends_the_same(&moments);
    // Which tag of the image is the last write depends on how its pushes overlap.
    let mut states = states.take();
    states.remove(&(true, true));
    let between = [(false, false), (true, false)];
    assert_eq!(states, BTreeSet::from(between), "it was killed between the two pushes, too");

    // Where the tree of the base is not known, its config and layers are read, too.
    for number in 1..=3 {
        site.registry.restore(&site.saved);
        let count = Arc::new(AtomicUsize::new(0));
        let reads = Arc::clone(&count);
        site.proxy.rule(move |seen| {
            let is_read =
                seen.head.method == "GET" && seen.head.path().contains("/acme/base/blobs/");
            let cuts = is_read && reads.fetch_add(1, Ordering::SeqCst) + 1 == number;
            cuts.then_some(Fault::CutBody(100))
        });
        let what = format!("blob {number} of the base is cut");
        assert_eq!(Ended::of_push_with(&site, &pod, &PREPARE, &what).json(), want, "{what}");
        assert!(count.load(Ordering::SeqCst) > number, "{what}: it is read again");
    }

    // The prepared base is deleted before the image is made on it: the next attempt makes it again.
    site.registry.restore(&site.saved);
    let path = format!("/manifests/{}", want["prepared"].as_str().unwrap());
    site.proxy.rule(move |seen| {
        let reads = ["GET", "HEAD"].contains(&&*seen.head.method);
        (reads && seen.head.path().ends_with(&path)).then(|| Fault::status(404))
    });
    assert!(!pod.run(pod.push(&site.knowing_the_tree())).status.success());
    let failed = pod.result("result").unwrap();
    assert_eq!(
        (&failed["class"], &failed["reason"]),
        (&json!("retry"), &json!("prepared-missing")),
        "{failed:#}"
    );
    site.proxy.rule(|_| None);
    site.assert_in_service("deleted in between");
    assert_eq!(Ended::of_push(&site, &pod, "afterwards").json(), want);
}

/// Ends `image-build` as soon as its log has this text.
#[track_caller]
fn kill_build_at(pod: &Pod, text: &str) {
    use std::io::{BufRead as _, BufReader};
    let mut child: Child = pod.containerfile(&PREPARE).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let found = lines.any(|line| line.unwrap().contains(text));
    kill(child);
    assert!(found, "{text}");
    assert!(pod.result("failure").is_none(), "it had no time to say so");
}

#[test]
fn a_pod_without_a_result_is_made_again() {
    let site = Site::new();
    let mut left = BTreeSet::new();
    let mut leave = |build: &str, what: &str| {
        let tags = site.assert_in_service(what);
        for (tag, image) in tags.as_object().unwrap() {
            if tag == build || tag.starts_with("prepared-") {
                left.insert(image.to_string());
            }
        }
        state(&tags, build)
    };

    let dies = site.pod(ANOTHER_EACH_TIME);
    kill_build_at(&dies, "STEP 2/");
    assert_eq!(leave(&dies.build, "killed while it runs"), (false, false));
    ended(dies.containerfile(&PREPARE)).ok();
    assert_eq!(leave(&dies.build, "killed before the pushes"), (false, false));
    site.kill_push_at(&dies, |seen| seen.head.path().contains("/blobs/uploads/"));
    assert_eq!(leave(&dies.build, "killed in the first push"), (false, false));
    // The next pod makes it anew.
    let dies = site.pod(ANOTHER_EACH_TIME);
    ended(dies.containerfile(&PREPARE)).ok();
    let build = dies.build.clone();
    site.kill_push_at(&dies, move |seen| {
        puts_manifest(seen, &build) || puts_manifest(seen, "rendered-")
    });
    assert_eq!(leave(&dies.build, "killed between the pushes"), (true, false));
    // The sidecar does not acknowledge: all is pushed, and nobody heard of it.
    let dies = site.pod(ANOTHER_EACH_TIME);
    ended(dies.containerfile(&PREPARE)).ok();
    let mut child = dies.push(&site.knowing_the_tree()).spawn().unwrap();
    wait("its result", SOON, || {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before");
        dies.result("result")
    });
    kill(child);
    assert_eq!(leave(&dies.build, "killed before it was heard"), (true, true));

    let pod = site.pod(ANOTHER_EACH_TIME);
    ended(pod.containerfile(&PREPARE)).ok();
    let last = Ended::of_push(&site, &pod, "the last pod");
    assert_eq!(left.len(), 3, "two prepared bases and an image, each of other content");
    let at =
        |digest: &Value| manifest(&site.registry, REPOSITORY, digest.as_str().unwrap()).unwrap();
    let new = [at(&last.image), at(&last.prepared)].map(|image| image.to_string());
    assert!(new.iter().all(|image| !left.contains(image)), "{new:?}");
    assert_eq!(last.tags[&pod.build], at(&last.image), "the tag of the build");
    // Whatever had the name of the build still has a tag.
    let tags: BTreeSet<String> =
        last.tags.as_object().unwrap().values().map(Value::to_string).collect();
    println!("{:#?}", last.tags.as_object().unwrap().keys());
    assert!(left.iter().all(|image| tags.contains(image)), "{left:#?} {tags:#?}");

    // The next config is written on the one that was reported, whatever else there is.
    let next = Pod::with(
        Mosb::new(),
        &site.proxy.address(),
        &config("/etc/next"),
        Some(ANOTHER_EACH_TIME),
        &[],
    );
    let prepared =
        format!("{}/{REPOSITORY}@{}", site.proxy.address(), last.prepared.as_str().unwrap());
    let on = ["--prepared", &prepared];
    next.run(next.direct(&on)).ok();
    let result = next.result("result").unwrap();
    let own = |image: &Value| image["layers"].as_array().unwrap().clone();
    let (lower, upper) = (own(&at(&last.prepared)), own(&at(&result["digest"])));
    assert_eq!(upper[..lower.len()], lower[..], "{result:#}");
    assert_eq!(upper.len(), lower.len() + 1, "{result:#}");
}
