//! What tests ask of the API server: by `kubectl`, as a cluster administrator.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::child::{Finished, finish, lasting, limited};
use super::Node;
use super::wait::PAUSE;

impl Node {
    /// A kubeconfig of a cluster administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.place.path("config/admin")
    }

    /// Another one's: [`COUNTED`](super::COUNTED), [`RECORDED`](super::RECORDED).
    pub fn kubeconfig_of(&self, user: &str) -> PathBuf {
        self.place.path("config").join(user)
    }

    /// `kubectl` as that administrator.
    #[track_caller]
    pub fn kubectl(&self, arguments: &[&str]) -> Finished {
        self.kubectl_with(arguments, &[])
    }

    /// The same, with something on stdin (`--filename=-`).
    #[track_caller]
    pub fn kubectl_with(&self, arguments: &[&str], stdin: &[u8]) -> Finished {
        let mut command = self.administrator(limited(self.programs.kubectl()));
        finish(command.args(arguments), stdin)
    }

    fn administrator(&self, mut kubectl: Command) -> Command {
        let cache = self.place.path("kubectl");
        kubectl
            .arg(format!("--kubeconfig={}", self.kubeconfig().display()))
            .arg(format!("--cache-dir={}", cache.display()))
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        kubectl
    }

    /// Creates or changes what a YAML or JSON text says.
    #[track_caller]
    pub fn apply(&self, text: &str) {
        self.apply_in(None, text);
    }

    /// The kinds of machine configuration, as a cluster without them gets them, ready to be used.
    #[track_caller]
    pub fn install_kinds(&self) {
        let crds = crate::repository().join("deploy/crds");
        self.kubectl(&["apply", "-k", crds.to_str().unwrap()]).ok();
        let established = ["wait", "--for=condition=Established", "crd", "--all"];
        self.kubectl(&established).ok();
    }

    /// A namespace with this very name.
    #[track_caller]
    pub fn make_namespace(&self, name: &str) {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        self.apply(&namespace.to_string());
    }

    #[track_caller]
    pub(super) fn apply_in(&self, namespace: Option<&str>, text: &str) {
        let mut arguments = vec!["apply", "--server-side", "--force-conflicts", "--filename=-"];
        arguments.extend(namespace.iter().flat_map(|name| ["--namespace", name]));
        self.kubectl_with(&arguments, text.as_bytes()).ok();
    }

    /// An object or a list, by kubectl's words (`["pods", "--all-namespaces"]`).
    #[track_caller]
    pub fn get(&self, what: &[&str]) -> Value {
        let mut arguments = vec!["get", "--output=json"];
        arguments.extend(what);
        self.kubectl(&arguments).ok().json()
    }

    /// An object without a namespace (`machineconfigpool/worker`), if it is there.
    #[track_caller]
    pub fn find(&self, what: &str) -> Option<Value> {
        let found = self.kubectl(&["get", what, "--output=json", "--ignore-not-found"]).ok();
        (!found.stdout.is_empty()).then(|| found.json())
    }

    /// Waits until an object without a namespace (`machineconfigpool/worker`) is there and fits, by a watch. Past the limit
    /// the test ends, with the object as it is.
    #[track_caller]
    pub fn wait(&self, what: &str, limit: Duration, fits: impl Fn(&Value) -> bool) -> Value {
        match self.watch(None, what, limit, fits) {
            Ok(found) => found,
            Err(last) => panic!(
                "waited {} s in vain for {what}: {last:#?}\n{}",
                limit.as_secs(),
                self.ended()
            ),
        }
    }

    /// The object that fits, or what it was last.
    #[track_caller]
    pub(super) fn watch(
        &self,
        namespace: Option<&str>,
        what: &str,
        limit: Duration,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<Value, Option<Value>> {
        let (kind, name) =
            what.split_once('/').unwrap_or_else(|| panic!("{what:?} is not KIND/NAME"));
        let end = Instant::now() + limit;
        let mut last = None;
        while Instant::now() < end {
            let mut kubectl = self.administrator(lasting(self.programs.kubectl()));
            kubectl
                .args(["get", kind, "--watch", "--output=json", "--output-watch-events"])
                .arg(format!("--field-selector=metadata.name={name}"))
                .args(namespace.iter().flat_map(|name| ["--namespace", name]));
            let watch = Watch::start(kubectl);
            while let Some(event) = watch.next(end) {
                let object = &event["object"];
                let gone = event["type"] == "DELETED";
                if !gone && fits(object) {
                    return Ok(object.clone());
                }
                last = (!gone).then(|| object.clone());
            }
            // The server ends a watch now and then, and refuses one of a kind that it does not know yet.
            thread::sleep(PAUSE);
        }
        Err(last)
    }
}

/// A `kubectl get --watch` that ends with this value.
struct Watch {
    kubectl: Child,
    events: Receiver<Value>,
}

impl Watch {
    fn start(mut kubectl: Command) -> Self {
        let mut kubectl = kubectl
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|why| panic!("{kubectl:?}: {why}"));
        let (event, events) = mpsc::channel();
        let stdout = kubectl.stdout.take().expect("its output is a pipe");
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // Neither half a line nor one that nobody waits for is of use.
                let Ok(value) = serde_json::from_str(&line) else {
                    break;
                };
                if event.send(value).is_err() {
                    break;
                }
            }
        });
        Self { kubectl, events }
    }

    /// The next event; none when the watch or the time has ended.
    fn next(&self, end: Instant) -> Option<Value> {
        let left = end.saturating_duration_since(Instant::now());
        self.events.recv_timeout(left).ok()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.kubectl.kill().ok();
        self.kubectl.wait().ok();
    }
}
