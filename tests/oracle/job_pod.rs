//! The shared fixture for tests of `mosb job`: the volumes of a pod, and a stand-in for the sidecar
//! that acknowledges results.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mosb_api::{BuildOn, RenderedConfig};
use mosb_build::JobResult;
use mosb_build::result_dir::{Acknowledgement, ResultDir};
use mosb_image::Digest;
use mosb_plan::payload::{self, BuildSpec, ImageInService, PreparedImageUse};
use mosb_plan::plan::{BuilderNodes, default_build_on};
use serde_json::Value;

use mosb_tests::{Finished, Mosb, Registry, build_fixture};

/// What a test gives like arguments, and the controller writes into the document of inputs.
const INPUTS: [&str; 5] =
    ["--containerfile", "--base-tree", "--prepared", "--prepared-tree", "--in-service"];

/// The parts of a pod without its containers: a user, volumes, and the controller's plan.
#[derive(Debug)]
pub struct Pod {
    pub mosb: Mosb,
    pub build: String,
    base: String,
    base_name: String,
    push: String,
    build_on: BuildOn,
    /// Additional flags for all commands.
    pub more: Vec<String>,
}

impl Pod {
    /// A pod for a build of a config on `acme/base:v1` of this registry (or of the proxy in front
    /// of it), into its `acme/os`.
    #[track_caller]
    pub fn new(registry: &str, config: &str, containerfile: Option<&str>) -> Self {
        Self::with(Mosb::new(), registry, config, containerfile, &[])
    }

    /// The same with another user, and with flags for the controller's plan and all commands.
    #[track_caller]
    pub fn with(
        mosb: Mosb,
        registry: &str,
        config: &str,
        containerfile: Option<&str>,
        flags: &[&str],
    ) -> Self {
        let push = format!("{registry}/acme/os");
        let base = format!("{registry}/acme/base:v1");
        let volumes = mosb.home().to_owned();
        for name in ["mc", "result", "image", "failure"] {
            fs::create_dir(volumes.join(name)).unwrap();
        }
        let mut more: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        if let Some(text) = containerfile {
            let file = volumes.join("Containerfile");
            fs::write(&file, text).unwrap();
            more.extend(["--containerfile".to_owned(), file.display().to_string()]);
        }
        let mut plan = vec!["plan", "-", "-o", "json", "--base", &base, "--output", &push];
        plan.extend(more.iter().map(String::as_str));
        let planned = mosb.run_with(plan, config.as_bytes()).ok().json();
        // The controller's cache is not in the pod.
        fs::remove_dir_all(volumes.join("cache")).ok();
        let pod = Self {
            build: planned["buildName"].as_str().unwrap().to_owned(),
            base: planned["base"]["image"].as_str().unwrap().to_owned(),
            base_name: planned["base"]["name"].as_str().unwrap().to_owned(),
            build_on: default_build_on(&parsed(config)),
            mosb,
            push,
            more,
        };
        pod.mount(config);
        pod
    }

    fn mount(&self, config: &str) {
        let maps = payload::pack(&parsed(config), &self.build.parse().unwrap(), None);
        for (at, map) in maps.iter().enumerate() {
            let folder = self.volume("mc").join(at.to_string());
            fs::create_dir_all(&folder).unwrap();
            for (key, text) in &map.data {
                fs::write(folder.join(key), text).unwrap();
            }
        }
    }

    /// The mount path of a volume.
    pub fn volume(&self, name: &str) -> PathBuf {
        self.mosb.home().join(name)
    }

    /// The arguments of a command without the paths of outputs. Those of [`INPUTS`] are in the document
    /// of inputs instead, which is written for this command.
    fn words(&self, command: &str, more: &[&str]) -> Vec<String> {
        let path = |name| self.volume(name).display().to_string();
        let (spec, log) = (path("build.json"), path("termination-log"));
        let words = ["job", command, "--spec", &spec, "--termination-log", &log];
        let mut words: Vec<String> = words.map(str::to_owned).into();
        let given = self.more.iter().map(String::as_str).chain(more.iter().copied());
        let mut inputs = BTreeMap::new();
        let mut given = given.peekable();
        while let Some(word) = given.next() {
            if word == "--prepare" {
                inputs.insert(word, "");
            } else if INPUTS.contains(&word) {
                inputs.insert(word, given.next().unwrap());
            } else {
                words.push(word.to_owned());
            }
        }
        let text = self.spec(&inputs).to_json();
        // Other tests may read it.
        if fs::read_to_string(&spec).ok().as_ref() != Some(&text) {
            fs::write(&spec, text).unwrap();
        }
        words
    }

    fn spec(&self, inputs: &BTreeMap<&str, &str>) -> BuildSpec {
        let image = |name| inputs.get(name).map(|image| image.parse().unwrap());
        let prepared = match (image("--prepared"), inputs.contains_key("--prepare")) {
            (Some(image_on), _) => {
                PreparedImageUse::On { image: image_on, tree: image("--prepared-tree") }
            }
            (None, true) => PreparedImageUse::Make,
            (None, false) => PreparedImageUse::Without,
        };
        BuildSpec {
            format: BuildSpec::FORMAT,
            build: self.build.parse().unwrap(),
            namespace: "mosb-system".to_owned(),
            machine_config: self.volume("mc"),
            containerfile: inputs.get("--containerfile").map(PathBuf::from),
            trust_bundle: None,
            base: self.base.parse().unwrap(),
            base_name: self.base_name.clone().try_into().unwrap(),
            extensions_image: None,
            platform: "linux/amd64".parse().unwrap(),
            push: self.push.parse().unwrap(),
            build_args: BTreeMap::new(),
            build_on: self.build_on,
            nodes: BuilderNodes::Any,
            base_tree: image("--base-tree"),
            prepared,
            in_service: inputs.get("--in-service").map(|tree| ImageInService {
                image: Digest::of(b"the image in service"),
                on: Digest::of(b"its base"),
                tree: tree.parse().unwrap(),
            }),
        }
    }

    fn at(&self, flag: &str, volume: &str) -> [String; 2] {
        [flag.to_owned(), self.volume(volume).display().to_string()]
    }

    /// The command `job build --result`.
    pub fn direct(&self, more: &[&str]) -> Command {
        let words = self.words("build", more).into_iter();
        let words = words.chain(self.at("--result", "result"));
        self.start(words)
    }

    /// The command `job build --image`.
    pub fn containerfile(&self, more: &[&str]) -> Command {
        let words = self.words("build", more).into_iter();
        let words = words.chain(self.at("--image", "image"));
        let words = words.chain(self.at("--failure", "failure"));
        self.start(words)
    }

    /// The command `job fetch`.
    pub fn fetch(&self, more: &[&str]) -> Command {
        let words = self.words("fetch", more).into_iter();
        let words = words.chain(self.at("--image", "image"));
        let words = words.chain(self.at("--result", "result"));
        self.start(words)
    }

    /// The command `job push`.
    pub fn push(&self, more: &[&str]) -> Command {
        let words = self.words("push", more).into_iter();
        let words = words.chain(self.at("--image", "image"));
        let words = words.chain(self.at("--result", "result"));
        self.start(words)
    }

    fn start(&self, words: impl Iterator<Item = String>) -> Command {
        // The kubelet creates this file.
        fs::write(self.volume("termination-log"), "").unwrap();
        let mut command = self.mosb.command(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The result in a volume.
    #[track_caller]
    pub fn result(&self, volume: &str) -> Option<Value> {
        let bytes = fs::read(self.volume(volume).join("result.json")).ok()?;
        JobResult::from_json(&bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    /// The termination message of the container.
    #[track_caller]
    pub fn termination_message(&self) -> JobResult {
        let text = fs::read_to_string(self.volume("termination-log")).unwrap();
        assert!(text.len() <= 4096);
        JobResult::from_termination_message(&text).unwrap_or_else(|| panic!("{text:?}"))
    }

    /// Runs a command with a stand-in for the sidecar that acknowledges each result.
    #[track_caller]
    pub fn run(&self, command: Command) -> Finished {
        let _sidecar = Sidecar::start(&self.volume("result"));
        ended(command)
    }
}

fn parsed(config: &str) -> RenderedConfig {
    RenderedConfig::from_value(serde_json::from_str(config).unwrap()).unwrap()
}

/// Runs a command to its end.
#[track_caller]
pub fn ended(mut command: Command) -> Finished {
    let what = format!("{command:?}");
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    Finished {
        what,
        status: output.status,
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Acknowledges every result in a folder until it is dropped.
#[derive(Debug)]
pub struct Sidecar {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sidecar {
    pub fn start(folder: &Path) -> Self {
        let (stop, folder) = (Arc::new(AtomicBool::new(false)), folder.to_owned());
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let result_dir = ResultDir::new(&folder);
            while !stopped.load(Ordering::Relaxed) {
                if let Some(bytes) = result_dir.result().unwrap() {
                    let result = Digest::of(&bytes);
                    result_dir.acknowledge(&Acknowledgement { result, refused: None }).unwrap();
                }
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// An open registry with the small base.
#[track_caller]
pub fn registry() -> Registry {
    let registry = Registry::plain();
    registry.push(&build_fixture::BuildFixture::new().base, "base", "acme/base:v1");
    registry
}

/// Requests a manifest from a registry.
#[track_caller]
pub fn manifest(registry: &Registry, repository: &str, reference: &str) -> Option<Value> {
    let url = format!("/v2/{repository}/manifests/{reference}");
    let accept = "application/vnd.oci.image.manifest.v1+json";
    let found = std::process::Command::new("curl")
        .args(["--silent", "--fail", "--header", &format!("Accept: {accept}")])
        .arg(format!("http://{}{url}", registry.address()))
        .output()
        .unwrap();
    found.status.success().then(|| serde_json::from_slice(&found.stdout).unwrap())
}
