//! `mosb job build --result`: the pod of a direct build, with a real registry.

use std::fs;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use mosb_build::result::{Outcome, Step};
use mosb_image::{Digest, RepoRef};
use mosb_registry::{BlobFrom, BlobToPush, PushPlan, Target};
use mosb_types::ErrorClass;
use serde_json::{Value, json};

use crate::job_pod::{Pod, Sidecar, manifest, registry};
use crate::kills::{Moments, Program, Requests};
use mosb_tests::build_fixture::{self, config, names, with};
use mosb_tests::buildah_fixture::block_on;
use mosb_tests::registry_fixture::anonymous_client;
use mosb_tests::{Access, Fault, FaultProxy, Mosb, Registry, Server, Transport, run, wait};

/// A build on a busy machine.
const RESULT: Duration = Duration::from_secs(60);

#[test]
fn the_image_equals_that_of_mosb_build() {
    let registry = registry();
    let pod = Pod::new(registry.address(), &config(), None);
    let finished = pod.run(pod.direct(&[])).ok();
    let result = pod.result("result").unwrap();
    let digest = result["digest"].as_str().unwrap();
    assert_eq!(finished.text().trim(), digest);
    assert_eq!((&result["outcome"], &result["method"]), (&json!("Succeeded"), &json!("direct")));
    assert!(result["bytesPushed"].as_u64().unwrap() > 0);
    assert!(manifest(&registry, "acme/os", &pod.build).is_some());
    match pod.termination_message().outcome {
        Outcome::Succeeded { digest: reported, .. } => assert_eq!(reported.to_string(), digest),
        other => panic!("{other:?}"),
    }
    let base = registry.repository("acme/base:v1");
    let output = registry.repository("acme/other");
    let built = ["build", "-", "-o", "json", "--base", &base, "--output", &output];
    let built = Mosb::new().run_with(built, config().as_bytes()).ok().json();
    assert_eq!(built["digest"], digest, "the same image, whoever builds it");
    assert_eq!(names(&pod.mosb.tmp()), [""; 0]);
}

#[test]
fn a_base_tree_is_read_once() {
    let registry = registry();
    let pod = Pod::new(registry.address(), &config(), None);
    pod.run(pod.direct(&[])).ok();
    let first = pod.result("result").unwrap();
    let (base, image) = (&first["baseTree"]["base"], first["baseTree"]["image"].as_str().unwrap());
    let tag = format!("base-tree-{}", &base.as_str().unwrap()["sha256:".len()..][..32]);
    assert!(manifest(&registry, "acme/os", &tag).is_some());

    let other = with(
        "storage",
        json!({ "files": [{ "path": "/etc/other", "contents": { "source": "data:,x" } }] }),
    );
    let pod = Pod::new(registry.address(), &other, None);
    let tree = format!("{}@{image}", registry.repository("acme/os"));
    pod.run(pod.direct(&["--base-tree", &tree])).ok();
    let second = pod.result("result").unwrap();
    assert_eq!(
        second.get("warnings").map(|w| codes(w).contains(&"base-tree-image".to_owned())),
        first.get("warnings").map(|_| false)
    );
    assert!(second.get("baseTree").is_none(), "nothing new to record: {second:#}");
    let pulled = |result: &Value| result["bytesPulled"].as_u64().unwrap();
    assert!(pulled(&second) < 10_000 && pulled(&first) > 70_000, "{first:#}{second:#}");

    // A missing or unusable image only causes the base to be read again.
    let missing = format!("{}@sha256:{}", registry.repository("acme/os"), "0".repeat(64));
    let else_ =
        format!("{}@{}", registry.repository("acme/os"), second["digest"].as_str().unwrap());
    for (what, image) in [("gone", missing), ("something else", else_)] {
        let pod = Pod::new(registry.address(), &other, None);
        pod.run(pod.direct(&["--base-tree", &image, "--in-service", &image])).ok();
        let result = pod.result("result").unwrap();
        assert_eq!(result["digest"], second["digest"], "{what}");
        assert!(result.get("osSummary").is_none(), "{what}");
        assert!(
            codes(&result["warnings"]).contains(&"base-tree-image".to_owned()),
            "{what}: {result:#}"
        );
        assert_eq!(result["baseTree"], first["baseTree"], "{what}");
    }
}

/// The version of mosb decides what is in a tree. One of another version is no tree, and no warning.
#[test]
fn an_older_tree_is_read_anew() {
    let registry = registry();
    let pod = Pod::new(registry.address(), &config(), None);
    pod.run(pod.direct(&[])).ok();
    let first = pod.result("result").unwrap();
    let base = first["baseTree"]["base"].as_str().unwrap();
    let tag = format!("base-tree-{}", &base["sha256:".len()..][..32]);
    let tree = manifest(&registry, "acme/os", &tag).unwrap();
    let older = older_tree(&registry, &tree);

    let pod = Pod::new(registry.address(), &config(), None);
    pod.run(pod.direct(&["--base-tree", &older])).ok();
    let second = pod.result("result").unwrap();
    assert_eq!(second["digest"], first["digest"]);
    assert_eq!(second["baseTree"], first["baseTree"], "to be recorded in its place");
    assert_eq!(codes(&second["warnings"]), codes(&first["warnings"]));
    assert_eq!(manifest(&registry, "acme/os", &tag).unwrap(), tree);
}

/// Pushes the image of a tree again, as version 1 of the format labelled it. Reading its layer would
/// be an error.
fn older_tree(registry: &Registry, tree: &Value) -> String {
    let digest = tree["config"]["digest"].as_str().unwrap();
    let config = fs::read(registry.blob_path(digest)).unwrap();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    let version = &mut config["config"]["Labels"]["mosb.dev/base-tree-version"];
    assert_ne!(*version, "1");
    *version = json!("1");
    let config = Bytes::from(config.to_string());
    let layer = Bytes::from_static(b"no layer");
    let described = |media_type: &Value, bytes: &Bytes| json!({ "mediaType": media_type, "digest": Digest::of(bytes), "size": bytes.len() });
    let mut older = tree.clone();
    older["config"] = described(&tree["config"]["mediaType"], &config);
    older["layers"] = json!([described(&tree["layers"][0]["mediaType"], &layer)]);
    let blobs = [(&older["config"], config), (&older["layers"][0], layer)];
    let blobs = blobs.map(|(descriptor, bytes)| BlobToPush {
        blob: serde_json::from_value(descriptor.clone()).unwrap(),
        from: BlobFrom::Bytes(bytes),
    });
    let plan = PushPlan {
        manifest: older.to_string().into(),
        media_type: older["mediaType"].as_str().unwrap().to_owned(),
        blobs: blobs.into(),
        tags: vec!["older".to_owned()],
        protected_tag: None,
    };
    let repository = registry.repository("acme/os");
    let target = Target::from(repository.parse::<RepoRef>().unwrap());
    let pushed = block_on(anonymous_client().push(&target, &plan)).unwrap();
    format!("{repository}@{}", pushed.digest.value())
}

fn codes(findings: &Value) -> Vec<String> {
    let findings = findings.as_array().into_iter().flatten();
    findings.map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn needing_a_containerfile_is_not_a_failure() {
    let registry = registry();
    let append = with(
        "storage",
        json!({ "files": [{ "path": "/usr/lib/more", "append": [{ "source": "data:,x" }] }] }),
    );
    for (what, config, containerfile, code) in [
        ("the tree shows it", append, None, "append-to-base"),
        ("it is asked for", config(), Some("FROM configs\nRUN true\n"), "custom-containerfile"),
    ] {
        let pod = Pod::new(registry.address(), &config, containerfile);
        let finished = pod.run(pod.direct(&[])).ok();
        let result = pod.result("result").unwrap();
        assert_eq!(result["outcome"], "NeedsContainerfile", "{what}");
        assert_eq!(codes(&result["reasons"]), [code], "{what}");
        assert!(finished.text().contains("can't be built directly"), "{what}");
        assert!(matches!(pod.termination_message().outcome, Outcome::NeedsContainerfile { .. }));
        assert!(manifest(&registry, "acme/os", &pod.build).is_none(), "{what}");
    }
}

/// A config in several parts needs all of them.
#[test]
fn a_config_in_several_parts_is_put_together() {
    let registry = registry();
    let noise: Vec<u8> =
        (0..900_000_u32).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    let large = format!("data:;base64,{}", STANDARD.encode(&noise[..1_000_000]));
    let config = with(
        "storage",
        json!({ "files": [{ "path": "/etc/large", "contents": { "source": large } }] }),
    );
    let pod = Pod::new(registry.address(), &config, None);
    assert_eq!(names(&pod.volume("mc")), ["0", "1"]);
    pod.run(pod.direct(&[])).ok();
    assert_eq!(pod.result("result").unwrap()["outcome"], "Succeeded");
    fs::remove_dir_all(pod.volume("mc").join("1")).unwrap();
    let finished = pod.run(pod.direct(&[]));
    assert!(!finished.status.success());
    let result = pod.result("result").unwrap();
    assert_eq!((&result["reason"], &result["class"]), (&json!("payload-content"), &json!("bug")));
}

#[test]
fn every_failure_has_a_class_for_the_controller() {
    let open = registry();
    let guarded = Registry::start(Server::Debian, Access::Basic, Transport::Http);
    guarded.push(&build_fixture::BuildFixture::new().base, "base", "acme/base:v1");
    let authfile = guarded.authfile().display().to_string();
    let wrong = guarded.wrong_authfile().display().to_string();
    let proxy = FaultProxy::start(open.address());
    let through = proxy.address();
    let other = "worker-00000000000000000000000000000000";
    type Change<'a> = Box<dyn Fn(&mut Pod) + 'a>;
    let flags = |flags: &[&str]| -> Change<'_> {
        let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Box::new(move |pod| pod.more.clone_from(&flags))
    };
    let broken = with("storage", json!({ "files": [{ "path": "relative" }] }));
    for (what, registry, change, reason, class, word) in [
        (
            "pull credentials",
            guarded.address(),
            flags(&["--authfile", &wrong]),
            "denied",
            ErrorClass::InvalidInput,
            "refused it (401",
        ),
        (
            "push credentials",
            guarded.address(),
            flags(&["--authfile", &authfile, "--push-authfile", &wrong]),
            "denied",
            ErrorClass::InvalidInput,
            "acme/os",
        ),
        (
            "another build",
            open.address(),
            Box::new(|pod: &mut Pod| other.clone_into(&mut pod.build)) as Change<'_>,
            "other-build",
            ErrorClass::Internal,
            other,
        ),
        (
            "another config",
            open.address(),
            Box::new(|pod: &mut Pod| mount(pod, &with("storage", json!({})))),
            "other-build",
            ErrorClass::Internal,
            "this Job is for",
        ),
        (
            "a broken config",
            open.address(),
            Box::new(|pod: &mut Pod| mount(pod, &broken)),
            "invalid-ignition",
            ErrorClass::InvalidInput,
            "spec.config",
        ),
        (
            "nothing mounted",
            open.address(),
            Box::new(|pod: &mut Pod| fs::remove_dir_all(pod.volume("mc")).unwrap()),
            "unreadable-file",
            ErrorClass::Internal,
            "machineconfig.json.gz",
        ),
        (
            "a registry in trouble",
            &through,
            Box::new(|_: &mut Pod| proxy.rule(|_| Some(Fault::status(503)))),
            "registry-error",
            ErrorClass::Transient,
            "503",
        ),
    ] {
        let mut pod = Pod::with(Mosb::new(), registry, &config(), None, &["--authfile", &authfile]);
        change(&mut pod);
        let finished = pod.run(pod.direct(&[]));
        assert!(!finished.status.success(), "{what}");
        let result = pod.result("result").unwrap_or_else(|| panic!("{what}: {}", finished.stderr));
        println!("{what}: {result}");
        let class = serde_json::to_value(class).unwrap();
        assert_eq!(
            (&result["reason"], &result["class"]),
            (&json!(reason), &class),
            "{what}: {result:#}"
        );
        assert!(result["message"].as_str().unwrap().contains(word), "{what}: {result:#}");
        let pushed = result["push"].is_u64();
        assert_eq!(pushed, what == "push credentials", "{what}: {result:#}");
        let reported = pod.termination_message().outcome;
        assert!(matches!(reported, Outcome::Failed { step: Step::ImageBuild, .. }), "{what}");
        let visible = format!("{}{result}", finished.stderr);
        assert!(!visible.contains("not-a-secret"), "{what}: {visible}");
    }
}

#[test]
fn a_pod_builds_on_signed_bases_only() {
    let registry = registry();
    let pod = Pod::new(registry.address(), &config(), None);
    let file = |name: &str| pod.mosb.home().join(name).display().to_string();
    pod.mosb.run(["keys", "new", &file("os.key")]).ok();
    let key = STANDARD.encode(fs::read(file("os.key.pub")).unwrap());
    let scope = registry.repository("acme/base");
    let policy = json!({
        "default": [{ "type": "insecureAcceptAnything" }],
        "transports": { "docker": { scope: [{ "type": "sigstoreSigned", "keyData": key }] } },
    });
    fs::write(file("policy.json"), policy.to_string()).unwrap();
    let policy = format!("--signature-policy={}", file("policy.json"));
    let refused = pod.run(pod.direct(&[&policy]));
    let result = pod.result("result").unwrap_or_else(|| panic!("{}", refused.stderr));
    assert_eq!(result["reason"], "signature-not-accepted", "{result:#}");
    assert!(manifest(&registry, "acme/os", &pod.build).is_none());

    let base = registry.repository("acme/base:v1");
    pod.mosb.run(["sign", &base, "--sign-key", &file("os.key")]).ok();
    fs::remove_dir_all(pod.volume("result")).unwrap();
    fs::create_dir(pod.volume("result")).unwrap();
    pod.run(pod.direct(&[&policy])).ok();
    assert!(manifest(&registry, "acme/os", &pod.build).is_some());
}

/// Mounts another config in place of the build's own.
fn mount(pod: &Pod, config: &str) {
    let text = STANDARD.encode(gzip(config.as_bytes()));
    fs::write(pod.volume("mc").join("0/machineconfig.json.gz"), text).unwrap();
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// The pod does not end before the result is acknowledged.
#[test]
fn it_waits_for_the_acknowledgement() {
    let registry = registry();
    let pod = Pod::new(registry.address(), &config(), None);
    let mut child = pod.direct(&[]).spawn().unwrap();
    wait("the result", RESULT, || pod.result("result"));
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "it ended without an acknowledgement");
    let _sidecar = Sidecar::start(&pod.volume("result"));
    // A result that is not acknowledged is an error after minutes.
    assert!(child.wait().unwrap().success());
    // SIGTERM during the wait does not delete the result.
    drop(_sidecar);
    for name in ["acknowledged", "result.json"] {
        fs::remove_file(pod.volume("result").join(name)).unwrap();
    }
    let mut child = pod.direct(&[]).spawn().unwrap();
    wait("the result of the second run", RESULT, || pod.result("result"));
    run("kill", ["-TERM", &child.id().to_string()]);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(pod.result("result").unwrap()["outcome"], "Succeeded");
}

#[test]
fn a_direct_job_survives_each_kind_of_request() {
    a_killed_job_ends_the_same(Requests::OfEachKind);
}

#[test]
#[ignore = "make test-all: each request"]
fn a_direct_job_survives_each_request() {
    a_killed_job_ends_the_same(Requests::All);
}

/// After a kill at any request, another run has the same result.
#[track_caller]
fn a_killed_job_ends_the_same(requests: Requests) {
    let registry = registry();
    let proxy = FaultProxy::start(registry.address());
    let pod = Pod::new(&proxy.address(), &config(), None);
    let program = Program {
        proxy: &proxy,
        clear: &|| {
            registry.forget("acme/os");
            fs::remove_dir_all(pod.mosb.home().join("cache")).ok();
        },
        command: &|| pod.direct(&[]),
        end: &|what| {
            pod.run(pod.direct(&[])).ok();
            let (result, folder) = (pod.result("result").unwrap(), pod.volume("result"));
            assert_eq!(result["outcome"], "Succeeded", "{what}");
            assert_eq!(names(&folder), ["acknowledged", "result.json"], "{what}");
            fs::remove_file(folder.join("acknowledged")).unwrap();
            fs::remove_file(folder.join("result.json")).unwrap();
            let digest = result["digest"].as_str().unwrap();
            assert!(manifest(&registry, "acme/os", digest).is_some(), "{what}");
            json!(digest)
        },
        left: &|_, _, _| {},
    };
    program.ends_the_same(&Moments::of(requests, 10));
}
