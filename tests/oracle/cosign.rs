//! cosign 2 and 3 verify what `mosb sign` and `mosb build` attach, and mosb verifies what they sign, in
//! registries with and without the API for referrers.

use mosb_image::Digest;
use mosb_tests::build_fixture::{BuildFixture, NAME, config};
use mosb_tests::parts::{COSIGN, COSIGN_2, Part};
use mosb_tests::{
    Access, Compression, Cosign, Image, Layout, Mosb, Registry, Server, Transport, Tree, finish,
    limited, run,
};
use mosb_trust::AttachmentKind;
use serde_json::{Value, json};

/// Exit codes of `cosign verify`: an image without signatures, and one of whose signatures none fits. A
/// wrong flag is 1.
const NO_SIGNATURE: i32 = 10;
const NO_MATCH: i32 = 12;

fn image(content: &str) -> Image {
    let layer = Tree::new().file("etc/content", 0o644, content).tar();
    Image::new().layer(Compression::Gzip, layer)
}

#[test]
#[ignore = "make test-all: cosign takes long to build"]
fn cosign_2_and_mosb_verify_each_other() {
    verify_each_other(&COSIGN_2);
}

#[test]
#[ignore = "make test-all: cosign takes long to build"]
fn cosign_3_and_mosb_verify_each_other() {
    verify_each_other(&COSIGN);
}

fn verify_each_other(part: &'static Part) {
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::create(&directory.path().join("layout"));
    let digest = layout.put("v1", &image("one").annotation("byte", "a"));
    let others = [
        ("v2", "another image", layout.put("v2", &image("two"))),
        (
            "byte",
            "one byte of its manifest",
            layout.put("byte", &image("one").annotation("byte", "b")),
        ),
    ];
    let cosign = Cosign { part, directory: directory.path() };
    cosign.generate_key_pair();
    let mosb = Mosb::new().with("COSIGN_PASSWORD", Cosign::PASSWORD).with("WRONG", "wrong");
    let file = |name: &str| directory.path().join(name).display().to_string();
    mosb.run(["keys", "new", &file("os.key")]).ok();
    let public = mosb.run(["keys", "show", &file("cosign.pub"), "-o", "json"]).ok().json();
    let cosign_key = file("cosign.key");
    let show = |password: &str| {
        let arguments =
            ["keys", "show", &cosign_key, "--sign-key-password", password, "-o", "json"];
        mosb.run(arguments).json()
    };
    assert_eq!(show("env:COSIGN_PASSWORD")["fingerprint"], public["fingerprint"]);
    assert_eq!(show("env:WRONG")["code"], "bad-key");

    for server in [Server::Olareg, Server::Debian] {
        let what = format!("{server:?}");
        let registry = Registry::start(server, Access::Anyone, Transport::Http);
        for (tag, name) in [
            ("v1", "acme/os:v1"),
            ("v2", "acme/os:v2"),
            ("byte", "acme/os:byte"),
            ("v1", "theirs/os:v1"),
            ("v1", "copy/os:v1"),
        ] {
            registry.push(&layout, tag, name);
        }
        let ours = registry.repository("acme/os:v1");
        let sign = |image: &str, key: &str| {
            let arguments =
                ["sign", image, "--sign-key", key, "--sign-key-password", "env:COSIGN_PASSWORD"];
            mosb.run(arguments).ok();
        };
        let verify = |image: &str, key: &str| -> (Option<i32>, Value) {
            let finished = mosb.run(["verify", image, "--key", &file(key), "-o", "json"]);
            (finished.code(), finished.json()["manifests"][0].clone())
        };

        // Ours, by a key of ours and by one of cosign.
        assert_eq!(cosign.verify(&ours, "os.key.pub"), Some(NO_SIGNATURE), "{what}");
        sign(&ours, &file("os.key"));
        assert_eq!(cosign.verify(&ours, "os.key.pub"), Some(0), "{what}");
        assert_eq!(cosign.verify(&ours, "cosign.pub"), Some(NO_MATCH), "{what}: another key");
        sign(&ours, &cosign_key);
        assert_eq!(cosign.verify(&ours, "cosign.pub"), Some(0), "{what}");
        assert_eq!(cosign.verify(&ours, "os.key.pub"), Some(0), "{what}: ours stayed");
        // With the signatures of ours.
        let repository = registry.repository("acme/os");
        for (tag, other, digest_of_other) in &others {
            copy_attached(AttachmentKind::Signature, &repository, &digest, digest_of_other);
            let other_image = format!("{repository}:{tag}");
            let code = cosign.verify(&other_image, "os.key.pub");
            assert_eq!(code, Some(NO_MATCH), "{what}: {other}");
            assert_eq!(verify(&other_image, "os.key.pub").0, Some(1), "{what}: {other}");
        }
        // A referrer without a tag, which a registry with the API lists.
        if server == Server::Olareg {
            let copy = registry.repository("copy/os");
            copy_signatures_as_referrers(&repository, &digest, &copy);
            let image = format!("{copy}:v1");
            assert_eq!(cosign.verify(&image, "os.key.pub"), Some(NO_SIGNATURE));
            assert_eq!(cosign.verify_referrers(&image, "os.key.pub"), Some(0));
            assert_eq!(cosign.verify_referrers(&image, "cosign.pub"), Some(0));
        }

        // Theirs, beside ours: each keeps what the other wrote.
        let theirs = registry.repository("theirs/os:v1");
        let by_digest = registry.repository(&format!("theirs/os@{digest}"));
        finish(&mut cosign.sign(&by_digest), &[]).ok();
        let (code, verified) = verify(&theirs, "cosign.pub");
        assert_eq!(code, Some(0), "{what}: {verified:#}");
        let identity = &verified["signatures"][0]["identity"];
        assert_eq!(*identity, registry.repository("theirs/os"), "{what}");
        assert_eq!(verify(&theirs, "os.key.pub").0, Some(1), "{what}");
        sign(&theirs, &file("os.key"));
        finish(&mut cosign.sign(&by_digest), &[]).ok();
        for key in ["cosign.pub", "os.key.pub"] {
            assert_eq!(cosign.verify(&theirs, key), Some(0), "{what} {key}");
            assert_eq!(verify(&theirs, key).0, Some(0), "{what} {key}");
        }

        cosign.attest(&by_digest);
        let kind = "https://slsa.dev/provenance/v1";
        let attestations = |key: &str| verify(&theirs, key).1["attestations"].clone();
        let want = json!([{
            "predicateType": kind, "key": public["fingerprint"],
            "description": "by https://example.com/builder",
        }]);
        assert_eq!(attestations("cosign.pub"), want, "{what}");
        let problem = "none of the keys verifies it";
        assert_eq!(attestations("os.key.pub")[0]["problem"], problem, "{what}");
    }
}

#[test]
#[ignore = "make test-all: cosign takes long to build"]
fn cosign_2_verifies_what_a_build_attaches() {
    verify_what_a_build_attaches(&COSIGN_2);
}

#[test]
#[ignore = "make test-all: cosign takes long to build"]
fn cosign_3_verifies_what_a_build_attaches() {
    verify_what_a_build_attaches(&COSIGN);
}

fn verify_what_a_build_attaches(part: &'static Part) {
    let user = BuildFixture::new();
    let cosign = Cosign { part, directory: user.mosb.home() };
    let file = |name: &str| user.mosb.home().join(name).display().to_string();
    for name in ["os.key", "other.key"] {
        user.mosb.run(["keys", "new", &file(name)]).ok();
    }
    for server in [Server::Olareg, Server::Debian] {
        let what = format!("{server:?}");
        let registry = Registry::start(server, Access::Anyone, Transport::Http);
        let output = registry.repository("os/worker");
        let arguments = ["--output", &output, "--sign-key", &file("os.key")];
        let result = user.build(config().as_bytes(), &arguments).ok().json();
        let image = format!("{output}:{NAME}");
        assert_eq!(cosign.verify(&image, "os.key.pub"), Some(0), "{what}");
        for kind in ["spdxjson", "slsaprovenance1"] {
            let verify = |key| cosign.verify_attestation(kind, &image, key);
            assert_eq!(verify("os.key.pub"), Some(0), "{what} {kind}");
            assert_ne!(verify("other.key.pub"), Some(0), "{what} {kind}: another key");
        }
        let kind = "cyclonedx";
        assert_ne!(cosign.verify_attestation(kind, &image, "os.key.pub"), Some(0), "{what}");

        // Attached to another image.
        registry.push(&user.base, "base", "os/worker:base");
        let base = user.base.digest("base");
        let digest = result["digest"].as_str().unwrap();
        copy_attached(AttachmentKind::Attestation, &output, digest, &base);
        for kind in ["spdxjson", "slsaprovenance1"] {
            let code = cosign.verify_attestation(kind, &format!("{output}:base"), "os.key.pub");
            assert_ne!(code, Some(0), "{what} {kind}: another image");
        }
    }
}

/// Gives an image what is attached to another one, by its tag.
pub(super) fn copy_attached(kind: AttachmentKind, repository: &str, from: &str, to: &str) {
    let tag = |digest: &str| kind.tag(&digest.parse().unwrap());
    copy(&format!("{repository}:{}", tag(from)), &format!("{repository}:{}", tag(to)));
}

/// Copies the signatures of an image to another repository, without their tag.
fn copy_signatures_as_referrers(repository: &str, digest: &str, to: &str) {
    let tag = AttachmentKind::Signature.tag(&digest.parse().unwrap());
    let source = format!("{repository}:{tag}");
    let manifest = run("skopeo", ["inspect", "--raw", "--tls-verify=false", &docker(&source)]);
    let digest = Digest::of(&manifest.stdout);
    copy(&source, &format!("{to}@{digest}"));
}

fn copy(source: &str, target: &str) {
    let flags = ["--insecure-policy", "copy", "--quiet", "--src-tls-verify=false"];
    let mut command = limited("skopeo");
    command.args(flags).args(["--dest-tls-verify=false", "--preserve-digests"]);
    finish(command.args([docker(source), docker(target)]), &[]).ok();
}

fn docker(image: &str) -> String {
    format!("docker://{image}")
}
