//! `mosb preflight --manifests` and `mosb bootstrap` with real registries and the credentials, CAs
//! and mirrors of the manifests.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::preflight::is_compared;
use mosb_tests::{
    Access, Compression, Finished, Image, Layout, Mosb, Registry, Server, Transport, Tree,
};

const POOLS: [&str; 3] = ["infra", "master", "worker"];
/// The namespace of OpenShift's Secrets for pulls and pushes of builds.
const NAMESPACE: &str = "openshift-machine-config-operator";
const PASSED: &str =
    "registry=passed pull=passed bootable=passed architecture=passed release=passed push=passed";

/// The input of an installation: a folder of manifests, and their registry.
struct Installation {
    directory: tempfile::TempDir,
    layout: Layout,
    registry: Registry,
}

impl Installation {
    fn new(access: Access, transport: Transport) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::create(&directory.path().join("layout"));
        for (tag, architecture) in [
            ("base", "amd64"),
            ("worker", "amd64"),
            ("master", "amd64"),
            ("infra", "amd64"),
            ("arm", "arm64"),
        ] {
            let tar = Tree::new().file("usr/lib/name", 0o644, tag).tar();
            let image = Image::new()
                .layer(Compression::Gzip, tar)
                .label("containers.bootc", "1")
                .label("version", "9.6.20250523-0")
                .architecture(architecture);
            layout.put(tag, &image);
        }
        let registry = Registry::start(Server::Distribution, access, transport);
        for tag in ["base", "worker", "master", "infra", "arm"] {
            registry.push(&layout, tag, &format!("os/{tag}:v1"));
        }
        fs::create_dir(directory.path().join("manifests")).unwrap();
        let new = Self { directory, layout, registry };
        for pool in POOLS {
            new.config(pool, &new.image(pool), &new.registry.repository(&format!("os/{pool}")));
        }
        let pools = POOLS.map(|pool| {
            json!({
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
                "metadata": {"name": pool},
            })
        });
        new.put("pools", &json!({"apiVersion": "v1", "kind": "List", "items": pools}));
        new.secret("push", &new.registry.authfile());
        new.secret("global-pull-secret-copy", &new.registry.authfile());
        new.settings(&json!({}));
        new
    }

    fn image(&self, tag: &str) -> String {
        self.registry.repository(&format!("os/{tag}@{}", self.layout.digest(tag)))
    }

    fn manifests(&self) -> PathBuf {
        self.directory.path().join("manifests")
    }

    fn put(&self, name: &str, object: &Value) {
        fs::write(self.manifests().join(format!("{name}.yaml")), object.to_string()).unwrap();
    }

    /// A MachineOSConfig from `mosb seed new`.
    fn config(&self, pool: &str, image: &str, push: &str) {
        let printed = Mosb::new().seed_new(pool, image, push);
        let file = self.manifests().join(format!("os-{pool}.yaml"));
        fs::write(file, printed).unwrap();
    }

    fn secret(&self, name: &str, authfile: &Path) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "stringData": {".dockerconfigjson": fs::read_to_string(authfile).unwrap()},
        });
        self.put(&format!("secret-{name}"), &secret);
    }

    /// The ConfigMap `mosb-config` with the base, the registry's CA if it has one, and additional
    /// settings.
    fn settings(&self, more: &Value) {
        let mut settings = json!({"baseOSContainerImage": self.image("base")});
        let authority = self.registry.certificates().join("ca.crt");
        if let Ok(pem) = fs::read_to_string(authority) {
            settings["imageRegistryBundles"] = json!({self.registry.address(): pem});
        }
        for (field, value) in more.as_object().unwrap() {
            settings[field] = value.clone();
        }
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "mosb-config", "namespace": NAMESPACE},
            "data": {"config.yaml": settings.to_string()},
        });
        self.put("settings", &map);
    }

    fn check(&self, more: &[&str]) -> Finished {
        let manifests = self.manifests();
        let fixed = [
            "preflight",
            "-o",
            "json",
            "-v",
            "--for",
            "openshift",
            "--manifests",
            manifests.to_str().unwrap(),
        ];
        Mosb::new().run(fixed.iter().chain(more))
    }

    fn bootstrap(&self, more: &[&str]) -> Finished {
        let (manifests, output) = (self.manifests(), self.directory.path().join("output"));
        let mut arguments = vec!["bootstrap", "-o", "json", "--for", "openshift"];
        arguments.extend(["--manifests", manifests.to_str().unwrap()]);
        arguments.extend(["--output", output.to_str().unwrap()]);
        arguments.extend(more);
        let finished = Mosb::new().run(arguments);
        assert_eq!(output.exists(), finished.status.success(), "{}", finished.stderr);
        finished
    }
}

/// The checks of each pool, sorted by name.
fn outcomes(finished: &Finished) -> Vec<String> {
    let object = finished.json();
    let images = object["images"].as_array();
    let images = images.unwrap_or_else(|| panic!("{}{}", finished.text(), finished.stderr));
    let of_image = |image: &Value| {
        let checks = image["checks"].as_array().unwrap().iter().filter(|check| is_compared(check));
        let shown = checks.map(|check| {
            let code = check["code"].as_str().map(|code| format!(":{code}")).unwrap_or_default();
            format!(
                "{}={}{code}",
                check["check"].as_str().unwrap(),
                check["outcome"].as_str().unwrap()
            )
        });
        shown.collect::<Vec<_>>().join(" ")
    };
    images.iter().map(of_image).collect()
}

#[track_caller]
fn assert_outcomes(what: &str, finished: &Finished, code: i32, want: &str) {
    let report = format!("{what}: {}\n{}", finished.text(), finished.stderr);
    assert_eq!(outcomes(finished), [want; 3], "{report}");
    assert_eq!(finished.code(), Some(code), "{report}");
    for canary in ["not-a-secret", "YnVpbGRlcjpub3QtYS1zZWNyZXQ", "Bearer", "eyJ"] {
        assert!(!report.contains(canary), "{canary}: {report}");
    }
    for line in finished.stderr.lines() {
        let (time, _) = line.split_once(' ').unwrap();
        assert!(time.len() == 27 && time.ends_with('Z') && time.contains('T'), "{line}");
    }
}

#[test]
fn three_pools_pass_with_the_manifests_logins() {
    let all = Installation::new(Access::Token, Transport::Https);
    all.secret("global-pull-secret-copy", &all.registry.reader_authfile());
    let before = all.registry.files().len();
    let finished = all.check(&[]);
    assert_outcomes("all is well", &finished, 0, PASSED);
    let object = &finished.json()["images"][2];
    assert_eq!(
        (&object["object"], &object["image"]),
        (&json!("MachineOSConfig worker"), &json!(all.image("worker")))
    );
    let left = all.registry.files();
    let left: Vec<_> =
        left.iter().filter(|file| !file.to_string_lossy().contains("hashstates")).collect();
    assert_eq!(left.len(), before, "{left:?}");
    let finished = all.bootstrap(&[]).ok();
    assert!(finished.stderr.lines().all(|line| line.starts_with("20")), "{}", finished.stderr);
    // The pull secret may come from a file, as an installer has it.
    fs::remove_file(all.manifests().join("secret-global-pull-secret-copy.yaml")).unwrap();
    let refused = "registry=passed pull=failed:denied bootable=skipped architecture=skipped release=skipped push=passed";
    assert_outcomes("no pull secret", &all.check(&[]), 1, refused);
    let (reader, wrong) = (all.registry.reader_authfile(), all.registry.wrong_authfile());
    for flag in ["--pull-secret", "--authfile"] {
        assert_outcomes(flag, &all.check(&[flag, reader.to_str().unwrap()]), 0, PASSED);
        let finished = all.check(&[flag, wrong.to_str().unwrap()]);
        assert_outcomes(flag, &finished, 1, refused);
        assert!(finished.text().contains(wrong.to_str().unwrap()), "{}", finished.text());
    }
}

#[test]
fn failures_name_their_objects_and_nothing_is_written() {
    let all = Installation::new(Access::Token, Transport::Https);
    all.secret("push", &all.registry.reader_authfile());
    let read_only = PASSED.replace("push=passed", "push=failed:denied");
    let finished = all.check(&[]);
    assert_outcomes("read-only push secret", &finished, 1, &read_only);
    for line in [
        "with the credentials of secret push",
        "the Secret that spec.renderedImagePushSecret names",
    ] {
        assert!(finished.text().contains(line), "{}", finished.text());
    }
    let finished = all.bootstrap(&[]);
    assert_eq!(finished.code(), Some(1), "{}", finished.stderr);
    let object = finished.json();
    assert_eq!(object["code"], "preflight-failed");
    let findings = object["findings"].as_array().unwrap();
    let objects: Vec<_> = findings.iter().map(|finding| &finding["object"]).collect();
    assert_eq!(
        objects,
        ["MachineOSConfig infra", "MachineOSConfig master", "MachineOSConfig worker"]
    );
    all.bootstrap(&["--check-registry=false"]).ok();
    fs::remove_dir_all(all.directory.path().join("output")).unwrap();

    all.secret("push", &all.registry.authfile());
    all.settings(&json!({"imageRegistryBundles": {}}));
    let finished = all.check(&[]);
    let untrusted = "registry=failed:untrusted-tls pull=skipped bootable=skipped architecture=skipped release=skipped push=failed:untrusted-tls";
    assert_outcomes("no CA", &finished, 1, untrusted);
    assert!(
        finished.text().contains("imageRegistryBundles of ConfigMap mosb-config"),
        "{}",
        finished.text()
    );
    let certificates = all.registry.certificates();
    let by_hand = ["--cert-dir", certificates.to_str().unwrap()];
    let refused = all.check(&by_hand);
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("--cert-dir: an installation is checked with what its machines will have"),
        "{}",
        refused.stderr
    );

    all.settings(&json!({}));
    let others = PASSED.replace("architecture=passed", "architecture=failed:platform-missing");
    let finished = all.check(&["--platform", "linux/arm64"]);
    assert_outcomes("other machines", &finished, 1, &others);
    all.settings(&json!({"baseOSContainerImage": all.image("arm")}));
    assert_outcomes("another base", &all.check(&[]), 1, &others);
    // The image disappears between its check and the installation. The second check reports it.
    all.settings(&json!({}));
    fs::remove_file(all.registry.blob_path(&all.layout.digest("worker"))).unwrap();
    let finished = all.check(&[]);
    assert_eq!(finished.code(), Some(1));
    assert!(outcomes(&finished)[2].contains("pull=failed:not-found"), "{}", finished.text());
    assert_eq!(outcomes(&finished)[..2], [PASSED; 2]);
    let wrong = all.check(&["quay.example/os"]);
    assert_eq!(wrong.code(), Some(2), "{}", wrong.stderr);
}

#[test]
fn a_disconnected_installation_is_checked_at_its_mirrors() {
    let all = Installation::new(Access::Basic, Transport::Https);
    let mirror_set = |kind: &str, version: &str, entries: &str, more: Value| {
        let mut entry =
            json!({"source": "quay.invalid/os", "mirrors": [all.registry.repository("os")]});
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": "all"}, "spec": {entries: [entry]}})
    };
    for pool in POOLS {
        let image = format!("quay.invalid/os/{pool}@{}", all.layout.digest(pool));
        all.config(pool, &image, &all.registry.repository(&format!("os/{pool}")));
    }
    all.settings(&json!({"baseOSContainerImage": format!("quay.invalid/os/base@{}", all.layout.digest("base"))}));
    let unreachable = "registry=unknown:unreachable pull=skipped bootable=skipped architecture=skipped release=skipped push=passed";
    assert_outcomes("no mirrors", &all.check(&[]), 3, unreachable);
    let finished = all.bootstrap(&[]);
    assert_eq!((finished.code(), &finished.json()["code"]), (Some(3), &json!("preflight-unknown")));
    for (what, object) in [
        (
            "digest",
            mirror_set(
                "ImageDigestMirrorSet",
                "config.openshift.io/v1",
                "imageDigestMirrors",
                json!({}),
            ),
        ),
        (
            "never the source",
            mirror_set(
                "ImageDigestMirrorSet",
                "config.openshift.io/v1",
                "imageDigestMirrors",
                json!({"mirrorSourcePolicy": "NeverContactSource"}),
            ),
        ),
        (
            "of old",
            mirror_set(
                "ImageContentSourcePolicy",
                "operator.openshift.io/v1alpha1",
                "repositoryDigestMirrors",
                json!({}),
            ),
        ),
    ] {
        all.put("mirrors", &object);
        assert_outcomes(what, &all.check(&[]), 0, PASSED);
    }
    // The error names the mirror that lacks the image.
    fs::remove_file(all.registry.blob_path(&all.layout.digest("master"))).unwrap();
    let finished = all.check(&[]);
    assert_eq!(finished.code(), Some(1), "{}", finished.text());
    let place = format!("at {}: ", all.registry.repository("os/master"));
    assert!(finished.text().contains(&place), "{}", finished.text());
}
