//! What tests ask of the API server as a cluster administrator: what is asked once by `kubectl`,
//! what is waited for by [`Api`](super::Api).

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::wait::PAUSE;
use super::{ADMINISTRATOR, Event, Node};
use crate::child::{Finished, finish, limited};

impl Node {
    /// A kubeconfig of a cluster administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.place.path(ADMINISTRATOR)
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
        self.established();
    }

    /// Waits until the API server serves all kinds that were created.
    #[track_caller]
    pub(crate) fn established(&self) {
        let wait = ["wait", "--for=condition=Established", "--timeout=300s", "crd", "--all"];
        self.kubectl(&wait).ok();
    }

    /// A namespace with this very name.
    #[track_caller]
    pub fn make_namespace(&self, name: &str) {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        self.apply(&namespace.to_string());
    }

    /// Creates or changes these objects, in this order and by one program.
    #[track_caller]
    pub fn apply_all(&self, objects: &[Value]) {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        self.apply(&list.to_string());
    }

    #[track_caller]
    pub(super) fn apply_in(&self, namespace: Option<&str>, text: &str) {
        let mut arguments = vec!["apply", "--server-side", "--force-conflicts", "--filename=-"];
        arguments.extend(namespace.iter().flat_map(|name| ["--namespace", name]));
        self.kubectl_with(&arguments, text.as_bytes()).ok();
    }

    /// All objects of these kinds (`pods,jobs`), in whichever namespaces.
    #[track_caller]
    pub fn list(&self, kinds: &str) -> Vec<Value> {
        self.api.list(None, kinds, "")
    }

    /// An object without a namespace (`machineconfigpool/worker`).
    #[track_caller]
    pub fn get(&self, what: &str) -> Value {
        self.find(what).unwrap_or_else(|| panic!("{what}: there is none"))
    }

    /// The same, if it is there.
    #[track_caller]
    pub fn find(&self, what: &str) -> Option<Value> {
        let (kind, name) = kind_and_name(what);
        self.api.find(None, kind, name)
    }

    /// Waits until an object without a namespace (`machineconfigpool/worker`) is there and fits.
    /// Past the limit the test ends, with the object as it is.
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
        let end = Instant::now() + limit;
        let mut last = None;
        while Instant::now() < end {
            let (kind, name) = kind_and_name(what);
            let target = self.api.target_of(namespace, kind, name);
            let found = target.and_then(|target| {
                self.api.watch(&target, end, |event| {
                    last = match event {
                        Event::List(mut all) => all.pop(),
                        Event::Is(object) => Some(object),
                        Event::Deleted(_) => None,
                    };
                    last.clone().filter(&fits)
                })
            });
            if let Some(found) = found {
                return Ok(found);
            }
            // The server ends a watch now and then, and refuses one of a kind that it does not know
            // yet.
            thread::sleep(PAUSE);
        }
        Err(last)
    }
}

/// The two words of `pod/x`.
#[track_caller]
pub(super) fn kind_and_name(what: &str) -> (&str, &str) {
    what.split_once('/').unwrap_or_else(|| panic!("{what:?} is not KIND/NAME"))
}
