//! The lab that the tests of this program take in turn, and what they do on its machines.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use mosb_tests::{
    BUSYBOX_IMAGE, FixtureGuard, FixturePool, Lab, MOSB_IMAGE, Machine, MachineImage, Namespace,
};

/// A pod on a busy machine.
pub const POD: Duration = Duration::from_secs(120);
/// The file with the login, in a [`node_pod`].
pub const AUTH: &str = "/run/mosb/auth/auth.json";
/// How a program of a pod runs on its machine. bootc refuses the variable.
const ON_MACHINE: &str = "nsenter --target 1 --mount --uts --ipc env -u container";
/// What the roll-out does in place of `systemctl reboot`: finalizing comes first.
pub const REBOOT: &str = "systemd-run -p Requires=ostree-finalize-staged.service \
    -p After=ostree-finalize-staged.service systemctl reboot";

/// Three machines as they were installed, and a control-plane node; no other test has them meanwhile.
#[track_caller]
pub fn lab() -> FixtureGuard<Lab> {
    static LABS: FixturePool<Lab> = FixturePool::new(1, || Lab::with_control_plane_node(3));
    static IS_USED: AtomicBool = AtomicBool::new(false);
    let lab = LABS.acquire();
    if IS_USED.swap(true, Ordering::Relaxed) {
        timed("reset", || lab.reset());
    } else {
        print_times(&lab);
    }
    lab
}

/// Another one, for a test that leaves objects in the API.
#[track_caller]
pub fn own_lab() -> Lab {
    let lab = Lab::with_control_plane_node(3);
    print_times(&lab);
    lab
}

fn print_times(lab: &Lab) {
    for (what, after) in &lab.times {
        println!("{what}: after {:.1} s", after.as_secs_f64());
    }
}

/// Runs it, and prints how long it took.
pub fn timed<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = act();
    println!("{what}: {:.1} s", begun.elapsed().as_secs_f64());
    result
}

/// A pod that runs a script, pinned to a machine.
pub fn pod(name: &str, machine: &Machine, script: &str) -> Value {
    let container = json!({
        "name": "main", "image": BUSYBOX_IMAGE, "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-euc", script],
    });
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never", "automountServiceAccountToken": false,
            "nodeSelector": {"kubernetes.io/hostname": machine.name()},
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        },
    })
}

/// The same with all rights on its machine, and the Secret `pull`.
pub fn privileged_pod(name: &str, machine: &Machine, script: &str) -> Value {
    let mut pod = pod(name, machine, script);
    let container = &mut pod["spec"]["containers"][0];
    container["securityContext"] = json!({"privileged": true, "runAsUser": 0});
    container["volumeMounts"] = json!([{"name": "pull", "mountPath": "/pull"}]);
    pod["spec"]["volumes"] = json!([{"name": "pull", "secret": {"secretName": "pull"}}]);
    pod["spec"]["hostPID"] = json!(true);
    pod
}

/// A pod that runs `mosb node` on its machine, as a roll-out does. The files of the Secret `pull` are
/// beside [`AUTH`].
pub fn node_pod(name: &str, machine: &Machine, words: &[&str]) -> Value {
    let mut pod = privileged_pod(name, machine, "");
    let command: Vec<&str> = ["mosb", "node"].iter().chain(words).copied().collect();
    let container = &mut pod["spec"]["containers"][0];
    container["image"] = json!(MOSB_IMAGE);
    container["command"] = json!(command);
    container["securityContext"]["readOnlyRootFilesystem"] = json!(true);
    container["volumeMounts"][0]["mountPath"] = json!("/run/mosb/auth");
    pod["spec"]["volumes"][0]["secret"]["defaultMode"] = json!(0o600);
    pod["spec"]["terminationGracePeriodSeconds"] = json!(1);
    pod
}

/// A namespace with the Secret that [`stage`] uses: what pulls from the lab's registry.
#[track_caller]
pub fn namespace(lab: &Lab) -> Namespace<'_> {
    let namespace = Namespace::new(lab.node(), "lab");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"},
        "stringData": {"auth.json": lab.registry().pull_config().to_string()},
    });
    namespace.apply(&secret.to_string());
    namespace
}

/// Stages an image as the roll-out does: from a privileged pod, by the machine's bootc.
#[track_caller]
pub fn stage(namespace: &Namespace<'_>, name: &str, machine: &Machine, image: &MachineImage) {
    let script = format!(
        "{ON_MACHINE} sh -euc 'umask 077; cat > /run/ostree/auth.json' < /pull/auth.json
         {ON_MACHINE} bootc switch {}",
        image.reference
    );
    namespace.apply(&privileged_pod(name, machine, &script).to_string());
    let ended = namespace.wait(&format!("pod/{name}"), POD, |pod| {
        ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap())
    });
    let log = namespace.log(name, "main");
    assert_eq!(ended["status"]["phase"], "Succeeded", "{log:?}\n{}", machine.console());
    assert_eq!(machine.staged_digest().as_ref(), Some(&image.digest), "{log:?}");
}

/// Reboots a machine from a privileged pod, and waits for its node.
#[track_caller]
pub fn reboot(namespace: &Namespace<'_>, name: &str, machine: &Machine) {
    let before = machine.boot_id().unwrap();
    let script = format!("{ON_MACHINE} {REBOOT}; sleep 600");
    namespace.apply(&privileged_pod(name, machine, &script).to_string());
    machine.wait_reboot(&before);
    machine.wait_ready();
    // A Job's policy for pods that end so lets it try again.
    let ended =
        namespace.wait(&format!("pod/{name}"), POD, |pod| pod["status"]["phase"] == "Failed");
    let state = &ended["status"]["containerStatuses"][0]["state"]["terminated"];
    assert!([json!(137), json!(143), json!(255)].contains(&state["exitCode"]), "{ended:#}");
}

/// The login that staged is not on the machine any more. Pods have theirs elsewhere.
#[track_caller]
pub fn assert_no_login(machine: &Machine) {
    let find = "ls -d /run/mosb-rollout 2>/dev/null || true
        find /run/ostree /run/containers /etc /root /var/lib/mosb -name 'auth*.json' 2>/dev/null || true";
    assert_eq!(machine.run(find).ok().text(), "", "{}", machine.name());
}
