//! A machine that takes images only with a signature which its policy requires. Real: the signatures of
//! `mosb sign`, the importer on which bootc and rpm-ostree are built, with its own look at the policy, and
//! Debian 13's skopeo, whose library evaluates it; the machine's own skopeo of Debian 12 is the old one.
//! Stand-ins, unless the environment names real ones: bootc and rpm-ostree, which pass on
//! `--enforce-container-sigpolicy` and `ostree-image-signed:`.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use mosb_tests::{Lab, Machine, MachineImage, Mosb, NodeRegistry};

use crate::node_story::{Ended, Story};
use crate::test_lab::AUTH;

const SETTINGS_FILE: &str = "/run/mosb/auth/pull-settings.json";
const REPOSITORY: &str = "lab/os";

/// Two keys: the policies of the tests name the first one.
pub struct Keys {
    mosb: Mosb,
    directory: TempDir,
}

impl Keys {
    pub fn make() -> Self {
        let made = Self { mosb: Mosb::new(), directory: tempfile::tempdir().unwrap() };
        for name in ["os.key", "other.key"] {
            made.mosb.run(["keys", "new", made.file(name).to_str().unwrap()]).ok();
        }
        made
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// Signs an image, by its digest, for a name.
    pub fn sign(&self, registry: &NodeRegistry, image: &str, key: &str, identity: &str) {
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        let arguments = [
            "sign".to_owned(),
            image.to_owned(),
            "--sign-key".to_owned(),
            path(&self.file(key)),
            "--sign-identity".to_owned(),
            identity.to_owned(),
            "--authfile".to_owned(),
            path(&registry.authfile()),
            "--cert-dir".to_owned(),
            path(&registry.certificates()),
        ];
        self.mosb.run(arguments).ok();
    }

    /// A `policy.json` that rejects all images but those of these scopes: signed ones, and any.
    pub fn policy(&self, signed: &str, any: &str) -> String {
        let key = std::fs::read(self.file("os.key.pub")).unwrap();
        let signature = json!([{ "type": "sigstoreSigned", "keyData": base64(&key) }]);
        json!({
            "default": [{ "type": "reject" }],
            "transports": { "docker": { signed: signature, any: [{ "type": "insecureAcceptAnything" }] } },
        })
        .to_string()
    }
}

pub fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// A file of `registries.d` with which signatures in this registry are found.
pub fn attachments(host: &str) -> String {
    json!({ "docker": { host: { "use-sigstore-attachments": true } } }).to_string()
}

struct Signed<'a> {
    story: &'a Story<'a>,
    keys: Keys,
}

impl Signed<'_> {
    fn machine(&self) -> &Machine {
        self.story.machine()
    }

    fn registry(&self) -> &NodeRegistry {
        self.story.lab.registry()
    }

    fn write(&self, path: &str, text: &str) {
        let write = "mkdir -p \"${1%/*}\"; cat > \"$1\"";
        self.machine().enter(&["sh", "-euc", write, "sh", path], text.as_bytes()).ok();
    }

    fn set_policy(&self, text: &str) {
        self.write("/etc/containers/policy.json", text);
    }

    fn strict(&self) -> String {
        let repository = |name: &str| self.registry().repository(name);
        self.keys.policy(&repository(REPOSITORY), &repository("lab/stock"))
    }

    fn sign(&self, image: &MachineImage, key: &str, name: &str) {
        let identity = self.registry().repository(&format!("{name}:latest"));
        self.keys.sign(self.registry(), &image.reference, key, &identity);
    }

    fn image(&self, content: &str) -> MachineImage {
        self.story.lab.build(REPOSITORY, "/etc/story", content)
    }

    /// `mosb node stage`, with a signature or without; `more`: other arguments.
    fn stage(&self, name: &str, image: &MachineImage, verify: bool, more: &[&str]) -> Ended {
        let target = target(image, verify);
        let words = ["stage", "--target", &target, "--auth", AUTH];
        self.story.run(name, &[&words[..], more].concat())
    }

    fn staged_signature(&self) -> Value {
        self.machine().status()["status"]["staged"]["image"]["image"]["signature"].clone()
    }

    /// It was not staged, for this reason, and nothing else is.
    #[track_caller]
    fn assert_refused(&self, ended: &Ended, failure: (i64, &str), cause: &str) {
        assert_eq!(ended.failure(), failure, "{}", ended.message());
        assert!(ended.message().contains(cause), "{}", ended.message());
        assert_eq!(self.machine().staged_digest(), None);
        self.story.assert_no_login(cause);
    }

    /// It was staged as an image that the policy accepted.
    #[track_caller]
    fn assert_staged(&self, ended: &Ended, image: &MachineImage) {
        assert_eq!((ended.code, ended.staged()), (0, image.digest.clone()), "{}", ended.message());
        assert_eq!(self.staged_signature(), "containerPolicy");
    }
}

fn target(image: &MachineImage, verify: bool) -> String {
    json!({ "image": image.reference, "verify": verify }).to_string()
}

#[test]
fn machines_take_signed_images_only() {
    let lab = Lab::start(1);
    let keys = Keys::make();
    let registry = lab.registry();
    let policy = keys.policy(&registry.repository(REPOSITORY), &registry.repository("lab/stock"));
    let settings = json!({ "signatures": {
        "policy.json": policy, "registries.d/lab.yaml": attachments(&registry.host_port),
    } });
    let settings = ("pull-settings.json".to_owned(), settings.to_string());
    let story = Story::new(&lab, "signed-images", &[settings]);
    let signed = Signed { story: &story, keys };
    let [unsigned, image] = ["unsigned", "signed"].map(|content| signed.image(content));
    signed.sign(&image, "os.key", REPOSITORY);

    an_old_skopeo_is_reported_and_not_trusted(&signed, &image);
    signed.machine().use_newer_skopeo();
    a_policy_that_accepts_unsigned_images_is_reported(&signed, &image);
    the_config_brings_the_policy_of_the_first_pull(&signed, [&unsigned, &image]);
    signed.set_policy(&signed.strict());
    signed.write("/etc/containers/registries.d/lab.yaml", &attachments(&registry.host_port));
    images_are_refused_by_their_signature(&signed, &unsigned);
    what_was_staged_unverified_is_staged_anew(&signed, &image);
    a_machine_that_runs_the_image_stays_as_it_is(&signed, &image);
    rpm_ostree_verifies_too(&signed, &unsigned);
}

/// It would pull an image without any signature.
fn an_old_skopeo_is_reported_and_not_trusted(signed: &Signed<'_>, image: &MachineImage) {
    signed.set_policy(&signed.strict());
    let ended = signed.stage("old-skopeo", image, true, &[]);
    signed.assert_refused(&ended, (2, "machine-cannot-verify"), "skopeo version 1.9");
}

fn a_policy_that_accepts_unsigned_images_is_reported(signed: &Signed<'_>, image: &MachineImage) {
    let any = json!([{ "type": "insecureAcceptAnything" }]);
    let scope = signed.registry().repository(REPOSITORY);
    let lax_scope = json!({ "default": [{ "type": "reject" }],
        "transports": { "docker": { scope: any } } });
    for (name, policy, cause) in [
        ("lax-default", json!({ "default": any }), "by \"default\""),
        ("lax-scope", lax_scope, REPOSITORY),
    ] {
        signed.set_policy(&policy.to_string());
        let ended = signed.stage(name, image, true, &[]);
        signed.assert_refused(&ended, (2, "policy-accepts-unsigned"), cause);
        let file = signed.machine().run("cat /etc/containers/policy.json").ok().text();
        assert_eq!(file, policy.to_string(), "{name}: the machine's own stays");
    }
}

/// That of the machine accepts each image of the repository.
fn the_config_brings_the_policy_of_the_first_pull(
    signed: &Signed<'_>,
    [unsigned, image]: [&MachineImage; 2],
) {
    let before = signed.machine().run("cat /etc/containers/policy.json").ok().text();
    let more = ["--pull-settings", SETTINGS_FILE];
    let refused = signed.stage("given-unsigned", unsigned, true, &more);
    signed.assert_refused(&refused, (1, "signature-refused"), "no signature exists");
    signed.assert_staged(&signed.stage("given", image, true, &more), image);
    signed.machine().run("ostree admin undeploy 0; test ! -e /run/mosb-rollout").ok();
    let after = signed.machine().run("cat /etc/containers/policy.json").ok().text();
    assert_eq!(after, before);
}

fn images_are_refused_by_their_signature(signed: &Signed<'_>, unsigned: &MachineImage) {
    let refuse = |name: &str, image: &MachineImage, cause: &str| {
        let ended = signed.stage(name, image, true, &[]);
        signed.assert_refused(&ended, (1, "signature-refused"), cause);
    };
    refuse("unsigned", unsigned, "no signature exists");
    let other_key = signed.image("other-key");
    signed.sign(&other_key, "other.key", REPOSITORY);
    refuse("other-key", &other_key, "cryptographic signature verification failed");
    let other_name = signed.image("other-name");
    signed.sign(&other_name, "os.key", "lab/other");
    refuse("other-name", &other_name, "Signature for identity");
}

fn what_was_staged_unverified_is_staged_anew(signed: &Signed<'_>, image: &MachineImage) {
    let stage_unverified = |name: &str| {
        let unverified = signed.stage(name, image, false, &[]);
        assert_eq!((unverified.code, signed.staged_signature()), (0, Value::Null));
    };
    stage_unverified("unverified-before");
    // An image that can't be pulled leaves nothing that a reboot would boot either.
    let digest = format!("sha256:{}", "0".repeat(64));
    let reference = image.reference.replace(&image.digest, &digest);
    let missing = signed.stage("missing", &MachineImage { reference, digest }, true, &[]);
    assert_eq!(missing.failure(), (3, "not-staged"), "{}", missing.message());
    assert_eq!(signed.machine().staged_digest(), None);
    stage_unverified("unverified");
    signed.assert_staged(&signed.stage("verified", image, true, &[]), image);
    // Verified is more than was asked for.
    let again = signed.stage("again", image, false, &[]);
    assert_eq!((again.code, signed.staged_signature()), (0, json!("containerPolicy")));
}

fn a_machine_that_runs_the_image_stays_as_it_is(signed: &Signed<'_>, image: &MachineImage) {
    let apply = |name: &str, verify: bool| {
        let target = target(image, verify);
        let words = ["apply", "--target", &target, "--attempt", "1", "--auth", AUTH];
        signed.story.start(name, &words);
    };
    signed.story.reboots("boot", || apply("boot", true));
    assert_eq!(signed.machine().booted_digest(), image.digest);
    let boot = signed.machine().boot_id();
    for (name, verify) in [("same", true), ("unverified-same", false), ("verified-same", true)] {
        apply(name, verify);
        assert_eq!(signed.story.end(name).code, 0, "{name}");
        assert_eq!(signed.stage(&format!("{name}-staged"), image, verify, &[]).code, 0, "{name}");
    }
    assert_eq!((signed.machine().boot_id(), signed.machine().staged_digest()), (boot, None));
}

/// Its daemon pulls.
fn rpm_ostree_verifies_too(signed: &Signed<'_>, unsigned: &MachineImage) {
    let machine = signed.machine();
    machine.use_newer_skopeo();
    machine.mark_changed_by_rpm_ostree();
    let refused = signed.stage("daemon-unsigned", unsigned, true, &[]);
    signed.assert_refused(&refused, (1, "signature-refused"), "no signature exists");
    let image = signed.image("by-the-daemon");
    signed.sign(&image, "os.key", REPOSITORY);
    let staged = signed.stage("daemon", &image, true, &[]);
    assert_eq!(staged.report.tool.as_ref().unwrap().to_string(), "rpm-ostree");
    assert_eq!((staged.code, staged.staged()), (0, image.digest.clone()), "{}", staged.message());
    let status = machine.run("rpm-ostree status --json").ok().json();
    let reference = &status["deployments"][0]["container-image-reference"];
    assert_eq!(*reference, json!(format!("ostree-image-signed:docker://{}", image.reference)));
    machine.run("rpm-ostree cleanup --pending").ok();
    machine.unmark_changed_by_rpm_ostree();
}
