//! Brings up the parts of a node: all of them, or those that a test needs.
//!
//! In: the programs. Out: a [`Node`] whose parts answer. Invariant: a part that ends meanwhile ends
//! the start, with its last words.

use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::time::Instant;

use super::control_plane::ControlPlane;
use super::place::Place;
use super::settings::{self, Kubelet, Settings};
use super::{
    ADMINISTRATOR, Api, Node, NodeRegistry, Problem, Programs, components, condition, images,
};

impl Node {
    /// Brings a node up and waits until it is ready for pods.
    pub fn start(programs: &Programs) -> Result<Self, Problem> {
        let started = Instant::now();
        let (mut node, settings) = Self::prepare(programs, |place| Parts::own(place, programs))?;
        let mut times = vec![("namespaces and certificates", started.elapsed())];
        let mut ready = |what| times.push((what, started.elapsed()));
        node.run("containerd", &components::containerd(programs, &node.place))?;
        node.run_control_plane(&settings)?;

        node.until("the registry", || node.registry.listens())?;
        ready("registry");
        node.until_containerd()?;
        ready("containerd, with an image");
        node.until_api_server()?;
        ready("API server");
        node.run_controllers(&settings)?;
        node.run_kubelet(&own(&node.place, programs))?;
        ready("node");
        // A taint keeps pods away until the controller manager has seen that, too.
        node.until_service_accounts()?;
        ready("service accounts");
        node.times = times;
        Ok(node)
    }

    /// Brings up etcd, the API server and the registry alone: what is written stays as it was
    /// written, no controller makes a pod of a Job, and none deletes objects whose owner is gone.
    pub fn control_plane(programs: &Programs) -> Result<Self, Problem> {
        let (node, settings) = Self::prepare(programs, |place| Parts::own(place, programs))?;
        node.run_control_plane(&settings)?;
        node.until("the registry", || node.registry.listens())?;
        node.until_api_server()?;
        Ok(node)
    }

    /// Brings up the same with the controller manager and the scheduler, for kubelets that run on
    /// machines of their own.
    pub(crate) fn control_plane_of(
        programs: &Programs,
        kubelets: impl FnOnce(&Place) -> Vec<Kubelet>,
    ) -> Result<Self, Problem> {
        let parts = |place: &Place| Parts {
            kubelets: kubelets(place),
            api_server: ControlPlane::of(place, programs).address,
        };
        let (node, settings) = Self::prepare(programs, parts)?;
        node.run_control_plane(&settings)?;
        node.until("the registry", || node.registry.listens())?;
        node.until_api_server()?;
        node.run_controllers(&settings)?;
        node.until_service_accounts()?;
        Ok(node)
    }

    /// Brings up the registry alone, for a control plane that runs elsewhere.
    pub(crate) fn registry_of(
        programs: &Programs,
        parts: impl FnOnce(&Place) -> Parts,
    ) -> Result<(Self, Settings), Problem> {
        let (node, settings) = Self::prepare(programs, parts)?;
        node.run("registry", &components::registry(programs, &node.place))?;
        node.until("the registry", || node.registry.listens())?;
        Ok((node, settings))
    }

    /// Makes what has the control plane a node, too.
    pub(crate) fn add_kubelet(&self, kubelet: &Kubelet) -> Result<(), Problem> {
        self.run("containerd", &components::containerd(&self.programs, &self.place))?;
        self.until_containerd()?;
        self.run_kubelet(kubelet)
    }

    /// The namespaces, in which nothing runs yet.
    fn prepare(
        programs: &Programs,
        parts: impl FnOnce(&Place) -> Parts,
    ) -> Result<(Self, Settings), Problem> {
        programs.check()?;
        let place = Place::make()?;
        let registry = NodeRegistry::write(&place)?;
        let Parts { kubelets, api_server } = parts(&place);
        let settings = Settings::write(&place, &registry, &kubelets, api_server)?;
        let api = Api::start(&programs.kubectl(), &place.path(ADMINISTRATOR));
        let node = Self {
            place,
            programs: programs.clone(),
            registry,
            components: Mutex::default(),
            api,
            times: Vec::new(),
        };
        Ok((node, settings))
    }

    fn run_control_plane(&self, settings: &Settings) -> Result<(), Problem> {
        let (programs, place) = (&self.programs, &self.place);
        let plane = ControlPlane::of(place, programs);
        self.run("etcd", &plane.etcd())?;
        self.run("api-server", &plane.api_server(place.subnet, settings))?;
        self.run("registry", &components::registry(programs, place))
    }

    fn run_controllers(&self, settings: &Settings) -> Result<(), Problem> {
        let plane = ControlPlane::of(&self.place, &self.programs);
        self.run("controller-manager", &plane.controller_manager(settings))?;
        self.run("scheduler", &plane.scheduler())
    }

    /// The kubelet beside the control plane; its containerd runs.
    fn run_kubelet(&self, kubelet: &Kubelet) -> Result<(), Problem> {
        self.run("kubelet", &components::kubelet(&self.programs, &self.place, kubelet))?;
        self.until("the node's condition Ready", || {
            let found = self.find(&format!("node/{}", kubelet.name));
            found.is_some_and(|it| condition(&it, "Ready"))
        })
    }

    /// The containerd beside the control plane, with the image that each pod needs.
    fn until_containerd(&self) -> Result<(), Problem> {
        let version = || self.place.command(self.programs.ctr()).arg("version").output();
        self.until("containerd", || version().is_ok_and(|output| output.status.success()))?;
        images::import_pause(&self.place, &self.programs)
    }

    pub(crate) fn until_service_accounts(&self) -> Result<(), Problem> {
        let account = || self.api.find(Some("default"), "serviceaccount", "default").is_some();
        self.until("the first service account", account)
    }

    pub(crate) fn until_api_server(&self) -> Result<(), Problem> {
        self.until("the API server", || self.api.is_ready())
    }
}

/// What a cluster consists of, as its settings name it.
#[derive(Debug)]
pub(crate) struct Parts {
    pub kubelets: Vec<Kubelet>,
    /// The address of the API server.
    pub api_server: Ipv4Addr,
}

impl Parts {
    /// All in the same namespaces.
    fn own(place: &Place, programs: &Programs) -> Self {
        let api_server = ControlPlane::of(place, programs).address;
        Self { kubelets: vec![own(place, programs)], api_server }
    }
}

/// The kubelet that runs beside the control plane.
fn own(place: &Place, programs: &Programs) -> Kubelet {
    Kubelet {
        name: settings::NODE.to_owned(),
        address: place.subnet.node(),
        pods: place.subnet.pods(),
        files: place.path("config"),
        directory: place.path("config"),
        runc: programs.runc.clone(),
        cgroup: place.cgroup.clone(),
    }
}
