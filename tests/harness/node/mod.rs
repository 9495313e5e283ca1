//! A whole Kubernetes node of this run's own: etcd, API server, controller manager, scheduler,
//! kubelet, containerd, and a registry, in namespaces of the kernel. Needs root.
//!
//! In: the programs ([`Programs`]). Out: a [`Node`] that is ready, which this process, the pods and
//! containerd reach under one address. Pods reach the API server by the service `kubernetes`,
//! without a proxy; there is no DNS, no other service, no way beyond this machine, and no network
//! policy is enforced. It is refused with a text that says what failed and the last output of the
//! parts.
//!
//! Invariant: nothing here touches what is outside, but for one interface and one route on this
//! side and one control group, and nothing stays when the value is dropped or this process ends,
//! however it ends; see [`place`]. Any number of nodes run side by side. A program without the rest
//! of the harness may use it, beside `child` and `tls`.

mod api;
pub(crate) mod components;
pub(crate) mod control_plane;
pub(crate) mod images;
mod kubectl;
mod namespace;
pub(crate) mod place;
mod programs;
mod registry;
pub(crate) mod settings;
mod start;
mod wait;

use std::fmt::Display;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::Value;

use super::child::{Finished, finish};
use components::Component;
use place::Place;

pub(crate) use api::read_changes;
pub use api::{Api, Event};
pub use images::PAUSE as BUSYBOX_IMAGE;
pub use namespace::{Namespace, condition};
pub use programs::Programs;
pub use registry::NodeRegistry;
pub use settings::{COUNTED, RECORDED};
pub(crate) use start::Parts;
pub(crate) use wait::PAUSE;
pub use wait::wait;

/// Why there is no node: object, cause, output of the programs.
pub type Problem = String;

/// The kubeconfig of a cluster administrator.
const ADMINISTRATOR: &str = "config/admin";
/// How long the whole may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// A running node. It ends when this value is dropped, or this process ends.
#[derive(Debug)]
pub struct Node {
    // Fields are dropped in this order: nothing is left to start or stop one by one.
    place: Place,
    programs: Programs,
    registry: NodeRegistry,
    components: Mutex<Vec<Component>>,
    api: Api,
    /// How long it took until things were ready, in the order in which they were.
    pub times: Vec<(&'static str, Duration)>,
}

impl Node {
    /// Starts a program inside that must run as long as the node.
    pub(crate) fn run(&self, name: &str, line: &[String]) -> Result<(), Problem> {
        let component = Component::start(&self.place, &self.programs, name, line)?;
        self.components().push(component);
        Ok(())
    }

    fn components(&self) -> std::sync::MutexGuard<'_, Vec<Component>> {
        // A panic elsewhere leaves the list as it was.
        self.components.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Waits for a condition while all components run.
    pub(crate) fn until(&self, what: &str, condition: impl Fn() -> bool) -> Result<(), Problem> {
        let end = Instant::now() + LIMIT;
        while !condition() {
            for component in self.components().iter_mut() {
                component.check()?;
            }
            if Instant::now() > end {
                let components = self.components();
                let logs: Vec<_> = components.iter().map(Component::last_words).collect();
                return Err(format!(
                    "the node did not get ready: {what} is still missing after {} s\n{}",
                    LIMIT.as_secs(),
                    logs.join("\n")
                ));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// The address at which this process and the pods reach the API server (port 443), the
    /// registry, and the kubelet.
    pub fn address(&self) -> Ipv4Addr {
        self.place.subnet.node()
    }

    /// The address at which the node and the pods reach this machine: for servers of a test's own.
    pub fn outside(&self) -> Ipv4Addr {
        self.place.subnet.outside()
    }

    /// Requests to the API server as a cluster administrator.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The same for another user of this harness.
    pub fn another_api(&self) -> Api {
        Api::start(&self.programs.kubectl(), &self.kubeconfig())
    }

    /// Requests with the credential of a component, such as `kubelet`.
    pub fn api_of(&self, component: &str) -> Api {
        Api::start(&self.programs.kubectl(), &self.kubeconfig_of(component))
    }

    /// The registry, empty at the start.
    pub fn registry(&self) -> &NodeRegistry {
        &self.registry
    }

    /// Gives containerd an image under a name, pinned, for pods with `imagePullPolicy:
    /// IfNotPresent`. From anything that skopeo reads: `oci:DIR:TAG`, `oci-archive:FILE`,
    /// `docker-archive:FILE`.
    #[track_caller]
    pub fn import(&self, source: &str, name: &str) {
        if let Err(why) = images::import(&self.place, &self.programs, source, name) {
            panic!("{name}: not imported from {source}: {why}");
        }
    }

    /// The image [`BUSYBOX_IMAGE`] as skopeo reads it, to be pushed or built upon.
    pub fn busybox(&self) -> String {
        let archive = self.place.path(images::ARCHIVE);
        format!("docker-archive:{}", archive.display())
    }

    /// Runs a program in the node's namespaces, as root: `ctr`, `crictl`-like looks, `ps`.
    #[track_caller]
    pub fn inside(&self, command: &[&str]) -> Finished {
        let (program, arguments) = command.split_first().expect("a program to run inside");
        let program = match *program {
            "ctr" => self.programs.ctr(),
            program => PathBuf::from(program),
        };
        finish(self.place.command(program).args(arguments), &[])
    }

    /// The audit log: what service accounts and the administrator asked for, one event each,
    /// without contents.
    pub fn audit(&self) -> Vec<Value> {
        let text = self.logs("audit");
        // The last line may be half written.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Ends a component at once, without a word to it: `etcd`, `api-server`, `registry`, `kubelet`.
    /// It is away until [`Self::revive`].
    #[track_caller]
    pub fn kill(&self, component: &str) {
        self.component(component, Component::kill);
    }

    /// Starts a component again that was killed, and waits until it answers.
    #[track_caller]
    pub fn revive(&self, component: &str) {
        self.component(component, |it| it.revive(&self.place, &self.programs));
        let answers = || match component {
            "registry" => self.registry.listens(),
            _ => self.api.is_ready(),
        };
        if let Err(why) = self.until(component, answers) {
            panic!("{why}");
        }
    }

    /// A component answers nobody until [`Self::thaw`]; connections to it stay open.
    #[track_caller]
    pub fn freeze(&self, component: &str) {
        self.component(component, |it| it.signal("STOP"));
    }

    /// A frozen component goes on.
    #[track_caller]
    pub fn thaw(&self, component: &str) {
        self.component(component, |it| it.signal("CONT"));
    }

    /// The namespaces it lives in.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Where its programs are.
    pub(crate) fn programs(&self) -> &Programs {
        &self.programs
    }

    #[track_caller]
    fn component(&self, name: &str, act: impl FnOnce(&mut Component) -> Result<(), Problem>) {
        let mut components = self.components();
        let found = components.iter_mut().find(|it| it.name == name);
        if let Err(why) = act(found.expect("a component of the node")) {
            panic!("{name}: {why}");
        }
    }

    /// What has ended of the node that should run, with its last words; nothing as long as all is
    /// well.
    pub fn ended(&self) -> String {
        let mut components = self.components();
        let ended = components.iter_mut().filter_map(|it| it.check().err());
        ended.collect::<Vec<_>>().join("\n")
    }

    /// The output of a component: `etcd`, `api-server`, `controller-manager`, `scheduler`,
    /// `kubelet`, `containerd`, `registry`.
    pub fn logs(&self, component: &str) -> String {
        let text = fs::read(components::log(&self.place.directory, component)).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// All that belongs to the node on this side, and is gone after it: directory, control group,
    /// interface.
    pub fn traces(&self) -> [String; 3] {
        [
            self.place.directory.display().to_string(),
            self.place.cgroup.trim_start_matches('/').to_owned(),
            self.place.subnet.interface(),
        ]
    }
}

/// What, and why not.
fn problem(what: impl Display, why: &dyn std::error::Error) -> Problem {
    format!("{what}: {why}")
}
