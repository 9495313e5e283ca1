//! `mosb node` in privileged pods on a machine, as a roll-out runs it.

use std::time::{Duration, Instant};

use serde_json::json;

use mosb_api::rollout::NodeReport;
use mosb_tests::{Lab, MOSB_IMAGE, Machine, MachineImage, Namespace, mosb_image};

use crate::test_lab::{AUTH, node_pod};

/// A pod on a busy machine, with what it stages.
pub const POD: Duration = Duration::from_secs(180);
/// Where keys of a config are.
pub const KEYS: &str = "/var/home/core/.ssh/authorized_keys.d/ignition";
/// Where programs could leave a login. Pods have theirs below `/var/lib/kubelet`, until they are
/// deleted.
const PLACES: &str =
    "/etc /usr/etc /run /tmp /var/log /var/tmp /var/roothome /var/lib/mosb /var/lib/containers";
/// Keeps a machine that was asked to reboot from doing it.
pub const HOLD_REBOOT: &str = "mkdir -p /run/systemd/system/mosb-reboot.service.d
    printf '[Service]\\nExecStartPre=/bin/sleep 600\\n' > /run/systemd/system/mosb-reboot.service.d/hold.conf
    systemctl daemon-reload";

/// A machine, and a namespace with a login for its registry.
pub struct Story<'a> {
    pub lab: &'a Lab,
    pub namespace: Namespace<'a>,
}

/// How a pod ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i64,
    pub report: NodeReport,
}

impl Ended {
    pub fn booted(&self) -> String {
        digest_of(self.report.booted.as_ref())
    }

    pub fn staged(&self) -> String {
        digest_of(self.report.staged.as_ref())
    }

    /// The exit code, and the code of the error.
    pub fn failure(&self) -> (i64, &str) {
        (self.code, self.report.error.as_ref().map_or("", |error| &*error.code))
    }

    pub fn message(&self) -> &str {
        self.report.error.as_ref().map_or("", |error| &*error.message)
    }
}

fn digest_of(deployment: Option<&mosb_api::rollout::Deployment>) -> String {
    let digest = deployment.and_then(|one| one.digest);
    digest.map(|digest| digest.to_string()).unwrap_or_default()
}

pub fn target(image: &MachineImage) -> String {
    json!({ "image": image.reference }).to_string()
}

/// The arguments of the newest boot entry, which the firmware boots, without that of ostree.
pub fn boot_arguments(machine: &Machine) -> Vec<String> {
    let line = "sed -n 's/^options //p' $(ls /boot/loader/entries/*.conf | sort -V | tail -n 1)";
    let text = machine.run(line).ok().text();
    text.split_whitespace().filter(|word| !word.starts_with("ostree=")).map(str::to_owned).collect()
}

/// The SSH keys of `core`, as a config brings them.
pub fn keys(machine: &Machine) -> String {
    machine.run(&format!("cat {KEYS} 2>/dev/null || true")).ok().text()
}

impl<'a> Story<'a> {
    /// On the only machine of a lab, with files for its pods beside the login.
    pub fn new(lab: &'a Lab, namespace: &str, files: &[(String, String)]) -> Self {
        lab.import(&format!("oci-archive:{}", mosb_image().display()), MOSB_IMAGE);
        let mut data = json!({ "auth.json": lab.registry().pull_config().to_string() });
        for (name, content) in files {
            data[name] = json!(content);
        }
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "pull" },
            "stringData": data,
        });
        let namespace = Namespace::new(lab.node(), namespace);
        namespace.apply(&secret.to_string());
        Self { lab, namespace }
    }

    pub fn machine(&self) -> &Machine {
        self.lab.machine(0)
    }

    /// Starts `mosb node` as a pod, as a roll-out does.
    pub fn start(&self, name: &str, words: &[&str]) {
        let pod = node_pod(name, self.machine(), words);
        self.namespace.apply(&pod.to_string());
    }

    /// Waits for the pod's end, reads its termination message and deletes it.
    pub fn end(&self, name: &str) -> Ended {
        let pod = self.namespace.wait(&format!("pod/{name}"), POD, |pod| {
            pod["status"]["containerStatuses"][0]["state"]["terminated"].is_object()
        });
        let log = self.namespace.log(name, "main").unwrap_or_default();
        let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        let message = ended["message"].as_str().unwrap_or_default();
        let report =
            NodeReport::parse(message).unwrap_or_else(|why| panic!("{why}: {pod:#}\n{log}"));
        println!("{name}: {} {}\n{log}", ended["exitCode"], report.to_json());
        self.namespace.kubectl(&["delete", "pod", name, "--wait=true"]).ok();
        Ended { code: ended["exitCode"].as_i64().unwrap(), report }
    }

    /// Waits for the pod's end, deletes it, and returns what it logged.
    pub fn log_of_end(&self, name: &str) -> String {
        self.namespace.wait(&format!("pod/{name}"), POD, |pod| {
            pod["status"]["containerStatuses"][0]["state"]["terminated"].is_object()
        });
        let log = self.namespace.log(name, "main").unwrap_or_default();
        self.namespace.kubectl(&["delete", "pod", name, "--wait=true"]).ok();
        log
    }

    pub fn run(&self, name: &str, words: &[&str]) -> Ended {
        let begun = Instant::now();
        self.start(name, words);
        let ended = self.end(name);
        println!("{name}: {:.1} s", begun.elapsed().as_secs_f64());
        ended
    }

    pub fn stage(&self, name: &str, image: &MachineImage) -> Ended {
        self.run(name, &["stage", "--target", &target(image), "--auth", AUTH])
    }

    pub fn start_apply(&self, name: &str, image: &MachineImage, attempt: &str) {
        let target = target(image);
        self.start(name, &["apply", "--target", &target, "--attempt", attempt, "--auth", AUTH]);
    }

    pub fn apply(&self, name: &str, image: &MachineImage, attempt: &str) -> Ended {
        self.start_apply(name, image, attempt);
        self.end(name)
    }

    /// An apply that reboots the machine: its pod does not end well.
    pub fn apply_until_reboot(&self, name: &str, image: &MachineImage, attempt: &str) {
        self.reboots(name, || self.start_apply(name, image, attempt));
    }

    /// A pod, started by a function, that reboots the machine.
    pub fn reboots(&self, name: &str, start: impl Fn()) {
        let begun = Instant::now();
        self.machine().wait_restart(start);
        self.machine().wait_ready();
        let pod = self
            .namespace
            .wait(&format!("pod/{name}"), POD, |pod| pod["status"]["phase"] == "Failed");
        let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        assert!([json!(137), json!(143), json!(255)].contains(&ended["exitCode"]), "{pod:#}");
        self.namespace.kubectl(&["delete", "pod", name, "--wait=true"]).ok();
        println!("{name}: {:.1} s until Ready", begun.elapsed().as_secs_f64());
    }

    /// No file of the machine, its journal or its processes have the login of the pods.
    pub fn assert_no_login(&self, what: &str) {
        let password = &self.lab.registry().pull_password;
        let auth = self.lab.registry().pull_config()["auths"].to_string();
        let auth =
            auth.rsplit("\"auth\":\"").next().unwrap().trim_end_matches(['"', '}']).to_owned();
        for secret in [password, &auth] {
            let search = format!(
                "grep -rlsF --devices=skip -e \"$0\" {PLACES} || true
                 journalctl --quiet | grep -cF -e \"$0\" | grep -v '^0$' || true
                 tr '\\0' '\\n' < /proc/1/environ | grep -F -e \"$0\" || true"
            );
            let found = self.machine().enter(&["sh", "-uc", &search, secret], &[]).ok().text();
            assert_eq!(found, "", "{what}: a login is there");
        }
    }
}
