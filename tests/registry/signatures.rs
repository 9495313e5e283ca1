//! `mosb sign` and `mosb verify` against Debian's registry, which has no API for referrers, and
//! against what others put beside an image. Keys of other kinds are made by openssl.

use std::os::unix::fs::PermissionsExt as _;

use mosb_image::media_type::{OCI_INDEX, OCI_MANIFEST};
use mosb_image::{BlobRef, Digest, RepoRef};
use mosb_registry::Client;
use mosb_trust::signature::SIGNATURE_ANNOTATION;
use mosb_trust::{AttachmentKind, Evidence, SigningKey, attached};
use mosb_types::Secret;
use serde_json::{Value, json};

use mosb_tests::registry_fixture::{anonymous_client, base, options};
use mosb_tests::{Compression, FaultProxy, Finished, Image, Layout, Mosb, Registry, Tree, run};

/// A registry with the image `acme/os:v1`, and two keys.
struct Fixture {
    registry: Registry,
    layout: Layout,
    mosb: Mosb,
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let layout = base(&directory.path().join("layout"), 1 << 10);
        let registry = Registry::plain();
        registry.push(&layout, "v1", "acme/os:v1");
        let fixture = Self { registry, layout, mosb: Mosb::new(), directory };
        for name in ["os.key", "other.key"] {
            fixture.run(&["keys", "new", &fixture.file(name)]).ok();
        }
        fixture
    }

    fn file(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.mosb.run(arguments)
    }

    fn sign(&self, image: &str, key: &str) -> Value {
        let (image, key) = (self.registry.repository(image), self.file(key));
        self.run(&["sign", &image, "--sign-key", &key, "-o", "json"]).ok().json()
    }

    fn verify(&self, image: &str, key: &str) -> (Option<i32>, Value) {
        self.verify_at(&self.registry.repository(image), key)
    }

    fn verify_at(&self, image: &str, key: &str) -> (Option<i32>, Value) {
        let finished = self.run(&["verify", image, "--key", &self.file(key), "-o", "json"]);
        (finished.code(), finished.json())
    }

    fn signing_key(&self, name: &str) -> SigningKey {
        let text = std::fs::read(self.file(name)).unwrap();
        SigningKey::from_pem(&Secret::new(text), None).unwrap()
    }

    async fn put(&self, reference: &str, manifest: Vec<u8>) {
        put(self.registry.address(), reference, manifest).await;
    }

    async fn get(&self, reference: &str) -> Vec<u8> {
        get(self.registry.address(), reference).await
    }
}

fn manifest_url(address: &str, reference: &str) -> String {
    format!("http://{address}/v2/acme/os/manifests/{reference}")
}

/// Puts a manifest as anybody who may push can.
async fn put(address: &str, reference: &str, manifest: Vec<u8>) {
    let request = reqwest::Client::new().put(manifest_url(address, reference));
    let answer = request.header("content-type", OCI_MANIFEST).body(manifest).send();
    answer.await.unwrap().error_for_status().unwrap();
}

async fn get(address: &str, reference: &str) -> Vec<u8> {
    let accept = format!("{OCI_MANIFEST}, {OCI_INDEX}");
    let request = reqwest::Client::new().get(manifest_url(address, reference));
    let answer = request.header("accept", accept).send().await.unwrap();
    answer.error_for_status().unwrap().bytes().await.unwrap().to_vec()
}

/// Gives a manifest another tag, from the thread of a proxy.
fn copy_tag(address: &str, digest: &str, tag: &str) {
    let copy = async { put(address, tag, get(address, digest).await).await };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(copy);
}

fn signature_tag(digest: &str) -> String {
    AttachmentKind::Signature.tag(&digest.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_signed_once_and_verified() {
    let fixture = Fixture::new();
    let digest = fixture.layout.digest("v1");
    let mode = |name| std::fs::metadata(fixture.file(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("os.key"), mode("os.key.pub")), (0o600, 0o644));
    let again = fixture.run(&["keys", "new", &fixture.file("os.key")]);
    assert_eq!(again.code(), Some(2), "{again:?}");

    let (code, unsigned) = fixture.verify("acme/os:v1", "os.key.pub");
    assert_eq!(
        (code, &unsigned["manifests"][0]["reason"]),
        (Some(1), &json!("it has no signature"))
    );
    let signed = fixture.sign("acme/os:v1", "os.key");
    assert_eq!(signed["manifests"][0]["added"], true);
    let (code, verified) = fixture.verify("acme/os:v1", "os.key.pub");
    assert_eq!((code, &verified["accepted"]), (Some(0), &json!(true)), "{verified:#}");
    let name = fixture.registry.repository("acme/os:v1");
    let want = json!([{ "key": signed["key"], "identity": name }]);
    assert_eq!(verified["manifests"][0]["signatures"], want);
    let (code, _) = fixture.verify("acme/os:v1", "other.key.pub");
    assert_eq!(code, Some(1));

    // Again, by another name, and by another key: what was there stays.
    assert_eq!(fixture.sign("acme/os:v1", "os.key")["manifests"][0]["added"], false);
    fixture.sign(&format!("acme/os@{digest}"), "os.key");
    fixture.sign("acme/os:v1", "other.key");
    let (_, verified) = fixture.verify("acme/os:v1", "os.key.pub");
    let signatures = verified["manifests"][0]["signatures"].as_array().unwrap();
    let identities: Vec<_> = signatures.iter().map(|one| &one["identity"]).collect();
    let by_digest = fixture.registry.repository(&format!("acme/os@{digest}"));
    assert_eq!(identities, [&json!(name), &json!(by_digest), &Value::Null]);
    let both = ["os.key.pub", "other.key.pub"].map(|key| fixture.file(key));
    let both = fixture.run(&["verify", &name, "--key", &both[0], "--key", &both[1]]).ok();
    assert_eq!(both.text().matches("by sha256:").count(), 3, "{both:?}");

    // The registry has no API for referrers, so that a tag lists the one manifest.
    let tag = attached::referrers_tag(&digest.parse().unwrap());
    let index: Value = serde_json::from_slice(&fixture.get(&tag).await).unwrap();
    let manifest = fixture.get(&signature_tag(&digest)).await;
    let mut want = json!(BlobRef::of(OCI_MANIFEST, &manifest));
    want["artifactType"] = json!(AttachmentKind::Signature.artifact_type());
    assert_eq!(index["manifests"], json!([want]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_and_its_images_are_signed() {
    let fixture = Fixture::new();
    let image = |architecture: &str| {
        let layer = Tree::new().file("etc/arch", 0o644, architecture).tar();
        Image::new().architecture(architecture).layer(Compression::Gzip, layer)
    };
    fixture.layout.put_index("all", &[image("amd64"), image("arm64")]);
    fixture.registry.push(&fixture.layout, "all", "acme/os:all");
    let signed = fixture.sign("acme/os:all", "os.key");
    assert_eq!(signed["manifests"].as_array().unwrap().len(), 3, "{signed:#}");
    let (code, verified) = fixture.verify("acme/os:all", "os.key.pub");
    assert_eq!(code, Some(0), "{verified:#}");
    assert_eq!(verified["digest"], fixture.layout.digest("all"));
    let name = fixture.registry.repository("acme/os:all");
    for manifest in verified["manifests"].as_array().unwrap() {
        assert_eq!(manifest["signatures"][0]["identity"], name, "{verified:#}");
    }
    // One of its images without a signature is enough for podman to refuse it.
    let arm = verified["manifests"][2]["digest"].as_str().unwrap();
    fixture.put(&signature_tag(arm), fixture.get("v1").await).await;
    let (code, verified) = fixture.verify("acme/os:all", "os.key.pub");
    assert_eq!(code, Some(1));
    let accepted: Vec<_> =
        (0..3).map(|at| verified["manifests"][at]["accepted"] == json!(true)).collect();
    assert_eq!(accepted, [true, true, false]);
}

#[test]
fn keys_of_other_kinds_verify_and_do_not_sign() {
    let fixture = Fixture::new();
    let digest = fixture.layout.digest("v1").parse().unwrap();
    for (kind, parameters, name) in [
        ("EC", "ec_paramgen_curve:P-256", "ECDSA P-256"),
        ("EC", "ec_paramgen_curve:P-384", "ECDSA P-384"),
        ("EC", "ec_paramgen_curve:P-521", "ECDSA P-521"),
        ("RSA", "rsa_keygen_bits:2048", "RSA"),
        ("ED25519", "", "Ed25519"),
    ] {
        let (key, public) = (fixture.file(kind), fixture.file("public"));
        let options = if parameters.is_empty() { vec![] } else { vec!["-pkeyopt", parameters] };
        let make = ["genpkey", "-quiet", "-algorithm", kind, "-out", &key];
        run("openssl", make.into_iter().chain(options));
        run("openssl", ["pkey", "-in", &key, "-pubout", "-out", &public]);
        let shown = fixture.run(&["keys", "show", &public, "-o", "json"]).ok().json();
        assert_eq!(shown["algorithm"], name);
        assert_eq!(shown["publicKey"], std::fs::read_to_string(&public).unwrap(), "{name}");
        let image = fixture.registry.repository("acme/os:v1");
        let signing = fixture.run(&["sign", &image, "--sign-key", &key]);
        assert_eq!(signing.code(), Some(if name == "ECDSA P-256" { 0 } else { 2 }), "{signing:?}");

        let payload = mosb_trust::payload::Payload { reference: image, digest };
        let (file, signature) = (fixture.file("payload"), fixture.file("signature"));
        std::fs::write(&file, payload.to_bytes()).unwrap();
        let mut sign = vec!["pkeyutl", "-sign", "-inkey", &key, "-rawin", "-in", &file];
        if kind != "ED25519" {
            sign.extend(["-digest", "sha256"]);
        }
        run("openssl", sign.into_iter().chain(["-out", &signature]));
        let text = std::fs::read(&public).unwrap();
        let key = mosb_trust::VerifyingKey::from_pem(&text).unwrap();
        let signature = std::fs::read(&signature).unwrap();
        assert!(key.verifies(&payload.to_bytes(), &signature), "{name}");
        assert!(!key.verifies(b"another", &signature), "{name}");
    }
    let small = fixture.file("small");
    let make = ["genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"];
    run("openssl", make.into_iter().chain(["-out", &small]));
    let public = fixture.file("small.pub");
    run("openssl", ["pkey", "-in", &small, "-pubout", "-out", &public]);
    let shown = fixture.run(&["keys", "show", &public]);
    assert_eq!(shown.code(), Some(2), "{shown:?}");
}

/// The tag of the signatures of an image may have what others put there.
#[tokio::test(flavor = "multi_thread")]
async fn what_others_attach_costs_only_a_no() {
    let fixture = Fixture::new();
    let digest = fixture.layout.digest("v1");
    fixture.sign("acme/os:v1", "os.key");
    let tag = signature_tag(&digest);
    let ours: Value = serde_json::from_slice(&fixture.get(&tag).await).unwrap();
    let with_layers = |layers: Vec<Value>| {
        let mut manifest = ours.clone();
        manifest["layers"] = json!(layers);
        manifest.to_string().into_bytes()
    };
    let layer = ours["layers"][0].clone();
    let large = |size: u64| {
        let mut large = layer.clone();
        large["size"] = json!(size);
        large["annotations"][SIGNATURE_ANNOTATION] = json!("AAAA");
        large
    };

    // A signature of another image, such as what the tag named before.
    let other = Image::new().layer(Compression::Gzip, Tree::new().file("x", 0o644, "").tar());
    let other = fixture.layout.put("v2", &other);
    fixture.registry.push(&fixture.layout, "v2", "acme/os:v2");
    fixture.put(&signature_tag(&other), with_layers(vec![layer.clone()])).await;
    let (code, verified) = fixture.verify("acme/os:v2", "os.key.pub");
    let reason = verified["manifests"][0]["reason"].as_str().unwrap();
    assert_eq!(code, Some(1), "{verified:#}");
    assert!(reason.contains(&format!("it is for another image, {digest}")), "{reason}");

    // A payload of 1 GB, which is not read, beside ours.
    fixture.put(&tag, with_layers(vec![large(1 << 30), layer.clone()])).await;
    let (code, verified) = fixture.verify("acme/os:v1", "os.key.pub");
    assert_eq!(code, Some(0), "{verified:#}");
    let problem = &verified["manifests"][0]["signatures"][0]["problem"];
    let unread = "it is missing or damaged, or larger than what is read of signatures";
    assert_eq!(problem, unread);
    // So is one with a wrong size.
    fixture.put(&tag, with_layers(vec![large(5), layer.clone()])).await;
    let (code, verified) = fixture.verify("acme/os:v1", "os.key.pub");
    assert_eq!(
        (code, &verified["manifests"][0]["signatures"][0]["problem"]),
        (Some(0), &json!(unread))
    );

    // 10,000 signatures, and a manifest of something else.
    let mut many = ours.clone();
    many["layers"] = json!(vec![large(5); 10_000]);
    fixture.put(&tag, many.to_string().into_bytes()).await;
    let (code, error) = fixture.verify("acme/os:v1", "os.key.pub");
    assert_eq!((code, &error["code"]), (Some(2), &json!("too-large")), "{error:#}");
    let image = fixture.registry.repository("acme/os:v1");
    let key = fixture.file("os.key");
    let sign = fixture.run(&["sign", &image, "--sign-key", &key, "-o", "json"]);
    assert_eq!(sign.json()["code"], "too-large", "{sign:?}");
    fixture.put(&tag, fixture.get("v2").await).await;
    let (code, _) = fixture.verify("acme/os:v1", "os.key.pub");
    assert_eq!(code, Some(1));
}

/// Only what was read once counts: a tag that moves between two requests is not mixed up.
#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_swaps_tags_gains_nothing() {
    let fixture = Fixture::new();
    let digest = fixture.layout.digest("v1");
    fixture.sign("acme/os:v1", "os.key");
    let evil = Image::new().layer(Compression::Gzip, Tree::new().file("evil", 0o644, "").tar());
    let evil = fixture.layout.put("evil", &evil);
    fixture.registry.push(&fixture.layout, "evil", "acme/os:evil");
    let good = fixture.registry.save("acme/os");
    for (what, at) in [("the image", "/manifests/sha256-"), ("signatures", "/blobs/")] {
        fixture.registry.restore(&good);
        let proxy = FaultProxy::start(fixture.registry.address());
        let address = fixture.registry.address().to_owned();
        let (swapped, other) = (signature_tag(&digest), evil.clone());
        proxy.rule(move |seen| {
            if seen.head.path().contains(at) {
                // Both tags name the other image from now on.
                for tag in ["v1", &swapped] {
                    copy_tag(&address, &other, tag);
                }
            }
            None
        });
        let image = format!("{}/acme/os:v1", proxy.address());
        let (code, verified) = fixture.verify_at(&image, "os.key.pub");
        assert_eq!(verified["digest"], digest, "{what}");
        // Before the signatures were read, they are gone; after, they are those of the image.
        assert_eq!(code, Some(if at == "/blobs/" { 0 } else { 1 }), "{what}: {verified:#}");
        let (code, verified) = fixture.verify("acme/os:v1", "os.key.pub");
        assert_eq!((code, &verified["digest"]), (Some(1), &json!(evil)), "{what}");
    }
}

/// Nothing locks a tag: what another client writes between our reading and writing is added to.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_signature_is_written_again() {
    let fixture = Fixture::new();
    let digest: Digest = fixture.layout.digest("v1").parse().unwrap();
    fixture.sign("acme/os:v1", "other.key");
    let tag = signature_tag(&digest.to_string());
    let theirs = Digest::of(&fixture.get(&tag).await).to_string();
    let proxy = FaultProxy::start(fixture.registry.address());
    let (address, at) = (fixture.registry.address().to_owned(), tag.clone());
    let lost = std::sync::atomic::AtomicUsize::new(0);
    // After our first write, the other one writes what it had read before it.
    proxy.rule(move |seen| {
        let is_read = seen.head.method == "GET" && seen.head.path().ends_with(&at);
        if is_read && lost.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 1 {
            copy_tag(&address, &theirs, &at);
        }
        None
    });
    let key = fixture.signing_key("os.key");
    let repository = format!("{}/acme/os", proxy.address());
    let evidence = Evidence {
        key: &key,
        subject: BlobRef { digest, ..BlobRef::of(OCI_MANIFEST, b"") },
        references: vec![format!("{repository}:v1")],
        statements: Vec::new(),
    };
    let client = Client::new(&options()).unwrap();
    let repo: RepoRef = repository.parse().unwrap();
    let added = client.attach(&repo, &evidence);
    assert!(added.await.unwrap());
    let puts = proxy
        .seen()
        .iter()
        .filter(|head| head.head.method == "PUT" && head.head.path().ends_with(&tag))
        .count();
    assert_eq!(puts, 2);
    let image = format!("{}@{digest}", fixture.registry.repository("acme/os")).parse().unwrap();
    let client = anonymous_client();
    let found = client.attached(&image, AttachmentKind::Signature);
    assert_eq!(found.await.unwrap().unwrap().manifest.layers().len(), 2);
}
