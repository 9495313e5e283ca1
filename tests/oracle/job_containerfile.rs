//! `mosb job build --image` with the real buildah, and `mosb job push` of its result.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::job_pod::{Pod, ended, manifest};
use mosb_tests::build_fixture::{names, with};
use mosb_tests::{Access, Layout, Mosb, Registry, Server, Snapshot, Transport, base_image, run};

fn config() -> String {
    with(
        "storage",
        json!({ "files": [{ "path": "/etc/mine", "contents": { "source": "data:,mine" } }] }),
    )
}

/// A registry with one user and the Debian root as the base.
#[track_caller]
pub fn debian_registry() -> Registry {
    let registry = Registry::start(Server::Debian, Access::Basic, Transport::Http);
    registry.push(&base_image(), "base", "acme/base:v1");
    registry
}

#[track_caller]
pub fn pod(registry: &Registry, config: &str, containerfile: &str) -> Pod {
    let authfile = registry.authfile().display().to_string();
    Pod::with(
        Mosb::new(),
        registry.address(),
        config,
        Some(containerfile),
        &["--authfile", &authfile],
    )
}

fn failure(pod: &Pod, volume: &str) -> Value {
    let result = pod.result(volume).unwrap();
    assert_eq!(result["outcome"], "Failed", "{result:#}");
    result
}

#[test]
fn one_builds_and_another_pushes() {
    let registry = debian_registry();
    let entitlement = tempfile::tempdir().unwrap();
    fs::write(entitlement.path().join("key.pem"), "entitled").unwrap();
    let text = "FROM configs\nRUN test \"$(cat /etc/pki/entitlement/key.pem)\" = entitled && cp /etc/mine /etc/copied && echo a line\n";
    let pod = pod(&registry, &config(), text);
    let volume = format!("{}:/etc/pki/entitlement:ro", entitlement.path().display());
    let built = ended(pod.containerfile(&["--volume", &volume])).ok();
    assert!(built.stderr.contains("a line"), "its output is the log: {}", built.stderr);
    assert_eq!(pod.result("failure"), None);
    let blobs = pod.volume("image").join("layout/blobs/sha256");
    let written: u64 =
        names(&blobs).iter().map(|name| fs::metadata(blobs.join(name)).unwrap().len()).sum();
    assert!(written < 1 << 20, "{written} bytes: the base's layers are in it");
    // Another user pushes the image.
    for name in names(&blobs) {
        let metadata = fs::metadata(blobs.join(&name)).unwrap();
        assert!(metadata.len() == 0 || metadata.permissions().mode() & 0o004 != 0, "{name}");
    }

    let pushed = pod.run(pod.push(&[])).ok();
    let result = pod.result("result").unwrap();
    assert_eq!(
        (&result["outcome"], &result["method"]),
        (&json!("Succeeded"), &json!("containerfile"))
    );
    let digest = result["digest"].as_str().unwrap();
    assert_eq!(pushed.text().trim(), digest);
    assert!(result["bytesPushed"].as_u64().unwrap() < 1 << 20, "{result:#}");
    assert_eq!(names(&pod.mosb.tmp()), [""; 0]);

    let out = tempfile::tempdir().unwrap();
    registry
        .pull(&format!("acme/os:{}", pod.build), &format!("oci:{}:image", out.path().display()));
    let mut tree = Snapshot::default();
    for layer in Layout::at(out.path().to_owned()).layers("image") {
        tree = tree.with_layer(layer).unwrap();
    }
    assert!(tree.0.contains_key("etc/mine") && tree.0.contains_key("etc/copied"));
    assert!(!tree.0.contains_key("etc/pki/entitlement/key.pem"));

    // A second build in the same volume replaces the first one.
    ended(pod.containerfile(&["--volume", &volume])).ok();
    pod.run(pod.push(&[])).ok();
    assert_eq!(pod.result("result").unwrap()["digest"], digest);
}

/// A `buildah` script that precedes the real one in `PATH`. It fails this many times with the
/// message of an internal race of buildah.
fn failing_buildah(folder: &Path, times: usize) -> String {
    let path = std::env::var("PATH").unwrap();
    let text = format!(
        r#"#!/bin/sh
case " $* " in
*" bud "*)
    echo try >> {folder}/tries
    if test "$(wc -l < {folder}/tries)" -le {times}; then
        echo 'STEP 2/3: RUN true'
        echo 'Close_Fd sealing memfd copy: Device or resource busy' >&2
        echo 'Error: building at STEP "RUN true": exit status 1' >&2
        exit 1
    fi ;;
esac
PATH='{path}' exec buildah "$@"
"#,
        folder = folder.display()
    );
    fs::remove_file(folder.join("tries")).ok();
    let (script, program) = (folder.join("script"), folder.join("buildah"));
    fs::write(&script, text).unwrap();
    // A separate process writes the file. Otherwise a child process of another test could inherit
    // the open file, and Linux does not execute a file that is open for writing.
    run("install", ["--mode=755".as_ref(), script.as_os_str(), program.as_os_str()]);
    format!("{}:{path}", folder.display())
}

#[test]
fn only_buildahs_own_failures_are_tried_again() {
    let registry = debian_registry();
    let folder = tempfile::tempdir().unwrap();
    let tries = || fs::read_to_string(folder.path().join("tries")).unwrap();
    let pod = pod(&registry, &config(), "FROM configs\nRUN test -e /etc/mine\n");
    let build = |times| {
        let mut command = pod.containerfile(&[]);
        command.env("PATH", failing_buildah(folder.path(), times));
        ended(command)
    };
    let finished = build(3);
    assert_eq!(finished.code(), Some(3), "{}", finished.stderr);
    assert_eq!(tries(), "try\n".repeat(3));
    let failed = failure(&pod, "failure");
    assert_eq!((&failed["class"], &failed["reason"]), (&json!("retry"), &json!("buildah-failed")));
    let message = failed["message"].as_str().unwrap();
    assert!(
        message.starts_with(
            "buildah failed 3 times, and not by what the Containerfile runs (Close_Fd"
        ),
        "{failed:#}"
    );
    // stdout and stderr are separate pipes, so the order of the lines is not defined.
    let last = failed["lastLines"].as_array().unwrap();
    assert!(last.iter().any(|line| line.as_str().unwrap().contains("exit status 1")), "{failed:#}");

    fs::remove_dir_all(pod.volume("failure")).unwrap();
    fs::create_dir(pod.volume("failure")).unwrap();
    let finished = build(1);
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    assert!(finished.stderr.contains("this is try 1 of 3"), "{}", finished.stderr);
    assert_eq!(tries(), "try\n".repeat(2));
    assert_eq!(pod.result("failure"), None);
}

#[test]
fn a_failing_step_is_reported_without_credentials() {
    let registry = debian_registry();
    let text = "FROM configs\nRUN echo one; echo hello not-a-secret; echo two >&2; exit 7\n";
    let pod = pod(&registry, &config(), text);
    let finished = ended(pod.containerfile(&[]));
    assert_eq!(finished.code(), Some(1), "{}", finished.stderr);
    assert!(!finished.stderr.contains("this is try"), "{}", finished.stderr);
    let failed = failure(&pod, "failure");
    assert_eq!(
        (&failed["step"], &failed["class"], &failed["reason"]),
        (&json!("image-build"), &json!("refused"), &json!("program-failed"))
    );
    let lines: Vec<&str> =
        failed["lastLines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert!(
        lines.contains(&"two") && lines.iter().any(|line| line.contains("exit status 7")),
        "{lines:?}"
    );
    assert!(
        failed["message"].as_str().unwrap().starts_with("buildah bud ended with"),
        "{failed:#}"
    );
    // The RUN line happens to contain the registry's password. Neither the result nor the log may
    // contain it.
    assert!(!failed.to_string().contains("not-a-secret"), "{failed:#}");
    let message = format!("{:?}", pod.termination_message());
    assert!(message.contains("two") && !message.contains("not-a-secret"), "{message}");
    // Without an image, the push reports an error.
    let finished = pod.run(pod.push(&[]));
    assert!(!finished.status.success());
    let failed = failure(&pod, "result");
    assert_eq!(failed["step"], "image-push");
    assert!(failed["push"].is_null(), "no push began: {failed:#}");
    assert!(manifest(&registry, "acme/os", &pod.build).is_none());
}

#[test]
fn missing_bases_are_retried() {
    let registry = debian_registry();
    let broken = pod(&registry, &config(), "FROM configs\nRUN true\n");
    for layer in base_layers() {
        fs::remove_file(registry.blob_path(&layer)).unwrap();
    }
    ended(broken.containerfile(&[]));
    let failed = failure(&broken, "failure");
    assert_eq!(
        (&failed["class"], &failed["reason"]),
        (&json!("retry"), &json!("program-failed")),
        "{failed:#}"
    );
    assert!(failed["message"].as_str().unwrap().starts_with("buildah pull"), "{failed:#}");

    let mut pod = broken;
    fs::write(pod.volume("Containerfile"), "RUN\n").unwrap();
    pod.build = "worker-00000000000000000000000000000000".to_owned();
    ended(pod.containerfile(&[]));
    assert_eq!(failure(&pod, "failure")["reason"], "other-build");
}

/// The digests of the Debian root's layers.
pub fn base_layers() -> Vec<String> {
    let layout = base_image();
    let manifest = layout.json(&layout.digest("base"));
    let layers = manifest["layers"].as_array().unwrap();
    layers.iter().map(|layer| layer["digest"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn without_the_planned_user_namespace_nothing_is_built() {
    let registry = debian_registry();
    let refused = pod(&registry, &config(), "FROM configs\nRUN true\n");
    let finished = ended(refused.containerfile(&["--require-user-namespace"]));
    assert_eq!(finished.code(), Some(2));
    let failed = failure(&refused, "failure");
    assert_eq!(
        (&failed["class"], &failed["reason"]),
        (&json!("user-input"), &json!("no-user-namespace"))
    );
    assert_eq!(names(&refused.volume("image")), [""; 0]);
}

/// After a kill at any time and another run, only the image exists.
#[test]
fn killed_anywhere_it_can_be_run_again() {
    let registry = debian_registry();
    let pod = pod(&registry, &config(), "FROM configs\nRUN echo reached; sleep 0.3\n");
    let mut killed = 0;
    for millis in [150, 600, 1200, 2500] {
        let mut child = pod.containerfile(&[]).spawn().unwrap();
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(millis)
            && child.try_wait().unwrap().is_none()
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        // On a fast machine the build ends before the last kill.
        child.kill().unwrap();
        killed += u32::from(child.wait().unwrap().code().is_none());
    }
    assert!(killed >= 2, "{killed}");
    ended(pod.containerfile(&[])).ok();
    let mut child = pod.push(&[]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    child.kill().unwrap();
    child.wait().unwrap();
    pod.run(pod.push(&[])).ok();
    let result = pod.result("result").unwrap();
    assert_eq!(result["outcome"], "Succeeded");
    assert_eq!(names(&pod.volume("image")), ["digest", "layout"]);
}
