//! The Ignition config for new machines. The real Ignition accepts it, its files are not in the
//! image, and its unit switches a machine to its image once, also after power failures.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use mosb_build::new_machine::{OwnConfig, merge};
use mosb_tests::{
    Access, FIRST_BOOT_UNIT as UNIT, Finished, Kind, Mosb, Oracle, Registry, Sandbox, Server,
    Snapshot, Transport, base_image, finish, first_boot_files, in_private_mounts, limited,
    ostree_base, ostree_ext_cli,
};

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
const DIGEST_PREFIX: &str = "@sha256:";

fn golden() -> PathBuf {
    mosb_tests::repository().join("testdata/bootstrap/three-pools/kubernetes")
}

fn config(pool: &str) -> String {
    fs::read_to_string(golden().join(format!("ignition/{pool}.ign"))).unwrap()
}

/// A machine after Ignition, before the rest of its first boot.
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
        assert_eq!(verdict["entries"].as_array().map(Vec::len), Some(0), "{verdict:#}");
    }
    let sandbox = machine();
    // A machine applies presets at its first boot.
    sandbox.preset(&[UNIT]).ok();
    let units = sandbox.path("etc/systemd/system");
    for link in ["multi-user.target.wants", "kubelet.service.requires"] {
        assert!(fs::symlink_metadata(units.join(link).join(UNIT)).is_ok(), "{link}");
    }
    sandbox.shell(&format!("systemd-analyze --man=no verify /etc/systemd/system/{UNIT}"));
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

/// Files that Ignition writes would hide those of later images.
#[test]
fn nothing_that_ignition_writes_is_in_the_image() {
    let sandbox = Sandbox::new();
    let before = sandbox.snapshot();
    sandbox.ignition_apply(&config("worker")).unwrap();
    let written = changed(&before, &sandbox.snapshot());
    assert!(written.contains("etc/systemd/system/mosb-first-boot.service"), "{written:?}");

    let mosb = Mosb::new();
    let config = fs::read_dir(golden()).unwrap().map(|it| it.unwrap().path());
    let mut config =
        config.filter(|path| path.to_str().unwrap().contains("machineconfig-rendered-worker-"));
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
    // A check that both sets of paths are comparable: every image contains Ignition's preset for
    // enabled units.
    assert!(image.contains("etc/systemd/system-preset/20-ignition.preset"), "{image:?}");
    let both: Vec<_> = written.iter().filter(|path| image.contains(&***path)).collect();
    assert!(both.is_empty(), "{both:?}");
}

/// What joins a machine is merged in, as in the user data of machines that join later.
#[test]
fn ignition_takes_it_in_the_oldest_spec() {
    let own = |config: &Value| OwnConfig::parse("own", config.to_string().as_bytes()).unwrap();
    let file = |path: &str, text: &str| json!({ "path": path, "mode": 0o600, "contents": { "source": format!("data:,{text}") } });
    let unit = json!({ "name": "join.service", "enabled": true,
        "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n" });
    let join = own(&json!({ "ignition": { "version": "3.4.0" }, "systemd": { "units": [unit] },
        "storage": { "files": [file("/etc/kubernetes/bootstrap-kubeconfig", "token"), file("/etc/hostname", "first")] } }));
    let machine = own(&json!({ "ignition": { "version": "3.1.0" },
        "storage": { "files": [file("/etc/hostname", "second")] } }));
    let mut oracle = Oracle::start();
    for (pool, want) in [("worker", "3.3.0"), ("infra", "3.3.0")] {
        let base: Value = serde_json::from_str(&config(pool)).unwrap();
        let merged = merge(pool, &base, vec![join.clone(), machine.clone()]).unwrap();
        assert_eq!(merged.expose()["ignition"]["version"], want, "{pool}");
        let verdict = oracle.judge(merged.expose());
        assert_eq!(verdict["accepted"], true, "{pool}: {verdict:#}");
        assert_eq!(verdict["entries"].as_array().map(Vec::len), Some(0), "{pool}: {verdict:#}");
        // An older version of the same config loses something.
        let mut older = merged.expose().clone();
        older["ignition"]["version"] = json!("3.2.0");
        let verdict = oracle.judge(&older);
        assert_ne!(verdict["entries"].as_array().map(Vec::len), Some(0), "{pool}: {verdict:#}");
        let sandbox = Sandbox::new();
        sandbox.ignition_apply(&merged.expose().to_string()).unwrap();
        let read = |path: &str| fs::read_to_string(sandbox.path(path)).unwrap();
        assert_eq!(read("etc/hostname"), "second", "{pool}");
        assert_eq!(read("etc/kubernetes/bootstrap-kubeconfig"), "token", "{pool}");
        assert!(read("var/lib/mosb/first-boot/image").contains(DIGEST_PREFIX), "{pool}");
        sandbox.preset(&["join.service", UNIT]).ok();
        let links = sandbox.path("etc/systemd/system/multi-user.target.wants");
        for unit in ["join.service", UNIT] {
            assert!(fs::symlink_metadata(links.join(unit)).is_ok(), "{pool}: {unit}");
        }
    }
}

/// The changed paths without directories.
fn changed(before: &Snapshot, after: &Snapshot) -> BTreeSet<String> {
    let entries = after.0.iter().filter(|(path, entry)| before.0.get(*path) != Some(entry));
    let entries = entries.filter(|(_, entry)| entry.kind != Kind::Directory);
    entries.map(|(path, _)| path.clone()).collect()
}

/// Replaces tools of the machine by scripts that log their arguments. `sleep` returns, so that the
/// tested script ends.
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

/// Process 1 of a machine, for the script.
const PROCESS_1: &str = r#"exec unshare --pid --fork --mount-proc -- /bin/sh -euc "$0""#;

/// What systemd does with the file of the unit, before and with the script.
const BOOT: &str = r#"
mount --bind /cmdline /proc/cmdline
set -a
if [ -e /var/lib/mosb/first-boot/environment ]; then . /var/lib/mosb/first-boot/environment; fi
set +a
/bin/sh /var/lib/mosb/first-boot/copy-containers /proc/1/root/etc /var/lib/mosb/first-boot/containers /run/mosb/containers
if [ -e /run/mosb/containers ]; then
    mkdir -p /etc/containers
    mount --bind /run/mosb/containers /etc/containers
fi
# Not as process 1, which is not killed from inside.
/bin/sh /var/lib/mosb/first-boot/rebase || exit"#;

/// Runs the script on a machine with this kernel command line. Returns the exit code and the log.
fn boot(sandbox: &Sandbox, cmdline: &str) -> (Option<i32>, String) {
    fs::write(sandbox.path("cmdline"), cmdline).unwrap();
    let finished = sandbox.run("/bin/sh", &["-euc", PROCESS_1, BOOT], &[]);
    let log = fs::read_to_string(sandbox.path("log")).unwrap_or_default();
    // The file is missing if no tool was called.
    let _ = fs::remove_file(sandbox.path("log"));
    (finished.code(), log + &finished.stderr)
}

#[test]
fn a_machine_updates_and_forgets_the_login() {
    let switched = ". /dev/null; grep -q mirror.example.net /etc/containers/registries.conf.d/zz-mosb-first-boot.conf; \
        grep -q pull /run/ostree/auth.json; : >/run/ostree/staged-deployment";
    for (what, bootc, rpm_ostree, want) in [
        ("bootc", switched, "exit 1", "bootc switch registry.example.com:5000/acme/os@"),
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
        let end = "systemctl start ostree-finalize-staged.service\nsystemctl --no-block reboot\nsleep infinity\n";
        assert!(log.ends_with(end), "{what}: {log}");
        assert_eq!(log.contains("systemctl daemon-reload"), what != "bootc", "{what}: {log}");
        // The power fails before the new deployment is in place: the next boot starts from the
        // beginning.
        sandbox.shell("rm -rf /run/mosb /run/ostree/*");
        assert_eq!(boot(&sandbox, stock).0, Some(0), "{what}");
        assert!(sandbox.path("var/lib/mosb/first-boot/auth.json").exists());
        // The machine runs the image. If the power fails during the cleanup, the credentials are
        // deleted first and the next boot continues.
        let image = "ostree=/ostree/boot.0/os/bb/0";
        let given = sandbox.path("var/lib/mosb/first-boot");
        sandbox.shell("rm -rf /run/mosb /run/ostree/*; cp -a /var/lib/mosb/first-boot /given; mv /usr/bin/rm /usr/bin/real-rm");
        for (until, left) in [
            ("auth.json", &["copy-containers", "environment", "image", "rebase"][..]),
            ("environment", &["copy-containers", "image", "rebase"]),
            ("image", &["copy-containers", "rebase"]),
        ] {
            sandbox.shell(
                "real-rm -rf /var/lib/mosb/first-boot; cp -a /given /var/lib/mosb/first-boot",
            );
            let rm = format!(
                "#!/bin/sh\nreal-rm \"$@\"\ncase \"$*\" in *first-boot/{until}*) kill -9 $PPID;; esac\n"
            );
            fs::write(sandbox.path("usr/bin/rm"), rm).unwrap();
            sandbox.shell("chmod +x /usr/bin/rm");
            assert_ne!(boot(&sandbox, image).0, Some(0), "{what}, {until}");
            let there = fs::read_dir(&given).unwrap();
            let there: BTreeSet<_> =
                there.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
            assert!(there.iter().eq(left), "{what}, {until}: {there:?}");
            sandbox.shell("cp /usr/bin/real-rm /usr/bin/rm");
            // This is the ConditionPathExists= of the unit.
            if there.contains("image") {
                let (code, log) = boot(&sandbox, image);
                assert_eq!((code, &*log), (Some(0), ""), "{what}, {until}");
                assert!(!given.exists(), "{what}, {until}");
            }
        }
    }
}

/// The tools and skopeo are scripts: what they refuse is tested in the lab.
#[test]
fn machines_that_verify_ask_their_tools_to() {
    for (skopeo, bootc, rpm_ostree, want, code) in [
        (
            "skopeo version 1.13.3",
            ":",
            "exit 1",
            "bootc switch --enforce-container-sigpolicy reg",
            0,
        ),
        (
            "skopeo version 2.0.0",
            "exit 1",
            ":",
            "--bypass-driver ostree-image-signed:docker://reg",
            0,
        ),
        ("skopeo version 1.9.3", ":", ":", "no skopeo 1.13 or newer; the kubelet is kept off", 78),
        ("another program", ":", ":", "no skopeo 1.13 or newer; the kubelet is kept off", 78),
    ] {
        let sandbox = machine();
        sandbox.shell(TOOLS);
        for (tool, does) in [("bootc", bootc), ("rpm-ostree", rpm_ostree)] {
            let does = format!("{does}; : >/run/ostree/staged-deployment");
            fs::write(sandbox.path(&format!("does/{tool}")), does).unwrap();
        }
        sandbox.shell(&format!(
            "mkdir -p /run/ostree; : >/var/lib/mosb/first-boot/verify
            printf '#!/bin/sh\\necho {skopeo}\\n' >/usr/bin/skopeo; chmod +x /usr/bin/skopeo"
        ));
        let (found, log) = boot(&sandbox, "root=/dev/vda");
        assert_eq!(found, Some(code), "{skopeo}: {log}");
        assert!(log.contains(want), "{skopeo}: {log}");
        assert!(
            !log.contains("unverified") && !log.contains("bootc switch reg"),
            "{skopeo}: {log}"
        );
    }
}

/// As of a machine whose `/boot` is full: finalizing fails in each shutdown.
#[test]
fn an_unbootable_image_stops_reboots() {
    let sandbox = machine();
    sandbox.shell(TOOLS);
    fs::write(sandbox.path("does/bootc"), ": >/run/ostree/staged-deployment").unwrap();
    let boot = || {
        sandbox.shell("rm -rf /run/mosb /run/ostree; mkdir /run/ostree");
        boot(&sandbox, "root=/dev/vda")
    };
    let ends = |count: usize| -> Vec<(Option<i32>, bool)> {
        (0..count).map(|_| boot()).map(|(code, log)| (code, log.contains("reboot\n"))).collect()
    };
    let stops_after_three: Vec<_> =
        [(Some(0), true); 3].into_iter().chain([(Some(78), false); 9]).collect();
    assert_eq!(ends(12), stops_after_three);
    let (_, log) = boot();
    assert!(!log.contains("bootc switch"), "{log}");
    assert!(log.contains("3 times, and does not run it; the kubelet is kept off"), "{log}");
    let unit = sandbox.path("etc/systemd/system").join(UNIT);
    let unit = fs::read_to_string(unit).unwrap();
    assert!(unit.contains("\nRestartPreventExitStatus=78\n"), "{unit}");
    // What the message says.
    sandbox.shell("rm /var/lib/mosb/first-boot/reboots");
    assert_eq!(ends(1), [(Some(0), true)]);
    // A reboot that can't be counted is none.
    sandbox
        .shell("rm /var/lib/mosb/first-boot/reboots; mkdir /var/lib/mosb/first-boot/reboots.new");
    let (code, log) = boot();
    assert!(code != Some(0) && !log.contains("--no-block"), "{log}");
}

#[test]
fn without_a_switch_no_machine_reboots() {
    let sandbox = machine();
    sandbox.shell(TOOLS);
    sandbox.shell("mkdir -p /run/ostree");
    fs::write(sandbox.path("does/systemctl"), "test \"$1\" != start").unwrap();
    for (what, does, want) in [
        ("no tool can", "exit 1", "neither bootc nor rpm-ostree could bring this machine to"),
        ("nothing is staged", ":", "there is nothing to reboot into"),
        (
            "nothing would finalize it",
            ": >/run/ostree/staged-deployment",
            "systemctl start ostree-finalize-staged.service",
        ),
    ] {
        for tool in ["bootc", "rpm-ostree"] {
            fs::write(sandbox.path(&format!("does/{tool}")), does).unwrap();
        }
        let (code, log) = boot(&sandbox, "root=/dev/vda");
        assert_eq!(code, Some(1), "{what}: {log}");
        assert!(log.contains(want) && !log.contains("reboot\n"), "{what}: {log}");
        assert!(sandbox.path("var/lib/mosb/first-boot/image").exists(), "{what}");
    }
}

/// The files of an image in a registry with credentials and a private CA.
fn given(registry: &Registry, digest: &str) -> TempDir {
    let ca = fs::read_to_string(registry.certificates().join("ca.crt")).unwrap();
    let logins = fs::read_to_string(registry.authfile()).unwrap();
    first_boot_files("os/worker", digest, registry.address(), &ca, &logins)
}

/// A machine in a namespace with its own `/run` and `/var/lib`. Its `bootc` is the importer that
/// bootc and rpm-ostree contain. The shell stands in for systemd and does what the file of the unit
/// has; with `INVOCATION_ID`, the importer runs skopeo as under systemd: as nobody, without `HOME`.
const MACHINE: &str = r#"
mount -t tmpfs -o mode=0755 tmpfs /run
mount -t tmpfs -o mode=0755 tmpfs /var/lib
cp -R "$1" /var/lib/mosb
chmod 0600 /var/lib/mosb/first-boot/auth.json
chmod 0700 /var/lib/mosb/first-boot
mkdir /run/repo /run/changes /run/work
mount -t overlay -o "lowerdir=$2,upperdir=/run/changes,workdir=/run/work" overlay /run/repo
for tool in systemctl sleep rpm-ostree; do printf '#!/bin/sh\ntest "${0##*/}" != rpm-ostree\n' >/run/$tool; done
printf '#!/bin/sh\nset -e\n%s container image pull --quiet /run/repo "ostree-unverified-registry:$2"\n: >/run/ostree/staged-deployment\n' "$3" >/run/bootc
chmod +x /run/bootc /run/systemctl /run/sleep /run/rpm-ostree
cd /var/lib/mosb/first-boot
eval "$4"
property() { sed -n "s/^$1=-*//p" "../mosb-first-boot.service"; }
set -a
. "$(property EnvironmentFile)"
set +a
export PATH=/run:$PATH INVOCATION_ID=1
eval "$(property ExecStartPre)"
paths=$(property BindReadOnlyPaths)
if [ -e "${paths%%:*}" ]; then mount --bind "${paths%%:*}" "${paths#*:}"; fi
eval "exec $(property ExecStart)""#;

fn rebase(given: &TempDir, repository: &Path, before: &str) -> Finished {
    let mut unshare = limited("unshare");
    // Process 1 of the machine is one that may be looked into.
    unshare.args(["--pid", "--fork", "--mount-proc"]);
    let mut command = in_private_mounts(unshare, MACHINE);
    command.args([given.path(), repository, &ostree_ext_cli()]).arg(before);
    finish(&mut command, &[])
}

/// The importer pulls with the given mirror, CA and credentials, and fails without each of them.
#[test]
fn the_real_importer_reads_what_it_is_handed() {
    let registry = Registry::start(Server::Debian, Access::Basic, Transport::Https);
    let layout = ostree_base();
    registry.push(&layout, "base", "os/worker:1");
    let given = given(&registry, &layout.digest("base"));
    let repository = layout.directory.parent().unwrap().join("repo");
    let finished = rebase(&given, &repository, "true");
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    for (what, before) in [
        ("no mirror", "rm -r containers/registries.conf.d"),
        ("no CA", "rm -r containers/certs.d"),
        ("no login", "rm auth.json"),
        ("nothing in place of /etc/containers", "sed -i '/^Bind/d' ../mosb-first-boot.service"),
        ("no copy of /etc/containers", "sed -i '/^ExecStartPre/d' ../mosb-first-boot.service"),
    ] {
        let finished = rebase(&given, &repository, before);
        assert_eq!(finished.code(), Some(1), "{what}: {finished:?}");
        assert!(finished.stderr.contains("neither bootc nor rpm-ostree"), "{what}: {finished:?}");
    }
}
