//! The shared fixture for tests of `mosb build`: a small base with the directories of an OS, a
//! config, and checks that hold for every run.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{Compression, Finished, Image, Layout, Mosb, Tree, valid};

pub const NAME: &str = "rendered-worker-0123456789abcdef0123456789abcdef";

/// A rendered config with this Ignition config.
pub fn rendered(ignition: &Value) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": NAME }, "spec": { "config": ignition },
    })
}

/// A rendered config with one section of an Ignition config, such as files or units.
pub fn with(section: &str, value: Value) -> String {
    let mut ignition = json!({ "ignition": { "version": "3.4.0" } });
    ignition[section] = value;
    rendered(&ignition).to_string()
}

/// A config with an example of each kind of entry.
pub fn config() -> String {
    rendered(&json!({
        "ignition": { "version": "3.4.0" },
        "storage": {
            "files": [
                { "path": "/etc/sysctl.d/90-mosb.conf", "contents": { "source": "data:,vm.swappiness%3D1%0A" } },
                { "path": "/usr/local/bin/tool", "mode": 0o755, "contents": { "source": "data:,%23!/bin/sh%0A" } },
                { "path": "/etc/core", "mode": 0o600, "user": { "name": "core" }, "contents": { "source": "data:,x" } },
            ],
            "directories": [{ "path": "/etc/empty", "mode": 0o711 }],
            "links": [{ "path": "/etc/link", "target": "/etc/core" }],
        },
        "systemd": { "units": [
            { "name": "a.service", "enabled": true, "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n" },
            { "name": "b.service", "mask": true },
        ] },
    }))
    .to_string()
}

/// The tree of the base: links as in a real OS, a directory without access for others, a user by
/// name.
pub fn os() -> Tree {
    Tree::new()
        .directory("etc", 0o755)
        .file(
            "etc/passwd",
            0o644,
            "root:x:0:0:root:/root:/bin/sh\ncore:x:1000:1000::/var/home/core:/bin/sh\n",
        )
        .file("etc/group", 0o644, "root:x:0:\ncore:x:1000:\n")
        .directory("etc/sysctl.d", 0o750)
        .directory("usr", 0o755)
        .directory("usr/bin", 0o755)
        .file("usr/bin/systemctl", 0o755, "")
        .directory("usr/lib", 0o755)
        .file("usr/lib/os-release", 0o644, "ID=test\nVERSION_ID=1\n")
        .directory("usr/lib/systemd", 0o755)
        .file("usr/lib/systemd/libsystemd-shared-257.so", 0o644, "")
        .directory("usr/lib/systemd/system", 0o755)
        .link("usr/local", "../var/usrlocal")
        .directory("var", 0o755)
        .directory("var/usrlocal", 0o755)
        .directory("tmp", 0o1777)
}

/// The base. Its layers do not depend on the version of a compressor.
pub fn base() -> Image {
    let more = Tree::new().file("usr/lib/more", 0o644, "x".repeat(70_000)).tar();
    Image::new()
        .layer(Compression::Plain, os().tar())
        .layer(Compression::Plain, more)
        .label("org.opencontainers.image.version", "1")
}

/// A user with a base in a layout, and a layout as the target.
#[derive(Debug)]
pub struct BuildFixture {
    pub mosb: Mosb,
    pub base: Layout,
}

impl BuildFixture {
    pub fn new() -> Self {
        Self::with(&base())
    }

    pub fn with(image: &Image) -> Self {
        let mosb = Mosb::new();
        let base = Layout::create(&mosb.home().join("base"));
        base.put("base", image);
        Self { mosb, base }
    }

    /// Limits the memory of the user's processes to this many bytes.
    pub fn with_memory(mut self, bytes: u64) -> Self {
        let data = format!("--data={bytes}");
        self.mosb = self.mosb.within(["prlimit", &data]);
        self
    }

    /// The base's name with the prefix `oci:`.
    pub fn reference(&self) -> String {
        self.base.reference("base")
    }

    /// The target directory of [`Self::build`].
    pub fn output(&self) -> PathBuf {
        self.mosb.home().join("output")
    }

    /// The target's name with the prefix `oci:`.
    pub fn target(&self) -> String {
        format!("oci:{}", self.output().display())
    }

    /// Builds a config on the base into the target, with additional arguments.
    #[track_caller]
    pub fn build(&self, config: &[u8], more: &[&str]) -> Finished {
        let (base, target) = (self.reference(), self.target());
        let mut arguments = vec!["build", "-", "-o", "json"];
        if !more.contains(&"--base") {
            arguments.extend(["--base", &base]);
        }
        if !more.contains(&"--output") {
            arguments.extend(["--output", &target]);
        }
        arguments.extend(more);
        self.mosb.run_with(arguments, config)
    }

    /// Asserts that no temporary files are left, neither in the temporary directory nor in the
    /// cache.
    #[track_caller]
    pub fn assert_clean(&self, what: &str) {
        assert_eq!(names(&self.mosb.tmp()), [""; 0], "{what}: TMPDIR");
        let cached = names(&self.mosb.home().join("cache/mosb/base-trees"));
        let odd: Vec<_> = cached
            .iter()
            .filter(|name| !name.contains(".tree-") && *name != ".mosb.lock")
            .collect();
        assert!(odd.is_empty(), "{what}: cache: {odd:?}");
    }
}

/// The file names in a folder, or none if the folder does not exist.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Asserts that every blob of a layout matches its digest, every image is complete, and there are
/// no other files.
#[track_caller]
pub fn assert_whole(layout: &Layout, what: &str) {
    let there: Vec<_> =
        names(&layout.directory).into_iter().filter(|name| name != ".mosb.lock").collect();
    assert_eq!(there, ["blobs", "index.json", "oci-layout"], "{what}");
    let blobs = layout.directory.join("blobs/sha256");
    for name in names(&blobs) {
        let found = crate::sha256(&fs::read(blobs.join(&name)).unwrap());
        assert_eq!(found, name, "{what}");
    }
    for image in layout.index() {
        let manifest = layout.json(image["digest"].as_str().unwrap());
        let layers = manifest["layers"].as_array().unwrap();
        for blob in layers.iter().chain([&manifest["config"]]) {
            let size = fs::metadata(layout.blob_path(blob["digest"].as_str().unwrap()));
            assert_eq!(json!(size.unwrap().len()), blob["size"], "{what}");
        }
    }
}

/// Asserts that a run failed with this exit code and one message, both on stderr and as an `Error`
/// object that is valid for its schema.
#[track_caller]
pub fn assert_refused(finished: &Finished, what: &str, exit: i32, code: &str, words: &[&str]) {
    let last_line = finished.stderr.lines().last().unwrap_or_default();
    assert_eq!(finished.code(), Some(exit), "{what}: {}", finished.stderr);
    let error = finished.json();
    assert_valid(&error, "Error");
    println!("{what}\n    {exit} {code}: {last_line}");
    let message = error["message"].as_str().unwrap();
    assert_eq!(
        (&error["code"], &error["exitCode"]),
        (&json!(code), &json!(exit)),
        "{what}: {message}"
    );
    for word in words {
        assert!(message.contains(word), "{what}: no {word:?} in: {message}");
    }
    for odd in ["failed to", "Os {", "Error(", "\n", "\u{1b}", "Kind("] {
        assert!(!message.contains(odd), "{what}: {odd:?} in: {message}");
    }
    assert!(!message.ends_with('.') && message.len() < 900, "{what}: {message}");
    assert!(finished.stderr.contains("error: "), "{what}: {}", finished.stderr);
}

/// Asserts that an object has this kind and is valid for its schema in `docs/schemas`.
#[track_caller]
pub fn assert_valid(object: &Value, kind: &str) {
    assert_eq!(object["kind"], kind, "{object:#}");
    valid(object);
}
