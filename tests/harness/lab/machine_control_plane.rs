//! The control plane as units of a machine's systemd: etcd, the API server, the controller manager and
//! the scheduler. Their data is on the machine's disk, and they are away while it reboots.

use std::path::PathBuf;

use super::{PROGRAMS, SETTINGS, settings_of};
use crate::child::limited;
use crate::node::Problem;
use crate::node::control_plane::ControlPlane;
use crate::node::place::{Place, checked, make_directory, write};
use crate::node::settings::Settings;

/// The files of the control plane, below the settings of its machine.
const FILES: &str = "control-plane";
/// Not the kubeconfigs of administrators.
const COPY: &str = r#"cp "$1"/*.crt "$1"/*.key "$1"/tokens "$1"/audit.json "$1"/controller-manager "$1"/scheduler "$2""#;

/// Writes files and units into the settings of a machine, which is off.
pub fn write_units(place: &Place, settings: &Settings, index: u8) -> Result<(), Problem> {
    let directory = settings_of(place, index);
    let files = directory.join(FILES);
    make_directory(&files)?;
    let mut copy = limited("sh");
    checked(copy.args(["-euc", COPY, "sh"]).arg(place.path("config")).arg(files))?;
    let plane = ControlPlane {
        address: place.subnet.machine(index),
        programs: PathBuf::from(PROGRAMS).join("kubernetes"),
        config: PathBuf::from(SETTINGS).join(FILES),
        logs: "/var/log/kubernetes".into(),
        data: "/var/lib/etcd".into(),
    };
    for (name, line) in [
        ("etcd", plane.etcd()),
        ("kube-apiserver", plane.api_server(place.subnet, settings)),
        ("kube-controller-manager", plane.controller_manager(settings)),
        ("kube-scheduler", plane.scheduler()),
    ] {
        write(&directory.join(format!("{name}.service")), unit(name, &line))?;
    }
    Ok(())
}

/// Each waits for the others by failing, as a control plane of static pods does.
fn unit(name: &str, line: &[String]) -> String {
    let after = if name == "etcd" { "" } else { "After=etcd.service\n" };
    format!(
        "[Unit]\nDescription={name}\n{after}StartLimitIntervalSec=0\n\n[Service]\n\
         Environment=OTEL_TRACES_EXPORTER=none\nExecStart={}\nRestart=always\nRestartSec=1\n\
         TimeoutStopSec=5\n",
        line.join(" ")
    )
}
