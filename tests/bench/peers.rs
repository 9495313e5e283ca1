//! Other programs that add a layer to an image and push it.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use flate2::read::GzDecoder;

use crate::base::TAG;
use crate::fixture::{Base, Fixture};
use crate::race::run;
use mosb_tests::parts::CRANE;

/// The layer of the next config as compressed and as plain tar files. The peers get it ready made.
struct LayerFiles {
    stored: PathBuf,
    tar: PathBuf,
    name: String,
}

fn layer_files(fixture: &Fixture, base: &Base) -> LayerFiles {
    let image = fixture.image(base, base.repository());
    let (stored, tar) = (fixture.fresh("layer"), fixture.fresh("layer"));
    let (stored, tar) = (stored.with_extension("tar.gz"), tar.with_extension("tar"));
    let bytes = &image.assembled.layer.bytes;
    let mut unpacked = Vec::new();
    GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).unwrap();
    fs::write(&stored, bytes).unwrap();
    fs::write(&tar, unpacked).unwrap();
    let [name, _] = image.tags;
    LayerFiles { stored, tar, name }
}

/// `crane append` of the compressed layer, in the registry at this address.
pub fn crane(fixture: &Fixture, base: &Base, host: &str) -> Command {
    let layer = layer_files(fixture, base);
    let mut command = Command::new(CRANE.program());
    command
        .args(["append", "--base"])
        .arg(format!("{host}/{}", base.image()))
        .arg("--new_layer")
        .arg(layer.stored)
        .arg("--new_tag")
        .arg(format!("{host}/{}:{}", base.repository(), layer.name));
    command
}

fn skopeo(from: &str, to: &str) -> Duration {
    let mut command = Command::new("skopeo");
    command
        .args([
            "--insecure-policy",
            "copy",
            "--quiet",
            "--src-tls-verify=false",
            "--dest-tls-verify=false",
        ])
        .args([from, to]);
    run(&mut command).1
}

/// Copies the base into an OCI layout for [`umoci_and_skopeo`].
pub fn fetch_layout(fixture: &Fixture, base: &Base, layout: &Path) -> Duration {
    let from = format!("docker://{}", fixture.registry.repository(&base.image()));
    skopeo(&from, &format!("oci:{}:{TAG}", layout.display()))
}

/// `umoci raw add-layer` in a layout that contains the base, then `skopeo copy`.
pub fn umoci_and_skopeo(fixture: &Fixture, base: &Base, layout: &Path) -> Duration {
    let layer = layer_files(fixture, base);
    let mut command = Command::new("umoci");
    command
        .args(["raw", "add-layer", "--image"])
        .arg(format!("{}:{TAG}", layout.display()))
        .args(["--tag", &layer.name])
        .arg(layer.tar);
    let to = fixture.registry.repository(&format!("{}:{}", base.repository(), layer.name));
    let from = format!("oci:{}:{}", layout.display(), layer.name);
    run(&mut command).1 + skopeo(&from, &format!("docker://{to}"))
}

/// A store of buildah, deleted when this value is dropped.
pub struct Store {
    path: PathBuf,
    /// The address of the registry.
    host: String,
}

impl Store {
    pub fn empty(fixture: &Fixture) -> Self {
        Self::at(fixture, fixture.registry.address())
    }

    /// A store for a registry at another address.
    pub fn at(fixture: &Fixture, host: &str) -> Self {
        let path = fixture.fresh("store");
        fs::create_dir(&path).unwrap();
        let host = host.to_owned();
        Self { path, host }
    }

    fn buildah(&self, subcommand: &str) -> Command {
        self.buildah_through(&[], subcommand)
    }

    fn buildah_through(&self, through: &[&str], subcommand: &str) -> Command {
        let policy = self.path.join("policy.json");
        fs::write(&policy, r#"{"default": [{"type": "insecureAcceptAnything"}]}"#).unwrap();
        let mut words = through.iter().chain(["buildah"].iter());
        let mut command = Command::new(words.next().expect("at least one"));
        command
            .args(words)
            .arg("--root")
            .arg(self.path.join("root"))
            .arg("--runroot")
            .arg(self.path.join("run"))
            .args([
                "--storage-driver",
                "overlay",
                subcommand,
                "--quiet",
                "--tls-verify=false",
                "--signature-policy",
            ])
            .arg(policy);
        command
    }

    /// Pulls the base into the store.
    pub fn pull(&self, base: &Base) -> Duration {
        let image = format!("docker://{}/{}", self.host, base.image());
        run(self.buildah("pull").arg(image)).1
    }

    /// Builds a Containerfile that adds the layer to the base, and returns the name of the image in
    /// the store.
    pub fn build(&self, fixture: &Fixture, base: &Base) -> (String, Duration) {
        let layer = layer_files(fixture, base);
        let context = fixture.fresh("context");
        fs::create_dir(&context).unwrap();
        fs::rename(layer.tar, context.join("layer.tar")).unwrap();
        let from = format!("{}/{}", self.host, base.image());
        let containerfile = context.join("Containerfile");
        fs::write(&containerfile, format!("FROM {from}\nADD layer.tar /\n")).unwrap();
        let name = format!("localhost/built:{}", layer.name);
        let mut command = self.buildah("build-using-dockerfile");
        command.args(["--pull=false", "--tag", &name, "--file"]).arg(containerfile).arg(context);
        (name, run(&mut command).1)
    }

    /// Pushes an image of the store.
    pub fn push(&self, repository: &str, name: &str) -> Duration {
        self.push_through(&[], repository, name)
    }

    /// Pushes an image with buildah started by the command `through`.
    pub fn push_through(&self, through: &[&str], repository: &str, name: &str) -> Duration {
        let tag = name.rsplit(':').next().expect("a tag");
        let to = format!("docker://{}/{repository}:{tag}", self.host);
        run(self.buildah_through(through, "push").args([name, &to])).1
    }
}

/// Builds and pushes with the current content of the store.
pub fn buildah(fixture: &Fixture, base: &Base, store: &Store) -> Duration {
    let (name, built) = store.build(fixture, base);
    built + store.push(base.repository(), &name)
}

impl Drop for Store {
    fn drop(&mut self) {
        // The fixture's directory removes the rest at the end.
        fs::remove_dir_all(&self.path).ok();
    }
}
