//! The emulation of `systemctl` changes a tree like the real `systemctl --root` changes the same
//! tree on disk.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use mosb_image::TreePath;
use mosb_image::overlay::Overlay;
use mosb_image::tree::{BaseTree, Kind, OwnedEntry};
use mosb_systemd::Dialect;
use proptest::prelude::*;

mod cases;

/// Files by path. A content that begins with `->` is a link.
type Files = BTreeMap<String, String>;
/// The mode of a directory, the target of a link, or nothing for a file, by path.
type Tree = BTreeMap<String, String>;

/// The dialect of the installed systemd.
fn dialect() -> Dialect {
    let output = Command::new("systemctl")
        .arg("--version")
        .output()
        .expect("systemctl is needed: install the package systemd");
    let text = String::from_utf8(output.stdout).unwrap();
    let version = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    // Since systemd 255, Debian has only one directory for libraries.
    Dialect::new(version, version < 255 && Path::new("/etc/debian_version").exists())
}

fn long(text: &str) -> String {
    for (short, long) in [
        ("U/", "usr/lib/systemd/system/"),
        ("E/", "etc/systemd/system/"),
        ("P/", "etc/systemd/system-preset/"),
    ] {
        if let Some(rest) = text.strip_prefix(short) {
            return format!("{long}{rest}");
        }
        if let Some(rest) = text.strip_prefix(&format!("->/{short}")) {
            return format!("->/{long}{rest}");
        }
    }
    match text {
        "W" => "[Install]\nWantedBy=multi-user.target\n".to_owned(),
        text => text.to_owned(),
    }
}

/// The same tree on disk and as a base.
struct Root {
    directory: tempfile::TempDir,
    base: BaseTree,
}

impl Root {
    fn new(files: &Files) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut entries = vec![
            // Every container has these, but a root in a directory does not.
            (b"dev/null".to_vec(), OwnedEntry::file(b"")),
        ];
        for (path, content) in files {
            let entry = match content.strip_prefix("->") {
                Some(target) => OwnedEntry::symlink(target),
                None => OwnedEntry::file(content.as_bytes()),
            };
            entries.push((path.clone().into_bytes(), entry));
        }
        for (path, entry) in &entries {
            let path = directory.path().join(std::str::from_utf8(path).unwrap());
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            match &entry.target {
                Some(target) => symlink(std::str::from_utf8(target).unwrap(), &path).unwrap(),
                None => std::fs::write(&path, entry.content.as_ref().unwrap()).unwrap(),
            }
        }
        Self { directory, base: BaseTree::from_entries(entries) }
    }

    fn systemctl(&self, verb: &str, unit: &str) -> Output {
        Command::new("systemctl")
            .args(["--root", self.directory.path().to_str().unwrap(), verb, "--", unit])
            .output()
            .unwrap()
    }

    fn on_disk(&self) -> Tree {
        fn walk(directory: &Path, at: &str, tree: &mut Tree) {
            for child in std::fs::read_dir(directory).unwrap() {
                let child = child.unwrap();
                let path = format!("{at}/{}", child.file_name().to_str().unwrap());
                let kind = child.file_type().unwrap();
                let what = match (kind.is_dir(), kind.is_symlink()) {
                    (true, _) => {
                        format!("{:o}", child.metadata().unwrap().permissions().mode() & 0o7777)
                    }
                    (_, true) => {
                        std::fs::read_link(child.path()).unwrap().to_str().unwrap().to_owned()
                    }
                    _ => String::new(),
                };
                if kind.is_dir() {
                    walk(&child.path(), &path, tree);
                }
                tree.insert(path, what);
            }
        }
        let mut tree = Tree::new();
        walk(self.directory.path(), "", &mut tree);
        tree
    }
}

fn emulated(overlay: &Overlay<'_>) -> Tree {
    fn walk(overlay: &Overlay<'_>, directory: &TreePath, tree: &mut Tree) {
        for name in overlay.children(directory) {
            let path = directory.join(&name).unwrap();
            let found = overlay.get(&path).unwrap();
            let what = match found.kind {
                Kind::Directory => format!("{:o}", found.meta.mode),
                Kind::Symlink => found.target.unwrap(),
                Kind::File | Kind::Other => String::new(),
            };
            if found.kind == Kind::Directory {
                walk(overlay, &path, tree);
            }
            tree.insert(path.to_string(), what);
        }
    }
    let mut tree = Tree::new();
    walk(overlay, &TreePath::root(), &mut tree);
    tree
}

/// The lines that only one of two trees has, for the failure message.
fn difference(real: &Tree, emulated: &Tree) -> String {
    let only = |mark: &str, one: &Tree, other: &Tree| {
        one.iter()
            .filter(|(path, what)| other.get(*path) != Some(what))
            .map(|(path, what)| format!("\n  {mark} {path} {what}"))
            .collect::<String>()
    };
    only("real", real, emulated) + &only("ours", emulated, real)
}

/// Runs the same operations on disk and in the emulation. The error is the first difference.
fn compare(dialect: &Dialect, files: &Files, run: &[(&str, &str)]) -> Result<(), String> {
    let root = Root::new(files);
    let mut overlay = Overlay::new(&root.base);
    for (verb, unit) in run {
        let describe = |what: String| {
            let files: String =
                files.iter().map(|(path, content)| format!("\n  {path}: {content:?}")).collect();
            format!("{verb} {unit}: {what}\nfiles:{files}")
        };
        let ours = dialect
            .is_enabled(&overlay, unit)
            .map_err(|undecided| describe(undecided.to_string()))?;
        if matches!(*verb, "is-enabled" | "disable") {
            let real = root.systemctl("is-enabled", unit);
            let word = String::from_utf8_lossy(&real.stdout).trim().to_owned();
            let word = (!word.is_empty() && word != "not-found").then_some(word);
            if real.status.success() != ours.is_success() || word.as_deref() != ours.word() {
                return Err(describe(format!("real {word:?} ({}), ours {ours:?}", real.status)));
            }
        }
        let output = match *verb {
            // Ignition only disables enabled units.
            "disable" if ours.is_success() => {
                dialect
                    .disable(&mut overlay, unit)
                    .map_err(|undecided| describe(undecided.to_string()))?;
                root.systemctl("disable", unit)
            }
            "preset" => {
                let unit = [(*unit).to_owned()];
                dialect
                    .preset(&mut overlay, &unit)
                    .map_err(|undecided| describe(undecided.to_string()))?;
                root.systemctl("preset", &unit[0])
            }
            _ => continue,
        };
        let (real, ours) = (root.on_disk(), emulated(&overlay));
        if real != ours {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(describe(format!("{}\n{stderr}", difference(&real, &ours))));
        }
    }
    Ok(())
}

#[test]
fn each_case_ends_as_with_the_real_systemctl() {
    let dialect = dialect();
    let mut failures = Vec::new();
    for (what, files, run) in cases::CASES {
        let files = files.iter().map(|(path, content)| (long(path), long(content))).collect();
        let run: Vec<_> = run.iter().map(|step| step.split_once(' ').unwrap()).collect();
        if let Err(why) = compare(&dialect, &files, &run) {
            failures.push(format!("== {what}: {why}"));
        }
    }
    assert!(failures.is_empty(), "{} cases:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn instances_are_mangled_as_by_systemctl() {
    let files = [
        ("usr/lib/systemd/system/a@.service", "[Unit]"),
        ("usr/lib/systemd/system/b@.service", "[Install]\nWantedBy=x.target"),
    ]
    .map(|(path, content)| (path.to_owned(), content.to_owned()))
    .into();
    for unit in ["a@.service x", "a@.service x y", "b@.service x", "c@.service x"] {
        compare(&dialect(), &files, &[("disable", unit)]).unwrap();
    }
}

/// One of these words, or none.
fn words(of: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(of), 0..3).prop_map(|words| words.join(" "))
}

const UNITS: &[&str] = &[
    "a.service",
    "b.service",
    "a-b.socket",
    "m.mount",
    "t@.service",
    "t@x.service",
    "t@y.service",
    "u@.service",
    "u@x.service",
];

fn install() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        (
            Just("WantedBy"),
            words(&[
                "x.target",
                "y@.target",
                "y@x.target",
                "%p.target",
                "a.service",
                "bad",
                "z-%j@%i.target",
                "%z.target"
            ])
        ),
        (Just("RequiredBy"), words(&["x.target", "y@.target", "%n"])),
        (Just("UpheldBy"), words(&["x.target"])),
        (
            Just("Alias"),
            words(&[
                "b.service",
                "al.service",
                "al@.service",
                "t@x.service",
                "al@%i.service",
                "al.socket",
                "%p.service"
            ])
        ),
        (
            Just("Also"),
            words(&[
                "a.service",
                "b.service",
                "t@x.service",
                "u@.service",
                "no.service",
                "%p@%i.service"
            ])
        ),
        (
            Just("DefaultInstance"),
            prop::sample::select(&["x", "y", ""][..]).prop_map(str::to_owned)
        ),
    ];
    prop::collection::vec(key, 0..4).prop_map(|keys| {
        let keys: String = keys.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        format!("[Unit]\n[Install]\n{keys}")
    })
}

fn file() -> impl Strategy<Value = (String, String)> {
    let name = || prop::sample::select(UNITS);
    let directory = prop::sample::select(
        &[
            "usr/lib/systemd/system",
            "usr/lib/systemd/system",
            "etc/systemd/system",
            "run/systemd/system",
            "usr/local/lib/systemd/system",
            "opt",
        ][..],
    );
    let content = prop_oneof![
        5 => install(),
        1 => Just(String::new()),
        1 => Just("->/dev/null".to_owned()),
        1 => name().prop_map(|name| format!("->/opt/{name}")),
        2 => name().prop_map(|name| format!("->/usr/lib/systemd/system/{name}")),
    ];
    (directory, name(), content)
        .prop_map(|(directory, name, content)| (format!("{directory}/{name}"), content))
}

fn enablement() -> impl Strategy<Value = (String, String)> {
    let directory = prop::sample::select(
        &[
            "etc/systemd/system/x.target.wants",
            "etc/systemd/system/y@.target.requires",
            "etc/systemd/system",
            "usr/lib/systemd/system/x.target.wants",
            "run/systemd/system/x.target.wants",
        ][..],
    );
    let name = || {
        prop::sample::select(
            &[
                "a.service",
                "b.service",
                "al.service",
                "t@x.service",
                "t@.service",
                "u@y.service",
                "al@x.service",
                "a-b.socket",
            ][..],
        )
    };
    let target = prop::sample::select(
        &["/usr/lib/systemd/system/", "/opt/", "/nowhere/", "../../../../usr/lib/systemd/system/"]
            [..],
    );
    (directory, name(), target, name()).prop_map(|(directory, name, target, to)| {
        (format!("{directory}/{name}"), format!("->{target}{to}"))
    })
}

fn preset() -> impl Strategy<Value = (String, String)> {
    let file = prop::sample::select(
        &[
            "etc/systemd/system-preset/20.preset",
            "usr/lib/systemd/system-preset/10.preset",
            "usr/lib/systemd/system-preset/20.preset",
        ][..],
    );
    let line = prop::sample::select(
        &[
            "enable a.service",
            "disable a.*",
            "enable t@.service x y",
            "disable t@.service",
            "enable u@*",
            "disable *",
            "enable *",
            "disable b.service",
            "# enable *",
            "enable [ab]*.s??????",
        ][..],
    );
    (file, prop::collection::vec(line, 0..4))
        .prop_map(|(file, lines)| (file.to_owned(), lines.join("\n")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn generated_roots_end_as_with_the_real_systemctl(
        files in prop::collection::vec(file(), 1..7),
        dropins in prop::collection::vec((prop::sample::select(UNITS), install()), 0..2),
        enabled in prop::collection::vec(enablement(), 0..4),
        presets in prop::collection::vec(preset(), 0..3),
        run in prop::collection::vec((prop::sample::select(&["preset", "preset", "disable"][..]), prop::sample::select(UNITS)), 1..4),
    ) {
        let dropins = dropins.into_iter().map(|(unit, text)| (format!("etc/systemd/system/{unit}.d/1.conf"), text));
        let files = enabled.into_iter().chain(files).chain(dropins).chain(presets).collect();
        compare(&dialect(), &files, &run).map_err(TestCaseError::fail)?;
    }
}
