//! cosign verifies what `mosb sign` signs, and mosb verifies what cosign signs, in registries with and
//! without the API for referrers.

use std::path::Path;

use mosb_tests::build_fixture::{BuildFixture, NAME, config};
use mosb_tests::parts::COSIGN;
use mosb_tests::{
    Access, Compression, Finished, Image, Layout, Mosb, Registry, Server, Transport, Tree, finish,
    limited,
};
use mosb_trust::AttachmentKind;
use serde_json::{Value, json};

const PASSWORD: &str = "not-a-secret";

/// Exit codes of `cosign verify`: an image without signatures, and one of whose signatures none fits. A
/// wrong flag is 1.
const NO_SIGNATURE: i32 = 10;
const NO_MATCH: i32 = 12;

/// cosign with a directory of its own, without the internet.
struct Cosign<'a> {
    directory: &'a Path,
}

impl Cosign<'_> {
    fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = limited(COSIGN.program());
        command.args(arguments).current_dir(self.directory).env_clear();
        command.env("HOME", self.directory).env("COSIGN_PASSWORD", PASSWORD);
        finish(&mut command, &[])
    }

    fn verify(&self, image: &str, key: &str) -> Option<i32> {
        self.run(&["verify", "--key", key, "--insecure-ignore-tlog", image]).code()
    }

    fn verify_attestation(&self, kind: &str, image: &str, key: &str) -> Option<i32> {
        let arguments = ["verify-attestation", "--type", kind, "--key", key];
        self.run(&[&arguments[..], &["--insecure-ignore-tlog", image]].concat()).code()
    }

    /// Signs with the key of cosign, as `.sig` manifests, and in no transparency log.
    fn sign(&self, image: &str) {
        let old =
            ["--new-bundle-format=false", "--use-signing-config=false", "--tlog-upload=false"];
        let mut arguments = vec!["sign", "--yes", "--key", "cosign.key"];
        arguments.extend(old);
        arguments.push(image);
        self.run(&arguments).ok();
    }

    fn attest(&self, image: &str) {
        std::fs::write(self.directory.join("predicate"), "{\"buildDefinition\":{}}").unwrap();
        self.run(&[
            "attest",
            "--yes",
            "--key",
            "cosign.key",
            "--type",
            "slsaprovenance1",
            "--predicate",
            "predicate",
            "--new-bundle-format=false",
            "--use-signing-config=false",
            "--tlog-upload=false",
            image,
        ])
        .ok();
    }
}

fn image(content: &str) -> Image {
    let layer = Tree::new().file("etc/content", 0o644, content).tar();
    Image::new().layer(Compression::Gzip, layer)
}

#[test]
#[ignore = "make test-all: cosign takes long to build"]
fn cosign_and_mosb_verify_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::create(&directory.path().join("layout"));
    let digest = layout.put("v1", &image("one"));
    let other = layout.put("v2", &image("two"));
    let cosign = Cosign { directory: directory.path() };
    cosign.run(&["generate-key-pair"]).ok();
    let mosb = Mosb::new().with("COSIGN_PASSWORD", PASSWORD).with("WRONG", "wrong");
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
        for (tag, name) in [("v1", "acme/os:v1"), ("v2", "acme/os:v2"), ("v1", "theirs/os:v1")] {
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
        // The signature of another image.
        let repository = registry.repository("acme/os");
        copy_signatures(&repository, &digest, &other);
        let second = registry.repository("acme/os:v2");
        assert_eq!(cosign.verify(&second, "os.key.pub"), Some(NO_MATCH), "{what}");
        assert_eq!(verify(&second, "os.key.pub").0, Some(1), "{what}");

        // Theirs, beside ours: each keeps what the other wrote.
        let theirs = registry.repository("theirs/os:v1");
        let by_digest = registry.repository(&format!("theirs/os@{digest}"));
        cosign.sign(&by_digest);
        let (code, verified) = verify(&theirs, "cosign.pub");
        assert_eq!(code, Some(0), "{what}: {verified:#}");
        let identity = &verified["signatures"][0]["identity"];
        assert_eq!(*identity, registry.repository("theirs/os"), "{what}");
        assert_eq!(verify(&theirs, "os.key.pub").0, Some(1), "{what}");
        sign(&theirs, &file("os.key"));
        cosign.sign(&by_digest);
        for key in ["cosign.pub", "os.key.pub"] {
            assert_eq!(cosign.verify(&theirs, key), Some(0), "{what} {key}");
            assert_eq!(verify(&theirs, key).0, Some(0), "{what} {key}");
        }

        cosign.attest(&by_digest);
        let kind = "https://slsa.dev/provenance/v1";
        let attestations = |key: &str| verify(&theirs, key).1["attestations"].clone();
        let want = json!([{ "predicateType": kind, "key": public["fingerprint"] }]);
        assert_eq!(attestations("cosign.pub"), want, "{what}");
        let problem = "none of the keys verifies it";
        assert_eq!(attestations("os.key.pub")[0]["problem"], problem, "{what}");
    }
}

#[test]
#[ignore = "make test-all: cosign takes long to build"]
fn cosign_verifies_what_a_build_attaches() {
    let user = BuildFixture::new();
    let cosign = Cosign { directory: user.mosb.home() };
    let file = |name: &str| user.mosb.home().join(name).display().to_string();
    for name in ["os.key", "other.key"] {
        user.mosb.run(["keys", "new", &file(name)]).ok();
    }
    for server in [Server::Olareg, Server::Debian] {
        let what = format!("{server:?}");
        let registry = Registry::start(server, Access::Anyone, Transport::Http);
        let output = registry.repository("os/worker");
        let arguments = ["--output", &output, "--sign-key", &file("os.key")];
        user.build(config().as_bytes(), &arguments).ok();
        let image = format!("{output}:{NAME}");
        assert_eq!(cosign.verify(&image, "os.key.pub"), Some(0), "{what}");
        for kind in ["spdxjson", "slsaprovenance1"] {
            let verify = |key| cosign.verify_attestation(kind, &image, key);
            assert_eq!(verify("os.key.pub"), Some(0), "{what} {kind}");
            assert_ne!(verify("other.key.pub"), Some(0), "{what} {kind}: another key");
        }
        let kind = "cyclonedx";
        assert_ne!(cosign.verify_attestation(kind, &image, "os.key.pub"), Some(0), "{what}");
    }
}

/// Gives an image the signatures of another one.
fn copy_signatures(repository: &str, from: &str, to: &str) {
    let tag = |digest: &str| AttachmentKind::Signature.tag(&digest.parse().unwrap());
    let source = format!("docker://{repository}:{}", tag(from));
    let target = format!("docker://{repository}:{}", tag(to));
    let flags = ["--insecure-policy", "copy", "--quiet", "--src-tls-verify=false"];
    let mut command = limited("skopeo");
    command.args(flags).args(["--dest-tls-verify=false", "--preserve-digests", &source, &target]);
    finish(&mut command, &[]).ok();
}
