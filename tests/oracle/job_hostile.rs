//! Hostile data that an administrator's `RUN` line could leave for `mosb job push`: it reads no
//! secrets and causes no damage.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::job_containerfile::{base_layers, debian_registry, pod};
use crate::job_pod::{Pod, ended, manifest};
use mosb_tests::build_fixture::{names, with};
use mosb_tests::{Finished, Registry, run, sha256};

const TEXT: &str = "FROM configs\nRUN echo mine > /etc/mine\n";

fn config() -> String {
    with("storage", json!({ "files": [{ "path": "/etc/a", "contents": { "source": "data:,a" } }] }))
}

/// A registry, a pod, and the output of a normal build in it. It is created once.
struct Honest {
    registry: Registry,
    pod: Pod,
    left: PathBuf,
}

fn honest() -> &'static Honest {
    static HONEST: OnceLock<Honest> = OnceLock::new();
    HONEST.get_or_init(|| {
        let registry = debian_registry();
        let pod = pod(&registry, &config(), TEXT);
        ended(pod.containerfile(&[])).ok();
        let left = pod.volume("image");
        Honest { registry, pod, left }
    })
}

/// A copy of the output that a test can change.
struct Left {
    directory: TempDir,
}

impl Left {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let from = format!("{}/.", honest().left.display());
        run("cp", ["-a", &from, directory.path().to_str().unwrap()]);
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn blob(&self, digest: &str) -> PathBuf {
        self.path("layout/blobs/sha256").join(digest.trim_start_matches("sha256:"))
    }

    fn digest(&self) -> String {
        fs::read_to_string(self.path("digest")).unwrap().trim().to_owned()
    }

    fn manifest(&self) -> Value {
        serde_json::from_slice(&fs::read(self.blob(&self.digest())).unwrap()).unwrap()
    }

    /// The blob of the top layer, which the build created.
    fn layer(&self) -> PathBuf {
        let manifest = self.manifest();
        let top = manifest["layers"].as_array().unwrap().last().unwrap();
        self.blob(top["digest"].as_str().unwrap())
    }

    fn put(&self, bytes: &[u8]) -> String {
        let digest = format!("sha256:{}", sha256(bytes));
        fs::write(self.blob(&digest), bytes).unwrap();
        digest
    }

    /// Changes the manifest and the config, with matching digests.
    fn rewrite(&self, change: impl Fn(&mut Value, &mut Value)) {
        let mut manifest = self.manifest();
        let config = self.blob(manifest["config"]["digest"].as_str().unwrap());
        let mut config: Value = serde_json::from_slice(&fs::read(config).unwrap()).unwrap();
        change(&mut manifest, &mut config);
        let text = config.to_string();
        manifest["config"]["digest"] = json!(self.put(text.as_bytes()));
        manifest["config"]["size"] = json!(text.len());
        let digest = self.put(manifest.to_string().as_bytes());
        fs::write(self.path("digest"), digest).unwrap();
    }

    /// Pushes the output while a sidecar acknowledges the result.
    fn push(&self, volume: &str) -> (Finished, Value) {
        let honest = honest();
        let result = honest.pod.volume(volume);
        fs::create_dir(&result).unwrap();
        let mut words: Vec<String> = Vec::new();
        let command = honest.pod.push(&[]);
        let all: Vec<_> =
            command.get_args().map(|word| word.to_str().unwrap().to_owned()).collect();
        let mut replaced = all.iter().peekable();
        while let Some(word) = replaced.next() {
            words.push(word.clone());
            let other = match word.as_str() {
                "--image" => self.directory.path(),
                "--result" => &result,
                _ => continue,
            };
            replaced.next();
            words.push(other.display().to_string());
        }
        let _sidecar = crate::job_pod::Sidecar::start(&result);
        let tmp = tempfile::tempdir().unwrap();
        let mut command = honest.pod.mosb.command(words);
        command.env("TMPDIR", tmp.path());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let finished = ended(command);
        assert_eq!(names(tmp.path()), [""; 0], "{volume}: TMPDIR");
        let reported = honest.pod.result(volume).unwrap_or_else(|| panic!("{}", finished.stderr));
        (finished, reported)
    }
}

fn replace(path: &Path, with: impl Fn(&Path)) {
    if path.is_dir() {
        fs::remove_dir_all(path).unwrap()
    } else {
        fs::remove_file(path).unwrap()
    }
    with(path);
}

fn fifo(path: &Path) {
    run("mkfifo", [path]);
}

fn device(path: &Path) {
    run("mknod", [path.to_str().unwrap(), "c", "1", "5"]);
}

fn sparse(path: &Path, size: u64) {
    File::create(path).unwrap().set_len(size).unwrap();
}

/// Creates a link to the push credentials.
fn secret(path: &Path) {
    symlink(honest().registry.authfile(), path).unwrap();
}

#[test]
fn a_bad_build_output_is_rejected_unread() {
    type Change = fn(&Left);
    let cases: Vec<(&str, Change, &str)> = vec![
        ("no digest", |l| fs::remove_file(l.path("digest")).unwrap(), "bad-build-output"),
        (
            "the digest is a link to credentials",
            |l| replace(&l.path("digest"), secret),
            "bad-build-output",
        ),
        ("the digest is a pipe", |l| replace(&l.path("digest"), fifo), "bad-build-output"),
        ("the digest is a device", |l| replace(&l.path("digest"), device), "bad-build-output"),
        (
            "the digest is a folder",
            |l| replace(&l.path("digest"), |p| fs::create_dir(p).unwrap()),
            "bad-build-output",
        ),
        ("the digest is huge", |l| sparse(&l.path("digest"), 1 << 40), "bad-build-output"),
        (
            "the digest is no digest",
            |l| fs::write(l.path("digest"), "sha256:../../etc/passwd").unwrap(),
            "bad-build-output",
        ),
        (
            "the digest names nothing",
            |l| fs::write(l.path("digest"), format!("sha256:{}", "0".repeat(64))).unwrap(),
            "bad-build-output",
        ),
        (
            "the layout is a link",
            |l| replace(&l.path("layout"), |p| symlink(&honest().left, p).unwrap()),
            "bad-build-output",
        ),
        (
            "the blobs are a link",
            |l| {
                replace(&l.path("layout/blobs"), |p| {
                    symlink(honest().left.join("layout/blobs"), p).unwrap()
                })
            },
            "bad-build-output",
        ),
        (
            "the folder of blobs is a link",
            |l| replace(&l.path("layout/blobs/sha256"), |p| symlink("/proc/self/root", p).unwrap()),
            "bad-build-output",
        ),
        ("the manifest is a link", |l| replace(&l.blob(&l.digest()), secret), "bad-build-output"),
        ("the manifest is a pipe", |l| replace(&l.blob(&l.digest()), fifo), "bad-build-output"),
        ("the manifest is huge", |l| sparse(&l.blob(&l.digest()), 1 << 40), "bad-build-output"),
        (
            "the manifest is swapped",
            |l| fs::write(l.blob(&l.digest()), "{}").unwrap(),
            "bad-build-output",
        ),
        ("the layer is a link to credentials", |l| replace(&l.layer(), secret), "bad-build-output"),
        ("the layer is a pipe", |l| replace(&l.layer(), fifo), "bad-build-output"),
        ("the layer is a device", |l| replace(&l.layer(), device), "bad-build-output"),
        ("the layer is gone", |l| fs::remove_file(l.layer()).unwrap(), "bad-build-output"),
        (
            "the layer is huge and holds nothing",
            |l| sparse(&l.layer(), 256 << 20),
            "bad-build-output",
        ),
        ("the layer is swapped", |l| fs::write(l.layer(), [0; 1024]).unwrap(), "bad-build-output"),
        (
            "the layer is cut",
            |l| File::options().write(true).open(l.layer()).unwrap().set_len(100).unwrap(),
            "bad-build-output",
        ),
        (
            "the layer is no tar",
            |l| rename_layer(l, b"#!/bin/sh\necho this is no layer at all\n"),
            "bad-build-output",
        ),
        (
            "the labels are another build's",
            |l| {
                l.rewrite(|_, config| {
                    config["config"]["Labels"]["mosb.dev/inputs"] = json!("0".repeat(64))
                });
            },
            "not-from-configs",
        ),
        (
            "no labels",
            |l| l.rewrite(|_, config| config["config"]["Labels"] = Value::Null),
            "not-from-configs",
        ),
        ("no layers", |l| l.rewrite(|_, config| config["rootfs"] = json!({})), "bad-build-output"),
        (
            "one layer more than there is",
            |l| {
                l.rewrite(|_, config| {
                    let id = format!("sha256:{}", "1".repeat(64));
                    config["rootfs"]["diff_ids"].as_array_mut().unwrap().push(json!(id));
                })
            },
            "bad-build-output",
        ),
        (
            "a layer outside of the folder",
            |l| {
                l.rewrite(|manifest, _| {
                    let top = manifest["layers"].as_array_mut().unwrap().last_mut().unwrap();
                    top["digest"] = json!("sha256:../../../../../../../etc/passwd");
                })
            },
            "bad-build-output",
        ),
        (
            "the base's layers as if they were new",
            |l| {
                l.rewrite(|manifest, config| {
                    manifest["layers"].as_array_mut().unwrap().reverse();
                    config["rootfs"]["diff_ids"].as_array_mut().unwrap().reverse();
                })
            },
            "bad-build-output",
        ),
        (
            "more layers than can be",
            |l| {
                l.rewrite(|manifest, config| {
                    for list in [&mut manifest["layers"], &mut config["rootfs"]["diff_ids"]] {
                        let list = list.as_array_mut().unwrap();
                        let last = list.last().unwrap().clone();
                        list.extend(std::iter::repeat_n(last, 2000));
                    }
                })
            },
            "bad-build-output",
        ),
        (
            "a config that is nested for ever",
            |l| {
                let manifest = l.manifest();
                let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
                let digest = l.put(deep.as_bytes());
                let mut manifest = manifest;
                manifest["config"]["digest"] = json!(digest);
                let digest = l.put(manifest.to_string().as_bytes());
                fs::write(l.path("digest"), digest).unwrap();
            },
            "bad-build-output",
        ),
    ];
    let honest = honest();
    let password = "not-a-secret";
    let auth = fs::read_to_string(honest.registry.authfile()).unwrap();
    for (number, (what, change, reason)) in cases.into_iter().enumerate() {
        let left = Left::new();
        change(&left);
        let (finished, reported) = left.push(&format!("result-{number}"));
        println!("{what}: {}", reported["message"]);
        assert!(!finished.status.success(), "{what}");
        assert_eq!(
            (&reported["outcome"], &reported["step"]),
            (&json!("Failed"), &json!("image-push")),
            "{what}"
        );
        assert_eq!(
            (&reported["class"], &reported["reason"]),
            (&json!("refused"), &json!(reason)),
            "{what}: {reported:#}"
        );
        let visible = format!("{reported}{}{}", finished.stderr, finished.text());
        assert!(!visible.contains(password) && !visible.contains(&auth), "{what}: {visible}");
    }
    assert!(
        manifest(&honest.registry, "acme/os", &honest.pod.build).is_none(),
        "nothing of it was pushed"
    );
}

/// Replaces the bytes of the layer, with all digests adapted.
fn rename_layer(left: &Left, bytes: &[u8]) {
    let digest = left.put(bytes);
    left.rewrite(|manifest, config| {
        let top = manifest["layers"].as_array_mut().unwrap().last_mut().unwrap();
        top["digest"] = json!(digest);
        *config["rootfs"]["diff_ids"].as_array_mut().unwrap().last_mut().unwrap() = json!(digest);
    });
}

#[test]
fn files_beside_the_layout_are_ignored() {
    let left = Left::new();
    secret(&left.path("layout/blobs/sha256/evil"));
    symlink("/", left.path("layout/blobs/sha256/root")).unwrap();
    fs::create_dir(left.path("many")).unwrap();
    (0..20_000).for_each(|n| drop(File::create(left.path(&format!("many/{n}"))).unwrap()));
    fs::remove_file(left.path("layout/index.json")).unwrap();
    fifo(&left.path("layout/index.json"));
    // The empty placeholders of the base's layers are mosb's own. The push does not even open a
    // forged one.
    let manifest = left.manifest();
    let layers = manifest["layers"].as_array().unwrap();
    for layer in &layers[..base_layers().len()] {
        fs::write(left.blob(layer["digest"].as_str().unwrap()), "forged").unwrap();
    }
    let (finished, reported) = left.push("result-beside");
    finished.ok();
    let digest = reported["digest"].as_str().unwrap();
    let out = tempfile::tempdir().unwrap();
    // The registry has the complete image: skopeo checks every digest.
    let image = format!("acme/os@{digest}");
    honest().registry.pull(&image, &format!("dir:{}", out.path().display()));
    let listed = Command::new("sh")
        .args(["-c", &format!("grep -l forged {}/*", out.path().display())])
        .output()
        .unwrap();
    assert!(listed.stdout.is_empty(), "{listed:?}");
}
