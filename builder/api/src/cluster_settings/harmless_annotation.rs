//! The annotations that the settings may give build pods.

/// Annotations with a domain that no container runtime or plugin of a node acts upon.
const HARMLESS: [&str; 14] = [
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "consul.hashicorp.com/connect-inject",
    "descheduler.alpha.kubernetes.io/evict",
    "descheduler.alpha.kubernetes.io/prefer-no-eviction",
    "fluentbit.io/exclude",
    "karpenter.sh/do-not-disrupt",
    "kubectl.kubernetes.io/default-container",
    "kuma.io/sidecar-injection",
    "linkerd.io/inject",
    "prometheus.io/path",
    "prometheus.io/port",
    "prometheus.io/scrape",
    "sidecar.istio.io/inject",
    "vault.hashicorp.com/agent-inject",
];

/// Whether the settings may give build pods an annotation of this key.
///
/// A runtime takes devices, cgroup properties, seccomp and AppArmor profiles, and whole hypervisor
/// configurations from annotations (`io.kubernetes.cri-o.*`, `run.oci.*`, `org.systemd.property.*`,
/// `cdi.k8s.io/*`, `io.katacontainers.*`), and every plugin of a node may bring more: that list has
/// no end, so what is not known is refused. All of them have a domain; a plain word has none.
pub(super) fn is_harmless(key: &str) -> bool {
    !key.contains(['/', '.']) || HARMLESS.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admission_policy_permits_each_of_them() {
        let policy = include_str!("../../../../deploy/base/admission-policy.yaml");
        for key in HARMLESS {
            assert!(policy.contains(&format!("'{key}'")), "{key}: policy mosb-pods refuses it");
        }
    }

    #[test]
    fn annotations_that_a_runtime_interprets_are_not_harmless() {
        for (key, want) in [
            ("team", true),
            ("cost-center_2", true),
            ("cluster-autoscaler.kubernetes.io/safe-to-evict", true),
            ("sidecar.istio.io/inject", true),
            ("sidecar.istio.io/proxyImage", false),
            ("io.kubernetes.cri-o.Devices", false),
            ("io.kubernetes.cri-o.userns-mode", false),
            ("seccomp-profile.kubernetes.cri-o.io/image-build", false),
            ("cpu-quota.crio.io", false),
            ("run.oci.handler", false),
            ("org.systemd.property.DeviceAllow", false),
            ("io.katacontainers.config.hypervisor.path", false),
            ("container.apparmor.security.beta.kubernetes.io/image-build", false),
            ("seccomp.security.alpha.kubernetes.io/pod", false),
            ("cdi.k8s.io/devices", false),
            ("devices.noderesource.dev/container.image-build", false),
            ("io.containerd.cri.runtime", false),
            ("k8s.v1.cni.cncf.io/networks", false),
            ("kubectl.kubernetes.io/last-applied-configuration", false),
            ("example.com/owner", false),
        ] {
            assert_eq!(is_harmless(key), want, "{key}");
        }
    }
}
