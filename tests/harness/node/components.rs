//! The programs that make a machine a node: their command lines, and how one is watched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use super::place::{Place, create};
use super::programs::Programs;
use super::settings::{NODE, Settings};
use super::{Problem, problem};
use crate::child::run;

/// The kubelet sets the whole machine's kernel up as it likes it. Here it finds what it wants and
/// changes nothing.
const KUBELET: &str = r#"
mount --make-private /proc
cd "$1"
shift
set_as_wanted() { echo "$2" > "$1"; mount --bind "$1" "/proc/sys/$(echo "$1" | tr . /)"; }
set_as_wanted vm.overcommit_memory 1
set_as_wanted vm.panic_on_oom 0
set_as_wanted kernel.panic 10
set_as_wanted kernel.panic_on_oops 1
set_as_wanted kernel.keys.root_maxkeys 1000000
set_as_wanted kernel.keys.root_maxbytes 25000000
cd /
exec "$@""#;

/// A running program of the node.
#[derive(Debug)]
pub struct Component {
    pub name: &'static str,
    log: PathBuf,
    child: Child,
    line: Vec<String>,
}

impl Component {
    /// Starts a program inside, its output going to the log of its name.
    pub fn start(
        place: &Place,
        programs: &Programs,
        name: &'static str,
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
        Ok(Self { name, log, child, line: line.to_vec() })
    }

    /// Ends it at once, without a word to it.
    pub fn kill(&mut self) -> Result<(), Problem> {
        // What we started only waits for the program in the other namespace.
        let id = self.child.id();
        let children = format!("/proc/{id}/task/{id}/children");
        let children = fs::read_to_string(&children).map_err(|why| problem(children, &why))?;
        for program in children.split_whitespace() {
            run("kill", ["-KILL", program]);
        }
        let ended = self.child.wait().map(drop);
        ended.map_err(|why| problem(self.name, &why))
    }

    /// Starts it as before.
    pub fn revive(&mut self, place: &Place, programs: &Programs) -> Result<(), Problem> {
        *self = Self::start(place, programs, self.name, &self.line)?;
        Ok(())
    }

    /// A problem if it no longer runs: with its last words.
    pub fn check(&mut self) -> Result<(), Problem> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("{} ended: {status}\n{}", self.name, self.tail(30))),
            Err(why) => Err(problem(self.name, &why)),
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

/// Where a component's output is.
pub fn log(directory: &Path, name: &str) -> PathBuf {
    directory.join("logs").join(name)
}

fn line(program: PathBuf, arguments: Vec<String>) -> Vec<String> {
    let mut line = vec![program.display().to_string()];
    line.extend(arguments);
    line
}

/// Its data lie in memory.
pub fn etcd(programs: &Programs) -> Vec<String> {
    let flags = [
        "--data-dir=/run/etcd",
        "--unsafe-no-fsync",
        // The most that etcd recommends: thousands of rendered configs are gigabytes.
        "--quota-backend-bytes=8589934592",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
    ];
    line(programs.etcd(), flags.map(str::to_owned).to_vec())
}

pub fn api_server(programs: &Programs, place: &Place, settings: &Settings) -> Vec<String> {
    let subnet = place.subnet;
    let path = |path: &str| place.path(path).display().to_string();
    let flags = vec![
        "--etcd-servers=http://127.0.0.1:2379".to_owned(),
        "--bind-address=0.0.0.0".to_owned(),
        "--secure-port=443".to_owned(),
        format!("--advertise-address={}", subnet.node()),
        format!("--service-cluster-ip-range={}", subnet.services()),
        format!("--tls-cert-file={}", settings.server.certificate.display()),
        format!("--tls-private-key-file={}", settings.server.key.display()),
        format!("--client-ca-file={}", settings.authority.certificate.display()),
        format!("--token-auth-file={}", path("config/tokens")),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement"
            .to_owned(),
        "--allow-privileged".to_owned(),
        // For what a cluster's own admission does to pods.
        "--feature-gates=MutatingAdmissionPolicy=true".to_owned(),
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true".to_owned(),
        format!("--service-account-issuer=https://{}", subnet.node()),
        format!("--service-account-key-file={}", settings.signer.certificate.display()),
        format!("--service-account-signing-key-file={}", settings.signer.key.display()),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        format!("--kubelet-certificate-authority={}", settings.authority.certificate.display()),
        format!("--kubelet-client-certificate={}", settings.client.certificate.display()),
        format!("--kubelet-client-key={}", settings.client.key.display()),
        format!("--audit-policy-file={}", path("config/audit.json")),
        format!("--audit-log-path={}", path("logs/audit")),
        // One file, in megabytes: who counts requests needs all of them.
        "--audit-log-maxsize=4096".to_owned(),
        "--profiling=false".to_owned(),
    ];
    line(programs.kubernetes("kube-apiserver"), flags)
}

pub fn controller_manager(programs: &Programs, place: &Place, settings: &Settings) -> Vec<String> {
    let flags = vec![
        format!("--kubeconfig={}", place.path("config/controller-manager").display()),
        "--use-service-account-credentials".to_owned(),
        format!("--service-account-private-key-file={}", settings.signer.key.display()),
        format!("--root-ca-file={}", settings.authority.certificate.display()),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=400".to_owned(),
    ];
    line(programs.kubernetes("kube-controller-manager"), flags)
}

pub fn scheduler(programs: &Programs, place: &Place) -> Vec<String> {
    let flags = vec![
        format!("--kubeconfig={}", place.path("config/scheduler").display()),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
    ];
    line(programs.kubernetes("kube-scheduler"), flags)
}

pub fn kubelet(programs: &Programs, place: &Place) -> Vec<String> {
    let shell = ["--mount", "--propagation=unchanged", "--", "sh", "-euc", KUBELET, "sh"];
    let mut flags: Vec<_> = shell.map(str::to_owned).to_vec();
    flags.extend([
        place.path("config").display().to_string(),
        programs.kubernetes("kubelet").display().to_string(),
        format!("--config={}", place.path("config/kubelet.json").display()),
        format!("--kubeconfig={}", place.path("config/kubelet").display()),
        format!("--node-ip={}", place.subnet.node()),
        format!("--hostname-override={NODE}"),
    ]);
    line(PathBuf::from("unshare"), flags)
}

pub fn containerd(programs: &Programs, place: &Place) -> Vec<String> {
    let config = place.path("config/containerd.toml").display().to_string();
    line(programs.containerd(), vec!["--config".to_owned(), config])
}

pub fn registry(programs: &Programs, place: &Place) -> Vec<String> {
    let config = place.path("config/registry.json").display().to_string();
    line(programs.registry(), vec!["serve".to_owned(), config])
}
