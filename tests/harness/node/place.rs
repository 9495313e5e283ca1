//! The namespaces that a node lives in, its network, and that nothing of them stays.
//!
//! Two shells do it. The *guard* lies outside: it makes the control groups, waits, and removes them
//! and the directory. The
//! *first process* lies inside and reads a pipe whose other end is in this process alone. When this
//! process ends, however it ends, the pipe does, the first process ends, the kernel kills all
//! others of its process namespace, the mounts and the network go with the last of them, and the
//! guard clears away the rest.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use super::{Problem, problem};
use crate::child::{Finished, finish, limited};

/// `$1` the node's directory, `$2` the name of its control groups, `$3` what the first process
/// does.
const GUARD: &str = r#"
hierarchies() {
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo /sys/fs/cgroup; else ls -d /sys/fs/cgroup/*/; fi
}
for hierarchy in $(hierarchies); do
  mkdir "$hierarchy/$2"
  [ ! -e "$hierarchy/cgroup.controllers" ] || for controller in $(cat "$hierarchy/cgroup.controllers"); do
    echo "+$controller" > "$hierarchy/cgroup.subtree_control" || true
  done
done
unshare --mount --net --pid --fork --propagation private -- sh -euc "$3" sh "$1"
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  left=$(for hierarchy in $(hierarchies); do
    [ ! -d "$hierarchy/$2" ] || find "$hierarchy/$2" -depth -type d ! -exec rmdir {} \; -print
  done)
  [ -n "$left" ] || break
  sleep 0.2
done
rm -rf "$1"
"#;

/// `/proc` is still that of the outside when the first process reads its own number. What programs
/// of the node write to their usual places is in the node's directory.
const FIRST: &str = r#"
read -r pid rest < /proc/self/stat
mount -t proc proc /proc
mount -t tmpfs -o mode=0755 tmpfs /run
mount --bind "$1/lib" /var/lib
mount --bind "$1/log" /var/log
mount --make-rshared /
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
echo "$pid"
exec > /dev/null
cat > /dev/null
"#;

/// How the network is divided: `NET.1` is this side, `NET.2` the node, `NET.16/28` other machines
/// on a bridge of the node, `NET.64/26` the services, `NET.128/25` the pods.
#[derive(Debug, Clone, Copy)]
pub struct Subnet(u16);

impl Subnet {
    /// As many as there are in 198.18.0.0/15, which is set aside for measuring networks.
    const COUNT: u16 = 512;

    fn address(self, host: u8) -> Ipv4Addr {
        let [high, low] = self.0.to_be_bytes();
        Ipv4Addr::new(198, 18 + high, low, host)
    }

    pub fn whole(self) -> String {
        format!("{}/24", self.address(0))
    }

    pub fn outside(self) -> Ipv4Addr {
        self.address(1)
    }

    pub fn node(self) -> Ipv4Addr {
        self.address(2)
    }

    pub fn services(self) -> String {
        format!("{}/26", self.address(64))
    }

    /// What the API server calls the service `kubernetes`: the first address.
    pub fn kubernetes(self) -> Ipv4Addr {
        self.address(65)
    }

    pub fn pods(self) -> String {
        format!("{}/25", self.address(128))
    }

    /// The node's address on the bridge to other machines.
    pub fn bridge(self) -> Ipv4Addr {
        self.address(17)
    }

    /// The address of a machine on that bridge.
    pub fn machine(self, index: u8) -> Ipv4Addr {
        self.address(18 + index)
    }

    /// The addresses of that machine's pods, which the first four machines have.
    pub fn machine_pods(self, index: u8) -> String {
        format!("{}/27", self.address(128 + 32 * index))
    }

    /// The interface on this side.
    pub fn interface(self) -> String {
        format!("mosb{}", self.0)
    }
}

/// Namespaces with a network, in which nothing runs yet.
#[derive(Debug)]
pub struct Place {
    pub directory: PathBuf,
    pub subnet: Subnet,
    /// The path of its control groups, from each hierarchy's root.
    pub cgroup: String,
    pid: u32,
    /// Holds it all open.
    pipe: Option<ChildStdin>,
    guard: Child,
}

impl Place {
    pub fn make() -> Result<Self, Problem> {
        let directory = tempfile::Builder::new()
            .prefix("mosb-node-")
            .tempdir()
            .map_err(|why| problem("a directory for the node", &why))?
            .keep();
        let name = directory.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        for inside in ["lib", "log", "logs", "config"] {
            make_directory(&directory.join(inside))?;
        }
        let log = directory.join("logs/place");
        let mut guard = Command::new("setsid")
            .args(["sh", "-uc", GUARD, "sh"])
            .arg(&directory)
            .args([&name, FIRST])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(create(&log)?)
            .spawn()
            .map_err(|why| problem("setsid sh", &why))?;
        let pipe = guard.stdin.take();
        let mut line = String::new();
        if let Some(stdout) = guard.stdout.take() {
            BufReader::new(stdout)
                .read_line(&mut line)
                .map_err(|why| problem("the node's first process", &why))?;
        }
        let Ok(pid) = line.trim().parse() else {
            let text = fs::read_to_string(&log).unwrap_or_default();
            return Err(format!("no namespaces for a node; this needs root\n{text}"));
        };
        let mut place =
            Self { directory, subnet: Subnet(0), cgroup: format!("/{name}"), pid, pipe, guard };
        place.connect()?;
        Ok(place)
    }

    /// Takes the first subnet that is unused on this machine; the interface's name is the lock.
    fn connect(&mut self) -> Result<(), Problem> {
        let pid = self.pid.to_string();
        let first = std::process::id() % u32::from(Subnet::COUNT);
        let mut refused = String::new();
        for number in (0..Subnet::COUNT).cycle().skip(first as usize).take(64) {
            let subnet = Subnet(number);
            let interface = subnet.interface();
            let link =
                ["link", "add", &interface, "type", "veth", "peer", "name", "eth0", "netns", &pid];
            let made = finish(limited("ip").args(link), &[]);
            if !made.status.success() {
                refused = made.stderr;
                continue;
            }
            self.subnet = subnet;
            let (outside, node) = (subnet.outside(), subnet.node());
            checked(limited("sh").args(["-euc", OUTSIDE, "sh", &interface]).args([
                outside.to_string(),
                node.to_string(),
                subnet.whole(),
            ]))?;
            checked(self.command("sh").args(["-euc", INSIDE, "sh"]).args([
                outside.to_string(),
                node.to_string(),
                subnet.kubernetes().to_string(),
            ]))?;
            return Ok(());
        }
        Err(format!("no pair of interfaces into the node: {refused}"))
    }

    /// A command that runs inside, to which arguments may be added.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = limited("nsenter");
        command.args(self.enter()).arg(program);
        command
    }

    /// A command without a limit of time, with an environment of its own.
    pub fn lasting(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.args(self.enter()).arg(program);
        command
    }

    fn enter(&self) -> [String; 5] {
        let target = format!("--target={}", self.pid);
        [&target, "--mount", "--net", "--pid", "--"].map(str::to_owned)
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.directory.join(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // It ends by itself; whatever it says is in a log that it removes.
        self.guard.wait().ok();
    }
}

const OUTSIDE: &str = r#"
ip address add "$2/30" dev "$1"
ip link set "$1" up
ip route add "$4" via "$3"
"#;

const INSIDE: &str = r#"
ip address add "$2/30" dev eth0
ip link set eth0 up
ip route add default via "$1"
ip address add "$3/32" dev lo
"#;

/// Runs a command to its end; its output is the problem if it fails.
pub fn checked(command: &mut Command) -> Result<Finished, Problem> {
    let finished = finish(command, &[]);
    if finished.status.success() {
        Ok(finished)
    } else {
        Err(format!(
            "{}: {}\n{}{}",
            finished.what,
            finished.status,
            finished.text(),
            finished.stderr
        ))
    }
}

pub fn make_directory(path: &Path) -> Result<(), Problem> {
    fs::create_dir_all(path).map_err(|why| problem(path.display(), &why))
}

pub fn create(path: &Path) -> Result<File, Problem> {
    File::create(path).map_err(|why| problem(path.display(), &why))
}

pub fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<(), Problem> {
    fs::write(path, text).map_err(|why| problem(path.display(), &why))
}
