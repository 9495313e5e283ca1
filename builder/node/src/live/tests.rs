//! A machine in a folder, with a booted deployment and a staged one.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use mosb_image::Digest;
use mosb_plan::plan::live::PULL_SECRET;

use super::live_plan::{LivePlan, Planned, Step};
use super::live_record::LiveRecord;
use crate::host_root::HostRoot;

const BOOT: &str = "00000000-0000-0000-0000-000000000001";
const LATER: &str = "00000000-0000-0000-0000-000000000002";
const DEPLOYMENTS: &str = "sysroot/ostree/deploy/lab/deploy";
const REGISTRIES: &str = "containers/registries.conf";
const POLICY: &str = "containers/policy.json";
const CERT: &str = "containers/certs.d/reg:5000/ca.crt";
const ANCHOR: &str = "pki/ca-trust/source/anchors/ca.pem";

struct Fixture {
    dir: tempfile::TempDir,
    root: HostRoot,
}

/// A path of an image, below its root, and its content; `/` at the end of a path makes a directory.
type Tree<'a> = &'a [(&'a str, &'a str)];

/// What both images have.
const BOTH: Tree<'static> = &[
    ("usr/bin/program", "bytes"),
    ("usr/bin/empty", ""),
    ("usr/share/factory/var/lib/other", "bytes"),
    ("usr/etc/motd", "of the image"),
    ("usr/etc/containers/storage.conf", "s"),
    ("usr/etc/containers/certs.d/", ""),
    ("usr/etc/pki/ca-trust/source/anchors/README", "r"),
];

/// The booted image and the other one, beside [`BOTH`]: a file that changes, one that goes, one that
/// comes with its directory, what is made of a CA, and the config.
const BEFORE: Tree<'static> = &[
    ("usr/etc/containers/registries.conf", "old"),
    ("usr/etc/containers/policy.json", "{}"),
    ("usr/etc/pki/ca-trust/extracted/bundle.pem", "one"),
    ("usr/etc/machine-config-daemon/currentconfig", "config a"),
];
const AFTER: Tree<'static> = &[
    ("usr/etc/containers/registries.conf", "new"),
    ("usr/etc/containers/certs.d/reg:5000/ca.crt", "cert"),
    ("usr/etc/pki/ca-trust/source/anchors/ca.pem", "ca"),
    ("usr/etc/pki/ca-trust/extracted/bundle.pem", "one and ca"),
    ("usr/etc/machine-config-daemon/currentconfig", "config b"),
];

fn digest(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

fn put(path: &Path, content: &str) {
    if path.as_os_str().to_string_lossy().ends_with('/') {
        fs::create_dir_all(path).unwrap();
    } else {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }
}

impl Fixture {
    /// A machine that booted `before`, with `after` staged. Its `/etc` is that of its image.
    fn new(before: Tree<'_>, after: Tree<'_>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        put(&dir.path().join("run/ostree-booted"), "");
        put(&dir.path().join("var/lib/kubelet/"), "");
        put(&dir.path().join("var/lib/mosb/"), "");
        let this = Self { root: HostRoot::open(dir.path()).unwrap(), dir };
        this.deploy("a", before, None);
        this.deploy("b", after, Some("a"));
        symlink(format!("{DEPLOYMENTS}/{}/usr", name("a")), this.at("usr")).unwrap();
        let etc = format!("{DEPLOYMENTS}/{}/etc", name("a"));
        let copied = std::process::Command::new("cp")
            .args(["-a", "--"])
            .args([this.at("usr/etc"), this.at(&etc)])
            .status();
        assert!(copied.unwrap().success());
        symlink(etc, this.at("etc")).unwrap();
        this
    }

    /// As ostree does, with hard links of what an earlier deployment has.
    fn deploy(&self, image: &str, tree: Tree<'_>, earlier: Option<&str>) {
        let folder = |image| self.at(&format!("{DEPLOYMENTS}/{}", name(image)));
        for (path, content) in BOTH.iter().chain(tree) {
            let to = folder(image).join(path);
            let from = earlier.map(|earlier| folder(earlier).join(path));
            match from.filter(|from| fs::read(from).ok().as_deref() == Some(content.as_bytes())) {
                Some(from) if !content.is_empty() => {
                    fs::create_dir_all(to.parent().unwrap()).unwrap();
                    fs::hard_link(from, to).unwrap();
                }
                _ => {
                    // Not through the hard link.
                    drop(fs::remove_file(&to));
                    put(&to, content);
                }
            }
        }
        put(&folder(image).join(".ostree.cfs"), image);
        let origin = format!(
            "[origin]\ncontainer-image-reference=ostree-unverified-registry:reg.example/os@{}\n",
            digest(image)
        );
        put(&self.at(&format!("{DEPLOYMENTS}/{}.origin", name(image))), &origin);
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn plan(&self, boot: &str) -> Planned {
        LivePlan::to_staged(&self.root, digest("b"), boot).unwrap()
    }

    fn live(&self, boot: &str) -> LivePlan {
        live(self.plan(boot))
    }

    /// As `apply --no-reboot`; whether CRI-O is reloaded, if anything is done.
    fn apply(&self, boot: &str) -> Option<bool> {
        self.finish(&self.live(boot))
    }

    /// As `apply` of the booted image.
    fn restore(&self) -> Option<bool> {
        let plan = LivePlan::to_booted(&self.root, digest("a"), BOOT).unwrap()?;
        self.finish(&live(plan))
    }

    fn finish(&self, plan: &LivePlan) -> Option<bool> {
        if !plan.is_needed() {
            return None;
        }
        for step in plan.steps() {
            plan.carry_out(&self.root, &step).unwrap();
        }
        plan.complete(&self.root).unwrap();
        Some(plan.reloads_crio())
    }

    fn record(&self) -> Option<LiveRecord> {
        LiveRecord::of_booted(&self.root).unwrap()
    }

    /// Everything below a directory: path, mode and content.
    fn state(&self, folder: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let mut folders = vec![self.at(folder)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let found = path.symlink_metadata().unwrap();
                let content = if found.is_file() {
                    fs::read_to_string(&path).unwrap()
                } else if found.is_symlink() {
                    fs::read_link(&path).unwrap().display().to_string()
                } else {
                    folders.push(path.clone());
                    String::new()
                };
                let below = path.strip_prefix(self.dir.path()).unwrap();
                lines.push(format!("{} {:o} {content}", below.display(), found.mode()));
            }
        }
        lines.sort();
        lines
    }

    /// `/etc` of the machine.
    fn etc(&self) -> Vec<String> {
        let etc = format!("{DEPLOYMENTS}/{}/etc", name("a"));
        let lines = self.state(&etc).into_iter();
        lines.map(|line| line.replacen(&format!("{etc}/"), "", 1)).collect()
    }

    /// `/etc` of an image, with the record of its config replaced by that of the booted one, as that
    /// one is not live.
    fn image_etc(&self, image: &str) -> Vec<String> {
        let etc = format!("{DEPLOYMENTS}/{}/usr/etc", name(image));
        let lines = self.state(&etc).into_iter();
        lines
            .map(|line| line.replacen(&format!("{etc}/"), "", 1).replace("config b", "config a"))
            .collect()
    }
}

fn name(image: &str) -> String {
    format!("{}.0", digest(image).hex())
}

fn live(planned: Planned) -> LivePlan {
    match planned {
        Planned::Live(plan) => *plan,
        Planned::Reboot(cause) => panic!("{cause}"),
    }
}

#[test]
fn a_machine_gets_the_files_of_the_staged_image_and_gives_them_back() {
    let machine = Fixture::new(BEFORE, AFTER);
    let before = machine.etc();
    assert_eq!(machine.restore(), None, "nothing was written");
    assert_eq!(machine.apply(BOOT), Some(true));
    assert_eq!(machine.etc(), machine.image_etc("b"));
    assert!(machine.record().unwrap().has_all(digest("b"), LATER));
    // Again, also after a power cut: there is nothing to do, and nothing is reloaded.
    assert_eq!(machine.apply(BOOT), None);
    assert_eq!(machine.apply(LATER), None);
    // What it hides of its image is not drift.
    let drift = crate::drift::of_root(&machine.root).unwrap();
    assert_eq!(drift.paths, []);
    assert_eq!(machine.restore(), Some(true));
    assert_eq!(machine.etc(), before);
    assert_eq!(machine.record(), None);
    assert_eq!(machine.restore(), None);
}

/// The machine booted the first image of both.
#[test]
fn one_image_after_the_other_comes_live() {
    let machine = Fixture::new(BEFORE, AFTER);
    let before = machine.etc();
    let third = [
        ("usr/etc/containers/registries.conf", "newer"),
        ("usr/etc/containers/policy.json", "{}"),
        ("usr/etc/pki/ca-trust/extracted/bundle.pem", "one"),
        ("usr/etc/machine-config-daemon/currentconfig", "config a"),
    ];
    machine.deploy("c", &third, Some("a"));
    machine.apply(BOOT);
    let plan = LivePlan::to_staged(&machine.root, digest("c"), BOOT).unwrap();
    assert_eq!(machine.finish(&live(plan)), Some(true));
    assert_eq!(machine.etc(), machine.image_etc("c"));
    let record = machine.record().unwrap();
    assert!(record.has_all(digest("c"), BOOT) && !record.has_all(digest("b"), BOOT));
    assert_eq!(record.files.keys().collect::<Vec<_>>(), [REGISTRIES]);
    assert_eq!(machine.apply(BOOT), Some(true), "back to the second one");
    assert_eq!(machine.etc(), machine.image_etc("b"));
    machine.restore();
    assert_eq!(machine.etc(), before);
}

#[test]
fn only_files_that_crio_reads_once_let_it_reload() {
    let cert: Tree<'_> = &[("usr/etc/containers/certs.d/reg:5000/ca.crt", "cert")];
    let machine = Fixture::new(&[], cert);
    assert_eq!(machine.apply(BOOT), Some(false));
    assert_eq!(machine.etc(), machine.image_etc("b"));
    assert_eq!(machine.restore(), Some(false));
    assert_eq!(machine.etc(), machine.image_etc("a"));
}

#[test]
fn images_that_differ_elsewhere_need_a_reboot_and_nothing_is_written() {
    let cases: [(&str, Tree<'_>, &str); 12] = [
        ("another file of /etc", &[("usr/etc/other", "x")], "/usr/etc/other"),
        ("a file of the image", &[("usr/bin/other", "x")], "/usr/bin/other"),
        ("other bytes of the same length", &[("usr/bin/program", "BYTES")], "/usr/bin/program"),
        ("an empty directory", &[("usr/lib/empty/", "")], "/usr/lib"),
        ("below such a directory", &[("usr/etc/containers/a/b", "x")], "/usr/etc/containers/a"),
        (
            "a directory of registries",
            &[("usr/etc/containers/registries.d/a/b", "x")],
            "/usr/etc/containers/registries.d/a/b",
        ),
        ("outside of /usr", &[("opt/x", "x")], "/opt"),
        (
            "a line break",
            &[("usr/etc/containers/certs.d/a\nb", "x")],
            "/usr/etc/containers/certs.d/a\\nb",
        ),
        (
            "a file in place of a directory",
            &[("usr/etc/containers/registries.conf/x", "x")],
            "/usr/etc/containers/registries.conf/x",
        ),
        ("the first file below /var", &[("usr/lib/mosb/var-files/list", "x")], "/usr/lib"),
        ("no file at all", &[], ""),
        ("the machine's own", &[("etc/x", "x"), ("var/x", "x")], ""),
    ];
    for (what, added, path) in cases {
        let after: Vec<_> = AFTER
            .iter()
            .filter(|(path, _)| {
                !added.iter().any(|(other, _)| other.starts_with(&format!("{path}/")))
            })
            .chain(added)
            .copied()
            .collect();
        let both: Vec<_> = BEFORE.to_vec();
        let machine = Fixture::new(&both, &after);
        let before = machine.state("");
        match machine.plan(BOOT) {
            Planned::Reboot(cause) => {
                assert_eq!(cause, format!("the images differ in {path}"), "{what}")
            }
            Planned::Live(_) => assert_eq!(path, "", "{what}"),
        }
        assert_eq!(machine.state(""), before, "{what}");
    }
}

#[test]
fn modes_attributes_and_types_count() {
    type Change = fn(&Path);
    let cases: [(&str, Change, Option<&str>); 5] = [
        ("a mode", |root| chmod(&root.join("usr/etc/motd"), 0o600), Some("/usr/etc/motd")),
        ("a mode of a directory", |root| chmod(&root.join("usr/bin"), 0o700), Some("/usr/bin")),
        (
            "a mode of a live file",
            |root| chmod(&root.join("usr/etc").join(REGISTRIES), 0o600),
            None,
        ),
        (
            "a link in place of a live file",
            |root| {
                fs::remove_file(root.join("usr/etc").join(REGISTRIES)).unwrap();
                symlink("policy.json", root.join("usr/etc").join(REGISTRIES)).unwrap();
            },
            None,
        ),
        (
            "a pipe",
            |root| {
                let path = root.join("usr/etc").join(POLICY);
                drop(fs::remove_file(&path));
                let made = std::process::Command::new("mkfifo").arg(path).status();
                assert!(made.unwrap().success());
            },
            Some(""),
        ),
    ];
    for (what, change, path) in cases {
        let machine = Fixture::new(BEFORE, AFTER);
        let staged = machine.at(&format!("{DEPLOYMENTS}/{}", name("b")));
        // Not the hard link of the booted one.
        let motd = staged.join("usr/etc/motd");
        let content = fs::read_to_string(&motd).unwrap();
        fs::remove_file(&motd).unwrap();
        put(&motd, &content);
        change(&staged);
        match (machine.plan(BOOT), path) {
            (Planned::Reboot(cause), Some(path)) => {
                assert!(cause.contains(path), "{what}: {cause}")
            }
            (Planned::Live(plan), None) => {
                machine.finish(&plan);
                assert_eq!(machine.etc(), machine.image_etc("b"), "{what}");
                machine.restore();
                assert_eq!(machine.etc(), machine.image_etc("a"), "{what}");
            }
            (planned, _) => panic!("{what}: {planned:?}"),
        }
    }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_a_person_changed_stays() {
    type Edit = fn(&Path);
    let cases: [(&str, Edit, &str); 6] = [
        ("content", |etc| put(&etc.join(REGISTRIES), "mine"), REGISTRIES),
        ("mode", |etc| chmod(&etc.join(REGISTRIES), 0o600), REGISTRIES),
        ("removed", |etc| fs::remove_file(etc.join(REGISTRIES)).unwrap(), REGISTRIES),
        ("before the image", |etc| put(&etc.join(ANCHOR), "mine"), ANCHOR),
        ("a file that goes", |etc| put(&etc.join(POLICY), "mine"), POLICY),
        (
            "a link in place of a directory",
            |etc| {
                fs::remove_dir(etc.join("containers/certs.d")).unwrap();
                symlink("/outside", etc.join("containers/certs.d")).unwrap();
            },
            "containers/certs.d",
        ),
    ];
    for (what, edit, path) in cases {
        let machine = Fixture::new(BEFORE, AFTER);
        put(&machine.at("outside/"), "");
        edit(&machine.at("etc"));
        let is_path = |line: &&String| line.starts_with(path);
        let mine: Vec<String> = machine.etc().iter().filter(is_path).cloned().collect();
        let before = machine.etc();
        machine.apply(BOOT);
        let after = machine.etc();
        assert_eq!(after.iter().filter(is_path).cloned().collect::<Vec<_>>(), mine, "{what}");
        let others = |lines: Vec<String>| -> Vec<String> {
            lines.into_iter().filter(|line| !line.starts_with(path)).collect()
        };
        assert_eq!(others(after), others(machine.image_etc("b")), "{what}");
        assert!(machine.record().unwrap().has_all(digest("b"), BOOT), "{what}");
        assert_eq!(fs::read_dir(machine.at("outside")).unwrap().count(), 0, "{what}");
        machine.restore();
        assert_eq!(machine.etc(), before, "{what}");
    }
}

#[test]
fn what_a_person_changed_after_that_stays_too() {
    let machine = Fixture::new(BEFORE, AFTER);
    machine.apply(BOOT);
    put(&machine.at("etc").join(REGISTRIES), "mine");
    put(&machine.at("etc/containers/certs.d/reg:5000/mine.crt"), "mine");
    assert_eq!(crate::drift::of_root(&machine.root).unwrap().paths.len(), 1);
    machine.restore();
    let etc = machine.etc();
    assert!(etc.contains(&format!("{REGISTRIES} 100644 mine")), "{etc:?}");
    assert!(etc.contains(&"containers/certs.d/reg:5000/mine.crt 100644 mine".to_owned()));
    assert!(!etc.iter().any(|line| line.starts_with(CERT)), "{etc:?}");
}

/// Runs the first steps of a plan only, then what comes next, for each number of steps.
fn killed_anywhere(
    what: &str,
    prepare: impl Fn(&Fixture),
    then: impl Fn(&Fixture, usize, &[Step<'_>]),
) {
    let total = Fixture::new(BEFORE, AFTER).live(BOOT).steps().len();
    assert!(total > 8, "{what}: {total}");
    for done in 0..=total {
        let machine = Fixture::new(BEFORE, AFTER);
        prepare(&machine);
        let plan = machine.live(BOOT);
        let steps = plan.steps();
        for step in &steps[..done] {
            plan.carry_out(&machine.root, step).unwrap();
        }
        // A write that was killed.
        if let Some(Step::Entry(path)) = steps.get(done)
            && let Some(folder) = machine.at("etc").join(path).parent()
            && folder.is_dir()
        {
            put(&machine.at("etc").join(format!("{path}.mosb-new")), "half");
        }
        then(&machine, done, &steps);
    }
}

#[test]
fn a_command_that_was_killed_anywhere_is_run_again() {
    killed_anywhere(
        "again",
        |_| (),
        |machine, done, _| {
            assert_eq!(machine.apply(LATER), Some(true), "killed after {done}");
            assert_eq!(machine.etc(), machine.image_etc("b"), "killed after {done}");
            assert!(machine.record().unwrap().has_all(digest("b"), LATER));
            assert_eq!(machine.apply(LATER), None);
        },
    );
    killed_anywhere(
        "back",
        |_| (),
        |machine, done, _| {
            let restored = machine.restore();
            assert_eq!(restored, (done > 0).then_some(true), "killed after {done}");
            assert_eq!(machine.etc(), machine.image_etc("a"), "killed after {done}");
            assert_eq!(machine.record(), None);
        },
    );
}

#[test]
fn a_return_that_was_killed_anywhere_is_run_again() {
    let total = {
        let machine = Fixture::new(BEFORE, AFTER);
        machine.apply(BOOT);
        live(LivePlan::to_booted(&machine.root, digest("a"), BOOT).unwrap().unwrap()).steps().len()
    };
    for done in 0..=total {
        for back in [true, false] {
            let machine = Fixture::new(BEFORE, AFTER);
            machine.apply(BOOT);
            let plan =
                live(LivePlan::to_booted(&machine.root, digest("a"), BOOT).unwrap().unwrap());
            for step in &plan.steps()[..done] {
                plan.carry_out(&machine.root, step).unwrap();
            }
            assert!(done == 0 || !machine.record().unwrap().has_all(digest("b"), BOOT));
            let (done_again, image) =
                if back { (machine.restore(), "a") } else { (machine.apply(BOOT), "b") };
            assert_eq!(done_again, (back || done > 0).then_some(true), "{done} {back}");
            assert_eq!(machine.etc(), machine.image_etc(image), "{done} {back}");
        }
    }
}

#[test]
fn the_next_image_gets_neither_file_of_the_other_two() {
    let machine = Fixture::new(BEFORE, AFTER);
    machine.apply(BOOT);
    let record = machine.record().unwrap();
    let paths: Vec<&str> = record.files.keys().map(String::as_str).collect();
    let folder = "containers/certs.d/reg:5000";
    let bundle = "pki/ca-trust/extracted/bundle.pem";
    assert_eq!(paths, [folder, CERT, POLICY, REGISTRIES, bundle, ANCHOR]);
    assert_eq!(record.files[POLICY], ["-"]);
    for (path, states) in &record.files {
        assert!(!states[0].contains(char::is_control), "{path}");
    }
}

#[test]
fn a_staged_deployment_that_is_not_certain_needs_a_reboot() {
    let machine = Fixture::new(BEFORE, AFTER);
    let other = LivePlan::to_staged(&machine.root, digest("c"), BOOT).unwrap();
    assert!(matches!(other, Planned::Reboot(_)), "{other:?}");
    // Another tree of the same image, such as one with packages of the machine's own.
    let origin = format!("{DEPLOYMENTS}/{}.origin", name("b"));
    let second = format!("{DEPLOYMENTS}/{}", name("c"));
    put(&machine.at(&format!("{second}/usr/")), "");
    fs::copy(machine.at(&origin), machine.at(&format!("{second}.origin"))).unwrap();
    assert!(matches!(machine.plan(BOOT), Planned::Reboot(_)));
    // An `/etc` in memory.
    fs::remove_dir_all(machine.at(&second)).unwrap();
    fs::remove_file(machine.at("etc")).unwrap();
    put(&machine.at("etc/"), "");
    let planned = machine.plan(BOOT);
    assert!(matches!(&planned, Planned::Reboot(cause) if cause.contains("/etc")), "{planned:?}");
    assert_eq!(machine.restore(), None);
}

/// The list of an image, its copies, and the one for machines that are installed from it.
fn var_files(lines: &[&str], contents: &[&str]) -> Vec<(String, String)> {
    let folder = "usr/lib/mosb/var-files";
    let list = lines.iter().flat_map(|line| [line, "\n"]).collect();
    let contents = contents.iter().map(|content| {
        (format!("{folder}/content/{}", digest(content).hex()), (*content).to_owned())
    });
    let factory = format!("usr/share/factory{PULL_SECRET}");
    let secret = lines.iter().find(|line| line.ends_with(PULL_SECRET));
    let secret = secret.map(|line| (factory, (*line).to_owned()));
    [(format!("{folder}/list"), list)].into_iter().chain(contents).chain(secret).collect()
}

#[test]
fn the_pull_secret_is_brought_as_the_unit_of_the_image_does() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().metadata().unwrap();
    let line = |content: &str, path: &str| {
        format!("f 600 {} {} {} {path}", own.uid(), own.gid(), digest(content).hex())
    };
    let (old, new) = (line("old", PULL_SECRET), line("new", PULL_SECRET));
    let other = line("other", "/var/opt/other");
    let later = line("later", "/var/opt/other");
    for (what, before, after, machine_has, want) in [
        ("changed", vec![&*old], vec![&*new], Some("old"), Ok(Some("new"))),
        ("as wanted", vec![&*old], vec![&*new], Some("new"), Ok(Some("new"))),
        ("edited", vec![&*old], vec![&*new], Some("mine"), Ok(Some("mine"))),
        ("absent", vec![&*old], vec![&*new], None, Ok(Some("new"))),
        ("added", vec![&*other], vec![&*new, &*other], None, Ok(Some("new"))),
        ("added, and there", vec![&*other], vec![&*new, &*other], Some("mine"), Ok(Some("mine"))),
        ("removed", vec![&*old, &*other], vec![&*other], Some("old"), Ok(None)),
        ("removed, and edited", vec![&*old, &*other], vec![&*other], Some("x"), Ok(Some("x"))),
        ("another one", vec![&*old, &*other], vec![&*new, &*later], Some("old"), Err(())),
    ] {
        let contents = ["old", "new", "other", "later"];
        let (one, two) = (var_files(&before, &contents), var_files(&after, &contents));
        let one: Vec<(&str, &str)> = one.iter().map(|(a, b)| (&**a, &**b)).collect();
        let two: Vec<(&str, &str)> = two.iter().map(|(a, b)| (&**a, &**b)).collect();
        let machine = Fixture::new(&one, &two);
        let secret = machine.at(&PULL_SECRET[1..]);
        if let Some(content) = machine_has {
            put(&secret, content);
            chmod(&secret, 0o600);
        }
        let record: String = before.iter().flat_map(|line| [line, "\n"]).collect();
        put(&machine.at("var/lib/mosb/var-files"), &record);
        let planned = machine.plan(BOOT);
        let Ok(content) = want else {
            assert!(matches!(planned, Planned::Reboot(_)), "{what}");
            continue;
        };
        assert_eq!(machine.finish(&live(planned)), Some(false), "{what}");
        assert_eq!(fs::read_to_string(&secret).ok().as_deref(), content, "{what}");
        assert_eq!(machine.apply(BOOT), None, "{what}");
        let is_undone = !what.contains("edited") && !what.contains("there");
        let live = machine.record().unwrap();
        assert_eq!(
            (live.has_all(digest("b"), BOOT), live.has_all(digest("b"), LATER)),
            (true, !is_undone),
            "{what}"
        );
        if content == Some("new") {
            assert_eq!(secret.metadata().unwrap().mode() & 0o7777, 0o600, "{what}");
            let record = fs::read_to_string(machine.at("var/lib/mosb/var-files")).unwrap();
            assert!(machine_has == Some("new") || record.contains(&new), "{what}: {record}");
        }
        let text = format!("{:?}", machine.live(BOOT));
        assert!(!text.contains("\"new\"") && !text.contains("\"old\""), "{what}");
        // Another boot of the image before brings its own; then it is written again.
        if what == "changed" {
            put(&secret, "old");
            chmod(&secret, 0o600);
            assert_eq!(machine.apply(LATER), Some(false), "{what}");
            assert_eq!(fs::read_to_string(&secret).unwrap(), "new");
            assert_eq!(machine.restore(), Some(false));
            assert_eq!(fs::read_to_string(&secret).unwrap(), "old");
            assert_eq!(machine.record(), None);
        }
    }
}
