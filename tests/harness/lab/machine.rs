//! A machine of the lab: what a test asks of it and does to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::disk::{disk_of, install, provision};
use super::{Archives, BOOT_LOADER, CABLE, FIRMWARE, PROGRAMS, initramfs, name, settings_of};
use crate::child::{Finished, finish, limited};
use crate::node::place::{checked, make_directory};
use crate::node::{Node, Problem, Programs, condition, images, wait};
use crate::parts::SKOPEO;
use crate::skopeo;

/// A boot on a busy machine, and everything shorter.
const LIMIT: Duration = Duration::from_secs(180);

/// In a shell line: the folder of the deployment that runs, beside which is its origin file.
const BOOTED: &str =
    "booted=$(readlink -f \"$(sed 's/.*ostree=\\([^ ]*\\).*/\\1/' /proc/cmdline)\")";
/// rpm-ostree's daemon reads it anew.
const RELOAD: &str = "touch /ostree/deploy; systemctl try-restart rpm-ostreed.service";

/// A machine, switched on.
#[derive(Debug)]
pub struct Machine {
    name: String,
    index: u8,
    node: Arc<Node>,
    archives: Archives,
    /// What the firmware and the test share.
    shared: PathBuf,
}

impl Machine {
    /// Installs the machine, starts its firmware, and connects it to the bridge. Pods on a machine
    /// that has the API server reach it there.
    pub(super) fn switch_on(
        node: Arc<Node>,
        archives: Archives,
        index: u8,
        has_api_server: bool,
    ) -> Result<Self, Problem> {
        let (place, name) = (node.place(), name(index));
        install(&node, index)?;
        super::write_settings(place, index)?;
        let shared = place.path("shared").join(&name);
        make_directory(&shared)?;
        let machine = Self { name, index, node: Arc::clone(&node), archives, shared };
        // It boots when it has a network.
        machine.hold_off(true);
        let path = |path: PathBuf| path.display().to_string();
        let Programs { kubernetes, containerd, runc, .. } = node.programs();
        let programs = [("kubernetes", kubernetes), ("containerd", containerd), ("runc", runc)]
            .map(|(name, folder)| format!("{name}={}", folder.display()));
        let number = machine.firmware_file().display().to_string();
        let script = format!("echo $$ > {number}.next; mv {number}.next {number}\n{FIRMWARE}");
        let line = [
            "unshare".to_owned(),
            "--net".to_owned(),
            "--".to_owned(),
            "sh".to_owned(),
            "-euc".to_owned(),
            script,
            "sh".to_owned(),
            path(disk_of(place, index)),
            path(machine.shared.clone()),
            path(settings_of(place, index)),
            programs.join(" "),
            format!("{}/{}", place.cgroup.trim_start_matches('/'), machine.name),
            BOOT_LOADER.to_owned(),
            initramfs(),
        ];
        node.run(&machine.name, &line)?;
        node.until("the firmware", || Path::new(&number).is_file())?;
        let number = fs::read_to_string(&number).map_err(|why| format!("{number}: {why}"))?;
        let subnet = place.subnet;
        let service = if has_api_server { subnet.kubernetes().to_string() } else { String::new() };
        let mut cable = place.command("sh");
        cable.args(["-euc", CABLE, "sh", number.trim(), &index.to_string()]).args([
            subnet.machine(index).to_string(),
            subnet.bridge().to_string(),
            subnet.machine_pods(index),
            service,
        ]);
        checked(&mut cable)?;
        machine.hold_off(false);
        Ok(machine)
    }

    /// The name of the machine and of its node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The id of the boot that runs; none while the machine is off.
    pub fn boot_id(&self) -> Option<String> {
        let id = fs::read_to_string(self.boot_id_file()).ok()?;
        Some(id.trim().to_owned())
    }

    /// The file with that id. It is there from the beginning of a boot to the end of its PID 1.
    pub fn boot_id_file(&self) -> PathBuf {
        self.shared.join("boot-id")
    }

    /// Runs a shell line in the machine, as root, in all namespaces of its PID 1.
    #[track_caller]
    pub fn run(&self, line: &str) -> Finished {
        self.enter(&["sh", "-euc", line], &[])
    }

    /// Runs a program in the machine with this on its stdin.
    #[track_caller]
    pub fn enter(&self, command: &[&str], stdin: &[u8]) -> Finished {
        let pid = wait(&format!("{} to be on", self.name), LIMIT, || self.pid());
        let mut nsenter = self.node.place().command("nsenter");
        nsenter
            .args(["--target", &pid, "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"])
            .args(["--", "env", "-i"])
            .arg(format!("PATH={PROGRAMS}/kubernetes:{PROGRAMS}/containerd:/usr/sbin:/usr/bin"))
            .args(command);
        finish(&mut nsenter, stdin)
    }

    /// What bootc answers to `bootc status --json`. A bootc that waits for ostree's lock says so on
    /// stdout before it answers.
    #[track_caller]
    pub fn status(&self) -> Value {
        self.run("bootc status --json | grep '^{'").ok().json()
    }

    /// The digest of the image that runs.
    #[track_caller]
    pub fn booted_digest(&self) -> String {
        let status = self.status();
        let digest = &status["status"]["booted"]["image"]["imageDigest"];
        digest.as_str().unwrap_or_else(|| panic!("{}: {status:#}", self.name)).to_owned()
    }

    /// The digest of the image that the next boot takes, if it is another one.
    #[track_caller]
    pub fn staged_digest(&self) -> Option<String> {
        let status = self.status();
        status["status"]["staged"]["image"]["imageDigest"].as_str().map(str::to_owned)
    }

    /// Marks what runs as changed by rpm-ostree, though it is not, so that bootc does not update it
    /// and rpm-ostree has to.
    #[track_caller]
    pub fn mark_changed_by_rpm_ostree(&self) {
        self.run(&format!(
            "{BOOTED}; printf '[packages]\nrequested=\n' >> \"$booted.origin\"; {RELOAD}"
        ))
        .ok();
    }

    /// Marks what runs as if rpm-ostree had layered a package, which it can't do in the lab.
    #[track_caller]
    pub fn mark_layered(&self, package: &str) {
        let mark = format!("printf '[packages]\nrequested={package};\n' >> \"$booted.origin\"");
        self.run(&format!("{BOOTED}; {mark}; {RELOAD}")).ok();
    }

    /// Takes the mark away from what runs.
    #[track_caller]
    pub fn unmark_changed_by_rpm_ostree(&self) {
        self.run(&format!("{BOOTED}; sed -i '/^.packages.$/,$d' \"$booted.origin\"; {RELOAD}"))
            .ok();
    }

    /// The power fails: PID 1 is killed, and all processes with it. The firmware boots again.
    #[track_caller]
    pub fn power_cut(&self) {
        let pid = self.pid().unwrap_or_else(|| panic!("{} is off", self.name));
        self.node.inside(&["kill", "-KILL", &pid]).ok();
        wait("the end of PID 1", LIMIT, || (self.pid() != Some(pid.clone())).then_some(()));
    }

    /// Another machine in its place: it gets a fresh disk with the base image, and its node joins
    /// anew.
    #[track_caller]
    pub fn reinstall(&self) {
        self.replace_disk();
        self.load_archives();
        self.wait_ready();
    }

    /// Until the next boot, a skopeo pulls for bootc and rpm-ostree that applies the machine's policy.
    #[track_caller]
    pub fn use_newer_skopeo(&self) {
        let directory = SKOPEO.directory().join("skopeo");
        let mut tar = limited("tar");
        tar.arg("-C").arg(directory).args(["-cf", "-", "."]);
        let archive = finish(&mut tar, &[]).ok().stdout;
        let unpack = "mkdir -p \"$1\"; tar -C \"$1\" -xf -";
        let script = format!("{unpack}\n{}", skopeo::USE);
        self.enter(&["sh", "-euc", &script, "sh", skopeo::FOLDER], &archive).ok();
    }

    /// Removes the certificate of the registry's authority, which each disk has at first.
    #[track_caller]
    pub fn forget_registry_authority(&self) {
        self.run("rm -r /etc/containers/certs.d").ok();
    }

    /// The machine is gone, and its node is deleted, until another one is put in its place.
    #[track_caller]
    pub fn remove(&self) {
        self.hold_off(true);
        self.fail_finalize(false);
        wait(&format!("{} to be off", self.name), LIMIT, || {
            // It may just be booting.
            if self.pid().is_some() {
                self.power_cut();
            }
            self.shared.join("off").exists().then_some(())
        });
        self.node.kubectl(&["delete", "node", &self.name, "--ignore-not-found"]).ok();
    }

    /// A new machine in its place: Ignition writes this config, or the one that it fetches, onto a
    /// fresh disk with the base image, and the machine boots for the first time. Of Ignition, the lab
    /// runs the stages that fetch and that write files.
    #[track_caller]
    pub fn join(&self, ignition: &[u8]) {
        self.remove();
        self.install();
        let firmware = fs::read_to_string(self.firmware_file()).unwrap();
        provision(&self.node, self.index, firmware.trim(), ignition);
        self.hold_off(false);
    }

    /// Deletes the node and boots from a fresh disk.
    #[track_caller]
    pub(super) fn replace_disk(&self) {
        self.remove();
        self.install();
        self.hold_off(false);
    }

    #[track_caller]
    fn install(&self) {
        if let Err(why) = install(&self.node, self.index) {
            panic!("{}: {why}", self.name);
        }
    }

    /// When the machine ends next, it stays off until it is released. A released machine boots.
    #[track_caller]
    pub fn hold_off(&self, is_held: bool) {
        self.mark("hold", is_held);
    }

    /// Whether `ostree admin finalize-staged` fails, so that the staged image is not booted.
    #[track_caller]
    pub fn fail_finalize(&self, fails: bool) {
        self.mark("fail-finalize", fails);
    }

    /// Whether stand-ins of bootc, ostree and systemd do soft reboots.
    #[track_caller]
    pub fn allow_soft_reboots(&self, may: bool) {
        self.mark("soft-reboot", may);
    }

    /// Whether the stand-in of ostree refuses to prepare one.
    #[track_caller]
    pub fn fail_soft_reboot(&self, fails: bool) {
        self.mark("fail-soft-reboot", fails);
    }

    /// Waits until PID 1 is another one than before an action, in whatever boot, with systemd ready for
    /// orders.
    #[track_caller]
    pub fn wait_restart(&self, act: impl FnOnce()) {
        let before = self.pid();
        act();
        wait(&format!("another PID 1 of {}", self.name), LIMIT, || {
            self.pid().filter(|pid| before.as_ref() != Some(pid))
        });
        self.wait_systemd();
    }

    #[track_caller]
    fn wait_systemd(&self) {
        wait(&format!("systemd of {}", self.name), LIMIT, || {
            let state = self.run("systemctl is-system-running || true").text();
            ["running", "degraded"].contains(&state.trim()).then_some(())
        });
    }

    /// Waits until another boot than this runs, with systemd ready for orders; its id.
    #[track_caller]
    pub fn wait_reboot(&self, before: &str) -> String {
        let id = wait(&format!("another boot of {}", self.name), LIMIT, || {
            self.pid()?;
            self.boot_id().filter(|id| id != before)
        });
        self.wait_systemd();
        id
    }

    /// Waits until the node is Ready and reports the boot that runs; the node.
    #[track_caller]
    pub fn wait_ready(&self) -> Value {
        self.node.wait(&format!("node/{}", self.name), LIMIT, |node| {
            let id = node["status"]["nodeInfo"]["bootID"].as_str();
            condition(node, "Ready") && id.is_some() && id == self.boot_id().as_deref()
        })
    }

    /// All that the firmware and systemd printed.
    pub fn console(&self) -> String {
        self.node.logs(&self.name)
    }

    /// `kubectl` with the credentials of this machine's kubelet.
    #[track_caller]
    pub fn kubectl_as_kubelet(&self, arguments: &[&str], stdin: &[u8]) -> Finished {
        let place = self.node.place();
        let mut kubectl = limited(self.node.programs().kubectl());
        let kubeconfig = settings_of(place, self.index).join("kubelet");
        let authority = place.path("config/cluster-authority.crt");
        kubectl
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            // In that file, the path is the machine's.
            .arg(format!("--certificate-authority={}", authority.display()))
            .arg(format!("--cache-dir={}", place.path("kubectl").display()))
            .args(arguments);
        finish(&mut kubectl, stdin)
    }

    /// Gives its containerd the images that all machines have.
    #[track_caller]
    pub fn load_archives(&self) {
        let archives = self.archives.lock().unwrap().clone();
        archives.iter().for_each(|archive| self.load_archive(archive));
    }

    /// Gives its containerd an archive of images.
    #[track_caller]
    pub(super) fn load_archive(&self, archive: &Path) {
        let content = fs::read(archive).unwrap();
        wait(&format!("containerd of {}", self.name), LIMIT, || {
            self.run("ctr version").status.success().then_some(())
        });
        let mut command = vec!["ctr"];
        command.extend(images::IMPORT);
        command.push("-");
        self.enter(&command, &content).ok();
    }

    /// The file with the number of the firmware in the namespaces of the control plane.
    fn firmware_file(&self) -> PathBuf {
        self.shared.join("firmware")
    }

    fn mark(&self, name: &str, is_set: bool) {
        let path = self.shared.join(name);
        if is_set {
            fs::write(&path, "").unwrap();
        } else if path.exists() {
            fs::remove_file(&path).unwrap();
        }
    }

    /// The number of PID 1 in the namespaces of the control plane, while the machine is on.
    fn pid(&self) -> Option<String> {
        let pid = fs::read_to_string(self.shared.join("pid")).ok()?;
        Some(pid.trim().to_owned())
    }
}
