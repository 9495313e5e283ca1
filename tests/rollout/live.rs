//! A machine gets registries, certificates, a CA and the pull secret of an image while it runs another
//! one. bootc of the machine may be a stand-in. CRI-O is one, which counts its reloads, and so is
//! update-ca-trust of its base, over the real p11-kit. ostree, its merge of `/etc` and reboots are
//! real.

use serde_json::{Value, json};

use mosb_api::rollout::NodeTarget;
use mosb_tests::{Certificate, Lab, Machine, MachineImage};

use crate::node_story::{Ended, Story};
use crate::test_lab::AUTH;

const SECRET: &str = "/var/lib/kubelet/config.json";
const CONTAINERS: &str = "/etc/containers";
const ANCHOR: &str = "/etc/pki/ca-trust/source/anchors/lab.crt";
/// What the configs have. The machine has a certificate of its own.
const STATE: &str = "cd /etc/containers
    find registries.conf registries.d certs.d/reg:5000 -printf '%p %m ' \\
        \\( -type f -exec cat {} \\; -o -true \\) -printf '\\n' 2>/dev/null | sort
    cat /var/lib/kubelet/config.json; echo; cat /etc/story 2>/dev/null || true
    cd /etc/pki/ca-trust; find source/anchors -type f -printf ' %p %m'
    grep -c BEGIN.CERT extracted/pem/tls-ca-bundle.pem || true";

/// Of a comment, as programs of the machine read what is in `/etc/containers`.
fn comment(path: &str, word: &str) -> Value {
    file(path, 0o644, &format!("%23%20{word}"))
}

fn file(path: &str, mode: u32, content: &str) -> Value {
    json!({ "path": path, "mode": mode, "overwrite": true, "contents": { "source": format!("data:,{content}") } })
}

/// A config with these registries; `ca`: with a CA for the machine and for one registry, and without
/// another file.
fn config(word: &str, ca: Option<&str>, story: &str) -> Value {
    let mut files = vec![
        comment(&format!("{CONTAINERS}/registries.conf"), word),
        comment(&format!("{CONTAINERS}/registries.d/edited.yaml"), word),
        file(SECRET, 0o600, &format!("hush-{word}")),
        file("/etc/story", 0o644, story),
    ];
    match ca {
        Some(ca) => {
            files.push(file(&format!("{CONTAINERS}/certs.d/reg:5000/ca.crt"), 0o640, word));
            let ca: String = ca.bytes().map(|byte| format!("%{byte:02x}")).collect();
            files.push(file(ANCHOR, 0o644, &ca));
        }
        None => files.push(comment(&format!("{CONTAINERS}/registries.d/gone.yaml"), word)),
    }
    json!({ "ignition": { "version": "3.4.0" }, "storage": { "files": files } })
}

/// What [`STATE`] shows of a machine with such a config; `edited` is what a person changed.
fn state(word: &str, ca: bool, story: &str, edited: &str) -> String {
    let certs = if ca {
        format!("certs.d/reg:5000 755 \ncerts.d/reg:5000/ca.crt 640 {word}\n")
    } else {
        String::new()
    };
    let gone = if ca { String::new() } else { format!("registries.d/gone.yaml 644 # {word}\n") };
    let anchors = if ca { " source/anchors/lab.crt 6441" } else { "0" };
    format!(
        "{certs}registries.conf 644 # {word}\nregistries.d 755 \n\
         registries.d/edited.yaml 644 # {edited}\n{gone}hush-{word}\n{story}{anchors}\n"
    )
}

fn target(image: &MachineImage, from: Option<&MachineImage>) -> NodeTarget {
    let target = json!({ "image": image.reference, "liveFrom": from.map(|from| &from.digest) });
    serde_json::from_value(target).unwrap()
}

fn run(story: &Story<'_>, name: &str, verb: &str, target: &NodeTarget, more: &[&str]) -> Ended {
    let json = target.to_json();
    let words = [&[verb, "--target", &json, "--auth", AUTH], more].concat();
    story.run(name, &words)
}

fn stage(story: &Story<'_>, name: &str, target: &NodeTarget) -> Ended {
    let ended = run(story, name, "stage", target, &[]);
    assert_eq!(ended.code, 0, "{name}");
    ended
}

fn apply(story: &Story<'_>, name: &str, target: &NodeTarget) -> Ended {
    run(story, name, "apply", target, &["--attempt", "1", "--no-reboot"])
}

fn reboot(machine: &Machine) {
    let before = machine.boot_id().unwrap();
    // It ends with the machine.
    drop(machine.run("systemctl reboot"));
    machine.wait_reboot(&before);
    machine.wait_ready();
}

fn drift(machine: &Machine) -> String {
    // As ostree sees it: what differs from the image that is booted, beside the registry of the lab.
    let line = "ostree admin config-diff 2>/dev/null | grep -e containers -e story -e pki \\
        | grep -v -e certs.d/198 -e 'certs.d$' | sort || true";
    machine.run(line).ok().text()
}

#[test]
fn live_files_stay_with_their_image() {
    let lab = Lab::start(1);
    let story = Story::new(&lab, "live", &[]);
    let machine = story.machine();
    let directory = tempfile::tempdir().unwrap();
    let ca = Certificate::authority(directory.path(), "lab").certificate;
    let ca = std::fs::read_to_string(ca).unwrap();
    let build = |word, ca, story| lab.build_from("lab/os", &config(word, ca, story));
    let (a, b, c) =
        (build("a", None, "one"), build("b", Some(&*ca), "one"), build("c", None, "two"));
    let has = |what: &str, want: &str| assert_eq!(machine.run(STATE).ok().text(), want, "{what}");

    stage(&story, "a", &target(&a, None));
    reboot(machine);
    assert_eq!(machine.booted_digest(), a.digest);
    has("a", &state("a", false, "one", "a"));
    machine.run(&format!("printf '# mine' > {CONTAINERS}/registries.d/edited.yaml")).ok();

    a_reboot_is_needed_for_anything_else(&story, [&a, &b, &c]);
    has("nothing was written", &state("a", false, "one", "mine"));

    crio_stands_in(machine);
    let (boot, live_b) = (machine.boot_id(), target(&b, Some(&a)));
    stage(&story, "b", &live_b);
    for name in ["live", "live-again"] {
        let ended = apply(&story, name, &live_b);
        assert_eq!(
            (ended.code, ended.booted(), ended.staged()),
            (0, a.digest.clone(), b.digest.clone())
        );
        assert_eq!(ended.report.applied.as_ref(), Some(&live_b));
        has(name, &state("b", true, "one", "mine"));
        assert_eq!(machine.run("cat /run/crio-reloads").ok().text(), "reload\n", "{name}");
    }
    assert_eq!(machine.boot_id(), boot);
    let report = story.run("live-report", &["report"]).report;
    assert_eq!(report.applied.as_ref(), Some(&live_b));
    let hidden = report.etc.unwrap().hidden.paths;
    assert!(hidden.contains(&format!("{CONTAINERS}/registries.d/edited.yaml")), "{hidden:?}");
    assert!(!hidden.contains(&format!("{CONTAINERS}/registries.conf")), "{hidden:?}");

    a_power_cut_keeps_them(&story, [&a, &b]);
    has("after a power cut", &state("b", true, "one", "mine"));

    // Back: what is staged goes, then the files.
    let back = target(&a, Some(&b));
    stage(&story, "unstage", &back);
    assert_eq!(machine.staged_digest(), None);
    has("unstaged", &state("b", true, "one", "mine"));
    let ended = apply(&story, "back", &back);
    assert_eq!((ended.code, ended.report.applied), (0, Some(back.clone())));
    has("back", &state("a", false, "one", "mine"));

    // And again, then into that image: it has the same files as its own.
    stage(&story, "b-again", &live_b);
    assert_eq!(apply(&story, "live-b-again", &live_b).code, 0);
    reboot(machine);
    assert_eq!(machine.booted_digest(), b.digest);
    has("b", &state("b", true, "one", "mine"));
    assert_eq!(drift(machine), "M    containers/registries.d/edited.yaml\n");

    // Live once more, then a third image, whose own files are all in place.
    stage(&story, "live-a", &back);
    assert_eq!(apply(&story, "apply-a", &back).code, 0);
    has("a, live", &state("a", false, "one", "mine"));
    stage(&story, "c", &target(&c, None));
    reboot(machine);
    assert_eq!(machine.booted_digest(), c.digest);
    has("c", &state("c", false, "two", "mine"));
    assert_eq!(drift(machine), "M    containers/registries.d/edited.yaml\n");

    let search = "journalctl --quiet | grep -cF -e hush- | grep -v '^0$' || true";
    assert_eq!(machine.run(search).text(), "", "the pull secret is in the journal");
}

fn a_reboot_is_needed_for_anything_else(story: &Story<'_>, [a, b, c]: [&MachineImage; 3]) {
    let not_staged = apply(story, "not-staged", &target(b, Some(a)));
    assert_eq!(not_staged.failure(), (45, "needs-reboot"), "{}", not_staged.message());
    stage(story, "c-first", &target(c, Some(a)));
    for (name, target, cause) in [
        ("other", target(c, Some(a)), "/usr/etc/story"),
        ("another-image", target(c, Some(b)), "its image"),
        ("not-live", target(c, None), "its image"),
    ] {
        let ended = apply(story, name, &target);
        assert_eq!(ended.failure(), (45, "needs-reboot"), "{name}");
        assert!(ended.message().contains(cause), "{}", ended.message());
    }
}

/// A service with the name of CRI-O's.
fn crio_stands_in(machine: &Machine) {
    let unit = "[Service]\nExecStart=/bin/sleep infinity\nExecReload=/bin/sh -c 'echo reload >> /run/crio-reloads'\n";
    let start =
        "cat > /run/systemd/system/crio.service; systemctl daemon-reload; systemctl start crio";
    machine.enter(&["sh", "-euc", start], unit.as_bytes()).ok();
}

/// The old image boots with its own pull secret, and with the files that came live.
fn a_power_cut_keeps_them(story: &Story<'_>, [a, b]: [&MachineImage; 2]) {
    let (machine, live_b) = (story.machine(), target(b, Some(a)));
    let before = machine.boot_id().unwrap();
    machine.run("sync").ok();
    machine.power_cut();
    machine.wait_reboot(&before);
    machine.wait_ready();
    assert_eq!((machine.booted_digest(), machine.staged_digest()), (a.digest.clone(), None));
    assert_eq!(machine.run(&format!("cat {SECRET}")).ok().text(), "hush-a");
    let registries = machine.run(&format!("cat {CONTAINERS}/registries.conf")).ok().text();
    assert_eq!(registries, "# b");
    let ended = stage(story, "b-after-cut", &live_b);
    assert_eq!(ended.report.applied, Some(live_b));
    assert_eq!(ended.staged(), b.digest);
}
