//! The machines of the lab do what the tests of the roll-out rely on.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use mosb_tests::{BUSYBOX_IMAGE, Lab, Machine, MachineImage, Namespace, condition, wait};

/// A pod on a busy machine.
const POD: Duration = Duration::from_secs(120);
/// How a program of a pod runs on its machine. bootc refuses the variable.
const ON_MACHINE: &str = "nsenter --target 1 --mount --uts --ipc env -u container";
/// What the roll-out does in place of `systemctl reboot`: finalizing comes first.
const REBOOT: &str = "systemd-run -p Requires=ostree-finalize-staged.service \
    -p After=ostree-finalize-staged.service systemctl reboot";

#[test]
fn machines_stage_an_image_reboot_into_it_and_lose_it_in_a_power_cut() {
    let lab = Lab::start(2);
    for (what, after) in &lab.times {
        println!("{what}: after {:.1} s", after.as_secs_f64());
    }
    let [first, second] = lab.machines() else { panic!("{lab:?}") };
    let stock = lab.stock();
    assert_eq!([first.booted_digest(), second.booted_digest()], [&*stock.digest; 2]);
    assert_ne!(first.boot_id(), second.boot_id());
    let id = |machine: &Machine| machine.run("cat /etc/machine-id").ok().text();
    assert_ne!(id(first), id(second));
    assert_eq!(first.run("systemctl is-system-running").ok().text(), "running\n");

    let namespace = Namespace::new(lab.node(), "lab");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"},
        "stringData": {"auth.json": lab.registry().pull_config().to_string()},
    });
    namespace.apply(&secret.to_string());
    pods_of_both_machines_reach_each_other(&namespace, first, second);
    let built = timed("mosb build and push", || lab.build("lab/os", "/etc/story", "second"));

    // Staged is armed, but a power cut disarms it.
    timed("stage", || stage(&namespace, "stage", first, &built));
    assert_eq!(first.staged_digest().as_deref(), Some(&*built.digest));
    let before = first.boot_id().unwrap();
    timed("power cut until Ready", || {
        first.power_cut();
        first.wait_reboot(&before);
        first.wait_ready();
    });
    assert_eq!((first.booted_digest(), first.staged_digest()), (stock.digest.clone(), None));

    timed("stage again", || stage(&namespace, "again", first, &built));
    timed("reboot until Ready", || reboot(&namespace, "reboot", first));
    assert_eq!(first.booted_digest(), built.digest);
    assert_eq!(first.run("cat /etc/story").ok().text(), "second");
    assert_eq!(first.run("systemctl is-system-running").ok().text(), "running\n");
    let finalized = first.run("journalctl --boot=-1 --unit=ostree-finalize-staged").ok().text();
    assert!(finalized.contains("Bootloader updated"), "{finalized}");

    // Finalizing fails: the machine comes back with the image that it had.
    stage(&namespace, "stock", first, &stock);
    first.fail_finalize(true);
    reboot(&namespace, "wrong", first);
    assert_eq!((first.booted_digest(), first.staged_digest()), (built.digest.clone(), None));
    let failed = first.run("journalctl --boot=-1 --unit=ostree-finalize-staged").ok().text();
    assert!(failed.contains("No space left on device"), "{failed}");
    first.fail_finalize(false);

    // Back to the first image. What is staged needs no registry.
    stage(&namespace, "back", first, &stock);
    lab.registry_away(true);
    reboot(&namespace, "home", first);
    lab.registry_away(false);
    assert_eq!(first.booted_digest(), stock.digest);
    assert_eq!(second.booted_digest(), stock.digest);

    a_machine_that_does_not_come_back_is_known_as_lost(&lab, second);
    drop(namespace);
    nothing_is_left_when_a_test_panics(lab);
}

fn timed<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = act();
    println!("{what}: {:.1} s", begun.elapsed().as_secs_f64());
    result
}

/// A pod that runs a script, pinned to a machine.
fn pod(name: &str, machine: &Machine, script: &str, more: &Value) -> String {
    let mut container = json!({
        "name": "main", "image": BUSYBOX_IMAGE, "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-euc", script],
    });
    let mut spec = json!({
        "restartPolicy": "Never", "automountServiceAccountToken": false,
        "nodeSelector": {"kubernetes.io/hostname": machine.name()},
        "tolerations": [{"operator": "Exists"}],
    });
    if more["privileged"] == true {
        container["securityContext"] = json!({"privileged": true});
        container["volumeMounts"] = json!([{"name": "pull", "mountPath": "/pull"}]);
        spec["volumes"] = json!([{"name": "pull", "secret": {"secretName": "pull"}}]);
        spec["hostPID"] = json!(true);
    }
    spec["containers"] = json!([container]);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}).to_string()
}

fn pods_of_both_machines_reach_each_other(
    namespace: &Namespace<'_>,
    first: &Machine,
    second: &Machine,
) {
    let serve = "while :; do echo from $(hostname) | nc -l -p 80; done";
    namespace.apply(&pod("server", first, serve, &json!({})));
    let server = namespace.wait("pod/server", POD, |pod| condition(pod, "Ready"));
    assert_eq!(server["spec"]["nodeName"], first.name());
    let address = server["status"]["podIP"].as_str().unwrap();
    let ask = format!(
        "nc -w 5 {address} 80 < /dev/null; nc -w 5 $KUBERNETES_SERVICE_HOST 443 < /dev/null; echo reached"
    );
    namespace.apply(&pod("client", second, &ask, &json!({})));
    namespace.wait("pod/client", POD, |pod| pod["status"]["phase"] == "Succeeded");
    assert_eq!(namespace.log("client", "main").unwrap(), "from server\nreached\n");
    namespace.kubectl(&["delete", "pod", "server", "--grace-period=0", "--force"]).ok();
}

/// Stages an image as the roll-out does: from a privileged pod, by the machine's bootc.
fn stage(namespace: &Namespace<'_>, name: &str, machine: &Machine, image: &MachineImage) {
    let script = format!(
        "{ON_MACHINE} sh -euc 'umask 077; cat > /run/ostree/auth.json' < /pull/auth.json
         {ON_MACHINE} bootc switch {}",
        image.reference
    );
    namespace.apply(&pod(name, machine, &script, &json!({"privileged": true})));
    let ended = namespace.wait(&format!("pod/{name}"), POD, |pod| {
        ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap())
    });
    let log = namespace.log(name, "main");
    assert_eq!(ended["status"]["phase"], "Succeeded", "{log:?}\n{}", machine.console());
}

/// Reboots from a pod, and waits for the node.
fn reboot(namespace: &Namespace<'_>, name: &str, machine: &Machine) {
    let before = machine.boot_id().unwrap();
    let script = format!("{ON_MACHINE} {REBOOT}; sleep 600");
    namespace.apply(&pod(name, machine, &script, &json!({"privileged": true})));
    let after = machine.wait_reboot(&before);
    let node = machine.wait_ready();
    assert_eq!(node["status"]["nodeInfo"]["bootID"], after);
    // A Job's policy for pods that end so lets it try again.
    let ended =
        namespace.wait(&format!("pod/{name}"), POD, |pod| pod["status"]["phase"] == "Failed");
    let state = &ended["status"]["containerStatuses"][0]["state"]["terminated"];
    println!("a pod that was rebooted: {} {}", state["exitCode"], state["reason"]);
    assert!([json!(137), json!(143), json!(255)].contains(&state["exitCode"]), "{ended:#}");
}

fn a_machine_that_does_not_come_back_is_known_as_lost(lab: &Lab, machine: &Machine) {
    machine.hold_off(true);
    machine.power_cut();
    assert_eq!(machine.boot_id(), None);
    timed("off until NotReady", || {
        lab.node().wait(&format!("node/{}", machine.name()), POD, |node| !condition(node, "Ready"))
    });
    machine.hold_off(false);
    timed("on until Ready", || machine.wait_ready());
}

/// Not of its directory, its control groups, its interface, the processes in them.
fn nothing_is_left_when_a_test_panics(lab: Lab) {
    let [directory, group, interface] = lab.node().traces();
    let left = || {
        let mut find = std::process::Command::new("find");
        find.args(["/sys/fs/cgroup", "-name", &group]);
        let groups = String::from_utf8(find.output().unwrap().stdout).unwrap();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let mut left: Vec<_> = groups.lines().map(str::to_owned).collect();
        left.extend(mounts.lines().filter(|line| line.contains(&group)).map(str::to_owned));
        let paths = [directory.clone(), format!("/sys/class/net/{interface}")];
        left.extend(paths.into_iter().filter(|path| std::path::Path::new(path).exists()));
        left
    };
    assert!(left().len() > 2, "{:?}", left());
    let panicked = std::thread::spawn(move || {
        assert!(lab.machines().is_empty(), "this panic is wanted");
    });
    panicked.join().unwrap_err();
    wait("nothing left", POD, || left().is_empty().then_some(()));
}
