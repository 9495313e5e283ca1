//! A machine: boots a deployment of its disk, runs a script, powers off.
//!
//! The base has a unit that runs the script that QEMU hands in (`opt/vm-test`) and writes to the
//! second serial port. The machine reaches the port of one registry, as [`REGISTRY`], and nothing
//! else. It may have a second disk, with the tested program.

use std::fs;
use std::path::Path;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;

use mosb_tests::{Registry, finish, lasting, vm_base};

use super::disk::{BootEntry, Disk};
use super::program_disk::ProgramDisk;

/// Where the machine reaches the test's registry; the base has it in registries.conf.
pub const REGISTRY: &str = "10.0.2.100:5000";
/// Connects it to the network that QEMU provides.
pub const CONNECT: &str = "modprobe virtio_net && udevadm settle && \
    busybox ip addr add 10.0.2.15/24 dev eth0 && busybox ip link set eth0 up";
/// How long a boot may take, in seconds, until the machine is off again. An emulated processor
/// takes 30 s, and 80 s where `mosb node` works in it; several times that on a busy host.
const BOOT_LIMIT: &str = "900";
/// So much of the console is printed after a failure.
const CONSOLE_LINES: usize = 60;

/// A command of the machine and its output, without white space around it.
pub type Check<'a> = (&'a str, &'a str);

/// Fails with what is wrong, so that the list below names it.
const RUNNING: Check<'static> =
    ("systemctl is-system-running --wait || systemctl --failed --plain --no-legend", "running");

/// The functions of the script. Output is in base64: the port is a terminal.
const FUNCTIONS: &str = r#"
check() { printf 'check %s\n' "$(eval "$1" 2>&1 | base64 -w0)"; }
action() {
    if output=$(eval "$1" 2>&1); then
        echo done
    else
        printf 'failed %s\n' "$(base64 -w0 <<<"$output")"
        exit 1
    fi
}
reboot_by() {
    echo begun
    output=$(eval "$1" 2>&1)
    printf 'failed %s\n' "$(base64 -w0 <<<"$output")"
    exit 1
}
"#;

#[derive(Debug)]
pub struct Machine<'a> {
    disk: Disk,
    programs: Option<ProgramDisk>,
    registry: &'a Registry,
}

/// How the machine goes off.
#[derive(Debug, Clone, Copy)]
pub enum End<'a> {
    PowerOff,
    /// By a command that reboots it.
    Reboot(&'a str),
}

/// Which deployment boots.
#[derive(Debug, Clone, Copy)]
pub enum Deployment {
    /// What a boot loader starts by itself.
    Default,
    /// Its next entry.
    Previous,
}

impl<'a> Machine<'a> {
    /// A machine on which the base is installed.
    #[track_caller]
    pub fn new(registry: &'a Registry) -> Self {
        assert_eq!(std::env::consts::ARCH, "x86_64", "the base of virtual machines is for x86-64");
        Self { disk: Disk::copy(&vm_base().disk()), programs: None, registry }
    }

    /// With a second disk.
    pub fn with(self, programs: ProgramDisk) -> Self {
        Self { programs: Some(programs), ..self }
    }

    /// Boots, compares the output of each check, takes the actions, and shuts down. All units must
    /// be started, without a failure.
    #[track_caller]
    pub fn boot(
        &self,
        what: &str,
        deployment: Deployment,
        checks: &[Check],
        actions: &[&str],
        end: End,
    ) {
        let begun = Instant::now();
        let entries = self.disk.boot_entries();
        let index = match deployment {
            Deployment::Default => 0,
            Deployment::Previous => 1,
        };
        let entry = entries.get(index).unwrap_or_else(|| panic!("{what}: no such deployment"));
        let checks: Vec<Check> = [RUNNING].iter().chain(checks).copied().collect();
        let mut script = FUNCTIONS.to_owned();
        if self.programs.is_some() {
            script += ProgramDisk::MOUNT;
        }
        for (command, _) in &checks {
            script += &format!("check {}\n", quoted(command));
        }
        for command in actions {
            script += &format!("action {}\n", quoted(command));
        }
        if let End::Reboot(command) = end {
            script += &format!("reboot_by {}\n", quoted(command));
        }
        let output = self.run(what, entry, &script);

        let mut lines = output.lines();
        let mut wrong = Vec::new();
        for (command, want) in checks {
            let found = lines.next().and_then(|line| decoded(line, "check "));
            let found = found.unwrap_or_else(|| panic!("{what}: {command}: no output\n{output}"));
            if found != want {
                wrong.push(format!("{command}\n  wanted: {want}\n  found:  {found}"));
            }
        }
        assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
        for command in actions {
            let result = lines.next().unwrap_or("no result");
            let failure = decoded(result, "failed ");
            assert_eq!(result, "done", "{what}: {command}: {}", failure.unwrap_or_default());
        }
        if let End::Reboot(command) = end {
            assert_eq!(lines.next(), Some("begun"), "{what}: {command}");
        }
        let failure = lines.next().and_then(|line| decoded(line, "failed "));
        assert_eq!(failure, None, "{what}: {end:?} did not end the machine");
        println!("{what}: {} s", begun.elapsed().as_secs());
    }

    /// Boots what a boot loader starts by itself, and asks nothing of the machine until it goes off.
    #[track_caller]
    pub fn boot_until_off(&self, what: &str) {
        let begun = Instant::now();
        self.run(what, &self.disk.boot_entries()[0], "echo waits\nexec sleep infinity\n");
        println!("{what}: {} s", begun.elapsed().as_secs());
    }

    /// One boot of QEMU; what the script wrote.
    #[track_caller]
    fn run(&self, what: &str, entry: &BootEntry, script: &str) -> String {
        let directory = TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        fs::write(at("script"), script).unwrap();
        let (_, port) = self.registry.address().rsplit_once(':').unwrap();
        let (acceleration, processor) = processor();

        // The inner one, because the kernel ends only children.
        let mut command = lasting("timeout");
        command.args(["--signal=KILL", BOOT_LIMIT, "setpriv", "--pdeathsig", "KILL", "nice"]);
        command.args(["qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot"]);
        command.args(["-M", &format!("q35,accel={acceleration}"), "-cpu", processor]);
        command.args(["-smp", "2", "-m", "512"]);
        command.arg("-kernel").arg(&entry.kernel).arg("-initrd").arg(&entry.initramfs);
        // On a busy host the kernel finds its timer broken; after a panic QEMU is to end.
        command.args(["-append", &format!("{} no_timer_check panic=-1", entry.options)]);
        let drive =
            format!("file={},if=none,id=disk,format=raw,cache=unsafe", self.disk.path().display());
        command.args(["-drive", &drive, "-device", "virtio-blk-pci,drive=disk"]);
        if let Some(programs) = &self.programs {
            let drive = format!(
                "file={},if=none,id=programs,format=raw,readonly=on",
                programs.path().display()
            );
            command.args(["-drive", &drive, "-device", "virtio-blk-pci,drive=programs"]);
        }
        let forward = format!("guestfwd=tcp:{REGISTRY}-cmd:busybox nc 127.0.0.1 {port}");
        // QEMU announces itself as the default route of IPv6, which only a connected machine has.
        command.args(["-netdev", &format!("user,id=net,ipv6=off,restrict=on,{forward}")]);
        command.args(["-device", "virtio-net-pci,netdev=net,romfile="]);
        command.args(["-fw_cfg", &format!("name=opt/vm-test,file={}", at("script"))]);
        command.args(["-serial", &format!("file:{}", at("console"))]);
        command.args(["-serial", &format!("file:{}", at("output"))]);
        let finished = finish(&mut command, &[]);

        let output = read(at("output"));
        assert!(
            finished.status.success() && !output.is_empty(),
            "{what}: the machine did not boot, run its script and power off within {BOOT_LIMIT} s: \
             {}; `make test-vm` installs what it needs\n{}\nthe script wrote:\n{output}\n\
             the end of its console:\n{}",
            finished.status,
            finished.stderr,
            tail(&read(at("console"))),
        );
        output
    }
}

/// `/dev/kvm` may exist where no processor has what it needs.
fn processor() -> (&'static str, &'static str) {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap();
    let mut flags = flags.split_whitespace();
    if Path::new("/dev/kvm").exists() && flags.any(|flag| ["vmx", "svm"].contains(&flag)) {
        ("kvm", "host")
    } else {
        ("tcg", "max")
    }
}

/// What came through a serial port.
fn read(path: String) -> String {
    // QEMU makes the file when it starts.
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\r', "")
}

fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n")
}

fn quoted(command: &str) -> String {
    format!("'{}'", command.replace('\'', r"'\''"))
}

fn decoded(line: &str, kind: &str) -> Option<String> {
    let bytes = STANDARD.decode(line.strip_prefix(kind)?).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}
