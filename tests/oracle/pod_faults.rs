//! Faults of a build pod's containers: a kill at each step, a full disk, a registry that stops.
//! Another run has the same result.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::job_pod::{Pod, Sidecar, ended, manifest};
use crate::kills::{Moments, Program, Requests};
use mosb_tests::build_fixture::{names, with};
use mosb_tests::{Fault, FaultProxy, Mosb, Registry, Seen, base_image, wait};

const SOON: Duration = Duration::from_secs(120);
const RUNS: &str = "FROM configs\nRUN echo one && cp /etc/mine /etc/copied\nRUN echo two\n";

pub fn config(path: &str) -> String {
    let file = json!({ "path": path, "contents": { "source": "data:,mine" } });
    with("storage", json!({ "files": [file] }))
}

/// An open registry with the Debian root as the base, and a proxy in front of it.
pub fn debian() -> (Registry, FaultProxy) {
    let registry = Registry::plain();
    registry.push(&base_image(), "base", "acme/base:v1");
    let proxy = FaultProxy::start(registry.address());
    (registry, proxy)
}

/// All tags with the digests of their images.
pub fn tagged(registry: &Registry) -> Value {
    let url = format!("http://{}/v2/acme/os/tags/list", registry.address());
    let found = Command::new("curl").args(["--silent", &url]).output();
    let list: Value = serde_json::from_slice(&found.unwrap().stdout).unwrap();
    let tags = list["tags"].as_array().cloned().unwrap_or_default();
    let of = |tag: &Value| {
        let tag = tag.as_str().unwrap();
        (tag.to_owned(), manifest(registry, "acme/os", tag))
    };
    json!(tags.iter().map(of).collect::<std::collections::BTreeMap<_, _>>())
}

pub fn kill(mut child: Child) {
    // All other processes of the namespace end with its first one, as in a container.
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A user whose processes run in a namespace, as in a container.
pub fn contained() -> Mosb {
    let words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    Mosb::new().within(words)
}

#[test]
fn a_push_survives_each_kind_of_request() {
    a_killed_push_ends_the_same(Requests::OfEachKind);
}

#[test]
#[ignore = "make test-all: each request"]
fn a_push_survives_each_request() {
    a_killed_push_ends_the_same(Requests::All);
}

/// Kills `image-push` at its requests.
#[track_caller]
fn a_killed_push_ends_the_same(requests: Requests) {
    let (registry, proxy) = debian();
    let pod = Pod::with(Mosb::new(), &proxy.address(), &config("/etc/mine"), Some(RUNS), &[]);
    ended(pod.containerfile(&[])).ok();
    let program = Program {
        proxy: &proxy,
        clear: &|| registry.forget("acme/os"),
        command: &|| pod.push(&[]),
        end: &|_| {
            pod.run(pod.push(&[])).ok();
            json!([pod.result("result").unwrap()["digest"], tagged(&registry)])
        },
        left: &|_, _, _| {},
    };
    program.ends_the_same(&Moments::of(requests, 10));
}

#[test]
fn builds_killed_at_some_steps_end_the_same() {
    a_killed_build_ends_the_same(4);
}

#[test]
#[ignore = "make test-all: each line of the output"]
fn builds_killed_at_each_step_end_the_same() {
    a_killed_build_ends_the_same(1);
}

/// Kills `image-build` with a Containerfile after lines of its output, which cover each step.
#[track_caller]
fn a_killed_build_ends_the_same(between: usize) {
    let (registry, proxy) = debian();
    let pod = Pod::with(contained(), &proxy.address(), &config("/etc/mine"), Some(RUNS), &[]);
    let lines = |mut command: Command, most: usize| {
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let mut read = Vec::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        while read.len() < most
            && let Some(line) = lines.next()
        {
            read.push(line.unwrap());
        }
        (child, read)
    };
    // Some bytes of the layers depend on the driver.
    let driver = ["--storage-driver", usable_driver()];
    let (mut child, all) = lines(pod.containerfile(&driver), usize::MAX);
    assert!(child.wait().unwrap().success(), "{all:#?}");
    println!("{all:#?}");
    assert!(all.len() > 8, "{all:#?}");
    for number in (1..all.len()).step_by(between) {
        let (child, _) = lines(pod.containerfile(&driver), number);
        kill(child);
        assert!(pod.result("failure").is_none(), "{number}: it had no time to say so");
    }
    ended(pod.containerfile(&driver)).ok();
    assert_eq!(names(&pod.volume("image")), ["digest", "layout"]);
    pod.run(pod.push(&[])).ok();
    let digest = pod.result("result").unwrap()["digest"].clone();
    assert!(manifest(&registry, "acme/os", digest.as_str().unwrap()).is_some());
    // The digest equals that of an undisturbed build.
    let undisturbed =
        Pod::with(contained(), &proxy.address(), &config("/etc/mine"), Some(RUNS), &[]);
    ended(undisturbed.containerfile(&driver)).ok();
    undisturbed.run(undisturbed.push(&[])).ok();
    let want = undisturbed.result("result").unwrap()["digest"].clone();
    let image = |digest: &Value| contents(&registry, digest.as_str().unwrap());
    assert_eq!(image(&want), image(&digest));
    assert_eq!(want, digest);
}

/// The storage driver that buildah can use on this machine.
fn usable_driver() -> &'static str {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(mosb_build::buildah::usable_driver(folder.path())).unwrap()
}

/// The config of an image and the entries of its upper layers, for comparing two images whose
/// digests differ.
fn contents(registry: &Registry, digest: &str) -> String {
    let get = |kind: &str, digest: &str| {
        let url = format!("http://{}/v2/acme/os/{kind}/{digest}", registry.address());
        let accept = "Accept: application/vnd.oci.image.manifest.v1+json";
        Command::new("curl").args(["-s", "-H", accept, &url]).output().unwrap().stdout
    };
    let manifest: Value = serde_json::from_slice(&get("manifests", digest)).unwrap();
    let config = get("blobs", manifest["config"]["digest"].as_str().unwrap());
    let mut text = String::from_utf8(config).unwrap();
    for layer in manifest["layers"].as_array().unwrap().iter().skip(1) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), get("blobs", layer["digest"].as_str().unwrap())).unwrap();
        let listed = Command::new("tar").args(["--full-time", "-tvf"]).arg(file.path()).output();
        text += &format!("\n{}\n{}", layer, String::from_utf8_lossy(&listed.unwrap().stdout));
    }
    text
}

/// A registry is killed when it has all blobs but no manifest. It restarts in time for the
/// container, or too late.
#[test]
fn a_registry_away_before_the_manifest_changes_nothing() {
    let (mut registry, proxy) = debian();
    for containerfile in [None, Some(RUNS)] {
        let path = format!("/etc/mine{}", if containerfile.is_some() { "" } else { "-too" });
        let pod = Pod::with(contained(), &proxy.address(), &config(&path), containerfile, &[]);
        let pushes = || match containerfile {
            Some(_) => pod.push(&[]),
            None => pod.direct(&[]),
        };
        if containerfile.is_some() {
            ended(pod.containerfile(&[])).ok();
        }
        pod.run(pushes()).ok();
        let digest = pod.result("result").unwrap()["digest"].clone();
        let want = tagged(&registry);
        for comes_back_in_time in [true, false] {
            let what = (containerfile, comes_back_in_time);
            registry.forget("acme/os");
            proxy.rule(|seen| {
                let is_manifest =
                    seen.head.method == "PUT" && seen.head.path().contains("/manifests/");
                is_manifest.then_some(Fault::Delay(Duration::from_millis(500)))
            });
            let _sidecar = Sidecar::start(&pod.volume("result"));
            let mut child = pushes().spawn().unwrap();
            let puts = || {
                let seen = proxy.seen();
                let is_put = |one: &&Seen| {
                    one.head.method == "PUT" && one.head.path().contains("/manifests/")
                };
                seen.iter().filter(is_put).count()
            };
            wait("all blobs", SOON, || (puts() > 0).then_some(()));
            registry.stop();
            if comes_back_in_time {
                let before = puts();
                wait("another try", SOON, || (puts() > before).then_some(()));
                registry.start_again();
                assert!(child.wait().unwrap().success(), "{what:?}");
            } else {
                assert!(!child.wait().unwrap().success(), "{what:?}");
                let reported = pod.result("result").unwrap();
                assert_eq!(
                    (&reported["outcome"], &reported["class"]),
                    (&json!("Failed"), &json!("retry"))
                );
                let message = reported["message"].as_str().unwrap();
                println!("{message}");
                assert!(message.contains(&proxy.address()), "{message}");
                registry.start_again();
                // The next Job.
                ended(pushes()).ok();
            }
            assert_eq!(pod.result("result").unwrap()["digest"], digest, "{what:?}");
            assert_eq!(tagged(&registry), want, "{what:?}");
        }
        registry.forget("acme/os");
    }
}

/// Full volumes: the error names the volume and the cause.
#[test]
fn a_full_disk_is_reported_with_its_path() {
    let (_registry, proxy) = debian();
    let started = Instant::now();
    // Puts a folder of the pod on a file system of this size.
    let full = |mut pod: Pod, folder: &str, size: &str| {
        let path = pod.mosb.home().join(folder).display().to_string();
        let script =
            "mkdir -p \"$0\" && mount -t tmpfs -o size=$1 tmpfs \"$0\" && shift && exec \"$@\"";
        let words = ["unshare", "--mount", "sh", "-c", script, &path, size];
        pod.mosb = std::mem::replace(&mut pod.mosb, Mosb::new()).within(words);
        pod
    };
    let reported = |pod: &Pod, volume: &str| {
        let result = pod.result(volume).unwrap_or_default();
        println!("{:?} {result:#}", started.elapsed());
        let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
        (text("class"), text("reason"), text("message"), result["lastLines"].to_string())
    };
    let pod_of = |text| {
        let (address, config) = (proxy.address(), config("/etc/mine"));
        Pod::with(Mosb::new(), &address, &config, Some(text), &[])
    };

    // buildah's result does not fit.
    let big = "FROM configs\nRUN head -c 5000000 /dev/urandom > /etc/big\n";
    let pod = full(pod_of(big), "image", "1m");
    assert!(!ended(pod.containerfile(&[])).status.success());
    let (class, _, message, lines) = reported(&pod, "failure");
    assert!(format!("{message}{lines}").contains("no space left on device"), "{message} {lines}");
    assert!(
        message.contains("ephemeral-storage under job.resources in ConfigMap mosb-config"),
        "{message}"
    );
    assert_eq!(class, "retry");

    // The folder in which buildah builds.
    let pod = full(pod_of(RUNS), "cache", "20m");
    assert!(!ended(pod.containerfile(&[])).status.success());
    let (_, reason, message, _) = reported(&pod, "failure");
    assert_eq!(reason, "no-space");
    assert!(message.contains("MiB are free"), "{message}");

    // The folder in which layers are compressed.
    let pod = pod_of(RUNS);
    ended(pod.containerfile(&[])).ok();
    let pod = full(pod, "tmp", "4k");
    assert!(!pod.run(pod.push(&[])).status.success());
    let (class, _, message, _) = reported(&pod, "result");
    assert_eq!(class, "retry");
    assert!(message.to_lowercase().contains("no space"), "{message}");
}
