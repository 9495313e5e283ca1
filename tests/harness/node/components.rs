//! The programs that make a machine a node: how one is watched, and the command lines of those that
//! run pods and of the registry. Those of the control plane are in
//! [`control_plane`](super::control_plane).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use super::place::{Place, create};
use super::programs::Programs;
use super::settings::Kubelet;
use super::{Problem, problem};
use crate::child::run;

/// A shell function that makes the kernel's settings in `$proc` (`/proc`) look as the kubelet sets
/// them for the whole machine, so that it changes nothing. The files for that are made in the
/// current directory.
pub(crate) const KERNEL_SETTINGS: &str = r#"
set_as_wanted() { echo "$2" > "$1"; mount --bind "$1" "${proc:-/proc}/sys/$(echo "$1" | tr . /)"; }
kernel_settings() {
  set_as_wanted vm.overcommit_memory 1
  set_as_wanted vm.panic_on_oom 0
  set_as_wanted kernel.panic 10
  set_as_wanted kernel.panic_on_oops 1
  set_as_wanted kernel.keys.root_maxkeys 1000000
  set_as_wanted kernel.keys.root_maxbytes 25000000
}
"#;

const KUBELET: &str = r#"
mount --make-private /proc
cd "$1"
shift
kernel_settings
cd /
exec "$@""#;

/// The program of a component that is started by a shell, and so can be stopped.
const SHELL: &str = "sh";

/// A running program of the node.
#[derive(Debug)]
pub struct Component {
    pub name: String,
    log: PathBuf,
    child: Child,
    line: Vec<String>,
}

impl Component {
    /// Starts a program inside, its output going to the log of its name.
    pub fn start(
        place: &Place,
        programs: &Programs,
        name: &str,
        line: &[String],
    ) -> Result<Self, Problem> {
        let log = log(&place.directory, name);
        let output = create(&log)?;
        let errors = output.try_clone().map_err(|why| problem(log.display(), &why))?;
        let own = [&programs.containerd, &programs.runc].map(|path| path.display().to_string());
        let (program, arguments) = line.split_first().ok_or("a component without a program")?;
        let child = place
            .lasting(Path::new(program))
            .args(arguments)
            .env_clear()
            .env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", own.join(":")))
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|why| problem(name, &why))?;
        Ok(Self { name: name.to_owned(), log, child, line: line.to_vec() })
    }

    /// Sends a signal to the program. Only one that was started by a shell ([`registry`]) may be
    /// stopped: `nsenter` stops together with its child, and would then not notice its end.
    pub fn signal(&self, signal: &str) -> Result<(), Problem> {
        // What we started only waits for the program in the other namespace.
        let mut programs = children(&self.child.id().to_string())?;
        if self.line[0] == SHELL {
            let inner: Result<Vec<_>, _> = programs.iter().map(|shell| children(shell)).collect();
            programs = inner?.concat();
        }
        for program in programs {
            run("kill", ["-s", signal, &program]);
        }
        Ok(())
    }

    /// Ends it at once, without a word to it.
    pub fn kill(&mut self) -> Result<(), Problem> {
        self.signal("KILL")?;
        let ended = self.child.wait().map(drop);
        ended.map_err(|why| problem(&self.name, &why))
    }

    /// Starts it as before.
    pub fn revive(&mut self, place: &Place, programs: &Programs) -> Result<(), Problem> {
        *self = Self::start(place, programs, &self.name, &self.line)?;
        Ok(())
    }

    /// A problem if it no longer runs: with its last words.
    pub fn check(&mut self) -> Result<(), Problem> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("{} ended: {status}\n{}", self.name, self.tail(30))),
            Err(why) => Err(problem(&self.name, &why)),
        }
    }

    /// The name, and the last lines of the log.
    pub fn last_words(&self) -> String {
        format!("--- {}\n{}", self.name, self.tail(8))
    }

    fn tail(&self, lines: usize) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<_> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

/// The processes that a process has started.
fn children(id: &str) -> Result<Vec<String>, Problem> {
    let path = format!("/proc/{id}/task/{id}/children");
    let children = fs::read_to_string(&path).map_err(|why| problem(path, &why))?;
    Ok(children.split_whitespace().map(str::to_owned).collect())
}

/// Where a component's output is.
pub fn log(directory: &Path, name: &str) -> PathBuf {
    directory.join("logs").join(name)
}

pub(super) fn line(program: PathBuf, arguments: Vec<String>) -> Vec<String> {
    let mut line = vec![program.display().to_string()];
    line.extend(arguments);
    line
}

/// One that runs beside the control plane.
pub fn kubelet(programs: &Programs, place: &Place, kubelet: &Kubelet) -> Vec<String> {
    let script = format!("{KERNEL_SETTINGS}{KUBELET}");
    let shell = ["--mount", "--propagation=unchanged", "--", "sh", "-euc", &script, "sh"];
    let mut flags: Vec<_> = shell.map(str::to_owned).to_vec();
    flags.extend([
        place.path("config").display().to_string(),
        programs.kubernetes("kubelet").display().to_string(),
        format!("--config={}", place.path("config/kubelet.json").display()),
        format!("--kubeconfig={}", place.path("config/kubelet").display()),
        format!("--node-ip={}", kubelet.address),
        format!("--hostname-override={}", kubelet.name),
    ]);
    line(PathBuf::from("unshare"), flags)
}

pub fn containerd(programs: &Programs, place: &Place) -> Vec<String> {
    let config = place.path("config/containerd.toml").display().to_string();
    line(programs.containerd(), vec!["--config".to_owned(), config])
}

/// By a shell; see [`Component::signal`].
pub fn registry(programs: &Programs, place: &Place) -> Vec<String> {
    let config = place.path("config/registry.json").display().to_string();
    let program = programs.registry().display().to_string();
    let words = [SHELL, "-c", "\"$@\"; exit", "sh", &program, "serve", &config];
    words.map(str::to_owned).to_vec()
}
