//! Brings up a control plane and machines, and waits until their nodes are ready.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::machine_control_plane::write_units;
use super::{Lab, MAX_MACHINES, Machine, base, kubelet};
use crate::machine_tools::MachineTools;
use crate::node::place::{Place, checked};
use crate::node::settings::Kubelet;
use crate::node::{Node, Parts, Problem, Programs, images};
use crate::one_node::programs;

/// The node that has the control plane, if it is one.
const CONTROL_PLANE: &str = "control-plane";
const CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane=";

/// The bridge between the machines, on the control plane.
const BRIDGE: &str = r#"
ip link add machines type bridge
ip address add "$1/28" dev machines
ip link set machines up
mkdir "$2"
mount -t tmpfs -o mode=0755 tmpfs "$2"
"#;

/// What has the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ControlPlaneKind {
    /// Nothing that runs pods.
    NoNode,
    /// A node that is no machine.
    Node,
    /// The only machine.
    Machine,
}

impl Lab {
    /// Brings up the control plane and that many machines (`machine-0`, …) with the base image, and
    /// waits until their nodes are ready.
    #[track_caller]
    pub fn start(machines: usize) -> Self {
        Self::started(Self::try_start(machines, ControlPlaneKind::NoNode))
    }

    /// The same, and the control plane is a node for pods that want one: `control-plane`, with the
    /// usual label and taint. It is no machine of the lab.
    #[track_caller]
    pub fn with_control_plane_node(machines: usize) -> Self {
        Self::started(Self::try_start(machines, ControlPlaneKind::Node))
    }

    /// One machine that is control plane and worker: its systemd runs etcd, the API server and the
    /// rest, which are away while it reboots. The registry is not on it.
    #[track_caller]
    pub fn single_node() -> Self {
        Self::started(Self::try_start(1, ControlPlaneKind::Machine))
    }

    #[track_caller]
    fn started(lab: Result<Self, Problem>) -> Self {
        match lab {
            Ok(lab) => lab,
            Err(why) => panic!("no machines for the tests: {why}"),
        }
    }

    fn try_start(machines: usize, kind: ControlPlaneKind) -> Result<Self, Problem> {
        let nodes = machines + usize::from(kind == ControlPlaneKind::Node);
        assert!(nodes <= MAX_MACHINES, "there are addresses for {MAX_MACHINES} nodes");
        println!("{}", MachineTools::get());
        let (programs, base) = (programs(), base::image());
        let indexes = 0..u8::try_from(machines).expect("a few");
        let begun = Instant::now();
        let mut times = Vec::new();
        let kubelets = |place: &Place| -> Vec<Kubelet> {
            let machines = indexes.clone().map(|index| kubelet(place, index));
            let beside = (kind == ControlPlaneKind::Node).then(|| own_kubelet(place, &programs));
            machines.chain(beside).collect()
        };
        let node = if kind == ControlPlaneKind::Machine {
            let parts = |place: &Place| Parts {
                kubelets: kubelets(place),
                api_server: place.subnet.machine(0),
            };
            let (node, settings) = Node::registry_of(&programs, parts)?;
            write_units(node.place(), &settings, 0)?;
            node
        } else {
            Node::control_plane_of(&programs, kubelets)?
        };
        let node = Arc::new(node);
        times.push(("control plane".to_owned(), begun.elapsed()));

        let place = node.place();
        let mut shell = place.command("sh");
        shell.args(["-euc", BRIDGE, "sh", &place.subnet.bridge().to_string()]);
        checked(shell.arg(place.path("disks")))?;
        let stock = base.digest(base::STOCK);
        let source = base.reference(base::STOCK);
        node.registry().push(&source, &format!("{}:latest", base::REPOSITORY));
        times.push(("base image in the registry".to_owned(), begun.elapsed()));

        let archives = Arc::new(Mutex::new(vec![images::busybox(&place.directory)?]));
        let mut lab = Self { machines: Vec::new(), node, archives, stock, times };
        for index in indexes {
            let (node, archives) = (Arc::clone(&lab.node), Arc::clone(&lab.archives));
            let has_api_server = kind == ControlPlaneKind::Machine;
            lab.machines.push(Machine::switch_on(node, archives, index, has_api_server)?);
        }
        lab.times.push(("machines switched on".to_owned(), begun.elapsed()));
        match kind {
            ControlPlaneKind::NoNode => {}
            ControlPlaneKind::Node => {
                let own = own_kubelet(lab.node.place(), &programs);
                lab.node.add_kubelet(&own)?;
                let taint = format!("{CONTROL_PLANE_LABEL}:NoSchedule");
                lab.node.kubectl(&["label", "node", CONTROL_PLANE, CONTROL_PLANE_LABEL]).ok();
                lab.node.kubectl(&["taint", "node", CONTROL_PLANE, &taint]).ok();
                lab.times.push((CONTROL_PLANE.to_owned(), begun.elapsed()));
            }
            ControlPlaneKind::Machine => {
                lab.node.until_api_server()?;
                lab.node.until_service_accounts()?;
                lab.times.push(("its API server".to_owned(), begun.elapsed()));
            }
        }
        for machine in &lab.machines {
            machine.load_archives();
            machine.wait_ready();
            lab.times.push((machine.name().to_owned(), begun.elapsed()));
        }
        if kind == ControlPlaneKind::Machine {
            let name = lab.machines[0].name();
            lab.node.kubectl(&["label", "node", name, CONTROL_PLANE_LABEL]).ok();
        }
        Ok(lab)
    }
}

/// The kubelet of what has the control plane.
fn own_kubelet(place: &Place, programs: &Programs) -> Kubelet {
    Kubelet {
        name: CONTROL_PLANE.to_owned(),
        address: place.subnet.node(),
        pods: place.subnet.machine_pods(MAX_MACHINES as u8 - 1),
        files: place.path("config"),
        directory: place.path("config"),
        runc: programs.runc.clone(),
        cgroup: place.cgroup.clone(),
    }
}
