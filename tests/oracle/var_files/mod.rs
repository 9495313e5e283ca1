//! The program of an image that brings files below `/var` to a machine, run by real shells in a folder
//! that stands in for a machine's root.

mod killed;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use mosb_api::{BuildOn, RenderedConfig};
use mosb_image::Digest;
use mosb_image::overlay::{LayerEntry, Node};
use mosb_image::tree::{BaseTree, OwnedEntry};
use mosb_plan::plan::{Base, BaseName, BuildRequest, Draft};
use mosb_tests::buildah_fixture::NAME;
use mosb_tests::{Kind, Snapshot};

const RECORD: &str = "var/lib/mosb/var-files";
const SHELLS: [&[&str]; 4] = [&["sh"], &["dash"], &["bash"], &["busybox", "sh"]];

/// What a direct build of this config has below `/usr/lib/mosb`.
fn image(storage: &Value) -> Vec<LayerEntry> {
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "metadata": { "name": NAME },
        "spec": { "config": { "ignition": { "version": "3.6.0" }, "storage": storage } },
    });
    let image = json!({ "os": "linux", "architecture": "amd64", "config": {},
        "rootfs": { "type": "layers", "diff_ids": [Digest::of(b"layer")] } });
    let manifest = json!({ "config": {}, "layers": [{}] }).to_string();
    let name = BaseName::from_layout(Digest::of(manifest.as_bytes()));
    let image = image.to_string();
    let base = Base::new(name, "oci:dir".to_owned(), None, manifest.as_bytes(), image.as_bytes());
    let request = BuildRequest {
        build_on: BuildOn::EveryConfig,
        ..BuildRequest::new(RenderedConfig::from_value(config).unwrap(), base.unwrap())
    };
    let entry = |path: &str, entry| (path.as_bytes().to_vec(), entry);
    let tree = BaseTree::from_entries([
        entry("usr/local", OwnedEntry::symlink("../var/usrlocal")),
        entry("var/usrlocal", OwnedEntry::directory(0o755)),
        entry("opt", OwnedEntry::symlink("var/opt")),
        entry("var/opt", OwnedEntry::directory(0o755)),
    ]);
    let plan = Draft::new(request).unwrap().finish(&tree).unwrap();
    let is_ours = |entry: &LayerEntry| entry.path().relative().starts_with("usr/lib/mosb");
    plan.layer.into_iter().filter(is_ours).collect()
}

fn file(path: &str, content: &str, mode: u32) -> Value {
    json!({ "path": path, "mode": mode, "contents": { "source": format!("data:,{content}") } })
}

struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(machine.at("var/usrlocal/bin")).unwrap();
        machine
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// The machine has another image.
    fn install(&self, storage: &Value) {
        if self.at("usr").exists() {
            fs::remove_dir_all(self.at("usr")).unwrap();
        }
        fs::create_dir_all(self.at("usr/lib")).unwrap();
        for entry in image(storage) {
            let LayerEntry::Put(path, node) = entry else {
                panic!("{entry:?}");
            };
            let at = self.at(path.relative());
            let mode = match node {
                Node::Directory { meta } => {
                    fs::create_dir(&at).unwrap();
                    meta.mode
                }
                Node::File { meta, content } => {
                    fs::write(&at, content).unwrap();
                    meta.mode
                }
                node => panic!("{node:?}"),
            };
            fs::set_permissions(&at, Permissions::from_mode(mode)).unwrap();
        }
    }

    fn command(&self, shell: &[&str]) -> Command {
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).arg(self.at("usr/lib/mosb/var-files/apply")).arg(self.root());
        command.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
        command
    }

    /// Boots, and returns the lines in the journal.
    fn boot(&self, shell: &[&str]) -> Vec<String> {
        let output = self.command(shell).output().unwrap();
        let lines = lines(&output);
        let has_failed = lines.iter().any(|line| line.starts_with("<3>"));
        assert_eq!(output.status.code(), Some(i32::from(has_failed)), "{output:?}");
        assert_eq!(output.stdout, b"", "{output:?}");
        lines
    }

    fn update(&self, shell: &[&str], storage: &Value) -> Vec<String> {
        self.install(storage);
        self.boot(shell)
    }

    /// `/var` with the record.
    fn var(&self) -> Snapshot {
        Snapshot::of(&self.at("var"))
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    fn mode(&self, path: &str) -> (u32, u32, u32) {
        let entry = self.var().0[path.strip_prefix("var/").unwrap()].clone();
        (entry.mode, entry.uid, entry.gid)
    }
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect()
}

const TOOL: &str = "var/usrlocal/bin/tool";

fn a() -> Value {
    json!({
        "files": [file("/usr/local/bin/tool", "one", 0o755), file("/opt/a b/x", "one", 0o600)],
        "directories": [{ "path": "/opt/dir", "mode": 0o700, "user": { "id": 7 } }],
        "links": [{ "path": "/opt/link", "target": "../usr local/$(x)" }],
    })
}

fn b() -> Value {
    json!({
        "files": [file("/usr/local/bin/tool", "two", 0o750), file("/opt/new/deep/x", "two", 0o644)],
        "directories": [{ "path": "/opt/dir", "mode": 0o1755, "user": { "id": 0 }, "group": { "id": 8 } }],
        "links": [{ "path": "/opt/link", "target": "b" }],
    })
}

fn c() -> Value {
    json!({ "directories": [{ "path": "/opt/other" }], "files": [file("/opt/link", "three", 0o644)] })
}

#[test]
fn files_come_change_and_go_with_the_image() {
    for shell in SHELLS {
        let machine = Machine::new();
        let empty = machine.var();
        assert_eq!(machine.update(shell, &a()), [""; 0]);
        let first = machine.var();
        assert_eq!(machine.read(TOOL).unwrap(), "one");
        assert_eq!(machine.mode(TOOL), (0o755, 0, 0));
        assert_eq!(machine.mode("var/opt/dir"), (0o700, 7, 0));
        assert_eq!(machine.mode("var/opt/a b/x"), (0o600, 0, 0));
        assert_eq!(machine.mode("var/opt/a b"), (0o755, 0, 0));
        let target = "../usr local/$(x)".to_owned();
        assert_eq!(first.0["opt/link"].kind, Kind::Link { target });
        assert_eq!(machine.boot(shell), [""; 0]);
        machine.var().assert_same(&first, "another boot changes nothing");

        assert_eq!(machine.update(shell, &b()), [""; 0]);
        let second = machine.var();
        assert_eq!(machine.read(TOOL).unwrap(), "two");
        assert_eq!(machine.mode(TOOL), (0o750, 0, 0));
        assert_eq!(machine.mode("var/opt/dir"), (0o1755, 0, 8));
        assert_eq!(second.0["opt/link"].kind, Kind::Link { target: "b".to_owned() });
        assert!(machine.read("var/opt/new/deep/x").is_some());
        assert!(!second.0.contains_key("opt/a b"), "with the directory that was made for it");

        assert_eq!(machine.update(shell, &c()), [""; 0]);
        let mut third = machine.var();
        assert_eq!(machine.read("var/opt/link").unwrap(), "three");
        third.0.retain(|path, _| !["opt", "lib"].iter().any(|top| path.starts_with(top)));
        third.assert_same(&empty, "nothing else is left");

        assert_eq!(machine.update(shell, &json!({})), [""; 0]);
        let mut last = machine.var();
        assert_eq!(fs::read(machine.at(RECORD)).unwrap().trim_ascii(), b"");
        last.0.retain(|path, _| !path.starts_with("lib"));
        last.assert_same(&empty, "the config has nothing below /var");
        let left = machine.var();
        assert_eq!(machine.boot(shell), [""; 0]);
        machine.var().assert_same(&left, "another boot changes nothing");

        assert_eq!(machine.update(shell, &a()), [""; 0]);
        machine.var().assert_same(&first, "back to the first image");
    }
}

#[test]
fn what_a_person_changed_stays() {
    let machine = Machine::new();
    let shell = SHELLS[0];
    machine.update(shell, &a());
    fs::write(machine.at(TOOL), "mine").unwrap();
    fs::write(machine.at("var/opt/dir/mine"), "mine").unwrap();
    fs::set_permissions(machine.at("var/opt/a b/x"), Permissions::from_mode(0o640)).unwrap();
    let stays = "it is not as mosb wrote it, so it stays";
    let tool = format!("<4>mosb: /{TOOL}: {stays} as it is");
    assert_eq!(machine.boot(shell).len(), 2);
    let other = "<4>mosb: /var/opt/a b/x: ".to_owned();
    assert_eq!(
        machine.update(shell, &b()),
        [tool.clone(), format!("{other}{stays}, although the config has it no more"), "<4>mosb: /var/opt/a b: it is not empty, so it stays, although mosb made it and the config needs it no more".to_owned()]
    );
    assert_eq!(machine.read(TOOL).unwrap(), "mine");
    assert_eq!(machine.mode("var/opt/dir"), (0o1755, 0, 8));
    // Put back as mosb wrote it last, it follows again.
    fs::write(machine.at(TOOL), "one").unwrap();
    assert_eq!(machine.boot(shell), [""; 0]);
    assert_eq!(machine.read(TOOL).unwrap(), "two");
    // A directory that is in use, and a file that is a directory.
    fs::remove_file(machine.at(TOOL)).unwrap();
    fs::create_dir_all(machine.at(TOOL).join("x")).unwrap();
    let lines = machine.update(shell, &c());
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(machine.at("var/opt/dir/mine").exists() && machine.at(TOOL).join("x").is_dir());
    assert_eq!(machine.read("var/opt/link").unwrap(), "three");
    assert_eq!(machine.boot(shell), [""; 0], "it is the machine's now");
}

#[test]
fn nothing_is_written_for_nothing() {
    for shell in SHELLS {
        let machine = Machine::new();
        let empty = machine.var();
        assert_eq!(machine.update(shell, &json!({})), [""; 0]);
        machine.var().assert_same(&empty, "no image brought anything");
    }
}

#[test]
fn an_equal_file_is_taken_over() {
    let machine = Machine::new();
    fs::write(machine.at(TOOL), "one").unwrap();
    fs::set_permissions(machine.at(TOOL), Permissions::from_mode(0o755)).unwrap();
    assert_eq!(machine.update(SHELLS[0], &a()), [""; 0]);
    assert_eq!(machine.update(SHELLS[0], &b()), [""; 0]);
    assert_eq!(machine.read(TOOL).unwrap(), "two");

    let machine = Machine::new();
    fs::write(machine.at(TOOL), "another").unwrap();
    assert_eq!(machine.update(SHELLS[0], &a()).len(), 1);
    assert_eq!(machine.read(TOOL).unwrap(), "another");
}

#[test]
fn a_parent_never_leads_out_of_var() {
    for shell in SHELLS {
        let machine = Machine::new();
        for folder in ["outside", "var/data"] {
            fs::create_dir(machine.at(folder)).unwrap();
        }
        symlink("../outside", machine.at("var/opt")).unwrap();
        fs::remove_dir_all(machine.at("var/usrlocal")).unwrap();
        symlink("data", machine.at("var/usrlocal")).unwrap();
        let lines = machine.update(shell, &a());
        let refused = "/var/opt is a link that leads out of /var, so nothing is written there";
        let want =
            ["a b/x", "dir", "link"].map(|path| format!("<3>mosb: /var/opt/{path}: {refused}"));
        assert_eq!(lines, want);
        assert_eq!(fs::read_dir(machine.at("outside")).unwrap().count(), 0);
        assert_eq!(machine.read("var/data/bin/tool").unwrap(), "one");
        // Once the link is gone, everything arrives.
        fs::remove_file(machine.at("var/opt")).unwrap();
        assert_eq!(machine.boot(shell), [""; 0]);
        assert!(machine.read("var/opt/a b/x").is_some());
    }
}

/// A user links from a directory of theirs to one of the machine's, after mosb wrote there once.
#[test]
fn links_of_users_are_not_followed() {
    const USER: u32 = 1000;
    let storage = |owner: u32| json!({ "directories": [{ "path": "/var/home/user/data/kubelet", "mode": 0o755, "user": { "id": owner } }] });
    for (what, owner, mode, link_owner, target, follows) in [
        ("root's link in root's directory", 0, 0o755, 0, "../../lib", true),
        ("the way up and down again", 0, 0o755, 0, "../../../var/lib", true),
        ("an absolute link", 0, 0o755, 0, "/var/lib", true),
        ("a link of the user", 0, 0o755, USER, "../../lib", false),
        ("a directory of the user", USER, 0o755, 0, "../../lib", false),
        ("a directory of a group", 0, 0o775, 0, "../../lib", false),
        ("a directory of all", 0, 0o1777, 0, "../../lib", false),
        ("root's link to one of the user", 0, 0o755, 0, "../../users/link", false),
        ("a loop", 0, 0o755, 0, "data", false),
    ] {
        for shell in SHELLS {
            let machine = Machine::new();
            machine.update(shell, &storage(0));
            fs::create_dir_all(machine.at("var/lib/kubelet")).unwrap();
            fs::create_dir(machine.at("var/users")).unwrap();
            symlink("../lib", machine.at("var/users/link")).unwrap();
            lchown(machine.at("var/users/link"), Some(USER), None).unwrap();
            let (home, data) = (machine.at("var/home/user"), machine.at("var/home/user/data"));
            fs::remove_dir_all(&data).unwrap();
            symlink(target, &data).unwrap();
            lchown(&data, Some(link_owner), None).unwrap();
            chown(&home, Some(owner), None).unwrap();
            fs::set_permissions(&home, Permissions::from_mode(mode)).unwrap();

            let lines = machine.update(shell, &storage(USER));
            let kubelet = machine.mode("var/lib/kubelet");
            assert_eq!(kubelet, (0o755, if follows { USER } else { 0 }, 0), "{what}, {shell:?}");
            let refusals = lines.iter().filter(|line| line.starts_with("<3>")).count();
            assert_eq!(refusals, usize::from(!follows), "{what}: {lines:?}");
            // The config has it no more.
            chown(machine.at("var/lib/kubelet"), Some(USER), None).unwrap();
            let lines = machine.update(shell, &json!({}));
            assert_eq!(machine.at("var/lib/kubelet").exists(), !follows, "{what}, {shell:?}");
            let says = |text: &str| lines.iter().any(|line| line.contains(text));
            assert_eq!(says("so nothing is removed there"), !follows, "{what}: {lines:?}");
            assert!(
                follows || what == "a loop" || says("is not root's, or others may write to"),
                "{what}: {lines:?}"
            );
        }
    }
}

#[test]
fn a_record_that_cant_be_written_changes_nothing() {
    let machine = Machine::new();
    fs::create_dir_all(machine.at(RECORD)).unwrap();
    machine.install(&a());
    let before = machine.var();
    let output = machine.command(SHELLS[0]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!lines(&output).is_empty());
    machine.var().assert_same(&before, "/var");
}

#[test]
fn an_owner_is_set_before_the_mode() {
    let machine = Machine::new();
    let mut storage = a();
    storage["files"][0]["mode"] = json!(0o6755);
    storage["files"][0]["group"] = json!({ "id": 9 });
    machine.install(&storage);
    chown(machine.at("var/usrlocal/bin"), Some(0), Some(8)).unwrap();
    fs::set_permissions(machine.at("var/usrlocal/bin"), Permissions::from_mode(0o2755)).unwrap();
    assert_eq!(machine.boot(SHELLS[0]), [""; 0]);
    assert_eq!(machine.mode(TOOL), (0o6755, 0, 9));
    assert_eq!(machine.boot(SHELLS[0]), [""; 0]);
}
