//! A machine that Ignition installed adopts what its config wrote, and takes one image after the
//! other.

use serde_json::{Value, json};

use mosb_tests::{
    Lab, MOSB_IMAGE, Machine, MachineImage, Namespace, ignition_program, mosb_image, repository,
    wait,
};

use crate::test_lab::{AUTH, POD, lab, namespace, node_pod, timed};

const CURRENT: &str = "/etc/machine-config-daemon/currentconfig";
const WANTS: &str = "/etc/systemd/system/multi-user.target.wants";
/// What finalizing sees in place of `/etc`.
const COPY: &str = "/run/mosb-adopt/etc";

fn file(path: &str, mode: u32, content: &str) -> Value {
    json!({ "path": path, "mode": mode, "overwrite": true, "contents": { "source": format!("data:,{content}") } })
}

/// An enabled unit that writes a word.
fn unit(name: &str, word: &str) -> Value {
    let contents = format!(
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'echo {word} >> /run/story'\n[Install]\nWantedBy=multi-user.target\n"
    );
    json!({ "name": name, "enabled": true, "contents": contents })
}

/// What the machine was installed from: files, a directory, links, units, and a unit of the base that
/// is disabled.
fn installed() -> Value {
    json!({
        "ignition": { "version": "3.4.0" },
        "storage": {
            "directories": [{ "path": "/etc/story", "mode": 0o750 }],
            "files": [
                file("/etc/story/file", 0o640, "old"), file("/etc/story.edited", 0o644, "old"),
                file("/etc/story/gone", 0o644, "old"), file("/etc/shells", 0o600, "old"),
                file("/etc/old/deep/file", 0o644, "old"),
            ],
            "links": [{ "path": "/etc/story/link", "target": "old" }],
        },
        "systemd": { "units": [
            unit("story.service", "old"), unit("story-old.service", "older"),
            { "name": "remote-fs.target", "enabled": false },
            { "name": "fstrim.timer", "mask": true },
        ] },
    })
}

/// The config of an image: other content, another mode, without what is gone.
fn config(word: &str, mode: u32) -> Value {
    json!({
        "ignition": { "version": "3.4.0" },
        "storage": {
            "directories": [{ "path": "/etc/story", "mode": mode }],
            "files": [
                file("/etc/story/file", 0o644, word), file("/etc/story.edited", 0o644, word),
            ],
            "links": [{ "path": "/etc/story/link", "target": word }],
        },
        "systemd": { "units": [unit("story.service", word)] },
    })
}

/// As it was before mosb: Ignition writes the config, systemd enables its units, and the daemon of
/// the cluster leaves its record.
fn install_by_ignition(machine: &Machine) {
    let ignition = std::fs::read(ignition_program()).unwrap();
    let place = "cat > /run/ignition-apply; chmod 755 /run/ignition-apply";
    machine.enter(&["sh", "-euc", place], &ignition).ok();
    let apply = "container=lab exec /run/ignition-apply --ignore-unsupported -";
    machine.enter(&["sh", "-euc", apply], installed().to_string().as_bytes()).ok();
    let record = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "rendered-worker-00000000000000000000000000000000" },
        "spec": { "config": installed() },
    });
    let write = format!("mkdir -p ${{0%/*}}; cat > {CURRENT}");
    machine.enter(&["sh", "-euc", &write, CURRENT], record.to_string().as_bytes()).ok();
    machine
        .run(
            "systemctl daemon-reload
             for unit in story.service story-old.service remote-fs.target; do systemctl preset $unit; done
             rm /run/ignition-apply; echo mine > /etc/story.edited; echo mine > /etc/only-here",
        )
        .ok();
}

struct Story<'a> {
    lab: &'a Lab,
    namespace: Namespace<'a>,
}

impl Story<'_> {
    fn machine(&self) -> &Machine {
        self.lab.machine(0)
    }

    /// Runs `mosb node` in a pod, as a roll-out does; its log.
    #[track_caller]
    fn mosb_node(&self, name: &str, words: &[&str]) -> String {
        self.run_pod(name, &node_pod(name, self.machine(), words).to_string())
    }

    #[track_caller]
    fn run_pod(&self, name: &str, pod: &str) -> String {
        self.namespace.apply(pod);
        let pod = self.namespace.wait(&format!("pod/{name}"), POD, |pod| {
            ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or_default())
        });
        let container = pod["spec"]["containers"][0]["name"].as_str().unwrap();
        let log = self.namespace.log(name, container).unwrap_or_default();
        assert_eq!(pod["status"]["phase"], "Succeeded", "{name}: {log}");
        self.namespace.kubectl(&["delete", "pod", name, "--wait=true"]).ok();
        println!("{name}:\n{log}");
        log
    }

    /// Runs the pod that docs/node.md shows for a machine without a record; its log.
    #[track_caller]
    fn documented_pod(&self) -> String {
        let config = installed().to_string();
        let secret = json!({ "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "mosb-first-config" }, "stringData": { "user-data.ign": config } });
        self.namespace.apply(&secret.to_string());
        let docs = std::fs::read_to_string(repository().join("docs/node.md")).unwrap();
        let mut blocks = docs.split("```");
        let pod = blocks.find(|block| block.contains("metadata: {name: mosb-adopt}"));
        let pod = pod.unwrap().trim_start_matches("yaml\n");
        let pod = pod.replace("registry.example.com/mosb@sha256:…", MOSB_IMAGE);
        self.run_pod("mosb-adopt", &pod.replace("node-1", self.machine().name()))
    }

    #[track_caller]
    fn stage(&self, name: &str, image: &MachineImage) {
        let target = json!({ "image": image.reference }).to_string();
        self.mosb_node(name, &["stage", "--target", &target, "--auth", AUTH]);
        assert_eq!(self.machine().staged_digest().as_ref(), Some(&image.digest), "{name}");
    }

    /// A reboot by a person, which applies what is staged.
    #[track_caller]
    fn reboot(&self, what: &str) {
        let machine = self.machine();
        let before = machine.boot_id().unwrap();
        timed(what, || {
            // It ends with the machine.
            drop(machine.run("systemctl reboot"));
            machine.wait_reboot(&before);
            machine.wait_ready();
        });
        let state = machine.run("systemctl is-system-running --wait || systemctl --failed").text();
        assert_eq!(state, "running\n", "{what}");
    }

    /// The power fails as soon as this shell line succeeds during a shutdown.
    #[track_caller]
    fn cut_power_when(&self, what: &str, line: &str) {
        let machine = self.machine();
        let before = machine.boot_id().unwrap();
        drop(machine.run("systemctl --no-block reboot"));
        wait(what, POD, || machine.run(line).status.success().then_some(()));
        machine.power_cut();
        machine.wait_reboot(&before);
        machine.wait_ready();
    }

    /// Everything below `/etc` but what each boot writes: type, mode, owner, path, content.
    fn etc(&self) -> String {
        let line = "cd /etc
            list() {
                find . -path ./cni -prune -o -path ./containerd -prune -o -path ./kubernetes -prune \
                    -o -path ./machine-id -prune -o -path './.*' -prune -o \"$@\"
            }
            list -printf '%y %m %U:%G %p %l\\n' | sort
            list -type f -exec sha256sum {} + | sort";
        self.machine().run(line).ok().text()
    }
}

/// What the machine has of the story.
fn state(machine: &Machine) -> String {
    let line = format!(
        "cd /etc
         for path in story story/file story.edited story/gone story/link shells old only-here \
            systemd/system/story.service systemd/system/story-old.service systemd/system/fstrim.timer \
            {WANTS}/story.service {WANTS}/story-old.service {WANTS}/remote-fs.target; do
             if [ -L $path ]; then echo \"$path -> $(readlink $path)\"
             elif [ -d $path ]; then echo \"$path/ $(stat -c %a $path)\"
             elif [ -e $path ]; then echo \"$path $(stat -c %a $path) $(head -n 1 $path)\"; fi
         done
         sort /run/story"
    );
    machine.run(&line).ok().text()
}

/// The same of a machine that took an image: everything is the image's but what was edited.
fn state_of(word: &str, mode: &str) -> String {
    format!(
        "story/ {mode}\nstory/file 644 {word}\nstory.edited 644 mine\nstory/link -> {word}\n\
         shells 644 # /etc/shells: valid login shells\nonly-here 644 mine\n\
         systemd/system/story.service 644 [Service]\n\
         {WANTS}/story.service -> /etc/systemd/system/story.service\n\
         {WANTS}/remote-fs.target -> /lib/systemd/system/remote-fs.target\n{word}\n"
    )
}

#[test]
fn an_installed_machine_takes_its_images_files() {
    let lab = lab();
    lab.import(&format!("oci-archive:{}", mosb_image().display()), MOSB_IMAGE);
    let story = Story { lab: &lab, namespace: namespace(&lab) };
    let machine = story.machine();
    let a = lab.build_from("lab/os", &config("a", 0o700));
    let b = lab.build_from("lab/os", &config("b", 0o711));
    install_by_ignition(machine);
    let old = story.etc();

    what_is_adopted_is_listed_and_the_machine_stays_as_it_is(&story, &old);
    a_power_cut_before_finalizing_changes_nothing(&story, &a, &old);
    a_failed_finalization_changes_nothing(&story, &a, &old);

    story.stage("a", &a);
    story.reboot("a");
    assert_eq!(machine.booted_digest(), a.digest);
    assert_eq!(state(machine), state_of("a", "700"));
    let current = machine.run(&format!("cmp {CURRENT} /usr{CURRENT}"));
    assert!(current.status.success(), "{}", current.text());
    let drift = story.mosb_node("drift-a", &["drift"]);
    assert!(drift.contains("content /etc/story.edited\n"), "{drift}");
    assert!(!drift.contains("/etc/story/file") && !drift.contains("/etc/shells"), "{drift}");

    back_at_the_old_deployment_everything_is_there(&story, &old);
    story.stage("a-again", &a);
    story.reboot("a again");
    assert_eq!(state(machine), state_of("a", "700"));

    a_power_cut_after_finalizing_boots_the_image(&story, &b);
    assert_eq!(state(machine), state_of("b", "711"));
    let left = machine.run("ls /var/lib/mosb/adopt; stat -c %a /var/lib/mosb/adopt").text();
    assert!(left.ends_with("700\n"), "{left}");
    // The deployment that it was about is gone with the next image.
    story.stage("last", &lab.stock());
    assert_eq!(machine.run("ls /var/lib/mosb/adopt").ok().text(), "");
}

fn what_is_adopted_is_listed_and_the_machine_stays_as_it_is(story: &Story<'_>, old: &str) {
    let machine = story.machine();
    let report = story.mosb_node("dry-run", &["adopt", "--dry-run"]);
    machine.run("test ! -e /var/lib/mosb/adopt").ok();
    assert_eq!(story.mosb_node("adopt", &["adopt"]), report);
    assert_eq!(story.mosb_node("adopt-again", &["adopt"]), report);
    let want = format!(
        "adopted {CURRENT}\nadopted /etc/old\nadopted /etc/old/deep\nadopted /etc/old/deep/file\n\
         adopted /etc/shells\nadopted /etc/story\nadopted /etc/story/file\nadopted /etc/story/gone\n\
         adopted /etc/story/link\nadopted /etc/systemd/system-preset\n\
         adopted /etc/systemd/system-preset/20-ignition.preset\n\
         adopted /etc/systemd/system/fstrim.timer\nadopted {WANTS}/remote-fs.target\n\
         adopted {WANTS}/story-old.service\nadopted {WANTS}/story.service\n\
         adopted /etc/systemd/system/story-old.service\nadopted /etc/systemd/system/story.service\n\
         kept content /etc/story.edited\n"
    );
    assert_eq!(report, want);
    assert_eq!(story.etc(), old);
    let modes = machine.run("stat -c %a /var/lib/mosb/adopt /var/lib/mosb/adopt/*").ok().text();
    assert_eq!(modes, "700\n700\n");

    // Without the record, by the pod of the documentation; the record is no path of the config.
    machine.run(&format!("mv {CURRENT} /run/record")).ok();
    let given = story.documented_pod();
    machine.run(&format!("mv /run/record {CURRENT}")).ok();
    assert_eq!(given, want.replacen(&format!("adopted {CURRENT}\n"), "", 1));
}

fn a_power_cut_before_finalizing_changes_nothing(
    story: &Story<'_>,
    image: &MachineImage,
    old: &str,
) {
    let machine = story.machine();
    let booted = machine.booted_digest();
    // Without any shutdown, and with the copy made and nothing finalized.
    story.stage("cut", image);
    machine.power_cut();
    machine.wait_ready();
    assert_eq!((machine.booted_digest(), machine.staged_digest()), (booted.clone(), None));
    assert_eq!(story.etc(), old);
    story.stage("cut-late", image);
    machine
        .run(
            "mkdir -p /run/systemd/system/mosb-adopt.service.d
             printf '[Service]\\nExecStop=/bin/sleep 600\\n' > /run/systemd/system/mosb-adopt.service.d/hold.conf
             systemctl daemon-reload",
        )
        .ok();
    story.cut_power_when("the copy", &format!("test -e {COPY}"));
    assert_eq!((machine.booted_digest(), machine.staged_digest()), (booted, None));
    assert_eq!(story.etc(), old);
    machine.run("test ! -e /run/mosb-adopt").ok();
}

fn a_failed_finalization_changes_nothing(story: &Story<'_>, image: &MachineImage, old: &str) {
    let machine = story.machine();
    let booted = machine.booted_digest();
    story.stage("fails", image);
    machine.fail_finalize(true);
    story.reboot("a failed finalization");
    machine.fail_finalize(false);
    assert_eq!(machine.booted_digest(), booted);
    assert_eq!(story.etc(), old);
}

/// The entry of the deployment before is chosen in the menu of the boot loader.
fn back_at_the_old_deployment_everything_is_there(story: &Story<'_>, old: &str) {
    let machine = story.machine();
    let now = machine.booted_digest();
    machine
        .run(
            "cd /boot/loader/entries
             newest=$(ls *.conf | sort -V | tail -n 1); mv $newest ostree-0-lab.conf",
        )
        .ok();
    story.reboot("back at the old deployment");
    // A choice is for one boot.
    machine.run("cd /boot/loader/entries; mv ostree-0-lab.conf ostree-2-lab.conf").ok();
    assert_ne!(machine.booted_digest(), now);
    assert_eq!(story.etc(), old);
}

fn a_power_cut_after_finalizing_boots_the_image(story: &Story<'_>, image: &MachineImage) {
    let machine = story.machine();
    story.stage("cut-finalized", image);
    machine
        .run(
            "mkdir -p /run/systemd/system/ostree-finalize-staged.service.d
             printf '[Service]\\nExecStop=/bin/sh -c \": > /run/finalized; sleep 600\"\\n' \
                > /run/systemd/system/ostree-finalize-staged.service.d/hold.conf
             systemctl daemon-reload",
        )
        .ok();
    story.cut_power_when("the end of finalizing", "test -e /run/finalized");
    assert_eq!(machine.booted_digest(), image.digest);
}
