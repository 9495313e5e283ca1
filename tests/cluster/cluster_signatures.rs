//! Policies require signatures of a pool's base, of its images and of a pre-built one, and the controller
//! signs what it built. On a real API server, with a real registry.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::cluster_sboms::{assert_same_sbom, sboms};
use crate::image_promotion::{annotate, wait_condition};
use crate::test_cluster::build_pod::recorded;
use crate::test_cluster::{BUILD, Cluster, SOON, state};
use mosb_tests::{Compression, Finished, Layout, Mosb, Tree, build_fixture, wait};

/// The Secret with the key of the controller.
pub const SECRET: &str = "os-signing-key";

/// Keys for signatures, and the program that makes and uses them.
pub struct Keys {
    mosb: Mosb,
}

impl Keys {
    pub fn new(names: &[&str]) -> Self {
        let keys = Self { mosb: Mosb::new() };
        for name in names {
            keys.mosb.run(["keys", "new", &keys.file(name)]).ok();
        }
        keys
    }

    pub fn file(&self, name: &str) -> String {
        self.mosb.home().join(name).display().to_string()
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }

    /// Gives the controller this key.
    pub fn give(&self, cluster: &Cluster, name: &str) {
        self.give_as(cluster, SECRET, name);
    }

    /// The same, in another Secret.
    fn give_as(&self, cluster: &Cluster, secret: &str, name: &str) {
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": secret },
            "stringData": { "cosign.key": self.text(name) } });
        cluster.namespace.apply(&secret.to_string());
    }

    /// Runs a command with the login and the CA of the registry.
    pub fn run(&self, cluster: &Cluster, words: &[&str]) -> Finished {
        let registry = cluster.node.registry();
        let (authfile, certificates) = (registry.authfile(), registry.certificates());
        let mut words = words.to_vec();
        words.extend(["--authfile", authfile.to_str().unwrap()]);
        words.extend(["--cert-dir", certificates.to_str().unwrap()]);
        self.mosb.run(words)
    }

    /// With the key `os.key`.
    fn sign(&self, cluster: &Cluster, image: &str) {
        self.run(cluster, &["sign", image, "--sign-key", &self.file("os.key")]).ok();
    }

    /// Of two images, each is signed by its own key, and not by that of the other.
    #[track_caller]
    fn assert_signed_by(&self, cluster: &Cluster, images: [(&String, &str); 2]) {
        for (image, own) in images {
            for (_, key) in images {
                let found = self.verified(cluster, image, key);
                assert_eq!(found.is_some(), key == own, "{image} by {key}");
            }
        }
    }

    /// What is attached to an image, if this key accepts it.
    pub fn verified(&self, cluster: &Cluster, image: &str, key: &str) -> Option<Value> {
        let key = self.file(&format!("{key}.pub"));
        let finished = self.run(cluster, &["verify", image, "--key", &key, "-o", "json"]);
        (finished.code() == Some(0)).then(|| finished.json()["manifests"][0].clone())
    }
}

pub fn descriptions(manifest: &Value) -> Vec<String> {
    let attestations = manifest["attestations"].as_array().unwrap().iter();
    attestations.map(|it| it["description"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The message of the condition `Blocked`, while it is true.
fn blocked(cluster: &Cluster) -> Option<String> {
    let config = cluster.config();
    let all = config["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let blocked = all.into_iter().find(|one| one["type"] == "Blocked" && one["status"] == "True");
    Some(blocked?["message"].as_str().unwrap().to_owned())
}

/// Pushes a base with a package under a tag of its own, and returns its name with the tag, and its digest.
fn push_base(cluster: &Cluster, version: &str) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(&folder.path().join("base"));
    let package =
        "Package: bash\nStatus: install ok installed\nVersion: 5.2\nArchitecture: amd64\n";
    let packages = Tree::new().file("var/lib/dpkg/status", 0o644, package).tar();
    let image = build_fixture::base().layer(Compression::Plain, packages);
    let image = image.label("org.opencontainers.image.version", version);
    let digest = layout.put("base", &image);
    let registry = cluster.node.registry();
    let name = format!("{}-base:{version}", cluster.pool);
    registry.push(&layout.reference("base"), &name);
    (registry.repository(&name), digest)
}

fn policy(repository: &str, key: &str) -> Value {
    let signed = json!({ "type": "sigstoreSigned", "keyData": STANDARD.encode(key) });
    let policy = json!({
        "default": [{ "type": "insecureAcceptAnything" }],
        "transports": { "docker": { repository: [signed] } },
    });
    json!({ "signaturePolicy": policy.to_string() })
}

#[test]
fn a_base_is_built_on_once_it_is_signed() {
    let mut cluster = Cluster::new("signatures");
    let keys = Keys::new(&["os.key"]);
    let ((first_base, _), (second_base, _)) = (push_base(&cluster, "1"), push_base(&cluster, "2"));
    cluster.render_on(&first_base, "first");
    cluster.opt_in(None);
    cluster.start();
    let first = cluster.image_after("");

    let (repository, _) = first_base.rsplit_once(':').unwrap();
    cluster.settings_with(&policy(repository, &keys.text("os.key.pub")));
    cluster.render_on(&second_base, "second");
    let message = wait("Blocked by the policy", SOON, || blocked(&cluster));
    for part in [&*second_base, "it has no signature", repository, "mosb-config", "sign it"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    // Each new try is planned first.
    wait("its status", SOON, || {
        let status = cluster.mosb(&["status", &cluster.pool]).ok().text();
        status.contains("it has no signature").then_some(())
    });
    assert_eq!(cluster.config()["status"]["currentImagePullSpec"], json!(first));
    assert_eq!(cluster.builds().len(), 1, "nothing is built");

    keys.sign(&cluster, &second_base);
    let second = cluster.image_after(&first);
    assert_eq!(cluster.file(&second, "/etc/story"), "second");
    assert_eq!(cluster.builds().len(), 2);
}

#[test]
fn the_controller_signs_images_before_they_serve() {
    let mut cluster = Cluster::new("signed");
    let keys = Keys::new(&["first.key", "second.key", "hand.key"]);
    cluster.settings_with(&json!({ "signing": { "secret": SECRET } }));
    let (base, _) = push_base(&cluster, "1");
    let rendered = cluster.render_on(&base, "one");
    cluster.opt_in(None);
    cluster.start();

    // The image is built, and not in service.
    let message = wait("Blocked without a key", BUILD, || blocked(&cluster));
    let secret = format!("secret {}/{SECRET}", cluster.namespace.name);
    for part in [&*secret, "there is none", "cosign generate-key-pair"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let build = cluster.current();
    assert_eq!(state(&build), "Building", "{build:#}");
    let noted = build["metadata"]["annotations"]["mosb.dev/not-signed"].as_str().unwrap();
    assert!(noted.starts_with("no-signing-key: ") && noted.contains(&secret), "{noted}");
    assert_eq!(cluster.config()["status"]["currentImagePullSpec"].as_str().unwrap_or(""), "");

    keys.give(&cluster, "first.key");
    let first = cluster.image_after("");
    let build = cluster.current();
    assert_eq!((state(&build), cluster.builds().len()), ("Succeeded".to_owned(), 1));
    let annotations = &build["metadata"]["annotations"];
    assert!(annotations["mosb.dev/signed"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(annotations["mosb.dev/not-signed"], Value::Null, "{annotations:#}");
    assert!(cluster.message(&cluster.config(), "ImageSigned").contains(&first));
    let tags = [rendered.as_str(), build["metadata"]["name"].as_str().unwrap()];
    for tag in tags {
        let image = format!("{}:{tag}", cluster.push);
        let manifest = keys.verified(&cluster, &image, "first.key").expect("it is signed");
        let signatures = manifest["signatures"].as_array().unwrap();
        let mut identities = signatures.iter().map(|it| &it["identity"]);
        assert!(identities.any(|identity| *identity == image.as_str()), "{signatures:#?}");
        let found = descriptions(&manifest);
        let has = |part: &str| found.iter().any(|one| one.contains(part));
        assert!(has("SPDX-2.3") && has(" files"), "of a direct build, files are listed: {found:?}");
        assert!(has("by https://mosb.dev/builder/controller, of ") && has(&rendered), "{found:?}");
    }
    assert_same_sbom(&keys, &cluster, &first, &rendered, &[]);
    assert!(sboms(&cluster, &first)[0].to_string().contains("/bash@5.2?"));
    let shown = cluster.mosb(&["builds", &cluster.pool, "-o", "json"]).ok().json();
    assert_eq!(shown["builds"][0]["signed"], annotations["mosb.dev/signed"]);
    assert!(!cluster.log().contains("PRIVATE KEY"));

    // Another key signs what is built from then on.
    keys.give(&cluster, "second.key");
    cluster.render("two");
    let second = cluster.image_after(&first);
    keys.assert_signed_by(&cluster, [(&first, "first.key"), (&second, "second.key")]);

    // With a key that can't be used, an image comes into service unsigned if that is set.
    let optional = json!({ "signing": { "secret": "missing", "required": false } });
    cluster.settings_with(&optional);
    cluster.render("three");
    let third = cluster.image_after(&second);
    let message = wait_condition(&cluster, "ImageSigned", "False", "NotSigned");
    let build = cluster.current();
    assert_eq!(state(&build), "Succeeded", "{build:#}");
    let annotations = &build["metadata"]["annotations"];
    let noted = annotations["mosb.dev/not-signed"].as_str().unwrap();
    for text in [&*message, noted] {
        let is_the_cause = text.starts_with("no-signing-key: ") && text.contains("/missing: there");
        assert!(is_the_cause, "{text}");
    }
    assert_eq!(annotations["mosb.dev/signed"], Value::Null, "{annotations:#}");
    let name = build["metadata"]["name"].as_str().unwrap();
    cluster.assert_events(&[("MachineOSBuild", "ImageNotSigned")]);
    assert_eq!(blocked(&cluster), None);
    let shown = cluster.mosb(&["builds", &cluster.pool, "-o", "json"]).ok().json();
    let shown = shown["builds"].as_array().unwrap().iter().find(|build| build["build"] == name);
    assert_eq!(shown.unwrap()["signed"], Value::Null, "{shown:#?}");
    for key in ["first.key", "second.key"] {
        assert!(keys.verified(&cluster, &third, key).is_none(), "{third} by {key}");
    }
}

#[test]
fn each_pool_signs_with_its_own_key() {
    let mut cluster = Cluster::new("signed-pools");
    let keys = Keys::new(&["all.key", "own.key"]);
    keys.give(&cluster, "all.key");
    keys.give_as(&cluster, "own-signing-key", "own.key");
    cluster.settings_with(&json!({ "signing": { "secret": SECRET } }));
    let own = format!("{}-own", cluster.pool);
    cluster.create_pool(&own);
    let rendered = cluster.render("one");
    let rendered = cluster.rename(&rendered, &own);
    cluster.pool_wants(&own, &rendered);
    for pool in [&cluster.pool, &own] {
        cluster.opt_in_pool(pool, None);
    }
    let annotations = json!({ "mosb.dev/signing-secret": "own-signing-key" });
    let annotated = json!({ "metadata": { "annotations": annotations } });
    cluster.patch(&format!("machineosconfig/{own}"), &annotated);
    cluster.start();

    let images = [cluster.pool_image(&cluster.pool, ""), cluster.pool_image(&own, "")];
    let [of_all, of_own] = &images;
    keys.assert_signed_by(&cluster, [(of_all, "all.key"), (of_own, "own.key")]);
    for kind in ["machineosconfig", "machineconfigpool"] {
        cluster.node.kubectl(&["delete", kind, &own, "--wait=false"]).ok();
    }
}

#[test]
fn a_prepared_base_is_signed_before_it_is_used() {
    let mut cluster = Cluster::new("signed-prepared");
    let keys = Keys::new(&["os.key", "hand.key"]);
    keys.give(&cluster, "os.key");
    let mut settings = policy(&cluster.push, &keys.text("os.key.pub"));
    settings["signing"] = json!({ "secret": SECRET });
    cluster.settings_with(&settings);
    cluster.render("one");
    let instructions = "FROM base\nRUN touch /usr/share/prepared\n";
    cluster.opt_in(Some(instructions));
    cluster.start();

    // The pod that makes it can't use it, and another one does.
    let first = cluster.image_after("");
    let made = recorded(&cluster);
    let [prepared] = &made[..] else { panic!("{made:?}") };
    let prepared = format!("{}@{prepared}", cluster.push);
    for image in [&prepared, &first] {
        let manifest = keys.verified(&cluster, image, "os.key").expect("it is signed");
        let found = descriptions(&manifest);
        assert!(found.iter().any(|one| one.contains("builder/controller")), "{image}: {found:?}");
    }
    assert_eq!(cluster.file(&first, "/etc/story"), "one");
    let build = cluster.current();
    assert_eq!(build["metadata"]["annotations"]["mosb.dev/attempt"], "2", "{build:#}");

    // The next config is built on it.
    let rendered = cluster.render("two");
    let second = cluster.image_after(&first);
    assert!(keys.verified(&cluster, &second, "os.key").is_some());
    assert_eq!(cluster.builds().len(), 2);
    let containerfile = keys.file("Containerfile");
    std::fs::write(&containerfile, instructions).unwrap();
    let more = ["--containerfile", &containerfile, "--prepared", &prepared];
    assert_same_sbom(&keys, &cluster, &second, &rendered, &more);
}

/// Waits until the newest image is out of service because it has no signature; its build and digest.
fn unsigned(cluster: &Cluster, repository: &str) -> (String, String) {
    let message = wait_condition(cluster, "ImageChecked", "False", "ChecksFailed");
    for part in ["signature: ", "it has no signature", repository, "mosb-config", "sign it"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let (pin, _) = message.split_once(": ").unwrap();
    let (build, digest) = pin.split_once('@').unwrap();
    (build.to_owned(), digest.to_owned())
}

#[test]
fn unsigned_image_stays_out_of_service() {
    let mut cluster = Cluster::new("signed-image");
    let keys = Keys::new(&["os.key"]);
    let (base, _) = push_base(&cluster, "1");
    cluster.render_on(&base, "first");
    cluster.opt_in(None);
    cluster.start();
    let first = cluster.image_after("");

    // By the policy of the settings.
    let (repository, _) = first.split_once('@').unwrap();
    let policy = policy(repository, &keys.text("os.key.pub"));
    cluster.settings_with(&policy);
    cluster.render_on(&base, "second");
    cluster.wait_status("checks-failed");
    let (build, digest) = unsigned(&cluster, repository);
    assert_eq!(cluster.config()["status"]["currentImagePullSpec"], json!(first));
    let built = format!("{repository}@{digest}");
    keys.sign(&cluster, &built);
    // It is made again at once, and not after some minutes.
    let again = json!({ "metadata": { "annotations": { "mosb.dev/checked": null } } });
    cluster.patch(&format!("machineosbuild/{build}"), &again);
    assert_eq!(cluster.image_after(&first), built);

    // By the policy of the machines' config.
    cluster.settings_with(&json!({}));
    let text = policy["signaturePolicy"].as_str().unwrap();
    let source = format!("data:;base64,{}", STANDARD.encode(text));
    let file = json!({ "path": "/etc/containers/policy.json", "mode": 420, "contents": { "source": source } });
    cluster.render_files(&base, &[file]);
    cluster.wait_status("checks-failed");
    let (_, third) = unsigned(&cluster, repository);
    assert_ne!(third, digest);
    assert_eq!(cluster.config()["status"]["currentImagePullSpec"], json!(built));
    // Without its check, it is in service.
    annotate(&cluster, "mosb.dev/checks", "signature=warn");
    assert!(cluster.image_after(&built).ends_with(&third));
}

#[test]
fn unsigned_pre_built_image_changes_nothing() {
    let mut cluster = Cluster::new("signed-seed");
    let keys = Keys::new(&["os.key"]);
    let (name, digest) = push_base(&cluster, "1");
    let (repository, _) = name.rsplit_once(':').unwrap();
    let image = format!("{repository}@{digest}");
    cluster.settings_with(&policy(repository, &keys.text("os.key.pub")));
    cluster.render("first");
    cluster.opt_in(None);
    annotate(&cluster, "machineconfiguration.openshift.io/pre-built-image", &image);
    cluster.start();
    let message = wait("Blocked by the policy", SOON, || blocked(&cluster));
    for part in [&*image, "it has no signature", repository, "mosb-config", "sign it"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let component = format!("machineconfig/10-prebuiltimage-osimageurl-{}", cluster.pool);
    let is_there = || cluster.node.kubectl(&["get", &component]).status.success();
    assert!(!is_there() && cluster.builds().is_empty());

    keys.sign(&cluster, &image);
    wait("its MachineConfig", BUILD, || is_there().then_some(()));
}
