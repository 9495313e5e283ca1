//! The command lines of etcd, the API server, the controller manager and the scheduler.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use super::components::line;
use super::place::{Place, Subnet};
use super::programs::Programs;
use super::settings::Settings;
use crate::tls::Certificate;

/// Where the control plane runs, and where its programs find their files there.
#[derive(Debug, Clone)]
pub struct ControlPlane {
    /// The address of the API server (port 443).
    pub address: Ipv4Addr,
    /// The directory of `kube-apiserver` and of etcd.
    pub programs: PathBuf,
    /// The directory of certificates, tokens and kubeconfigs.
    pub config: PathBuf,
    /// The directory of the audit log.
    pub logs: PathBuf,
    /// The data of etcd.
    pub data: PathBuf,
}

impl ControlPlane {
    /// In the namespaces of a node, its data in memory.
    pub fn of(place: &Place, programs: &Programs) -> Self {
        Self {
            address: place.subnet.node(),
            programs: programs.kubernetes.clone(),
            config: place.path("config"),
            logs: place.path("logs"),
            data: "/run/etcd".into(),
        }
    }

    pub fn etcd(&self) -> Vec<String> {
        let data = format!("--data-dir={}", self.data.display());
        let flags = [
            &data,
            "--unsafe-no-fsync",
            // The most that etcd recommends: thousands of rendered configs are gigabytes.
            "--quota-backend-bytes=8589934592",
            "--listen-client-urls=http://127.0.0.1:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380",
        ];
        line(self.programs.join("server"), flags.map(str::to_owned).to_vec())
    }

    pub fn api_server(&self, subnet: Subnet, settings: &Settings) -> Vec<String> {
        let file = |name: &str| self.config.join(name).display().to_string();
        let certificate = |of: &Certificate| self.sees(&of.certificate);
        let key = |of: &Certificate| self.sees(&of.key);
        let flags = vec![
            "--etcd-servers=http://127.0.0.1:2379".to_owned(),
            "--bind-address=0.0.0.0".to_owned(),
            "--secure-port=443".to_owned(),
            format!("--advertise-address={}", self.address),
            format!("--service-cluster-ip-range={}", subnet.services()),
            format!("--tls-cert-file={}", certificate(&settings.server)),
            format!("--tls-private-key-file={}", key(&settings.server)),
            format!("--client-ca-file={}", certificate(&settings.authority)),
            format!("--token-auth-file={}", file("tokens")),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement"
                .to_owned(),
            "--allow-privileged".to_owned(),
            // For what a cluster's own admission does to pods.
            "--feature-gates=MutatingAdmissionPolicy=true".to_owned(),
            "--runtime-config=admissionregistration.k8s.io/v1beta1=true".to_owned(),
            format!("--service-account-issuer=https://{}", self.address),
            format!("--service-account-key-file={}", certificate(&settings.signer)),
            format!("--service-account-signing-key-file={}", key(&settings.signer)),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            format!("--kubelet-certificate-authority={}", certificate(&settings.authority)),
            format!("--kubelet-client-certificate={}", certificate(&settings.client)),
            format!("--kubelet-client-key={}", key(&settings.client)),
            format!("--audit-policy-file={}", file("audit.json")),
            format!("--audit-log-path={}", self.logs.join("audit").display()),
            // One file, in megabytes: who counts requests needs all of them.
            "--audit-log-maxsize=4096".to_owned(),
            "--profiling=false".to_owned(),
        ];
        line(self.programs.join("kube-apiserver"), flags)
    }

    /// `more` flags come last.
    pub fn controller_manager(&self, settings: &Settings) -> Vec<String> {
        let flags = vec![
            format!("--kubeconfig={}", self.config.join("controller-manager").display()),
            "--use-service-account-credentials".to_owned(),
            format!("--service-account-private-key-file={}", self.sees(&settings.signer.key)),
            format!("--root-ca-file={}", self.sees(&settings.authority.certificate)),
            "--leader-elect=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            "--kube-api-qps=200".to_owned(),
            "--kube-api-burst=400".to_owned(),
        ];
        line(self.programs.join("kube-controller-manager"), flags)
    }

    pub fn scheduler(&self) -> Vec<String> {
        let flags = vec![
            format!("--kubeconfig={}", self.config.join("scheduler").display()),
            "--leader-elect=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
        ];
        line(self.programs.join("kube-scheduler"), flags)
    }

    /// A file of the directory of certificates, as these programs see it.
    fn sees(&self, file: &Path) -> String {
        self.config.join(file.file_name().unwrap_or_default()).display().to_string()
    }
}
