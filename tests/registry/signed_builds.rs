//! `mosb build --sign-key`: the tags of an image name it only once the registry has its signatures, its
//! SBOM and its provenance.

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mosb_image::Digest;
use mosb_image::media_type::{OCI_INDEX, OCI_MANIFEST};
use mosb_trust::AttachmentKind;
use serde_json::{Value, json};

use mosb_tests::build_fixture::{BuildFixture, NAME, assert_refused, base, os, rendered};
use mosb_tests::{Compression, Fault, FaultProxy, Finished, Image, Registry, valid};

const SECRET: &str = "/etc/tls/server.key";

/// A config with two files, one of which is a secret.
fn config() -> String {
    let file = |path: &str, content: &str| json!({ "path": path, "contents": { "source": format!("data:,{content}") } });
    rendered(&json!({
        "ignition": { "version": "3.4.0" },
        "storage": { "files": [file("/etc/motd", "hello"), file(SECRET, "hunter2")] },
    }))
    .to_string()
}

/// A user with two keys and a base, and a registry behind a proxy.
struct Fixture {
    user: BuildFixture,
    registry: Registry,
    proxy: FaultProxy,
}

impl Fixture {
    fn new() -> Self {
        Self::on(&base())
    }

    fn on(base: &Image) -> Self {
        let registry = Registry::plain();
        let proxy = FaultProxy::start(registry.address());
        let fixture = Self { user: BuildFixture::with(base), registry, proxy };
        for name in ["os.key", "other.key"] {
            fixture.user.mosb.run(["keys", "new", &fixture.file(name)]).ok();
        }
        fixture
    }

    fn file(&self, name: &str) -> String {
        self.user.mosb.home().join(name).display().to_string()
    }

    fn output(&self, repository: &str) -> String {
        format!("{}/{repository}", self.proxy.address())
    }

    fn build(&self, repository: &str, more: &[&str]) -> Finished {
        let output = self.output(repository);
        self.user.build(config().as_bytes(), &[&["--output", &output][..], more].concat())
    }

    fn sign(&self, repository: &str, key: &str) -> Finished {
        self.build(repository, &["--sign-key", &self.file(key)])
    }

    /// The exit code, and the manifest of the image.
    fn verify(&self, image: &str, key: &str) -> (Option<i32>, Value) {
        let finished =
            self.user.mosb.run(["verify", image, "--key", &self.file(key), "-o", "json"]);
        let verification = finished.json();
        valid(&verification);
        (finished.code(), verification["manifests"][0].clone())
    }

    /// What was written since the last rule: the references of manifests, in order.
    fn manifests_put(&self) -> Vec<String> {
        let seen = self.proxy.seen();
        let put = seen.iter().filter(|seen| seen.head.method == "PUT");
        put.filter_map(|seen| Some(seen.head.path().split_once("/manifests/")?.1.to_owned()))
            .collect()
    }

    fn writes(&self) -> usize {
        self.proxy.seen().iter().filter(|seen| is_write(&seen.head.method)).count()
    }

    /// A manifest, or a blob; nothing if there is none.
    async fn get(&self, path: &str) -> Option<Vec<u8>> {
        let url = format!("http://{}/v2/{path}", self.registry.address());
        let accept = format!("{OCI_MANIFEST}, {OCI_INDEX}");
        let request = reqwest::Client::new().get(url).header("accept", accept);
        let answer = request.send().await.unwrap();
        match answer.status().as_u16() {
            404 => None,
            _ => Some(answer.error_for_status().unwrap().bytes().await.unwrap().to_vec()),
        }
    }

    /// The statement of this type that is attached to an image.
    async fn statement(&self, repository: &str, digest: &Digest, kind: &str) -> Value {
        self.statements(repository, digest, kind).await.swap_remove(0)
    }

    /// The statements of this type, of each key.
    async fn statements(&self, repository: &str, digest: &Digest, kind: &str) -> Vec<Value> {
        let tag = AttachmentKind::Attestation.tag(digest);
        let manifest = self.get(&format!("{repository}/manifests/{tag}")).await.unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let mut statements = Vec::new();
        for layer in manifest["layers"].as_array().unwrap() {
            if layer["annotations"]["predicateType"] == kind {
                let blob = layer["digest"].as_str().unwrap();
                let envelope = self.get(&format!("{repository}/blobs/{blob}")).await.unwrap();
                let envelope: Value = serde_json::from_slice(&envelope).unwrap();
                let payload = STANDARD.decode(envelope["payload"].as_str().unwrap()).unwrap();
                statements.push(serde_json::from_slice(&payload).unwrap());
            }
        }
        statements
    }
}

fn is_write(method: &str) -> bool {
    ["POST", "PUT", "PATCH", "DELETE"].contains(&method)
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_is_attached_before_the_tags_move() {
    let fixture = Fixture::new();
    let built = fixture.sign("os/worker", "os.key").ok().json();
    valid(&built);
    let digest: Digest = built["digest"].as_str().unwrap().parse().unwrap();
    let tags: Vec<_> =
        built["tags"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let names: Vec<_> =
        tags.iter().map(|tag| format!("{}:{tag}", fixture.output("os/worker"))).collect();
    assert_eq!(built["signed"]["identities"], json!(names));

    // By digest, what is attached, the list of referrers, and then the tags.
    let mut put = fixture.manifests_put();
    let by_tag = put.split_off(put.len() - tags.len());
    assert_eq!(put.remove(0), digest.to_string());
    let referrers = mosb_trust::attached::referrers_tag(&digest);
    assert_eq!(put.pop(), Some(referrers.clone()), "{put:?}");
    put.sort();
    assert_eq!(put, [format!("{referrers}.att"), format!("{referrers}.sig")]);
    assert!(tags.iter().all(|tag| by_tag.contains(&(*tag).to_owned())), "{by_tag:?}");
    let index = fixture.get(&format!("os/worker/manifests/{referrers}")).await;
    assert!(index.is_some());

    for name in &names {
        let (code, manifest) = fixture.verify(name, "os.key.pub");
        assert_eq!(code, Some(0), "{manifest:#}");
        let found = manifest["attestations"].as_array().unwrap();
        let described: Vec<_> = found.iter().map(|it| it["description"].clone()).collect();
        // Beside /etc/motd, what mosb adds.
        let files = "SPDX-2.3: 3 packages, 8 files, 2 files without hashes";
        let made = format!("by https://mosb.dev/builder/command-line, of {NAME}, base");
        assert_eq!(described, [json!(files), json!(made)], "{manifest:#}");
        let (code, manifest) = fixture.verify(name, "other.key.pub");
        assert_eq!(code, Some(1), "{manifest:#}");
        assert_eq!(manifest["attestations"][0]["problem"], "none of the keys verifies it");
    }
    let text = fixture.user.mosb.run(["verify", &names[0], "--key", &fixture.file("os.key.pub")]);
    assert!(text.text().contains("SBOM") && text.text().contains("provenance"), "{text:?}");

    // Again, nothing is written; by another key, what was there stays.
    fixture.proxy.rule(|_| None);
    assert_eq!(fixture.sign("os/worker", "os.key").ok().json()["digest"], built["digest"]);
    assert_eq!(fixture.writes(), 0, "{:?}", fixture.proxy.seen());
    fixture.sign("os/worker", "other.key").ok();
    assert!(!fixture.manifests_put().contains(&tags[0].to_owned()));
    for key in ["os.key.pub", "other.key.pub"] {
        let (code, manifest) = fixture.verify(&names[1], key);
        let attestations = manifest["attestations"].as_array().unwrap();
        let ours = attestations.iter().filter(|it| it["key"].is_string()).count();
        assert_eq!((code, ours, attestations.len()), (Some(0), 2, 4), "{manifest:#}");
    }
}

/// A registry that makes the list of referrers itself, and lost what was pushed at the same time: once,
/// and each time.
#[tokio::test(flavor = "multi_thread")]
async fn lost_referrers_are_pushed_again() {
    let fixture = Fixture::new();
    for (repository, lost, pushes) in [("os/once", 1, 1), ("os/each-time", usize::MAX, 2)] {
        let lists = AtomicUsize::new(0);
        fixture.proxy.rule(move |seen| {
            let is_list = seen.head.path().contains("/referrers/");
            let is_lost = is_list && lists.fetch_add(1, Ordering::SeqCst) < lost;
            is_lost.then(|| Fault::Json(json!({ "manifests": [] }).to_string()))
        });
        let built = fixture.sign(repository, "os.key").ok();
        let is_warned = built.stderr.contains("`mosb sign` pushes them again");
        assert_eq!(is_warned, lost > 1, "{repository}: {built:?}");
        let digest: Digest = built.json()["digest"].as_str().unwrap().parse().unwrap();
        let put = fixture.manifests_put();
        for kind in [AttachmentKind::Signature, AttachmentKind::Attestation] {
            let path = format!("{repository}/manifests/{}", kind.tag(&digest));
            let by_digest = Digest::of(&fixture.get(&path).await.unwrap()).to_string();
            let pushed = put.iter().filter(|put| **put == by_digest).count();
            assert_eq!(pushed, pushes, "{repository}: {kind:?}: {put:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_have_digests_and_no_secrets() {
    let fixture = Fixture::new();
    let name = "quay.io/acme/os:v1";
    let arguments = ["--sign-key", &fixture.file("os.key"), "--sign-identity", name];
    let built = fixture.build("os/worker", &arguments).ok().json();
    assert_eq!(built["signed"]["identities"], json!([name]));
    let digest: Digest = built["digest"].as_str().unwrap().parse().unwrap();
    let sbom = fixture.statement("os/worker", &digest, "https://spdx.dev/Document").await;
    assert_eq!(sbom["subject"][0]["digest"]["sha256"], digest.hex());
    let sbom = &sbom["predicate"];
    let mut files = sbom["files"].as_array().unwrap().iter();
    let file = files.find(|file| file["fileName"] == "./etc/motd").unwrap();
    assert_eq!(file["checksums"][1]["checksumValue"], Digest::of(b"hello").hex());
    let layer = &sbom["packages"][2];
    assert_eq!(layer["versionInfo"], built["layer"]["digest"]);
    let excluded = &layer["packageVerificationCode"]["packageVerificationCodeExcludedFiles"];
    let current_config = "./etc/machine-config-daemon/currentconfig";
    assert_eq!(*excluded, json!([current_config, format!(".{SECRET}")]));
    assert_eq!(sbom["packages"][1]["versionInfo"], built["base"]["manifest"]);

    let kind = "https://slsa.dev/provenance/v1";
    let provenance = fixture.statement("os/worker", &digest, kind).await;
    let definition = &provenance["predicate"]["buildDefinition"];
    assert_eq!(definition["internalParameters"]["inputs"], built["inputs"]);
    assert_eq!(definition["internalParameters"].get("notRecorded"), None);
    let base = &definition["resolvedDependencies"][1];
    let manifest = built["base"]["manifest"].as_str().unwrap();
    assert_eq!(base["digest"]["sha256"], manifest.trim_start_matches("sha256:"));
    for document in [&provenance, sbom] {
        let text = document.to_string();
        for secret in ["hunter2", &Digest::of(b"hunter2").hex()] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
    // In another repository and at another time, the SBOM differs by names only.
    let again = fixture.sign("os/copy", "other.key").ok().json();
    assert_eq!(again["digest"], built["digest"]);
    let copy = fixture.statement("os/copy", &digest, "https://spdx.dev/Document").await;
    let text = copy["predicate"].to_string().replace("os/copy", "os/worker");
    assert_eq!(text.replace("pkg:oci/copy", "pkg:oci/worker"), sbom.to_string());
}

/// The packages of the base are those of the image, and inspect lists what is attached, by whom.
#[tokio::test(flavor = "multi_thread")]
async fn packages_of_the_base_are_described() {
    let status =
        "Package: zlib1g\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:1.2\n";
    let release = "ID=debian\nVERSION_ID=\"12\"\n";
    let tree = os().directory("var/lib", 0o755).directory("var/lib/dpkg", 0o755);
    let tree = tree.file("var/lib/dpkg/status", 0o644, status);
    let layer = tree.file("etc/os-release", 0o644, release).tar();
    let fixture = Fixture::on(&Image::new().layer(Compression::Plain, layer));
    let built = fixture.sign("os/worker", "os.key").ok().json();
    let digest: Digest = built["digest"].as_str().unwrap().parse().unwrap();
    let kind = "https://spdx.dev/Document";
    let sbom = fixture.statement("os/worker", &digest, kind).await;
    let package = &sbom["predicate"]["packages"][3];
    let url = "pkg:deb/debian/zlib1g@1:1.2?arch=amd64&distro=debian-12";
    assert_eq!(package["externalRefs"][0]["referenceLocator"], url, "{sbom:#}");
    let contains = json!({
        "spdxElementId": "SPDXRef-base-1", "relationshipType": "CONTAINS",
        "relatedSpdxElement": package["SPDXID"],
    });
    let relationships = sbom["predicate"]["relationships"].as_array().unwrap();
    assert!(relationships.contains(&contains), "{sbom:#}");
    // Without the tree in the cache, the document is the same.
    fixture.user.mosb.run(["cache", "prune"]).ok();
    fixture.sign("os/worker", "other.key").ok();
    let all = fixture.statements("os/worker", &digest, kind).await;
    assert_eq!(all, [sbom.clone(), sbom]);

    let image = format!("{}:{NAME}", fixture.output("os/worker"));
    let inspect = |more: &[&str]| {
        let arguments = [&["inspect", &image, "-o", "json"], more].concat();
        let info = fixture.user.mosb.run(arguments).ok().json();
        valid(&info);
        info
    };
    let attached = json!({ "signatures": 4, "sbom": true, "provenance": true });
    assert_eq!(inspect(&[])["attached"], attached);
    let key = fixture.file("other.key.pub");
    let policy = json!({
        "default": [{ "type": "insecureAcceptAnything" }],
        "transports": { "docker": { fixture.proxy.address(): [
            { "type": "sigstoreSigned", "keyPath": key, "signedIdentity": { "type": "matchRepository" } },
        ] } },
    });
    std::fs::write(fixture.file("policy.json"), policy.to_string()).unwrap();
    let of_policy = inspect(&["--signature-policy", &fixture.file("policy.json")]);
    assert_eq!(of_policy["attached"]["signedBy"].as_array().map(Vec::len), Some(1));

    // A registry that refuses them is not an error.
    let path = AttachmentKind::Signature.tag(&digest);
    fixture.proxy.rule(move |seen| seen.head.path().ends_with(&path).then(|| Fault::status(403)));
    let refused = inspect(&[]);
    assert_eq!(refused.get("attached"), None, "{refused:#}");
    assert!(refused["warnings"][0]["code"].is_string(), "{refused:#}");
}

/// A registry that takes no writes from one on, as when the program is killed there: no tag names an
/// image without evidence, and the next run does the rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_stops_at_any_write_is_completed() {
    let fixture = Fixture::new();
    let mut stopped = 0;
    for last in 0.. {
        let repository = format!("os/worker-{last}");
        let count = AtomicUsize::new(0);
        fixture.proxy.rule(move |seen| {
            let is_over =
                is_write(&seen.head.method) && count.fetch_add(1, Ordering::SeqCst) >= last;
            is_over.then(|| Fault::status(403))
        });
        let first = fixture.sign(&repository, "os.key");
        fixture.proxy.rule(|_| None);
        let image = format!("{}:{NAME}", fixture.output(&repository));
        let tag = fixture.get(&format!("{repository}/manifests/{NAME}")).await;
        if first.code() == Some(0) {
            break;
        }
        assert_eq!(first.json()["code"], "denied", "{last}: {first:?}");
        if tag.is_some() {
            let (code, manifest) = fixture.verify(&image, "os.key.pub");
            let attestations = manifest["attestations"].as_array().map(Vec::len);
            assert_eq!((code, attestations), (Some(0), Some(2)), "{last}: {manifest:#}");
        }
        let second = fixture.sign(&repository, "os.key").ok().json();
        let (code, manifest) = fixture.verify(&image, "os.key.pub");
        assert_eq!(code, Some(0), "{last}: {manifest:#}");
        assert_eq!(manifest["digest"], second["digest"]);
        assert_eq!(manifest["signatures"].as_array().map(Vec::len), Some(2), "{last}");
        assert_eq!(manifest["attestations"].as_array().map(Vec::len), Some(2), "{last}");
        stopped += 1;
    }
    // The layer and the config, the image, two signatures, two attestations, their configs, manifests,
    // the list of referrers and two tags.
    assert!(stopped >= 15, "{stopped}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_without_evidence_moves_no_tag() {
    let fixture = Fixture::new();
    for (what, part) in [("signatures", ".sig"), ("attestations", ".att")] {
        let repository = format!("os/{what}");
        let path = part.to_owned();
        fixture.proxy.rule(move |seen| {
            let is_it = seen.head.method == "PUT" && seen.head.path().ends_with(&path);
            is_it.then(|| Fault::status(403))
        });
        let refused = fixture.sign(&repository, "os.key");
        assert_refused(&refused, what, 1, "denied", &["could not be signed, so no tag was moved"]);
        let tag = fixture.get(&format!("{repository}/manifests/{NAME}")).await;
        assert_eq!(tag, None, "{what}");
    }
    // An image that has its tags gets evidence, and its tags are not touched.
    fixture.proxy.rule(|_| None);
    let built = fixture.build("os/worker", &[]).ok().json();
    assert_eq!(built.get("signed"), None);
    fixture.proxy.rule(|_| None);
    fixture.sign("os/worker", "os.key").ok();
    assert!(!fixture.manifests_put().iter().any(|put| put == NAME));
    let image = format!("{}:{NAME}", fixture.output("os/worker"));
    assert_eq!(fixture.verify(&image, "os.key.pub").0, Some(0));
}

#[test]
fn what_can_not_be_signed_is_refused_first() {
    let fixture = Fixture::new();
    let key = fixture.file("os.key");
    let layout = fixture.user.build(config().as_bytes(), &["--sign-key", &key]);
    assert_refused(&layout, "a layout", 2, "wrong-use", &["an OCI layout has no place"]);
    let missing = fixture.build("os/worker", &["--sign-key", &fixture.file("no.key")]);
    assert_eq!(missing.code(), Some(2), "{missing:?}");
    let stdin = fixture.build("os/worker", &["--sign-key", "-"]);
    assert_refused(&stdin, "two on stdin", 2, "wrong-use", &["stdin can be read once"]);
    let public = fixture.build("os/worker", &["--sign-key", &fixture.file("os.key.pub")]);
    assert_refused(&public, "a public key", 2, "bad-key", &["os.key.pub"]);
    assert!(fixture.proxy.seen().is_empty());
}
