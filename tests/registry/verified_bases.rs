//! `mosb plan` and `mosb build` verify what a build is made on by a `policy.json`, before anything is
//! built or pushed.

use std::fs;

use serde_json::{Value, json};

use mosb_tests::build_fixture::{base, config};
use mosb_tests::{Compression, FaultProxy, Finished, Image, Layout, Mosb, Registry, Tree, ask};

const BASE: &str = "os/base:v1";

/// A registry with a base, two keys, and a policy that requires signatures below `os/`.
struct Fixture {
    registry: Registry,
    layout: Layout,
    mosb: Mosb,
}

impl Fixture {
    fn new() -> Self {
        let mosb = Mosb::new();
        let layout = Layout::create(&mosb.home().join("layout"));
        let fixture = Self { registry: Registry::plain(), layout, mosb };
        fixture.push("base", &base(), BASE);
        for name in ["os.key", "other.key"] {
            fixture.mosb.run(["keys", "new", &fixture.file(name)]).ok();
        }
        fixture.require(json!([fixture.signed()]));
        fixture
    }

    fn file(&self, name: &str) -> String {
        self.mosb.home().join(name).display().to_string()
    }

    /// Pushes an image, and returns its name by digest.
    fn push(&self, tag: &str, image: &Image, name: &str) -> String {
        let digest = self.layout.put(tag, image);
        self.registry.push(&self.layout, tag, name);
        let (repository, _) = name.rsplit_once(':').unwrap();
        format!("{}@{digest}", self.registry.repository(repository))
    }

    fn signed(&self) -> Value {
        json!({ "type": "sigstoreSigned", "keyPath": self.file("os.key.pub") })
    }

    /// Writes the policy with these requirements below `os/`.
    fn require(&self, requirements: Value) {
        let accept = json!([{ "type": "insecureAcceptAnything" }]);
        let scope = self.registry.repository("os");
        let policy = json!({
            "default": accept, "transports": { "docker": { scope: requirements } },
        });
        fs::write(self.file("policy.json"), policy.to_string()).unwrap();
    }

    /// Signs an image by its name, for this name.
    fn sign(&self, image: &str, key: &str, identity: &str) {
        let (image, identity) =
            (self.registry.repository(image), self.registry.repository(identity));
        let key = self.file(key);
        let sign = ["sign", &image, "--sign-key", &key, "--sign-identity", &identity];
        self.mosb.run(sign).ok();
    }

    fn fingerprint(&self, key: &str) -> Value {
        let shown = self.mosb.run(["keys", "show", &self.file(key), "-o", "json"]).ok();
        shown.json()["fingerprint"].clone()
    }

    fn run(&self, command: &str, config: &str, more: &[&str]) -> Finished {
        let target = self.registry.repository("images/worker");
        let (base, policy) = (self.registry.repository(BASE), self.file("policy.json"));
        let mut words = vec![command, "-", "--output", &target, "--signature-policy", &policy];
        if !more.contains(&"-o") {
            words.extend(["-o", "json"]);
        }
        if !more.contains(&"--base") {
            words.extend(["--base", &base]);
        }
        words.extend(more);
        self.mosb.run_with(words, config.as_bytes())
    }

    fn build(&self, more: &[&str]) -> Finished {
        self.run("build", &config(), more)
    }

    /// Plans with a Containerfile.
    fn plan_with(&self, containerfile: &str, more: &[&str]) -> Finished {
        let file = self.file("Containerfile");
        fs::write(&file, containerfile).unwrap();
        self.run("plan", &config(), &[&["--containerfile", &file], more].concat())
    }

    /// Whether something was pushed.
    fn has_image(&self) -> bool {
        let tags = ask(self.registry.address(), "GET /v2/images/worker/tags/list HTTP/1.1");
        !tags.unwrap().starts_with("HTTP/1.1 404")
    }

    /// Fails unless the command failed with this code, and a message with this text.
    #[track_caller]
    fn assert_refused(
        &self,
        what: &str,
        refused: &Finished,
        exit_code: i32,
        code: &str,
        text: &str,
    ) {
        let error = refused.json();
        assert_eq!(
            (refused.code(), &error["code"]),
            (Some(exit_code), &json!(code)),
            "{what}: {error}"
        );
        assert!(error["message"].as_str().unwrap().contains(text), "{what}: {error}");
        assert!(!self.has_image(), "{what}: an image was pushed");
    }
}

#[test]
fn a_base_is_verified_before_a_build() {
    let fixture = Fixture::new();
    let refused = |what: &str, text: &str| {
        for command in ["plan", "build"] {
            let finished = fixture.run(command, &config(), &[]);
            fixture.assert_refused(what, &finished, 1, "signature-not-accepted", text);
            let message = finished.json()["message"].to_string();
            for part in [&fixture.registry.repository("os"), "policy.json", "mosb verify"] {
                assert!(message.contains(part), "{what}: {message}");
            }
        }
    };
    refused("unsigned", "it has no signature");
    fixture.sign(BASE, "other.key", BASE);
    refused("by another key", "none of the keys verifies it");
    fixture.sign(BASE, "os.key", "os/base:v2");
    refused("for another name", &fixture.registry.repository("os/base:v2"));

    // By digest, each tag of the repository counts.
    let by_digest =
        format!("{}@{}", fixture.registry.repository("os/base"), fixture.layout.digest("base"));
    fixture.run("plan", &config(), &["--base", &by_digest]).ok();

    fixture.sign(BASE, "os.key", BASE);
    let plan = fixture.run("plan", &config(), &[]).ok().json();
    let want = json!([{
        "image": by_digest,
        "policy": { "file": fixture.file("policy.json"), "scope": fixture.registry.repository("os") },
        "signatures": [{
            "key": fixture.fingerprint("os.key.pub"), "identity": fixture.registry.repository(BASE),
        }],
    }]);
    assert_eq!(plan["verified"], want, "{plan:#}");
    let text = fixture.run("plan", &config(), &["-o", "text"]).ok().text();
    let key = fixture.fingerprint("os.key.pub");
    let line =
        format!("signed for {} with {}", fixture.registry.repository(BASE), key.as_str().unwrap());
    assert!(text.contains(&line), "{text}");
    let built = fixture.build(&[]).ok().json();
    assert_eq!(built["verified"], want, "{built:#}");
    assert!(fixture.has_image());
}

#[test]
fn a_moved_tag_loses_its_signature() {
    let fixture = Fixture::new();
    fixture.sign(BASE, "os.key", BASE);
    let other = base().label("other", "yes");
    fixture.push("other", &other, BASE);
    let refused = fixture.build(&[]);
    fixture.assert_refused("moved", &refused, 1, "signature-not-accepted", "it has no signature");
}

#[test]
fn what_a_policy_cannot_accept_is_an_error() {
    let fixture = Fixture::new();
    fixture.sign(BASE, "os.key", BASE);
    let mut rekor = fixture.signed();
    rekor["rekorPublicKeyData"] = json!("eA==");
    let missing = json!({ "type": "sigstoreSigned", "keyPath": fixture.file("none.pub") });
    let gpg = json!({ "type": "signedBy", "keyType": "GPGKeys", "keyPath": "/none" });
    let exact = json!({ "type": "matchExact" });
    let mut other = fixture.signed();
    other["keyPath"] = json!(fixture.file("other.key.pub"));
    let mut exactly = fixture.signed();
    exactly["signedIdentity"] = exact;
    for (what, requirements, exit_code, code, text) in [
        ("reject", json!([{ "type": "reject" }]), 2, "rejected", "policy.json"),
        ("signedBy", json!([fixture.signed(), gpg]), 2, "unchecked-policy", "signedBy"),
        ("Rekor", json!([rekor]), 2, "unchecked-policy", "rekorPublicKeyData"),
        ("no key", json!([missing]), 2, "unchecked-policy", "none.pub"),
        ("two keys", json!([fixture.signed(), other]), 1, "signature-not-accepted", "keys"),
    ] {
        fixture.require(requirements);
        fixture.assert_refused(what, &fixture.build(&[]), exit_code, code, text);
    }
    // A requirement counts only where it applies.
    fixture.require(json!([exactly]));
    fixture.run("plan", &config(), &[]).ok();
    let policy = json!({
        "default": [{ "type": "insecureAcceptAnything" }],
        "transports": { "docker": { "other.example": [fixture.signed()] } },
    });
    fs::write(fixture.file("policy.json"), policy.to_string()).unwrap();
    let proxy = FaultProxy::start(fixture.registry.address());
    let base = format!("{}/{BASE}", proxy.address());
    let plan = fixture.run("plan", &config(), &["--base", &base]).ok().json();
    assert_eq!(plan["verified"], Value::Null, "{plan:#}");
    let is_signature = |path: &str| path.ends_with(".sig");
    assert!(!proxy.seen().iter().any(|seen| is_signature(seen.head.path())), "it is not asked for");
}

#[test]
fn of_an_index_the_image_itself_is_verified() {
    let fixture = Fixture::new();
    fixture.layout.put_index("all", &[base(), base().architecture("arm64")]);
    fixture.registry.push(&fixture.layout, "all", "os/base:all");
    let index = fixture.layout.digest("all");
    let name = fixture.registry.repository("os/base:all");
    let plan = || fixture.run("plan", &config(), &["--base", &name, "--platform", "linux/arm64"]);
    let refused = plan();
    fixture.assert_refused("unsigned", &refused, 1, "signature-not-accepted", "no signature");
    assert!(!refused.json()["message"].as_str().unwrap().contains(&index), "{refused:?}");
    fixture.sign("os/base:all", "os.key", "os/base:all");
    let verified = plan().ok().json()["verified"].clone();
    assert!(!verified[0]["image"].as_str().unwrap().contains(&index), "{verified:#}");
}

#[test]
fn images_of_a_containerfile_are_verified_by_digest() {
    let fixture = Fixture::new();
    fixture.sign(BASE, "os.key", BASE);
    let tool = Image::new().layer(Compression::Gzip, Tree::new().file("tool", 0o755, "").tar());
    let pinned = fixture.push("tool", &tool, "os/tool:v1");
    let tag = fixture.registry.repository("os/tool:v1");
    let texts = |tool: &str| {
        [
            format!("FROM {tool} AS tool\nFROM configs\nCOPY --from=tool /tool /usr/bin/tool\n"),
            format!("FROM configs\nCOPY --from={tool} /tool /usr/bin/tool\n"),
            format!(
                "FROM configs\nRUN --mount=from={tool},target=/mnt cp /mnt/tool /usr/bin/tool\n"
            ),
        ]
    };
    let refused = |tool: &str, exit_code: i32, code: &str, part: &str| {
        for text in texts(tool) {
            let finished = fixture.plan_with(&text, &[]);
            fixture.assert_refused(&text, &finished, exit_code, code, part);
        }
    };
    refused(&tag, 1, "signature-not-accepted", "it has no signature");
    refused(&pinned, 1, "signature-not-accepted", "it has no signature");
    fixture.sign("os/tool:v1", "os.key", "os/tool:v1");
    refused(&tag, 2, "image-not-pinned", &pinned);
    for text in texts(&pinned) {
        let verified = fixture.plan_with(&text, &[]).ok().json()["verified"].clone();
        let images: Vec<_> = verified.as_array().unwrap().iter().map(|it| &it["image"]).collect();
        assert_eq!((images.len(), images[1]), (2, &json!(pinned)), "{text}: {verified:#}");
    }
    // An image that can't be known may be one that the policy doesn't accept.
    let unknown = "FROM configs\nRUN --mount=from=$IMAGE,target=/mnt true\n";
    let finished = fixture.plan_with(unknown, &[]);
    fixture.assert_refused("unknown", &finished, 2, "bad-containerfile", "line 2");
    // Other images stay as they are.
    let free = fixture.push("free", &tool, "free/tool:v1");
    assert!(free.contains("free/tool@"));
    let tag = fixture.registry.repository("free/tool:v1");
    let plan = fixture.plan_with(&texts(&tag)[0], &[]).ok().json();
    assert_eq!(plan["verified"].as_array().unwrap().len(), 1, "{plan:#}");
}

#[test]
fn extensions_and_prepared_bases_are_verified() {
    let fixture = Fixture::new();
    fixture.sign(BASE, "os.key", BASE);
    let packages = Image::new().layer(Compression::Gzip, Tree::new().directory("p", 0o755).tar());
    fixture.push("extensions", &packages, "os/extensions:v1");
    let mut wants: Value = serde_json::from_str(&config()).unwrap();
    wants["spec"]["extensions"] = json!(["usbguard"]);
    wants["spec"]["baseOSExtensionsContainerImage"] =
        json!(fixture.registry.repository("os/extensions:v1"));
    let plan = || fixture.run("plan", &wants.to_string(), &[]);
    let code = "signature-not-accepted";
    fixture.assert_refused("extensions", &plan(), 1, code, "os/extensions:v1");
    fixture.sign("os/extensions:v1", "os.key", "os/extensions:v1");
    let planned = plan().ok().json();
    assert_eq!(planned["verified"].as_array().unwrap().len(), 2, "{planned:#}");

    // As buildah would make it.
    let text = "FROM base\nRUN true\n";
    let inputs = fixture.plan_with(text, &[]).ok().json()["prepared"]["inputs"].clone();
    let prepared = base()
        .layer(Compression::Gzip, Tree::new().file("usr/lib/made", 0o644, "").tar())
        .label("mosb.dev/prepared-inputs", inputs.as_str().unwrap())
        .label("org.opencontainers.image.base.digest", &fixture.layout.digest("base"));
    let prepared = fixture.push("prepared", &prepared, "os/prepared:v1");
    let file = fixture.file("Containerfile");
    let more = ["--containerfile", &file, "--prepared", &prepared];
    fixture.assert_refused("prepared", &fixture.build(&more), 1, code, &prepared);
    fixture.sign("os/prepared:v1", "os.key", "os/prepared:v1");
    let built = fixture.build(&more).ok().json();
    assert_eq!(built["method"], "prepared", "{built:#}");
    assert_eq!(built["verified"][1]["image"], json!(prepared), "{built:#}");
}
