//! Kernel arguments, SSH keys and the password of `core`, which `mosb node` brings to a machine with
//! its image. bootc and rpm-ostree of the machine may be stand-ins; boot entries, shadow file and
//! reboots are real.

use serde_json::{Value, json};

use mosb_api::rollout::{MachinePart, NodeTarget};
use mosb_tests::{Lab, Machine, MachineImage, wait};

use crate::node_story::{Ended, HOLD_REBOOT, KEYS, POD, Story, boot_arguments, keys};
use crate::test_lab::AUTH;

/// What a person set.
const OWN: &str = "own=1";
const NEEDS_REBOOT: (i64, &str) = (45, "needs-reboot");

/// A part with a name, which its keys and its hash have too.
pub struct Part {
    name: &'static str,
    pub part: MachinePart,
}

impl Part {
    pub fn new(name: &'static str, arguments: &[&str], removed: &[&str], has_access: bool) -> Self {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let part = MachinePart {
            kernel_arguments: texts(arguments),
            removed_kernel_arguments: texts(removed),
            ssh_authorized_keys: if has_access {
                vec![format!("ssh-ed25519 AAAA{name} {name}"), "ssh-rsa BBBB".to_owned()]
            } else {
                Vec::new()
            },
            password_hash: has_access.then(|| format!("$6$salt{name}$hash{name}")),
        };
        Self { name, part }
    }

    pub fn file(&self) -> String {
        format!("{}.json", self.name)
    }

    /// The files of parts, for a [`Story`].
    pub fn files<const N: usize>(parts: [&Self; N]) -> [(String, String); N] {
        parts.map(|part| (part.file(), String::from_utf8(part.part.to_json()).unwrap()))
    }
}

struct Parts {
    a: Part,
    /// Other arguments, keys and password.
    b: Part,
    /// Other keys and another password than those of `b`.
    c: Part,
    /// An argument goes, and one of the machine; no keys, no password.
    d: Part,
    empty: Part,
}

/// The words of a command for a target.
pub fn words(
    command: &str,
    image: &MachineImage,
    part: Option<&Part>,
    more: &[&str],
) -> Vec<String> {
    let digest = part.map(|part| part.part.digest());
    let mut target = json!({ "image": image.reference });
    let mut words = vec![command.to_owned(), "--target".to_owned()];
    if let Some(digest) = digest {
        target["machinePart"] = json!(digest.to_string());
    }
    words.extend([target.to_string(), "--auth".to_owned(), AUTH.to_owned()]);
    if let Some(part) = part {
        words.extend(["--machine-part".to_owned(), format!("/run/mosb/auth/{}", part.file())]);
    }
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words
}

pub fn start(story: &Story<'_>, name: &str, words: &[String]) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    story.start(name, &words);
}

pub fn run(story: &Story<'_>, name: &str, words: &[String]) -> Ended {
    start(story, name, words);
    story.end(name)
}

/// Stages and applies a target with a reboot.
#[track_caller]
pub fn follow(story: &Story<'_>, name: &str, image: &MachineImage, part: Option<&Part>) {
    let staged = run(story, &format!("{name}-stage"), &words("stage", image, part, &[]));
    assert_eq!((staged.code, staged.staged()), (0, image.digest.clone()), "{name}");
    let apply = words("apply", image, part, &["--attempt", "1"]);
    story.reboots(name, || start(story, name, &apply));
    // The Job of the attempt is deleted once a report has the target.
    let report = story.run(&format!("{name}-report"), &["report"]);
    assert_applied(&report, image, part);
    let ended = run(story, &format!("{name}-end"), &apply);
    assert_eq!(ended.code, 0, "{name}");
    assert_applied(&ended, image, part);
}

#[track_caller]
fn assert_applied(ended: &Ended, image: &MachineImage, part: Option<&Part>) {
    let want = target(image, part);
    assert_eq!(ended.report.applied.as_ref(), Some(&want), "{:?}", ended.report);
    assert_eq!(ended.booted(), image.digest);
}

fn target(image: &MachineImage, part: Option<&Part>) -> NodeTarget {
    let digest = part.map(|part| part.part.digest());
    let target = json!({ "image": image.reference });
    NodeTarget { machine_part: digest, ..serde_json::from_value(target).unwrap() }
}

/// The lines of the shadow file of others, and the field of `core`.
fn shadow(machine: &Machine) -> (String, String) {
    let text = machine.run("cat /etc/shadow").ok().text();
    let (core, others): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("core:"));
    let [core] = core[..] else { panic!("{text}") };
    (others.join("\n"), core.split(':').nth(1).unwrap().to_owned())
}

#[track_caller]
fn assert_access(machine: &Machine, part: Option<&Part>) {
    let part = part.filter(|part| part.part.password_hash.is_some());
    let want = part.map(|part| part.part.ssh_authorized_keys.join("\n") + "\n");
    assert_eq!(keys(machine), want.clone().unwrap_or_default());
    if want.is_some() {
        let stat = format!("cd /var/home/core/.ssh; stat -c '%a %U %G' . authorized_keys.d {KEYS}");
        let stat = machine.run(&stat).ok().text();
        assert_eq!(stat, "700 core core\n700 core core\n600 core core\n");
    }
    let hash = part.and_then(|part| part.part.password_hash.clone());
    assert_eq!(shadow(machine).1, hash.unwrap_or_else(|| "*".to_owned()));
}

#[test]
fn arguments_keys_and_password_follow_the_image() {
    let lab = Lab::start(1);
    let parts = Parts {
        a: Part::new("a", &["a=1", "both"], &[], true),
        b: Part::new("b", &["a=2", "both", "log=\"x\""], &[], true),
        c: Part::new("c", &["a=2", "both", "log=\"x\""], &[], true),
        d: Part::new("d", &["both"], &["quiet"], false),
        empty: Part::new("empty", &[], &[], false),
    };
    let all = [&parts.a, &parts.b, &parts.c, &parts.d, &parts.empty];
    let story = Story::new(&lab, "machine-part", &Part::files(all));
    let [one, two] = ["one", "two"].map(|name| lab.build("lab/os", "/etc/story", name));
    without_the_user_nothing_is_staged(&story, &one, &parts);
    a_person_sets_up_the_machine(&story);
    let before = shadow(story.machine());

    without_the_file_of_the_target_nothing_is_done(&story, &one, &parts);
    they_come_with_an_image(&story, &one, &parts);
    keys_and_password_need_no_reboot_and_arguments_do(&story, &one, &parts);
    a_power_cut_in_the_middle_takes_another_attempt(&story, &one, &parts);
    other_keys_come_without_a_reboot(&story, &one, &parts);
    what_is_not_wanted_any_more_goes(&story, &two, &parts);
    a_revert_brings_the_old_ones_back(&story, &one, &parts);
    the_daemon_of_rpm_ostree_gets_login_and_arguments(&story, &two, &parts);
    without_a_part_nothing_goes_and_with_an_empty_one_all(&story, &lab.stock(), &parts);
    assert_eq!(shadow(story.machine()), before, "no other line changed");
    let record = story.machine().run("stat -c '%a %U' /var/lib/mosb /var/lib/mosb/target");
    assert_eq!(record.ok().text(), "700 root\n600 root\n");
    no_secret_is_in_the_journal(&story, &parts);
}

fn without_the_user_nothing_is_staged(story: &Story<'_>, image: &MachineImage, parts: &Parts) {
    let ended = run(story, "no-core", &words("stage", image, Some(&parts.a), &[]));
    assert_eq!(ended.failure(), (1, "no-core-user"));
    assert_eq!(story.machine().staged_digest(), None);
}

/// As by an installation; and an argument that no config has.
fn a_person_sets_up_the_machine(story: &Story<'_>) {
    let machine = story.machine();
    let set = format!(
        "useradd --create-home --home-dir /var/home/core --password '*' --shell /bin/bash core
         rpm-ostree kargs --append-if-missing={OWN} --append-if-missing=quiet"
    );
    machine.run(&set).ok();
    let before = machine.boot_id().unwrap();
    machine.run("systemctl start ostree-finalize-staged; systemctl reboot").ok();
    machine.wait_reboot(&before);
    machine.wait_ready();
    assert_eq!(boot_arguments(machine), [OWN, "quiet"]);
    assert_eq!(machine.booted_digest(), story.lab.stock().digest);
}

fn without_the_file_of_the_target_nothing_is_done(
    story: &Story<'_>,
    image: &MachineImage,
    parts: &Parts,
) {
    let mut other = words("stage", image, Some(&parts.a), &[]);
    *other.last_mut().unwrap() = format!("/run/mosb/auth/{}", parts.b.file());
    let none = words("stage", image, Some(&parts.a), &[]);
    for (name, words) in [("other-part", &other[..]), ("no-part", &none[..none.len() - 2])] {
        let ended = run(story, name, words);
        assert_eq!(ended.failure(), (2, "bad-machine-part"), "{name}");
        assert!(!ended.message().contains("AAAA"), "{}", ended.message());
    }
    assert_eq!(story.machine().staged_digest(), None);
}

fn they_come_with_an_image(story: &Story<'_>, image: &MachineImage, parts: &Parts) {
    let machine = story.machine();
    let ended = run(
        story,
        "early",
        &words("apply", image, Some(&parts.a), &["--attempt", "1", "--no-reboot"]),
    );
    assert_eq!(ended.failure(), NEEDS_REBOOT);
    assert_eq!(machine.run("ls -A /var/lib/mosb 2>/dev/null || true").text(), "");
    assert_access(machine, None);
    follow(story, "add", image, Some(&parts.a));
    assert_eq!(boot_arguments(machine), [OWN, "quiet", "a=1", "both"]);
    assert_access(machine, Some(&parts.a));
    // One staged deployment had both.
    assert_eq!(machine.run("journalctl --list-boots --quiet | wc -l").ok().text().trim(), "3");
}

fn keys_and_password_need_no_reboot_and_arguments_do(
    story: &Story<'_>,
    image: &MachineImage,
    parts: &Parts,
) {
    let machine = story.machine();
    let record = || machine.run("cat /var/lib/mosb/target").ok().text();
    let (boot, before) = (machine.boot_id(), record());
    let apply = words("apply", image, Some(&parts.b), &["--attempt", "1", "--no-reboot"]);
    let ended = run(story, "no-reboot", &apply);
    assert_eq!(ended.failure(), NEEDS_REBOOT);
    assert_eq!((machine.boot_id(), record()), (boot, before));
    assert_access(machine, Some(&parts.a));
    assert_eq!(machine.staged_digest(), None);
}

/// The arguments are staged, and the machine loses power before it finalizes them.
fn a_power_cut_in_the_middle_takes_another_attempt(
    story: &Story<'_>,
    image: &MachineImage,
    parts: &Parts,
) {
    let (machine, part) = (story.machine(), Some(&parts.b));
    // The same image is staged again, with other arguments. It needs no registry.
    story.lab.registry_away(true);
    for name in ["stage-b", "stage-b-again"] {
        let staged = run(story, name, &words("stage", image, part, &[]));
        assert_eq!((staged.code, staged.staged()), (0, image.digest.clone()), "{name}");
    }
    let next = machine.run("rpm-ostree kargs").ok().text();
    assert!(next.trim().ends_with("own=1 quiet both a=2 log=\"x\""), "{next}");
    machine.run(HOLD_REBOOT).ok();
    let before = machine.boot_id().unwrap();
    start(story, "cut", &words("apply", image, part, &["--attempt", "1"]));
    wait("the record of the reboot", POD, || {
        let record = machine.run("cat /var/lib/mosb/rollout.json || true").text();
        let record: Value = serde_json::from_str(&record).ok()?;
        let is_ours = record["target"]["machinePart"] == parts.b.part.digest().to_string();
        (is_ours && record["phase"] == "rebooting").then_some(())
    });
    machine.power_cut();
    machine.wait_reboot(&before);
    machine.wait_ready();
    story.namespace.kubectl(&["delete", "pod", "cut", "--wait=true", "--force"]).ok();
    let report = story.run("after-cut", &["report"]).report;
    assert_eq!(report.applied, Some(target(image, Some(&parts.a))), "it lacks the arguments");
    assert_eq!(report.attempted.unwrap().target, target(image, part));
    let boot = machine.boot_id();
    let ended = run(story, "lost", &words("apply", image, part, &["--attempt", "1"]));
    assert_eq!(ended.failure(), (43, "not-finalized"));
    assert_eq!(machine.boot_id(), boot);
    assert_eq!(boot_arguments(machine), [OWN, "quiet", "a=1", "both"]);

    let apply = words("apply", image, part, &["--attempt", "2"]);
    story.reboots("second", || start(story, "second", &apply));
    let ended = run(story, "second-end", &apply);
    story.lab.registry_away(false);
    assert_eq!(ended.code, 0);
    assert_applied(&ended, image, part);
    assert_eq!(boot_arguments(machine), [OWN, "quiet", "both", "a=2", "log=\"x\""]);
    assert_access(machine, part);
}

fn other_keys_come_without_a_reboot(story: &Story<'_>, image: &MachineImage, parts: &Parts) {
    let (machine, part) = (story.machine(), Some(&parts.c));
    let boot = machine.boot_id();
    let apply = words("apply", image, part, &["--attempt", "1", "--no-reboot"]);
    for name in ["keys", "keys-again"] {
        let ended = run(story, name, &apply);
        assert_eq!(ended.code, 0, "{name}");
        assert_applied(&ended, image, part);
    }
    assert_eq!(machine.boot_id(), boot);
    assert_access(machine, part);
    // What a person changes is brought back by the next apply.
    machine.run(&format!("echo mine > {KEYS}; usermod --password x core")).ok();
    assert_eq!(run(story, "keys-changed", &apply).code, 0);
    assert_access(machine, part);
}

fn what_is_not_wanted_any_more_goes(story: &Story<'_>, image: &MachineImage, parts: &Parts) {
    follow(story, "remove", image, Some(&parts.d));
    assert_eq!(boot_arguments(story.machine()), [OWN, "both"]);
    assert_access(story.machine(), None);
}

fn a_revert_brings_the_old_ones_back(story: &Story<'_>, image: &MachineImage, parts: &Parts) {
    follow(story, "revert", image, Some(&parts.a));
    assert_eq!(boot_arguments(story.machine()), [OWN, "both", "a=1", "quiet"]);
    assert_access(story.machine(), Some(&parts.a));
}

/// Where rpm-ostree has layered packages, bootc updates nothing. Its daemon pulls with the login in
/// place of that of the machine.
fn the_daemon_of_rpm_ostree_gets_login_and_arguments(
    story: &Story<'_>,
    image: &MachineImage,
    parts: &Parts,
) {
    let machine = story.machine();
    let own = json!({ "auths": {
        &story.lab.registry().host_port: { "auth": "d3Jvbmc6d3Jvbmc=" },
    }});
    machine.mark_changed_by_rpm_ostree();
    let write = "mkdir -p /etc/ostree; umask 077; cat > /etc/ostree/auth.json";
    machine.enter(&["sh", "-euc", write], own.to_string().as_bytes()).ok();
    let report = story.run("layered", &["report"]).report;
    assert_eq!(report.tool.unwrap().to_string(), "rpm-ostree");
    follow(story, "daemon", image, Some(&parts.b));
    assert_eq!(boot_arguments(machine), [OWN, "both", "quiet", "a=2", "log=\"x\""]);
    assert_access(machine, Some(&parts.b));
    let own_now = machine.run("cat /etc/ostree/auth.json").ok().text();
    assert_eq!(own_now, own.to_string());
    let left =
        "ls -d /run/mosb-rollout /run/systemd/system/rpm-ostreed.service.d/* 2>/dev/null || true";
    assert_eq!(machine.run(left).text(), "");
    story.assert_no_login("after the daemon pulled");
    machine.run("rm /etc/ostree/auth.json").ok();
}

/// A stock image has no part, and builds of another builder have none.
fn without_a_part_nothing_goes_and_with_an_empty_one_all(
    story: &Story<'_>,
    stock: &MachineImage,
    parts: &Parts,
) {
    let machine = story.machine();
    follow(story, "stock", stock, None);
    assert_eq!(boot_arguments(machine), [OWN, "both", "quiet", "a=2", "log=\"x\""]);
    assert_access(machine, Some(&parts.b));
    follow(story, "empty", stock, Some(&parts.empty));
    assert_eq!(boot_arguments(machine), [OWN, "quiet"]);
    assert_access(machine, None);
}

fn no_secret_is_in_the_journal(story: &Story<'_>, parts: &Parts) {
    for part in [&parts.a, &parts.b, &parts.c] {
        let hash = part.part.password_hash.as_deref().unwrap();
        let search = "journalctl --quiet | grep -cF -e \"$0\" | grep -v '^0$' || true";
        let found = story.machine().enter(&["sh", "-uc", search, hash], &[]).ok().text();
        assert_eq!(found, "", "{}", part.name);
    }
}
