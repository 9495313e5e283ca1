//! Where the programs of a node are.

use std::path::{Path, PathBuf};

/// The directories of the built parts and the programs in them. Debian's `unshare`, `nsenter`,
/// `ip`, `openssl`, `skopeo` and busybox are found by `PATH`.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `server` (etcd), `kube-apiserver`, `kube-controller-manager`, `kube-scheduler`, `kubelet`,
    /// `kubectl`.
    pub kubernetes: PathBuf,
    /// `containerd`, `containerd-shim-runc-v2`, `ctr`.
    pub containerd: PathBuf,
    /// `runc`.
    pub runc: PathBuf,
    /// `registry`, of the distribution project.
    pub registry: PathBuf,
}

/// Debian's plugins: `bridge`, `host-local`, `loopback`.
pub const CNI: &str = "/usr/lib/cni";
/// Debian's static busybox.
pub const BUSYBOX: &str = "/bin/busybox";

impl Programs {
    /// Says which program is missing and how one gets it.
    pub fn check(&self) -> Result<(), String> {
        let parts = [
            self.etcd(),
            self.kubectl(),
            self.kubernetes("kubelet"),
            self.ctr(),
            self.runc.join("runc"),
            self.registry(),
        ];
        missing(parts.iter().map(PathBuf::as_path), "make parts")?;
        let bridge = Path::new(CNI).join("bridge");
        missing([bridge.as_path(), Path::new(BUSYBOX)], "make packages")
    }

    pub fn kubernetes(&self, name: &str) -> PathBuf {
        self.kubernetes.join(name)
    }

    /// The name that `go build` gives it is that of its package.
    pub fn etcd(&self) -> PathBuf {
        self.kubernetes.join("server")
    }

    pub fn kubectl(&self) -> PathBuf {
        self.kubernetes.join("kubectl")
    }

    pub fn containerd(&self) -> PathBuf {
        self.containerd.join("containerd")
    }

    pub fn ctr(&self) -> PathBuf {
        self.containerd.join("ctr")
    }

    pub fn registry(&self) -> PathBuf {
        self.registry.join("registry")
    }
}

fn missing<'a>(paths: impl IntoIterator<Item = &'a Path>, remedy: &str) -> Result<(), String> {
    match paths.into_iter().find(|path| !path.is_file()) {
        Some(path) => Err(format!("{} is missing; run `{remedy}`", path.display())),
        None => Ok(()),
    }
}
