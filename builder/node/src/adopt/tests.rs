//! A machine in a folder: what is adopted of it, and what the real shell makes of the list.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::*;

const UNIT: &str = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
const WANTS: &str = "systemd/system/multi-user.target.wants";

fn config() -> Value {
    let file = |path: &str, mode: u32, content: &str| json!({ "path": path, "mode": mode, "contents": { "source": format!("data:,{content}") } });
    json!({
        "ignition": { "version": "3.4.0" },
        "storage": {
            "directories": [{ "path": "/etc/made", "mode": 0o700 }],
            "files": [
                file("/etc/motd", 0o600, "config"), file("/etc/edited", 0o644, "config"),
                file("/etc/made/file", 0o644, "config"), file("/etc/mixed/file", 0o644, "config"),
                file("/etc/a b/ c\\x", 0o644, "config"), file("/etc/-n", 0o644, "config"),
                file("/usr/local/x", 0o644, "config"),
            ],
            "links": [{ "path": "/etc/link", "target": "motd" }],
        },
        "systemd": { "units": [
            { "name": "own.service", "enabled": true, "contents": UNIT },
            { "name": "base.service", "enabled": false },
        ] },
    })
}

fn write(path: &Path, content: &str, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A machine that was installed from [`config`], with one edited file, one of its own in a directory
/// of the config, and an image that has a file and an enabled unit.
fn machine() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    write(&at("run/ostree-booted"), "", 0o644);
    write(&at("run/ostree/staged-deployment"), "", 0o644);
    write(&at("usr/bin/systemctl"), "", 0o755);
    write(&at("usr/lib/systemd/libsystemd-shared-257.so"), "", 0o644);
    write(&at("usr/lib/systemd/system/base.service"), UNIT, 0o644);
    for etc in ["etc", "usr/etc"] {
        write(&at(&format!("{etc}/motd")), "image", 0o644);
        write(&at(&format!("{etc}/same")), "image", 0o644);
    }
    fs::create_dir_all(at(&format!("usr/etc/{WANTS}"))).unwrap();
    let base = format!("usr/etc/{WANTS}/base.service");
    symlink("/usr/lib/systemd/system/base.service", at(&base)).unwrap();
    for (path, content, mode) in [
        ("motd", "config", 0o600),
        ("edited", "mine", 0o644),
        ("made/file", "config", 0o644),
        ("mixed/file", "config", 0o644),
        ("mixed/mine", "mine", 0o644),
        ("a b/ c\\x", "config", 0o644),
        ("-n", "config", 0o644),
        ("systemd/system/own.service", UNIT, 0o644),
        (
            "systemd/system-preset/20-ignition.preset",
            "enable own.service\ndisable base.service\n",
            0o644,
        ),
    ] {
        write(&at("etc").join(path), content, mode);
    }
    for folder in ["made", "mixed", "a b", "systemd", "systemd/system", "systemd/system-preset"] {
        let mode = if folder == "made" { 0o700 } else { 0o755 };
        fs::set_permissions(at("etc").join(folder), Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir_all(at(&format!("etc/{WANTS}"))).unwrap();
    fs::set_permissions(at(&format!("etc/{WANTS}")), Permissions::from_mode(0o755)).unwrap();
    symlink("/etc/systemd/system/own.service", at(&format!("etc/{WANTS}/own.service"))).unwrap();
    symlink("motd", at("etc/link")).unwrap();
    dir
}

fn adopted(dir: &Path) -> (Adoption, Vec<AdoptedEntry>) {
    let config = MachineConfig {
        name: "rendered".to_owned(),
        source: "file".to_owned(),
        ignition: config(),
    };
    of_root(&HostRoot::open(dir).unwrap(), &config).unwrap()
}

/// The program at the end of a boot.
fn composing(dir: &Path, entries: &[AdoptedEntry]) -> Command {
    let (list, program) = (dir.join("list"), dir.join("compose.sh"));
    fs::write(&list, list::text(entries)).unwrap();
    fs::write(&program, list::COMPOSE).unwrap();
    let root = fs::canonicalize(dir).unwrap();
    let mut command = Command::new("sh");
    command.arg(program).arg(root.join("etc")).arg(list).arg(&root);
    command
}

/// Runs the program at the end of a boot; what it prints.
fn compose(dir: &Path, entries: &[AdoptedEntry]) -> String {
    let ran = composing(dir, entries).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "");
    String::from_utf8(ran.stdout).unwrap()
}

/// Everything below a directory: type, mode, path, content.
fn listing(top: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let found = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(top).unwrap().display().to_string();
            let mode = found.permissions().mode() & 0o7777;
            if found.is_symlink() {
                lines.push(format!("{name} -> {}", fs::read_link(&path).unwrap().display()));
            } else if found.is_dir() {
                lines.push(format!("{name}/ {mode:o}"));
                folders.push(path);
            } else {
                lines.push(format!("{name} {mode:o} {}", fs::read_to_string(&path).unwrap()));
            }
        }
    }
    lines.sort();
    lines
}

#[test]
fn leftovers_are_adopted_and_edits_stay() {
    let dir = machine();
    let (adoption, _) = adopted(dir.path());
    let etc = |paths: &[&str]| paths.iter().map(|path| format!("/etc/{path}")).collect::<Vec<_>>();
    let want = etc(&[
        "-n",
        "a b",
        "a b/ c\\x",
        "link",
        "made",
        "made/file",
        "mixed",
        "mixed/file",
        "motd",
        "systemd/system-preset",
        "systemd/system-preset/20-ignition.preset",
        "systemd/system/multi-user.target.wants/base.service",
        "systemd/system/multi-user.target.wants/own.service",
        "systemd/system/own.service",
    ]);
    assert_eq!(adoption.adopted, want);
    let kept = KeptPath { path: "/etc/edited".to_owned(), differences: vec![Difference::Content] };
    assert_eq!((adoption.kept, adoption.undecided, adoption.omitted), (vec![kept], vec![], 0));
}

#[test]
fn a_report_counts_also_what_is_not_listed() {
    let dir = machine();
    let names = (0..=MAX_LISTED).map(|number| format!("/etc/many/{number}"));
    let files = names.map(|path| {
        write(&dir.path().join(&path[1..]), "edited", 0o644);
        json!({ "path": path, "mode": 0o644, "contents": { "source": "data:,x" } })
    });
    let mut config = config();
    config["storage"]["files"].as_array_mut().unwrap().extend(files);
    let record = json!({ "metadata": { "name": "rendered" }, "spec": { "config": config } });
    write(&dir.path().join(&CURRENT_CONFIG[1..]), &record.to_string(), 0o600);
    let report = etc_report(&HostRoot::open(dir.path()).unwrap()).unwrap();
    let (others, _) = adopted(dir.path());
    // The directory of these files, and the record itself, can be adopted.
    assert_eq!(report.adoptable.unwrap().count, others.adopted.len() + 2);
    assert_eq!(report.kept.unwrap().count, others.kept.len() + MAX_LISTED + 1);
}

#[test]
fn the_copy_has_adopted_paths_from_the_image() {
    let dir = machine();
    let before = listing(&dir.path().join("etc"));
    let (_, entries) = adopted(dir.path());
    assert_eq!(compose(dir.path(), &entries), "");
    let copy = listing(&dir.path().join("run/mosb-adopt/etc"));
    assert_eq!(
        copy,
        [
            "edited 644 mine",
            "mixed/ 755",
            "mixed/mine 644 mine",
            "motd 644 image",
            "same 644 image",
            "systemd/ 755",
            "systemd/system/ 755",
            &format!("{WANTS}/ 755"),
            &format!("{WANTS}/base.service -> /usr/lib/systemd/system/base.service"),
        ]
    );
    assert_eq!(listing(&dir.path().join("etc")), before, "the machine's own stays");
    let mode = fs::metadata(dir.path().join("run/mosb-adopt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
    // Another time is the same.
    assert_eq!(compose(dir.path(), &entries), "");
    assert_eq!(listing(&dir.path().join("run/mosb-adopt/etc")), copy);
    // What is too large for the memory is not copied.
    let ran = composing(dir.path(), &entries).arg("1024").output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    write(&dir.path().join("etc/large"), &"x".repeat(1 << 21), 0o644);
    let ran = composing(dir.path(), &entries).arg("1024").output().unwrap();
    let text = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success() && text.contains("at most 1024 are copied"), "{text}");
    assert!(!dir.path().join("run/mosb-adopt").exists());
    // Without anything staged there is no copy.
    fs::remove_file(dir.path().join("run/ostree/staged-deployment")).unwrap();
    assert_eq!(compose(dir.path(), &entries), "");
    assert!(!dir.path().join("run/mosb-adopt").exists());
}

#[test]
fn what_changes_after_it_was_adopted_stays() {
    let dir = machine();
    let (_, entries) = adopted(dir.path());
    let etc = dir.path().join("etc");
    fs::write(etc.join("motd"), "edited").unwrap();
    fs::set_permissions(etc.join("-n"), Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(etc.join("link")).unwrap();
    symlink("mixed/mine", etc.join("link")).unwrap();
    // A link in place of a directory leads out of /etc.
    let outside = dir.path().join("outside");
    write(&outside.join("file"), "config", 0o644);
    fs::remove_dir_all(etc.join("made")).unwrap();
    symlink(&outside, etc.join("made")).unwrap();
    let said = compose(dir.path(), &entries);
    let want = [
        ("-n", "it was changed after it was adopted"),
        ("link", "it was changed after it was adopted"),
        ("made", "it was changed after it was adopted"),
        ("made/file", "it is not where it was"),
        ("motd", "it was changed after it was adopted"),
    ];
    let want = want.map(|(path, why)| format!("mosb: /etc/{path}: {why}, so it stays as it is\n"));
    assert_eq!(said, want.concat());
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "config");
    let copy = listing(&dir.path().join("run/mosb-adopt/etc"));
    for line in ["motd 600 edited", "-n 600 config", "link -> mixed/mine"] {
        assert!(copy.iter().any(|found| found == line), "{line}: {copy:?}");
    }
}
