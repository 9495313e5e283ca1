//! The configuration files of the components of a node.

use std::fs;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::images::PAUSE;
use super::place::{Place, make_directory, write};
use super::programs::CNI;
use super::registry::NodeRegistry;
use super::{Problem, problem};
use crate::tls::Certificate;

/// The node's name.
pub const NODE: &str = "node";

/// Another administrator, whose requests differ from those of the rest.
pub const COUNTED: &str = "counted";
/// One of whose requests the audit log keeps what they sent.
pub const RECORDED: &str = "recorded";

/// A kubelet, its container runtime, and where they find their files.
#[derive(Debug)]
pub struct Kubelet {
    /// The name of its node.
    pub name: String,
    pub address: Ipv4Addr,
    /// The addresses of its pods.
    pub pods: String,
    /// Where its files are written.
    pub files: PathBuf,
    /// The same directory, as the kubelet sees it.
    pub directory: PathBuf,
    /// The directory of runc, as containerd sees it.
    pub runc: PathBuf,
    /// Its control groups, from each hierarchy's root.
    pub cgroup: String,
}

/// The certificates of a node. Users come by token.
#[derive(Debug)]
pub struct Settings {
    /// What everybody in the cluster trusts.
    pub authority: Certificate,
    /// For the API server and the kubelet, under all their addresses.
    pub server: Certificate,
    /// With which the API server comes to the kubelet.
    pub client: Certificate,
    /// For the tokens of service accounts.
    pub signer: Certificate,
}

impl Settings {
    /// Writes everything but the registry's file. `api_server`: the address at which all come to it.
    pub fn write(
        place: &Place,
        registry: &NodeRegistry,
        kubelets: &[Kubelet],
        api_server: Ipv4Addr,
    ) -> Result<Self, Problem> {
        let config = place.path("config");
        let subnet = place.subnet;
        let authority = Certificate::authority(&config, "cluster-authority");
        let mut names = format!(
            "IP:127.0.0.1,IP:{},IP:{},DNS:localhost,DNS:kubernetes.default.svc",
            subnet.node(),
            subnet.kubernetes()
        );
        for kubelet in kubelets {
            names.push_str(&format!(",IP:{},DNS:{}", kubelet.address, kubelet.name));
        }
        let settings = Self {
            server: Certificate::signed(&config, "cluster", "/CN=cluster", &names, &authority),
            client: Certificate::signed(
                &config,
                "api-server",
                "/O=system:masters/CN=api-server",
                "DNS:localhost",
                &authority,
            ),
            signer: Certificate::signer(&config, "service-accounts"),
            authority,
        };
        write(&config.join("audit.json"), audit().to_string())?;
        settings.users(place, kubelets, api_server)?;
        for kubelet in kubelets {
            settings.files_of(kubelet, api_server, registry)?;
        }
        Ok(settings)
    }

    /// A token and a kubeconfig for each user that is not a service account.
    fn users(
        &self,
        place: &Place,
        kubelets: &[Kubelet],
        api_server: Ipv4Addr,
    ) -> Result<(), Problem> {
        let mut tokens = String::new();
        let mut user = |file: &Path, authority: &Path, user: &str, groups: &str| {
            let token = random()?;
            tokens.push_str(&format!("{token},{user},{user},\"{groups}\"\n"));
            let config = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "node",
                "clusters": [{"name": "node", "cluster": {
                    "server": format!("https://{api_server}"),
                    "certificate-authority": authority,
                }}],
                "users": [{"name": "user", "user": {"token": token}}],
                "contexts": [{"name": "node", "context": {"cluster": "node", "user": "user"}}],
            });
            write(file, config.to_string())
        };
        for (file, name, groups) in [
            ("admin", "admin", "system:masters"),
            (COUNTED, COUNTED, "system:masters"),
            (RECORDED, RECORDED, "system:masters"),
        ] {
            user(&place.path("config").join(file), &self.authority.certificate, name, groups)?;
        }
        for (file, name) in [
            ("controller-manager", "system:kube-controller-manager"),
            ("scheduler", "system:kube-scheduler"),
        ] {
            // Beside the kubeconfig, wherever that is read.
            let authority = self.authority.certificate.file_name().unwrap_or_default();
            user(&place.path("config").join(file), Path::new(authority), name, "")?;
        }
        for kubelet in kubelets {
            make_directory(&kubelet.files)?;
            let authority = kubelet.sees(&self.authority.certificate);
            let name = format!("system:node:{}", kubelet.name);
            user(&kubelet.files.join("kubelet"), &authority, &name, "system:nodes")?;
        }
        write(&place.path("config/tokens"), tokens)
    }

    /// What a kubelet and its container runtime read.
    fn files_of(
        &self,
        kubelet: &Kubelet,
        api_server: Ipv4Addr,
        registry: &NodeRegistry,
    ) -> Result<(), Problem> {
        let path = |name: &str| kubelet.files.join(name);
        let certificates = [&self.authority.certificate, &self.server.certificate];
        for from in certificates.into_iter().chain([&self.server.key]) {
            let to = kubelet.files.join(from.file_name().unwrap_or_default());
            if to != *from {
                fs::copy(from, &to).map_err(|why| problem(to.display(), &why))?;
            }
        }
        write(&path("kubelet.json"), self.kubelet(kubelet, api_server).to_string())?;
        write(&path("containerd.toml"), containerd(kubelet))?;
        // Nothing here answers for names.
        write(&path("resolv.conf"), "")?;
        make_directory(&path("net.d"))?;
        write(&path("net.d/bridge.conflist"), bridge(&kubelet.pods).to_string())?;
        let hosts = format!("certs.d/{}", registry.host_port);
        make_directory(&path(&hosts))?;
        write(&path(&hosts).join("ca.crt"), &registry.ca_pem)?;
        let authority = kubelet.directory.join(&hosts).join("ca.crt");
        write(&path(&hosts).join("hosts.toml"), registry.hosts(&authority))
    }

    fn kubelet(&self, kubelet: &Kubelet, api_server: Ipv4Addr) -> Value {
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": false},
                "webhook": {"enabled": true},
                "x509": {"clientCAFile": kubelet.sees(&self.authority.certificate)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": kubelet.sees(&self.server.certificate),
            "tlsPrivateKeyFile": kubelet.sees(&self.server.key),
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": kubelet.cgroup,
            // Nothing answers there, and the request fails at once; without it each pod has a
            // warning among its events.
            "clusterDNS": [api_server],
            "clusterDomain": "cluster.local",
            "resolvConf": kubelet.directory.join("resolv.conf"),
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            "seccompDefault": true,
            "serializeImagePulls": false,
            "nodeStatusUpdateFrequency": "1s",
            "syncFrequency": "1s",
            "registryPullQPS": 0,
            "eventRecordQPS": 0,
            "kubeAPIQPS": 200,
            "kubeAPIBurst": 400,
            // What a machine that is also a desktop, or a small virtual one, would otherwise be
            // refused for.
            "failSwapOn": false,
            "failCgroupV1": false,
            "oomScoreAdj": 0,
            "makeIPTablesUtilChains": false,
            "localStorageCapacityIsolation": true,
            // How much disk a pod uses is known soon.
            "volumeStatsAggPeriod": "10s",
            "enforceNodeAllocatable": [],
            "evictionHard": {"memory.available": "50Mi"},
            "imageGCHighThresholdPercent": 100,
        })
    }
}

impl Kubelet {
    /// A file of the cluster, as the kubelet sees its copy.
    fn sees(&self, file: &Path) -> PathBuf {
        self.directory.join(file.file_name().unwrap_or_default())
    }
}

/// Who did what, without what they sent but for one user; the parts of the cluster itself are left
/// out.
fn audit() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts:kube-system"]},
            {"level": "None", "users": [
                "system:apiserver", "system:kube-controller-manager", "system:kube-scheduler",
            ]},
            {"level": "Request", "users": [RECORDED]},
            {"level": "Metadata"},
        ],
    })
}

fn bridge(pods: &str) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "node",
        "plugins": [{
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": true,
            "ipMasq": false,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": pods}]],
                "routes": [{"dst": "0.0.0.0/0"}],
                "dataDir": "/run/cni",
            },
        }],
    })
}

/// The machine may lack the right to lower what the kernel kills last, and AppArmor's tools.
fn containerd(kubelet: &Kubelet) -> String {
    format!(
        r#"version = 3
[plugins."io.containerd.cri.v1.images"]
  use_local_image_pull = true
  pinned_images = {{ sandbox = "{PAUSE}" }}
  registry = {{ config_path = {certificates:?} }}
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{CNI}"]
  conf_dir = {network:?}
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  options = {{ BinaryName = {runc:?}, SystemdCgroup = false }}
"#,
        certificates = kubelet.directory.join("certs.d"),
        network = kubelet.directory.join("net.d"),
        runc = kubelet.runc.join("runc"),
    )
}

/// 32 hex digits that cannot be guessed.
pub fn random() -> Result<String, Problem> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|why| problem("/dev/urandom", &why))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
