//! A Kubernetes cluster whose nodes are machines with an operating system: they boot, take an image,
//! and reboot into it. Needs root.
//!
//! In: the base image of the machines ([`base`]), the built parts. Out: a [`Lab`]: a control plane
//! with a registry ([`Node`]) and its [`Machine`]s. The control plane has no kubelet, or is a node of
//! its own, or consists of units of the only machine. Each machine is an ostree deployment with
//! systemd as PID 1, in its own mount, PID, UTS, IPC and network namespaces and control groups; its
//! kubelet and containerd are one unit of that systemd. `systemctl reboot` ends PID 1, and the
//! machine's firmware, a loop, reads the newest loader entry and starts what it names. Not real: the
//! kernel, the initramfs and the boot loader; and bootc and rpm-ostree, which are stand-ins over the
//! importer that both are built on, unless the environment names real ones
//! ([`MachineTools`](crate::machine_tools::MachineTools)).
//!
//! Invariant: everything lives in the namespaces of the control plane, so nothing is left when the
//! value is dropped or this process ends, however it ends. The disks are in memory: freezing the
//! file system of the host, as ostree does with that of `/boot`, is not possible there.

pub mod base;
mod disk;
mod image;
mod machine;
mod machine_control_plane;
mod start;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::node::components::KERNEL_SETTINGS;
use crate::node::place::{Place, make_directory, write};
use crate::node::settings::Kubelet;
use crate::node::{Node, NodeRegistry, Problem, images};

pub use image::MachineImage;
pub use machine::Machine;

/// As many machines have addresses for their pods.
const MAX_MACHINES: usize = 4;
/// A machine's settings, as it sees them.
const SETTINGS: &str = "/run/lab/settings";
/// Its programs, as it sees them.
const PROGRAMS: &str = "/run/lab/programs";

const FIRMWARE: &str = include_str!("firmware.sh");
const BOOT_LOADER: &str = include_str!("boot_loader.sh");
const INITRAMFS: &str = include_str!("initramfs.sh");

/// A cable between the bridge and a machine, in whose network namespace the process `$1` is. `$6`: the
/// address of the service `kubernetes`, if the API server runs on the machine.
const CABLE: &str = r#"
ip link add "machine$2" type veth peer name eth0 netns "$1"
ip link set "machine$2" master machines up
ip route add "$5" via "$3"
nsenter --target "$1" --net -- sh -euc '
    ip link set lo up
    ip address add "$1/28" dev eth0
    ip link set eth0 up
    ip route add default via "$2"
    [ -z "$3" ] || ip address add "$3/32" dev lo
    echo 1 > /proc/sys/net/ipv4/ip_forward
' sh "$3" "$4" "$6"
"#;
/// Images that each machine's containerd gets, also after it was installed anew.
type Archives = Arc<Mutex<Vec<PathBuf>>>;

/// A control plane and machines. All end when this value is dropped, or this process ends.
#[derive(Debug)]
pub struct Lab {
    machines: Vec<Machine>,
    node: Arc<Node>,
    archives: Archives,
    stock: String,
    /// How long it took until things were ready, in the order in which they were.
    pub times: Vec<(String, Duration)>,
}

impl Lab {
    /// As after the start, but for objects in the API other than nodes and for what is in the
    /// registry: fresh disks with the base image, nodes without marks, no imported images, nothing
    /// that fails or is away.
    #[track_caller]
    pub fn reset(&self) {
        self.registry_away(false);
        for imported in self.archives.lock().unwrap().split_off(1) {
            std::fs::remove_file(imported).unwrap();
        }
        self.machines.iter().for_each(Machine::replace_disk);
        self.machines.iter().for_each(Machine::load_archives);
        for machine in &self.machines {
            machine.wait_ready();
        }
    }

    /// The registry, the way to the API server, the namespaces; no machine has its name.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The registry, in which the base image is.
    pub fn registry(&self) -> &NodeRegistry {
        self.node.registry()
    }

    /// The registry takes connections and answers nobody, or is back.
    #[track_caller]
    pub fn registry_away(&self, is_away: bool) {
        if is_away { self.node.freeze("registry") } else { self.node.thaw("registry") }
    }

    #[track_caller]
    pub fn machine(&self, index: usize) -> &Machine {
        &self.machines[index]
    }

    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// What the machines boot first: the base image, as the machines pull it.
    pub fn stock(&self) -> MachineImage {
        MachineImage::new(self.registry(), base::REPOSITORY, &self.stock)
    }

    /// Gives every machine's containerd an image under a name, pinned, from anything that skopeo
    /// reads (`oci:DIR:TAG`, `oci-archive:FILE`). A machine that is [installed
    /// anew](Machine::reinstall) gets it again.
    #[track_caller]
    pub fn import(&self, source: &str, name: &str) {
        let archive = images::archive_of(&self.node.place().directory, source, name);
        let archive = archive.unwrap_or_else(|why| panic!("{name}: {why}"));
        // The directory goes when the lab ends.
        let archive = archive.keep().unwrap();
        for machine in &self.machines {
            machine.load_archive(&archive);
        }
        self.archives.lock().unwrap().push(archive);
    }
}

fn name(index: u8) -> String {
    format!("machine-{index}")
}

/// The files of a machine's settings, from outside.
fn settings_of(place: &Place, index: u8) -> PathBuf {
    place.path("settings").join(name(index))
}

fn kubelet(place: &Place, index: u8) -> Kubelet {
    Kubelet {
        name: name(index),
        address: place.subnet.machine(index),
        pods: place.subnet.machine_pods(index),
        files: settings_of(place, index),
        directory: SETTINGS.into(),
        runc: PathBuf::from(PROGRAMS).join("runc"),
        cgroup: "/".to_owned(),
    }
}

/// The rest of a machine's settings: what its firmware and its unit read.
fn write_settings(place: &Place, index: u8) -> Result<(), Problem> {
    let settings = settings_of(place, index);
    make_directory(&settings)?;
    let address = place.subnet.machine(index).to_string();
    let gateway = place.subnet.bridge().to_string();
    let wrappers = [
        ("ostree", include_str!("ostree")),
        ("bootc", include_str!("bootc")),
        ("systemctl", include_str!("systemctl")),
    ];
    for (file, text) in wrappers {
        write(&settings.join(file), text)?;
        crate::child::run("chmod", ["755".as_ref(), settings.join(file).as_os_str()]);
    }
    for (file, text) in [
        ("hostname", name(index).as_str()),
        ("address", &address),
        ("gateway", &gateway),
        ("kubelet.service", include_str!("kubelet.service")),
        ("kubelet.sh", include_str!("kubelet.sh")),
        ("kill_pods.sh", include_str!("kill_pods.sh")),
    ] {
        write(&settings.join(file), text)?;
    }
    Ok(())
}

/// The last stage of the boot, with the shell functions that it uses.
fn initramfs() -> String {
    format!("{KERNEL_SETTINGS}{INITRAMFS}")
}
