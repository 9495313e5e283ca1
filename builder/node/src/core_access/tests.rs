//! Targets with other keys and passwords on a machine that is a directory.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use mosb_api::rollout::NodeTarget;
use mosb_image::Digest;

use super::*;
use crate::machine_record::MachineRecord;

const SHADOW: &str = "root:!:1::::::\ncore:*:2:0:99999:7:::\nx:$y$other:3::::::\n";
const KEYS: &str = "var/home/core/.ssh/authorized_keys.d/ignition";

fn machine() -> (tempfile::TempDir, HostRoot) {
    let dir = tempfile::tempdir().unwrap();
    let stat = dir.path().metadata().unwrap();
    let root = HostRoot::open(dir.path()).unwrap();
    std::fs::create_dir_all(dir.path().join("var/home/core")).unwrap();
    let passwd = format!("core:x:{}:{}::/var/home/core:/bin/sh\n", stat.uid(), stat.gid());
    root.write("/etc/passwd", passwd.as_bytes(), 0o644).unwrap();
    root.write("/etc/shadow", SHADOW.as_bytes(), 0o600).unwrap();
    (dir, root)
}

fn target(name: &str) -> NodeTarget {
    let image = format!("reg.example/os@{}", Digest::of(name.as_bytes()));
    serde_json::from_value(serde_json::json!({ "image": image })).unwrap()
}

fn part(keys: &[&str], hash: Option<&str>) -> MachinePart {
    MachinePart {
        ssh_authorized_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        password_hash: hash.map(str::to_owned),
        ..MachinePart::default()
    }
}

/// What `apply` does, for as many writes as are allowed. Returns how many there were.
async fn bring(root: &HostRoot, name: &str, part: &MachinePart, writes: usize) -> usize {
    bring_part(root, name, Some(part), writes).await
}

async fn bring_part(
    root: &HostRoot,
    name: &str,
    part: Option<&MachinePart>,
    writes: usize,
) -> usize {
    let mut done = 0;
    let record = MachineRecord::read(root).unwrap();
    let steps = missing(root, part, &record.set).unwrap();
    let begun = record.begun(&target(name), part, &[]);
    if done == writes {
        return done;
    }
    begun.write(root, &record).unwrap();
    done += 1;
    for step in steps {
        if done == writes {
            return done;
        }
        carry_out_in(root, &step).await.unwrap();
        done += 1;
    }
    if done == writes {
        return done;
    }
    begun.completed(&target(name), part).write(root, &begun).unwrap();
    done + 1
}

async fn all(root: &HostRoot, name: &str, part: &MachinePart) {
    bring(root, name, part, usize::MAX).await;
    let record = MachineRecord::read(root).unwrap();
    assert_eq!(missing(root, Some(part), &record.set).unwrap(), [], "{name}");
}

/// All files with their content and mode.
fn files(dir: &Path) -> BTreeMap<String, (String, u32)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            found.insert(name, (text, path.metadata().unwrap().mode() & 0o7777));
        }
    }
    // The lock of the password file, which nobody removes.
    found.remove("etc/.pwd.lock");
    found
}

fn shadow(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("etc/shadow")).unwrap()
}

#[tokio::test]
async fn keys_and_password_come_change_and_go() {
    let (dir, root) = machine();
    let keys = || std::fs::read_to_string(dir.path().join(KEYS)).ok();
    let with = |hash: &str| SHADOW.replace("core:*", &format!("core:{hash}"));
    all(&root, "a", &part(&["one", "two\n"], Some("$y$a"))).await;
    assert_eq!((keys().as_deref(), shadow(dir.path())), (Some("one\ntwo\n"), with("$y$a")));
    all(&root, "b", &part(&["two"], Some("$y$b"))).await;
    assert_eq!((keys().as_deref(), shadow(dir.path())), (Some("two\n"), with("$y$b")));
    all(&root, "none", &part(&[], None)).await;
    assert_eq!((keys(), shadow(dir.path())), (None, SHADOW.to_owned()));
    all(&root, "a", &part(&["one"], Some("$y$a"))).await;
    assert_eq!((keys().as_deref(), shadow(dir.path())), (Some("one\n"), with("$y$a")));
}

#[tokio::test]
async fn edits_stay_if_the_config_has_none() {
    let (dir, root) = machine();
    let own = dir.path().join(KEYS);
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::write(&own, "mine").unwrap();
    all(&root, "none", &part(&[], None)).await;
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "mine");
    all(&root, "a", &part(&["one"], Some("$y$a"))).await;
    let changed = shadow(dir.path()).replace("$y$a", "$y$mine");
    std::fs::write(dir.path().join("etc/shadow"), &changed).unwrap();
    all(&root, "none", &part(&[], None)).await;
    assert_eq!(shadow(dir.path()), changed);
    assert!(!own.exists(), "the file of a config goes with it");
}

/// Such as the stock image: nobody is locked out, and a later target still knows what was set.
#[tokio::test]
async fn targets_without_a_part_change_nothing() {
    let (dir, root) = machine();
    all(&root, "a", &part(&["one"], Some("$y$a"))).await;
    let before = files(dir.path());
    bring_part(&root, "stock", None, usize::MAX).await;
    let after = files(dir.path());
    for file in [KEYS, "etc/shadow"] {
        assert_eq!(after[file], before[file], "{file}");
    }
    let record = MachineRecord::read(&root).unwrap();
    assert_eq!(record.target, Some(target("stock")));
    assert_eq!(missing(&root, None, &record.set).unwrap(), []);
    all(&root, "none", &part(&[], None)).await;
    assert_eq!((files(dir.path()).get(KEYS), shadow(dir.path())), (None, SHADOW.to_owned()));
}

#[test]
fn missing_core_matters_only_if_needed() {
    let (_dir, root) = machine();
    root.write("/etc/passwd", b"root:x:0:0::/root:/bin/sh\n", 0o644).unwrap();
    let none = SetByMosb::default();
    let set = SetByMosb { ssh_keys: true, password_hashes: vec!["x".to_owned()], ..none.clone() };
    assert!(missing(&root, Some(&part(&[], None)), &none).unwrap().is_empty());
    assert!(missing(&root, Some(&part(&[], None)), &set).unwrap().is_empty());
    for part in [part(&["one"], None), part(&[], Some("x"))] {
        assert!(matches!(missing(&root, Some(&part), &none), Err(Error::NoCore)));
    }
}

/// From each former part to each next one, killed before each write, with what a killed write
/// leaves.
#[tokio::test]
async fn killed_and_run_again_ends_the_same() {
    let parts = [
        part(&[], None),
        part(&["one"], Some("$y$a")),
        part(&["two"], None),
        part(&["one"], Some("$y$c")),
        part(&[], Some("$y$b")),
    ];
    for (from, before) in parts.iter().enumerate() {
        for (to, after) in parts.iter().enumerate() {
            let (dir, root) = machine();
            all(&root, "before", before).await;
            let writes = bring(&root, "after", after, usize::MAX).await;
            let want = files(dir.path());
            for killed in 0..writes {
                let what = format!("{from} to {to}, killed after {killed} of {writes}");
                let (dir, root) = machine();
                all(&root, "before", before).await;
                assert_eq!(bring(&root, "after", after, killed).await, killed, "{what}");
                leave_halves(dir.path());
                all(&root, "after", after).await;
                clear_halves(dir.path());
                assert_eq!(files(dir.path()), want, "{what}");
                // And if another target comes instead, nothing of it is left.
                let (dir, root) = machine();
                all(&root, "before", before).await;
                bring(&root, "after", after, killed).await;
                all(&root, "none", &part(&[], None)).await;
                let found = files(dir.path());
                assert!(!found.contains_key(KEYS), "{what}");
                assert_eq!(shadow(dir.path()), SHADOW, "{what}");
            }
        }
    }
}

/// What a write that was killed leaves: half a file under another name.
fn leave_halves(dir: &Path) {
    std::fs::write(dir.join("etc/.shadow.mosb-new"), "half").unwrap();
    let keys = dir.join("var/home/core/.ssh/authorized_keys.d");
    if keys.is_dir() {
        std::fs::write(keys.join(".ignition.mosb-new"), "half").unwrap();
    }
}

/// A write that is not repeated does not remove them; nothing reads them.
fn clear_halves(dir: &Path) {
    let halves =
        ["etc/.shadow.mosb-new", "var/home/core/.ssh/authorized_keys.d/.ignition.mosb-new"];
    for half in halves.map(|half| dir.join(half)).iter().filter(|half| half.exists()) {
        std::fs::remove_file(half).unwrap();
    }
}

#[test]
fn the_first_core_with_a_home_counts() {
    let core = |home: &str| Some(CoreUser { uid: 1000, gid: 1001, home: home.to_owned() });
    for (what, etc, image, want) in [
        ("no file", None, None, None),
        ("others", Some("root:x:0:0::/root:/bin/sh\nx:core:1:1::/x:\n"), None, None),
        (
            "core",
            Some("a:x:1:1::/:\ncore:x:1000:1001:Core:/var/home/core:/bin/bash\n"),
            None,
            core("/var/home/core"),
        ),
        (
            "of the image",
            Some("root:x:0:0::/root:\n"),
            Some("core:x:1000:1001::/home/core:"),
            core("/home/core"),
        ),
        ("longer names", Some("core2:x:1:1::/h:\n"), None, None),
        ("up", Some("core:x:1000:1001::/home/../etc:\n"), None, None),
        ("relative", Some("core:x:1000:1001::home:\n"), None, None),
        ("the root", Some("core:x:1000:1001::/:\n"), None, None),
        ("no number", Some("core:x::1001::/home/core:\n"), None, None),
        ("too short", Some("core:x:1000\n"), None, None),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        for (path, text) in PASSWD.into_iter().zip([etc, image]) {
            if let Some(text) = text {
                root.write(path, text.as_bytes(), 0o644).unwrap();
            }
        }
        assert_eq!(CoreUser::find(&root).unwrap(), want, "{what}");
    }
}
