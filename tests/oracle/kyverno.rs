//! Kyverno's own engine and verifier evaluate the policy of `docs/examples` on images of `mosb build`.

use std::fs;

use mosb_api::yaml;
use mosb_tests::build_fixture::{BuildFixture, NAME, config};
use mosb_tests::parts::KYVERNO;
use mosb_tests::{
    Access, Compression, Image, Layout, Registry, Server, Transport, Tree, finish, limited,
    repository,
};
use mosb_trust::AttachmentKind;
use serde_json::{Value, json};

use super::cosign::copy_attached;

/// The policy of the example, for the images of a registry and this public key.
fn policy(registry: &Registry, key: &str) -> Value {
    let file = repository().join("docs/examples/kyverno-policy.yaml");
    let mut policy: Value = yaml::parse_one(&fs::read(file).unwrap()).unwrap();
    let images = images_of(&mut policy);
    let references = images["imageReferences"][0].as_str().unwrap();
    let ours = references.replace("registry.example.com", registry.address());
    assert_ne!(ours, references);
    images["imageReferences"] = json!([ours]);
    images["attestors"] = attestors(&images["attestors"], key);
    for attestation in images["attestations"].as_array_mut().unwrap() {
        attestation["attestors"] = attestors(&attestation["attestors"], key);
    }
    policy
}

fn images_of(policy: &mut Value) -> &mut Value {
    &mut policy["spec"]["rules"][0]["verifyImages"][0]
}

/// The same with another key.
fn attestors(example: &Value, key: &str) -> Value {
    let mut ours = example.clone();
    let text = &mut ours[0]["entries"][0]["keys"]["publicKeys"];
    assert!(text.is_string(), "{example:#}");
    *text = json!(key);
    ours
}

/// What Kyverno says of a pod with each image: the status of the rule, and why.
fn evaluate(queries: &[(&str, &Value, String)]) -> Vec<(String, String)> {
    let lines = queries
        .iter()
        .map(|(_, policy, image)| json!({ "policy": policy, "image": image }).to_string() + "\n");
    let input: String = lines.collect();
    let home = tempfile::tempdir().unwrap();
    let mut command = limited(KYVERNO.program());
    command.env_clear().env("HOME", home.path()).current_dir(home.path());
    let text = finish(&mut command, input.as_bytes()).ok().text();
    let statuses = text.lines().map(|line| {
        let rules: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| rules[0][name].as_str().unwrap_or("none").to_owned();
        (text("status"), text("message"))
    });
    let statuses: Vec<_> = statuses.collect();
    assert_eq!(statuses.len(), queries.len());
    statuses
}

#[test]
#[ignore = "make test-all: Kyverno takes long to build"]
fn kyverno_accepts_only_signed_and_described_images() {
    let user = BuildFixture::new();
    let file = |name: &str| user.mosb.home().join(name).display().to_string();
    for name in ["os.key", "other.key"] {
        user.mosb.run(["keys", "new", &file(name)]).ok();
    }
    let [key, other_key] =
        ["os.key.pub", "other.key.pub"].map(|name| fs::read_to_string(file(name)).unwrap());
    // Two images whose manifests differ in a byte.
    let layout = Layout::create(&user.mosb.home().join("layout"));
    let tar = Tree::new().file("etc/content", 0o644, "content").tar();
    let plain = Image::new().layer(Compression::Gzip, tar);
    let signed = layout.put("signed", &plain.clone().annotation("byte", "a"));
    let byte = layout.put("byte", &plain.annotation("byte", "b"));
    for server in [Server::Olareg, Server::Debian] {
        let registry = Registry::start(server, Access::Anyone, Transport::Http);
        let repository = registry.repository("os/worker");
        let arguments = ["--output", &repository, "--sign-key", &file("os.key")];
        let built = user.build(config().as_bytes(), &arguments).ok().json();
        let digest = built["digest"].as_str().unwrap();
        for tag in ["signed", "byte"] {
            registry.push(&layout, tag, &format!("os/worker:{tag}"));
        }
        registry.push(&user.base, "base", "os/worker:base");
        let name = |tag: &str| format!("{repository}:{tag}");
        user.mosb.run(["sign", &name("signed"), "--sign-key", &file("os.key")]).ok();

        let ours = policy(&registry, &key);
        let with = |change: &dyn Fn(&mut Value)| {
            let mut changed = ours.clone();
            change(images_of(&mut changed));
            changed
        };
        let only_signed = with(&|images| images["attestations"] = json!([]));
        let no_signature = with(&|images| images["attestors"] = json!([]));
        let only = |at: usize| {
            with(&|images| {
                let attestation = images["attestations"][at].clone();
                images["attestors"] = json!([]);
                images["attestations"] = json!([attestation]);
            })
        };
        let [only_sbom, only_provenance] = [only(0), only(1)];
        let others = policy(&registry, &other_key);
        let others_describe = |at: usize| {
            with(&|images| {
                let attestation = &mut images["attestations"][at];
                attestation["attestors"] = attestors(&attestation["attestors"], &other_key);
            })
        };
        let [other_sbom, other_provenance] = [others_describe(0), others_describe(1)];
        let cyclonedx =
            with(&|images| images["attestations"][0]["type"] = json!("https://cyclonedx.org/bom"));
        let elsewhere =
            with(&|images| images["imageReferences"] = json!(["registry.example.com/os/*"]));
        let by_digest = format!("{repository}@{digest}");

        let mut cases = vec![
            ("signed and described", &ours, name(NAME), "pass"),
            ("by digest", &ours, by_digest, "pass"),
            ("the signature", &only_signed, name(NAME), "pass"),
            ("both attestations", &no_signature, name(NAME), "pass"),
            ("the SBOM", &only_sbom, name(NAME), "pass"),
            ("the provenance", &only_provenance, name(NAME), "pass"),
            ("another key", &others, name(NAME), "fail"),
            ("another key of the SBOM", &other_sbom, name(NAME), "fail"),
            ("another key of the provenance", &other_provenance, name(NAME), "fail"),
            ("an SBOM of another type", &cyclonedx, name(NAME), "fail"),
            ("signed, not described", &ours, name("signed"), "fail"),
            ("signed, without the SBOM", &only_sbom, name("signed"), "fail"),
            ("signed, not more required", &only_signed, name("signed"), "pass"),
            ("not signed", &ours, name("base"), "fail"),
            ("not signed, a byte differs", &only_signed, name("byte"), "fail"),
            ("not its images", &elsewhere, name("base"), "none"),
        ];
        check(server, &cases);

        // With what is attached to another image.
        copy_attached(AttachmentKind::Signature, &repository, &signed, &byte);
        let base = user.base.digest("base");
        for kind in [AttachmentKind::Signature, AttachmentKind::Attestation] {
            copy_attached(kind, &repository, digest, &base);
        }
        cases = vec![
            ("a byte differs", &only_signed, name("byte"), "fail"),
            ("of another image", &ours, name("base"), "fail"),
            ("the signature of another image", &only_signed, name("base"), "fail"),
            ("the SBOM of another image", &only_sbom, name("base"), "fail"),
            ("the provenance of another image", &only_provenance, name("base"), "fail"),
        ];
        check(server, &cases);
    }
}

fn check(server: Server, cases: &[(&str, &Value, String, &str)]) {
    let queries: Vec<_> =
        cases.iter().map(|(what, policy, image, _)| (*what, *policy, image.clone())).collect();
    for ((what, .., want), (status, message)) in cases.iter().zip(evaluate(&queries)) {
        assert_eq!(status, *want, "{server:?}, {what}: {message}");
    }
}
