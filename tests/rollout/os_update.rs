//! A machine whose images move to another base, and back: the merge of `/etc`, files below `/var`,
//! kernel arguments, and what `mosb node` does on it then.

use serde_json::{Value, json};

use mosb_tests::{Lab, Machine, MachineImage};

use crate::node_story::{Story, boot_arguments, target};
use crate::test_lab::AUTH;

const SCRIPT: &str = "/usr/local/bin/story";
/// The kernel argument that the second base brings.
const OF_BASE: &str = "base=second";

fn file(path: &str, content: &str) -> Value {
    json!({ "path": path, "overwrite": true, "mode": 0o644, "contents": { "source": format!("data:,{content}") } })
}

/// A config that writes one of the defaults and appends to another, and has files where the links of
/// the bases lead; `registries`: a file that comes to a machine as it runs.
fn config(word: &str, registries: &str) -> Value {
    let mut script = file(SCRIPT, &format!("%23!/bin/sh%0Aecho%20{word}%20%3E%20/run/story%0A"));
    script["mode"] = json!(0o755);
    let contents = format!(
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart={SCRIPT}\n[Install]\nWantedBy=multi-user.target\n"
    );
    json!({
        "ignition": { "version": "3.4.0" },
        "storage": { "files": [
            script, file("/opt/story/file", word), file("/var/lib/story", word),
            file("/etc/host.conf", word), file("/etc/containers/registries.conf", registries),
            { "path": "/etc/xattr.conf", "append": [{ "source": format!("data:,%23%20{word}%0A") }] },
        ] },
        "systemd": { "units": [
            { "name": "story.service", "enabled": true, "contents": contents },
            { "name": "systemd-pstore.service", "enabled": true },
        ] },
    })
}

/// The last lines of four files of `/etc` whose defaults differ: of one that nobody else changes, one
/// that the config writes, one that the administrator changes, and one that the config appends to;
/// then how many lines of the last one are the second base's.
fn etc(machine: &Machine) -> Vec<String> {
    let line = "cd /etc; for file in debian_version host.conf gai.conf xattr.conf; do
            echo \"$(tail -n 1 $file)\"
        done
        grep -c '^# second$' xattr.conf || true";
    machine.run(line).ok().text().lines().map(str::to_owned).collect()
}

/// The links of the booted base, and what of the config is below them.
fn files(machine: &Machine) -> String {
    let line = "cat /run/story; cat /opt/story/file; echo; cat /var/lib/story; echo
        readlink /opt /usr/local || true
        ls -d /var/usrlocal/bin/story /var/opt/story /var/lib/opt/story 2>/dev/null || true";
    machine.run(line).ok().text()
}

/// What the booted base has for itself: in `/usr`, and in `/etc` where nobody changed it.
fn is_second(machine: &Machine) -> bool {
    let line = "ls -d /usr/share/second-base /usr/share/second-layer /etc/second.conf \
            /etc/issue.net/10-second /usr/lib/modules/6.1.1-lab /usr/bin/factor \
            /etc/bindresvport.blacklist /usr/lib/modules/6.1.0-lab 2>/dev/null || true
        for path in /etc/issue.net /etc/update-motd.d /etc/rmt; do stat -c %F $path; done";
    let found = machine.run(line).text();
    let kinds = |issue, motd, rmt| format!("{issue}\n{motd}\n{rmt}\n");
    let first = "/etc/bindresvport.blacklist\n/usr/bin/factor\n/usr/lib/modules/6.1.0-lab\n"
        .to_owned()
        + &kinds("regular file", "directory", "symbolic link");
    let second = "/etc/issue.net/10-second\n/etc/second.conf\n/usr/lib/modules/6.1.1-lab\n\
        /usr/share/second-base\n/usr/share/second-layer\n"
        .to_owned()
        + &kinds("directory", "symbolic link", "regular file");
    assert!([&first, &second].contains(&&found), "{found}");
    found == second
}

/// The users of the second base: one that it has, and one that systemd makes at boot.
fn users(machine: &Machine) -> String {
    machine.run("getent passwd second second-boot | cut -d: -f1,3 || true").text()
}

struct Images {
    /// On the first base.
    a: MachineImage,
    /// With the same config on the second one, and with other registries.
    b: MachineImage,
    c: MachineImage,
    stock: MachineImage,
}

fn follow(story: &Story<'_>, name: &str, image: &MachineImage, attempt: &str) {
    assert_eq!(story.stage(&format!("{name}-stage"), image).staged(), image.digest, "{name}");
    story.apply_until_reboot(&format!("{name}-apply"), image, attempt);
    assert_eq!(
        story.apply(&format!("{name}-end"), image, attempt).booted(),
        image.digest,
        "{name}"
    );
    let state = story.machine().run("systemctl is-system-running --wait || systemctl --failed");
    assert_eq!(state.text(), "running\n", "{name}");
}

const OF_FIRST: &str =
    "one\none\none\nvar/opt\n../var/usrlocal\n/var/opt/story\n/var/usrlocal/bin/story\n";
const OF_SECOND: &str = "one\none\none\nvar/lib/opt\n/var/lib/opt/story\n";

#[test]
fn a_machine_moves_to_another_base_and_back() {
    let lab = Lab::start(1);
    let story = Story::new(&lab, "os-update", &[]);
    let machine = story.machine();
    let images = Images {
        a: lab.build_from("lab/os", &config("one", "%23%20a")),
        b: lab.build_on_second("lab/os", &config("one", "%23%20a")),
        c: lab.build_on_second("lab/os", &config("one", "%23%20c")),
        stock: lab.second_stock(),
    };
    let before = boot_arguments(machine);

    follow(&story, "a", &images.a, "1");
    machine.run("echo '# mine' >> /etc/gai.conf").ok();
    let of_first = etc(machine);
    assert_eq!(of_first[1..], ["one", "# mine", "# one", "0"]);
    assert!(!is_second(machine));
    assert_eq!(files(machine), OF_FIRST);

    what_ostree_can_not_merge_is_not_booted(&story, &images);
    a_power_cut_loses_what_is_staged(&story, &images);
    follow(&story, "b", &images.b, "2");
    assert!(is_second(machine));
    assert_eq!(etc(machine), ["# second", "one", "# mine", "# one", "1"]);
    assert_eq!(files(machine), OF_SECOND);
    assert_eq!(boot_arguments(machine), [&before[..], &[OF_BASE.to_owned()]].concat());
    let is_enabled = || machine.run("systemctl is-enabled systemd-pstore.service").text();
    assert_eq!(is_enabled(), "enabled\n", "the config enables it");
    let both = users(machine);
    assert!(both.starts_with("second:977\nsecond-boot:"), "{both}");
    drift_and_adopt_name_the_administrators_file(&story);
    live_files_come_right_after_it(&story, &images);

    what_the_base_brought_to_the_kernel_is_said_to_stay(&story, &images);
    follow(&story, "undo", &images.a, "2");
    assert!(!is_second(machine));
    assert_eq!(etc(machine), of_first);
    assert_eq!(files(machine), OF_FIRST);
    // The boot has changed the files of users, which the next image then can't change.
    assert_eq!(users(machine), both);
    let (of_base, others): (Vec<_>, Vec<_>) =
        boot_arguments(machine).into_iter().partition(|argument| argument == OF_BASE);
    assert_eq!((of_base.is_empty(), others), (false, before));

    follow(&story, "again", &images.b, "3");
    assert_eq!(files(machine), OF_SECOND);
    follow(&story, "stock", &images.stock, "1");
    assert!(is_second(machine));
    assert_eq!(etc(machine), ["# second", "# second", "# mine", "# second", "1"]);
    // Nothing of mosb is in it, so what was below /var stays.
    let left = "ls -d /usr/local/bin/story /opt/story /var/usrlocal/bin/story 2>/dev/null || true";
    assert_eq!(machine.run(left).ok().text(), "/opt/story\n");
    assert_eq!(is_enabled(), "disabled\n", "neither the base nor a config enables it");
}

/// The first base has no folder by which bootc would remove the kernel argument of the second one.
fn what_the_base_brought_to_the_kernel_is_said_to_stay(story: &Story<'_>, images: &Images) {
    let stage = ["stage", "--target", &target(&images.a), "--auth", AUTH];
    story.start("undo-first", &stage);
    let log = story.log_of_end("undo-first");
    assert!(log.contains("/usr/lib/bootc/kargs.d of the base stay"), "{log}");
}

/// A file that a person changed is a directory in the next default.
fn what_ostree_can_not_merge_is_not_booted(story: &Story<'_>, images: &Images) {
    let machine = story.machine();
    machine.run("echo mine >> /etc/issue.net").ok();
    let staged = story.stage("unmerged-stage", &images.b);
    assert_eq!(staged.failure(), (1, "etc-not-mergeable"), "{}", staged.message());
    assert!(staged.message().contains("/etc/issue.net of the machine"), "{}", staged.message());
    assert_eq!(machine.staged_digest(), None, "any reboot would try to finalize it");
    // One that is changed later is found by ostree at shutdown.
    machine.run("cp -p /usr/etc/issue.net /etc/issue.net").ok();
    assert_eq!(story.stage("merged-stage", &images.b).code, 0);
    machine.run("echo mine >> /etc/issue.net").ok();
    story.apply_until_reboot("unmerged-apply", &images.b, "1");
    assert_eq!(machine.booted_digest(), images.a.digest);
    let ended = story.apply("unmerged-end", &images.b, "1");
    assert_eq!(ended.failure(), (42, "wrong-image"), "{}", ended.message());
    let cause = "Modified config file newly defaults to directory 'issue.net', cannot merge";
    assert!(ended.message().contains(cause), "{}", ended.message());
    machine.run("cp -p /usr/etc/issue.net /etc/issue.net").ok();
}

fn a_power_cut_loses_what_is_staged(story: &Story<'_>, images: &Images) {
    let machine = story.machine();
    story.stage("cut", &images.b);
    let before = machine.boot_id().unwrap();
    machine.power_cut();
    machine.wait_reboot(&before);
    machine.wait_ready();
    assert_eq!((machine.booted_digest(), machine.staged_digest()), (images.a.digest.clone(), None));
    assert!(!is_second(machine));
}

fn drift_and_adopt_name_the_administrators_file(story: &Story<'_>) {
    story.start("drift", &["drift"]);
    let drift = story.log_of_end("drift");
    assert!(drift.contains("content /etc/gai.conf\n"), "{drift}");
    for path in ["host.conf", "xattr.conf", "debian_version", "issue.net", "rmt", "update-motd"] {
        assert!(!drift.contains(path), "{path}: {drift}");
    }
    story.start("adopt", &["adopt", "--dry-run"]);
    let adopted = story.log_of_end("adopt");
    println!("{adopted}");
    assert!(!adopted.contains("adopted"), "{adopted}");
}

fn live_files_come_right_after_it(story: &Story<'_>, images: &Images) {
    let machine = story.machine();
    let target = json!({ "image": images.c.reference, "liveFrom": images.b.digest }).to_string();
    let (registries, boot) = ("cat /etc/containers/registries.conf", machine.boot_id());
    assert_eq!(machine.run(registries).ok().text(), "# a");
    let stage = ["stage", "--target", &target, "--auth", AUTH];
    assert_eq!(story.run("live-stage", &stage).code, 0);
    let apply = ["apply", "--target", &target, "--auth", AUTH, "--attempt", "1", "--no-reboot"];
    let ended = story.run("live", &apply);
    assert_eq!((ended.code, ended.booted()), (0, images.b.digest.clone()), "{}", ended.message());
    assert_eq!(machine.run(registries).ok().text(), "# c");
    assert_eq!(machine.boot_id(), boot);
}
