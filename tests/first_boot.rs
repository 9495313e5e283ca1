//! The Ignition config of new machines: the real Ignition takes it, nothing in it is in the image, and what it starts brings a machine
//! to its image once, whenever the power fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Kind, Mosb, Oracle, Sandbox, Snapshot, base_image};

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
const UNIT: &str = "mosb-first-boot.service";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/bootstrap/three-pools/kubernetes")
}

fn config(pool: &str) -> String {
    fs::read_to_string(golden().join(format!("ignition/{pool}.ign"))).unwrap()
}

/// A machine after Ignition, before its first boot goes on.
fn machine() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ignition_apply(&config("worker")).unwrap();
    sandbox
}

#[test]
fn ignition_takes_it_and_machines_start_the_unit() {
    let mut oracle = Oracle::start();
    for pool in ["worker", "infra"] {
        let config: Value = serde_json::from_str(&config(pool)).unwrap();
        let verdict = oracle.judge(&config);
        assert_eq!(verdict["accepted"], true, "{verdict:#}");
        assert_eq!(
            verdict["entries"].as_array().map(Vec::len),
            Some(0),
            "{verdict:#}"
        );
    }
    let sandbox = machine();
    // What a machine does with presets at its first boot.
    sandbox.preset(&[UNIT]).ok();
    let units = sandbox.path("etc/systemd/system");
    for link in ["multi-user.target.wants", "kubelet.service.requires"] {
        assert!(
            fs::symlink_metadata(units.join(link).join(UNIT)).is_ok(),
            "{link}"
        );
    }
    sandbox.shell(&format!(
        "systemd-analyze --man=no verify /etc/systemd/system/{UNIT}"
    ));
    let tree = sandbox.snapshot();
    for (path, mode) in [
        ("var/lib/mosb/first-boot", 0o700),
        ("var/lib/mosb/first-boot/auth.json", 0o600),
        ("var/lib/mosb/first-boot/rebase", 0o700),
        ("etc/ignition-machine-config-encapsulated.json", 0o600),
    ] {
        assert_eq!(tree.0[path].mode, mode, "{path}");
    }
}

/// Whatever Ignition writes would hide what later images have there.
#[test]
fn nothing_that_ignition_writes_is_in_the_image() {
    let sandbox = Sandbox::new();
    let before = sandbox.snapshot();
    sandbox.ignition_apply(&config("worker")).unwrap();
    let written = changed(&before, &sandbox.snapshot());
    assert!(
        written.contains("etc/systemd/system/mosb-first-boot.service"),
        "{written:?}"
    );

    let mosb = Mosb::new();
    let config = fs::read_dir(golden()).unwrap().map(|it| it.unwrap().path());
    let mut config = config.filter(|path| {
        path.to_str()
            .unwrap()
            .contains("machineconfig-rendered-worker-")
    });
    let target = format!("oci:{}", mosb.home().join("work/image").display());
    let config = config.next().unwrap();
    let base = base_image();
    let built = mosb
        .run([
            "build",
            config.to_str().unwrap(),
            "--base",
            &base.reference("base"),
            "--output",
            &target,
            "-o",
            "json",
        ])
        .ok()
        .json();
    let image = format!("{target}:{}", built["tags"][0].as_str().unwrap());
    let layers = mosb.run(["files", &*image, "-o", "json"]).ok().json();
    let entries = layers["layers"][0]["paths"].as_array().unwrap().iter();
    let image: BTreeSet<&str> = entries
        .filter(|entry| entry["type"] != "directory")
        .map(|entry| entry["path"].as_str().unwrap().trim_start_matches('/'))
        .collect();
    // As a proof that both look at the same: what Ignition makes of units that are enabled is in each image.
    assert!(
        image.contains("etc/systemd/system-preset/20-ignition.preset"),
        "{image:?}"
    );
    let both: Vec<_> = written
        .iter()
        .filter(|path| image.contains(&***path))
        .collect();
    assert!(both.is_empty(), "{both:?}");
}

/// All but directories.
fn changed(before: &Snapshot, after: &Snapshot) -> BTreeSet<String> {
    let entries = after
        .0
        .iter()
        .filter(|(path, entry)| before.0.get(*path) != Some(entry));
    let entries = entries.filter(|(_, entry)| entry.kind != Kind::Directory);
    entries.map(|(path, _)| path.clone()).collect()
}

/// The tools of a machine as files that tell what they were called with; `sleep` ends, so that the script does.
const TOOLS: &str = r#"
cd /usr/bin
for tool in bootc rpm-ostree systemctl sleep; do
    rm -f $tool
    printf '#!/bin/sh\necho "%s $*" >>/log\n. /does/%s\n' $tool $tool >$tool
    chmod +x $tool
done
mkdir -p /does
: >/does/systemctl; : >/does/sleep
"#;

/// One run of the script on a machine whose kernel was started with this; its exit code.
fn boot(sandbox: &Sandbox, cmdline: &str) -> (Option<i32>, String) {
    fs::write(sandbox.path("cmdline"), cmdline).unwrap();
    let line = "mount --bind /cmdline /proc/cmdline; set -a; . /var/lib/mosb/first-boot/environment; set +a; exec /bin/sh /var/lib/mosb/first-boot/rebase";
    let finished = sandbox.run("/bin/sh", &["-euc", line], &[]);
    let log = fs::read_to_string(sandbox.path("log")).unwrap_or_default();
    // No file where nothing was called.
    let _ = fs::remove_file(sandbox.path("log"));
    (finished.code(), log + &finished.stderr)
}

#[test]
fn a_machine_gets_to_its_image_and_forgets_the_login() {
    let switched = ". /dev/null; test \"$HOME\" = /run/mosb; test -s $HOME/.config/containers/registries.conf; \
        grep -q pull /run/ostree/auth.json; : >/run/ostree/staged-deployment";
    for (what, bootc, rpm_ostree, want) in [
        (
            "bootc",
            switched,
            "exit 1",
            "bootc switch registry.example.com:5000/acme/os@",
        ),
        (
            "bootc can't",
            "exit 1",
            switched,
            "rpm-ostree rebase --bypass-driver ostree-unverified-registry:registry.example.com:5000/acme/os@",
        ),
    ] {
        let sandbox = machine();
        sandbox.shell(TOOLS);
        fs::write(sandbox.path("does/bootc"), bootc).unwrap();
        fs::write(sandbox.path("does/rpm-ostree"), rpm_ostree).unwrap();
        let stock = "root=UUID=x ostree=/ostree/boot.1/os/aa/0 rw";
        sandbox.shell("mkdir -p /ostree/deploy/a.0 /ostree/deploy/b.0 /ostree/boot.1/os/aa /ostree/boot.0/os/bb
            ln -s /ostree/deploy/a.0 /ostree/boot.1/os/aa/0; ln -s /ostree/deploy/b.0 /ostree/boot.0/os/bb/0
            echo '[origin]' >/ostree/deploy/a.0.origin
            mkdir -p /run/ostree");
        fs::write(sandbox.path("ostree/deploy/b.0.origin"), format!("[origin]\ncontainer-image-reference=ostree-unverified-registry:registry.example.com:5000/acme/os@{DIGEST}\n")).unwrap();
        let (code, log) = boot(&sandbox, stock);
        assert_eq!(code, Some(0), "{what}: {log}");
        assert!(log.contains(&format!("{want}{DIGEST}")), "{what}: {log}");
        assert!(
            log.ends_with("systemctl --no-block reboot\nsleep infinity\n"),
            "{what}: {log}"
        );
        assert_eq!(
            log.contains("systemctl daemon-reload"),
            what != "bootc",
            "{what}: {log}"
        );
        // Power fails before the new deployment was put in place: again from the start.
        sandbox.shell("rm -rf /run/mosb /run/ostree/*");
        assert_eq!(boot(&sandbox, stock).0, Some(0), "{what}");
        assert!(sandbox.path("var/lib/mosb/first-boot/auth.json").exists());
        // The machine runs the image.
        sandbox.shell("rm -rf /run/mosb /run/ostree/*");
        let (code, log) = boot(&sandbox, "ostree=/ostree/boot.0/os/bb/0");
        assert_eq!((code, &*log), (Some(0), ""), "{what}");
        assert!(!sandbox.path("var/lib/mosb/first-boot").exists(), "{what}");
    }
}

#[test]
fn a_machine_that_can_not_switch_does_not_reboot() {
    let sandbox = machine();
    sandbox.shell(TOOLS);
    sandbox.shell("mkdir -p /run/ostree");
    for (what, does, want) in [
        (
            "no tool can",
            "exit 1",
            "neither bootc nor rpm-ostree could bring this machine to",
        ),
        ("nothing is staged", ":", "there is nothing to reboot into"),
    ] {
        for tool in ["bootc", "rpm-ostree"] {
            fs::write(sandbox.path(&format!("does/{tool}")), does).unwrap();
        }
        let (code, log) = boot(&sandbox, "root=/dev/vda");
        assert_eq!(code, Some(1), "{what}: {log}");
        assert!(
            log.contains(want) && !log.contains("reboot\n"),
            "{what}: {log}"
        );
        assert!(
            sandbox.path("var/lib/mosb/first-boot/image").exists(),
            "{what}"
        );
    }
}
