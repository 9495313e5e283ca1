//! The program that brings a machine back, on the files of a machine. Its tools are stand-ins: they
//! record how they were called, keep an order of two deployments, and answer as the test says.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const PROGRAM: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../builder/plan/src/plan/boot_check/boot-check");
const TARGET: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const EARLIER: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// `ostree admin status`, and whether the start of boot-complete.target succeeds.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "systemctl $*" >> "$MACHINE/calls"
case "$*" in
'start boot-complete.target')
    # The unit before it.
    if [ -e "$MACHINE/checks" ]; then
        sh "$PROGRAM" run "$MACHINE" || exit 1
    fi
    [ ! -e "$MACHINE/stopping" ] || exit 1
    [ ! -e "$MACHINE/broken" ]
    ;;
is-system-running) if [ -e "$MACHINE/stopping" ]; then echo stopping; else echo starting; fi ;;
'list-units '*) echo 'bad.service loaded failed failed Bad' ;;
'list-jobs '*) echo ' 12 slow.service start running' ;;
esac
"#;
const OSTREE: &str = r#"#!/bin/sh
echo "ostree $*" >> "$MACHINE/calls"
case "$*" in
'admin status') cat "$MACHINE/order" ;;
'admin set-default 1') [ ! -e "$MACHINE/no-way" ] && printf '  lab b.0\n* lab a.0\n' > "$MACHINE/order" ;;
esac
"#;
const BOOTC: &str = r#"#!/bin/sh
echo "bootc $*" >> "$MACHINE/calls"
[ ! -e "$MACHINE/no-way" ] && printf '  lab b.0\n* lab a.0\n' > "$MACHINE/order"
"#;

/// A machine that booted [`TARGET`], which a roll-out brought.
struct Machine {
    root: TempDir,
    tools: TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { root: TempDir::new().unwrap(), tools: TempDir::new().unwrap() };
        for (name, image) in [("a.0", TARGET), ("b.0", EARLIER)] {
            fs::create_dir_all(machine.path(&format!("ostree/deploy/lab/deploy/{name}"))).unwrap();
            let origin = format!(
                "[origin]\ncontainer-image-reference=ostree-unverified-registry:reg.example/os@{image}\n"
            );
            machine.write(&format!("ostree/deploy/lab/deploy/{name}.origin"), &origin);
        }
        fs::create_dir_all(machine.path("ostree/boot.1/lab/c")).unwrap();
        for folder in ["proc/net", "run", "var/lib/mosb/boot-check", "etc/mosb/check.d"] {
            fs::create_dir_all(machine.path(folder)).unwrap();
        }
        machine.boot("a.0");
        machine.write("order", "* lab a.0\n  lab b.0 (rollback)\n");
        machine.write("var/lib/mosb/boot-check/target", &format!("{TARGET}\n"));
        machine.tool("systemctl", SYSTEMCTL);
        machine.tool("ostree", OSTREE);
        machine.tool("bootc", BOOTC);
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap();
    }

    fn state(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(&format!("var/lib/mosb/boot-check/{name}"))).ok()
    }

    fn tool(&self, name: &str, text: &str) {
        executable(&self.tools.path().join(name), text);
    }

    fn check(&self, name: &str, text: &str) {
        executable(&self.path(&format!("etc/mosb/check.d/{name}")), text);
    }

    /// The boot loader takes this deployment.
    fn boot(&self, name: &str) {
        let link = self.path("ostree/boot.1/lab/c/0");
        let _ = fs::remove_file(&link);
        symlink(format!("../../../deploy/lab/deploy/{name}"), link).unwrap();
        self.write("proc/cmdline", "quiet ostree=/ostree/boot.1/lab/c/0 rw\n");
        let _ = fs::remove_dir_all(self.path("run/mosb-boot-check"));
        let _ = fs::remove_file(self.path("calls"));
    }

    /// Runs the guard of a boot.
    fn guard(&self) {
        self.guard_for("30");
    }

    /// The same, with another time for all of it, in seconds.
    fn guard_for(&self, time: &str) {
        let tools = self.tools.path().display();
        let ended = Command::new("dash")
            .args([PROGRAM, "guard"])
            .arg(self.root.path())
            .env("PATH", format!("{tools}:/usr/bin:/bin"))
            .env("MACHINE", self.root.path())
            .env("PROGRAM", PROGRAM)
            .envs([("TIME", time), ("HOLD", "0"), ("PAUSE", "0.1"), ("CHECK_TIME", "1")])
            .output()
            .unwrap();
        let output = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.success(), "{output}");
    }

    /// What the guard asked of the tools, but for what only reads.
    fn changes(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let changes = calls.lines().filter(|call| {
            ["reboot", "rollback", "set-default", "--pending"]
                .iter()
                .any(|word| call.ends_with(word) || call.contains("set-default"))
        });
        changes.map(str::to_owned).collect()
    }
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

const REBOOT: &str = "systemctl --no-block reboot";

#[test]
fn boots_that_succeed_are_not_counted() {
    let machine = Machine::new();
    machine.guard();
    assert_eq!((machine.state("boots"), machine.changes().len()), (None, 0));
    assert!(machine.path("run/mosb-boot-check/ended").exists());
    assert!(machine.state("target").is_some(), "it is not confirmed by this");
}

#[test]
fn two_failed_boots_bring_the_earlier_image() {
    let machine = Machine::new();
    machine.write("broken", "");
    machine.guard();
    assert_eq!(machine.state("boots").as_deref(), Some("1\n"));
    assert_eq!(machine.changes(), [REBOOT]);
    assert!(!machine.path("run/mosb-boot-check/ended").exists(), "it is not the end");

    machine.boot("a.0");
    machine.guard();
    assert_eq!(machine.changes(), ["bootc rollback", REBOOT]);
    let cause =
        "boot-complete.target was not reached; failed: bad.service; not started yet: slow.service";
    assert_eq!(machine.state("went-back"), Some(format!("{TARGET}\n{cause}\n")));
    assert_eq!((machine.state("target"), machine.state("boots")), (None, None));

    // The earlier one fails too.
    machine.boot("b.0");
    machine.write("order", "* lab b.0\n  lab a.0\n");
    machine.guard();
    assert_eq!(machine.changes().len(), 0);
}

#[test]
fn checks_of_the_image_decide() {
    for (what, check, want) in [
        ("success", "#!/bin/sh\ntrue\n", None),
        (
            "not at once",
            "#!/bin/sh\n[ -e \"$MACHINE/later\" ] || { : > \"$MACHINE/later\"; exit 1; }\n",
            None,
        ),
        (
            "failure",
            "#!/bin/sh\necho one; echo 'two \"x\"' >&2; exit 3\n",
            Some("/etc/mosb/check.d/10-own ended with 3: one two \"x\" "),
        ),
        (
            "no end",
            "#!/bin/sh\nsleep 60\n",
            Some("/etc/mosb/check.d/10-own ended with 124, after 1 s: "),
        ),
    ] {
        let machine = Machine::new();
        machine.write("checks", "");
        machine.check("10-own", check);
        machine.write("etc/mosb/check.d/readme", "not executable");
        machine.write("var/lib/mosb/boot-check/boots", "1\n");
        machine.guard_for(if want.is_some() { "3" } else { "30" });
        let cause = machine.state("went-back");
        let want = want.map(|want| format!("{TARGET}\nthe check {want}\n"));
        assert_eq!(cause, want, "{what}");
    }
}

#[test]
fn what_held_before_must_hold() {
    let route = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
        eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
    let default = format!("{route}eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
    for (what, held, routes, kubelet, want) in [
        ("all", "route\nkubelet\n", default.as_str(), "exit 0", None),
        ("no route", "route\nkubelet\n", route, "exit 0", Some("there is no default route")),
        ("no route before either", "kubelet\n", route, "exit 0", None),
        ("no kubelet", "route\nkubelet\n", &default, "exit 7", Some("the kubelet is not healthy")),
        ("no kubelet before either", "route\n", &default, "exit 7", None),
    ] {
        let machine = Machine::new();
        machine.write("checks", "");
        machine.write("proc/net/route", routes);
        machine.write("var/lib/mosb/boot-check/target", &format!("{TARGET}\n{held}"));
        machine.write("var/lib/mosb/boot-check/boots", "1\n");
        machine.tool("curl", &format!("#!/bin/sh\n{kubelet}\n"));
        machine.guard_for(if want.is_some() { "3" } else { "30" });
        let cause = machine.state("went-back").unwrap_or_default();
        let is_cause = want.is_some_and(|want| cause.contains(want));
        assert_eq!(!cause.is_empty(), want.is_some(), "{what}: {cause}");
        assert!(want.is_none() || is_cause, "{what}: {cause}");
    }
}

/// Whatever fails beside the image, no boot asks for more than one reboot, and none follows the last.
#[test]
fn reboots_never_become_a_loop() {
    // A boot that can't be recorded is the last one.
    let machine = Machine::new();
    machine.write("broken", "");
    fs::create_dir(machine.path("var/lib/mosb/boot-check/boots.new")).unwrap();
    machine.guard();
    assert_eq!(machine.changes(), ["bootc rollback", REBOOT]);

    // Nor can the end of it, and the boot loader takes the failed one again.
    machine.write("var/lib/mosb/boot-check/target", &format!("{TARGET}\n"));
    machine.boot("a.0");
    machine.guard();
    assert_eq!(machine.changes().len(), 0);

    // There is no earlier image.
    let machine = Machine::new();
    machine.write("broken", "");
    machine.write("no-way", "");
    machine.write("var/lib/mosb/boot-check/boots", "1\n");
    machine.guard();
    assert!(!machine.changes().contains(&REBOOT.to_owned()), "{:?}", machine.changes());
    assert!(machine.path("run/mosb-boot-check/ended").exists());
    assert!(machine.state("went-back").unwrap().contains("so it stays"));
    machine.boot("a.0");
    machine.guard();
    assert_eq!(machine.changes().len(), 0);

    // Boots that ended before their checks count, and what can't be read does.
    for (boots, want) in [("2\n", 2), ("", 2), ("x\n", 2), ("9\n", 2)] {
        let machine = Machine::new();
        machine.write("broken", "");
        machine.write("var/lib/mosb/boot-check/boots", boots);
        machine.guard();
        assert_eq!(machine.changes().len(), want, "{boots:?}");
        assert_eq!(machine.state("target"), None, "{boots:?}");
    }
}

#[test]
fn machine_killed_while_it_goes_back_ends_it() {
    let machine = Machine::new();
    machine.write("var/lib/mosb/boot-check/boots", "2\n");
    machine.write("var/lib/mosb/boot-check/went-back", &format!("{TARGET}\nthe first cause\n"));
    machine.guard();
    assert_eq!(machine.changes(), ["bootc rollback", REBOOT]);
    assert_eq!(machine.state("went-back"), Some(format!("{TARGET}\nthe first cause\n")));
}

#[test]
fn each_tool_is_tried_in_turn() {
    let rpm_ostree = r#"#!/bin/sh
echo "rpm-ostree $*" >> "$MACHINE/calls"
[ "$1" = cleanup ] || printf '  lab b.0\n* lab a.0\n' > "$MACHINE/order"
"#;
    let fails = "#!/bin/sh\necho \"bootc $*\" >> \"$MACHINE/calls\"\nexit 1\n";
    for (what, tools, want) in [
        (
            "rpm-ostree",
            [("bootc", fails), ("rpm-ostree", rpm_ostree)].as_slice(),
            "rpm-ostree rollback",
        ),
        ("ostree", &[("bootc", fails)], "ostree admin set-default 1"),
    ] {
        let machine = Machine::new();
        machine.write("broken", "");
        machine.write("var/lib/mosb/boot-check/boots", "1\n");
        for (name, text) in tools {
            machine.tool(name, text);
        }
        machine.guard();
        let changes = machine.changes();
        let last: Vec<_> = changes.iter().rev().take(2).collect();
        assert_eq!(last, [REBOOT, want], "{what}");
    }
}

#[test]
fn only_what_a_roll_out_brought_is_guarded() {
    for (what, prepare) in [
        ("another image", (|machine| machine.boot("b.0")) as fn(&Machine)),
        ("confirmed", |machine| {
            fs::remove_file(machine.path("var/lib/mosb/boot-check/target")).unwrap()
        }),
        ("somebody asked for another one", |machine| {
            machine.write("order", "  lab b.0\n* lab a.0\n")
        }),
        ("no image", |machine| machine.write("proc/cmdline", "quiet\n")),
        ("an empty record", |machine| machine.write("var/lib/mosb/boot-check/target", "")),
        ("a shutdown that somebody asked for", |machine| machine.write("stopping", "")),
    ] {
        let machine = Machine::new();
        machine.write("broken", "");
        machine.write("var/lib/mosb/boot-check/boots", "1\n");
        prepare(&machine);
        machine.guard();
        assert_eq!(machine.changes().len(), 0, "{what}");
    }
}
