//! The shared fixture for tests of `mosb job`: the volumes of a pod, and a stand-in for the sidecar
//! that acknowledges results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mosb_build::JobResult;
use mosb_build::result_dir::{Acknowledgement, ResultDir};
use mosb_image::Digest;
use mosb_plan::api::RenderedConfig;
use mosb_plan::payload;
use serde_json::Value;

use mosb_tests::build_fixture;
use mosb_tests::{Finished, Mosb, Registry};

/// The parts of a pod without its containers: a user, volumes, and the controller's plan.
#[derive(Debug)]
pub struct Pod {
    pub mosb: Mosb,
    pub build: String,
    base: String,
    base_name: String,
    push: String,
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
            mosb,
            push,
            more,
        };
        pod.mount(config);
        pod
    }

    fn mount(&self, config: &str) {
        let config = RenderedConfig::from_value(serde_json::from_str(config).unwrap()).unwrap();
        let maps = payload::pack(&config, &self.build.parse().unwrap(), None);
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

    /// The arguments of `job build` or `job push` without the paths of outputs.
    fn words(&self, command: &str) -> Vec<String> {
        let machine_config = self.volume("mc").display().to_string();
        let log = self.volume("termination-log").display().to_string();
        let words = [
            "job",
            command,
            "--machine-config",
            &machine_config,
            "--base",
            &self.base,
            "--base-name",
            &self.base_name,
            "--platform",
            "linux/amd64",
            "--build-name",
            &self.build,
            "--push",
            &self.push,
            "--termination-log",
            &log,
        ];
        let words = words.map(str::to_owned).into_iter();
        words.chain(self.more.iter().cloned()).collect()
    }

    fn at(&self, flag: &str, volume: &str) -> [String; 2] {
        [flag.to_owned(), self.volume(volume).display().to_string()]
    }

    /// The command `job build --result`.
    pub fn direct(&self, more: &[&str]) -> Command {
        let words = self.words("build").into_iter();
        let words = words.chain(self.at("--result", "result"));
        self.start(words.chain(more.iter().map(|word| (*word).to_owned())))
    }

    /// The command `job build --image`.
    pub fn containerfile(&self, more: &[&str]) -> Command {
        let words = self.words("build").into_iter();
        let words = words.chain(self.at("--image", "image"));
        let words = words.chain(self.at("--failure", "failure"));
        self.start(words.chain(more.iter().map(|word| (*word).to_owned())))
    }

    /// The command `job fetch`.
    pub fn fetch(&self, more: &[&str]) -> Command {
        let words = self.words("fetch").into_iter();
        let words = words.chain(self.at("--image", "image"));
        let words = words.chain(self.at("--result", "result"));
        self.start(words.chain(more.iter().map(|word| (*word).to_owned())))
    }

    /// The command `job push`.
    pub fn push(&self, more: &[&str]) -> Command {
        let words = self.words("push").into_iter();
        let words = words.chain(self.at("--image", "image"));
        let words = words.chain(self.at("--result", "result"));
        self.start(words.chain(more.iter().map(|word| (*word).to_owned())))
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
