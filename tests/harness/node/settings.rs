//! The configuration files of the components of a node.

use std::fs;
use std::io::Read;

use serde_json::{Value, json};

use super::Problem;
use super::images::PAUSE;
use super::place::{Place, make_directory, write};
use super::problem;
use super::programs::{CNI, Programs};
use crate::tls::Certificate;

/// The node's name.
pub const NODE: &str = "node";

/// Another administrator, whose requests differ from those of the rest.
pub const COUNTED: &str = "counted";
/// One of whose requests the audit log keeps what they sent.
pub const RECORDED: &str = "recorded";

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
    /// Writes everything but the registry's file.
    pub fn write(place: &Place, programs: &Programs) -> Result<Self, Problem> {
        let config = place.path("config");
        let subnet = place.subnet;
        let authority = Certificate::authority(&config, "cluster-authority");
        let names = format!(
            "IP:127.0.0.1,IP:{},IP:{},DNS:localhost,DNS:{NODE},DNS:kubernetes.default.svc",
            subnet.node(),
            subnet.kubernetes()
        );
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
        settings.users(place)?;
        let json = |name: &str, value: Value| write(&config.join(name), value.to_string());
        json("audit.json", audit())?;
        json("kubelet.json", settings.kubelet(place))?;
        write(&config.join("containerd.toml"), containerd(place, programs))?;
        // Nothing here answers for names.
        write(&config.join("resolv.conf"), "")?;
        make_directory(&config.join("net.d"))?;
        json("net.d/bridge.conflist", bridge(place))?;
        Ok(settings)
    }

    /// A token and a kubeconfig for each user that is not a service account.
    fn users(&self, place: &Place) -> Result<(), Problem> {
        let node = format!("system:node:{NODE}");
        let users = [
            ("admin", "admin", "system:masters"),
            (COUNTED, COUNTED, "system:masters"),
            (RECORDED, RECORDED, "system:masters"),
            ("controller-manager", "system:kube-controller-manager", ""),
            ("scheduler", "system:kube-scheduler", ""),
            ("kubelet", node.as_str(), "system:nodes"),
        ];
        let mut tokens = String::new();
        for (file, user, groups) in users {
            let token = random()?;
            tokens.push_str(&format!("{token},{user},{user},\"{groups}\"\n"));
            let config = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "node",
                "clusters": [{"name": "node", "cluster": {
                    "server": format!("https://{}", place.subnet.node()),
                    "certificate-authority": self.authority.certificate,
                }}],
                "users": [{"name": "user", "user": {"token": token}}],
                "contexts": [{"name": "node", "context": {"cluster": "node", "user": "user"}}],
            });
            write(&place.path("config").join(file), config.to_string())?;
        }
        write(&place.path("config/tokens"), tokens)
    }

    fn kubelet(&self, place: &Place) -> Value {
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": false},
                "webhook": {"enabled": true},
                "x509": {"clientCAFile": self.authority.certificate},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": self.server.certificate,
            "tlsPrivateKeyFile": self.server.key,
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": place.cgroup,
            // Nothing answers there, and the request fails at once; without it each pod has a
            // warning among its events.
            "clusterDNS": [place.subnet.node()],
            "clusterDomain": "cluster.local",
            "resolvConf": place.path("config/resolv.conf"),
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

fn bridge(place: &Place) -> Value {
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
                "ranges": [[{"subnet": place.subnet.pods()}]],
                "routes": [{"dst": "0.0.0.0/0"}],
                "dataDir": "/run/cni",
            },
        }],
    })
}

/// The machine may lack the right to lower what the kernel kills last, and AppArmor's tools.
fn containerd(place: &Place, programs: &Programs) -> String {
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
        certificates = place.path("certs.d"),
        network = place.path("config/net.d"),
        runc = programs.runc.join("runc"),
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
