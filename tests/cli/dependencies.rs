//! `deny.toml` permits every crate of this build, no crate is yanked, important crates have one
//! version only, and each one that is declared is used.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Policy(toml::Table);

impl Policy {
    fn read() -> Self {
        let path = mosb_tests::repository().join("deny.toml");
        Self(fs::read_to_string(path).unwrap().parse().unwrap())
    }

    /// Whether allowed licences satisfy an SPDX expression. Parentheses occur only around
    /// alternatives.
    fn allows(&self, expression: &str) -> bool {
        let licences = self.0["licenses"]["allow"].as_array().unwrap();
        let allowed =
            |licence: &str| licences.iter().any(|allowed| allowed.as_str() == Some(licence.trim()));
        // Old manifests write `/` for OR. AND has higher precedence.
        let expression = expression.replace('/', " OR ");
        let one = |part: &str| part.trim_matches(['(', ')']).split(" OR ").any(allowed);
        let all = |part: &str| part.split(" AND ").all(one);
        if expression.contains('(') { all(&expression) } else { expression.split(" OR ").any(all) }
    }

    /// The reason for a ban of a crate.
    fn bans(&self, name: &str) -> Option<&str> {
        let bans = self.0["bans"]["deny"].as_array().unwrap();
        let ban = bans.iter().find(|ban| ban["crate"].as_str() == Some(name))?;
        ban["reason"].as_str()
    }
}

fn tree(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--prefix=none"])
        .args(arguments)
        .current_dir(mosb_tests::repository())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The name and licence of every crate.
fn crates() -> Vec<(String, String)> {
    let lines = tree(&["--format={p}\t{l}"]);
    let named = lines.lines().filter_map(|line| line.split_once('\t'));
    named
        .map(|(name, licence)| {
            let name = name.split(' ').next().unwrap_or_default();
            (name.to_owned(), licence.trim_end_matches(" (*)").to_owned())
        })
        .collect()
}

#[test]
fn every_crate_is_allowed() {
    let (policy, crates) = (Policy::read(), crates());
    assert!(crates.len() > 100, "{crates:?}");
    let refused: Vec<_> = crates
        .iter()
        .filter(|(name, licence)| policy.bans(name).is_some() || !policy.allows(licence))
        .map(|(name, licence)| (name, licence, policy.bans(name)))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

/// Only crates of the allowed registry have a checksum in Cargo.lock.
#[test]
fn every_crate_has_an_allowed_source_and_checksum() {
    let policy = Policy::read();
    let sources = &policy.0["sources"];
    for refused in ["unknown-registry", "unknown-git"] {
        assert_eq!(sources[refused].as_str(), Some("deny"), "{refused}");
    }
    let allowed = sources["allow-registry"].as_array().unwrap();
    let path = mosb_tests::repository().join("Cargo.lock");
    let lock: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let text = |of: &toml::Value, key: &str| of.get(key)?.as_str().map(str::to_owned);
    let strange = |one: &&toml::Value| match text(one, "source") {
        // Crates of this workspace.
        None => !text(one, "name").unwrap().starts_with("mosb"),
        Some(source) => {
            let registry = source.strip_prefix("registry+");
            let is_allowed = allowed.iter().any(|one| one.as_str() == registry);
            !is_allowed || text(one, "checksum").is_none()
        }
    };
    let packages = lock["package"].as_array().unwrap();
    assert!(packages.len() > 100);
    let strange: Vec<_> = packages.iter().filter(strange).collect();
    assert!(strange.is_empty(), "{strange:#?}");
}

/// Two versions of a crate that links C or implements TLS would both be linked, and updates could
/// miss one of them.
#[test]
fn crates_with_c_or_tls_have_one_version() {
    let mut crates = versions();
    crates.retain(|(name, _)| {
        name.ends_with("-sys") || ["aws-lc-rs", "rustls", "rustls-webpki"].contains(&name.as_str())
    });
    assert!(crates.iter().any(|(name, _)| name == "aws-lc-sys"), "{crates:?}");
    let twice: Vec<_> = crates.windows(2).filter(|pair| pair[0].0 == pair[1].0).collect();
    assert!(twice.is_empty(), "{twice:#?}");
}

/// The name and version of every crate of the program, sorted.
fn versions() -> Vec<(String, String)> {
    let mut all: Vec<_> = tree(&["--edges=normal,build", "--format={p}"])
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?.to_owned(), words.next()?.to_owned()))
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

/// A version is yanked if it must not be used, often because of an advisory. `cargo package`
/// reports yanked versions from the online index, or from its cached copy without a network. It
/// cannot package a crate that depends on others of the workspace, so the test creates a crate with
/// all external dependencies and this Cargo.lock.
#[test]
fn no_locked_crate_is_yanked() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = mosb_tests::repository();
    let manifest = fs::read_to_string(workspace.join("Cargo.toml")).unwrap();
    let all = manifest.split("[workspace.dependencies]\n").nth(1).unwrap();
    let all = all.split("\n\n").next().unwrap().lines();
    let all: Vec<_> = all.filter(|line| !line.starts_with("mosb")).collect();
    assert!(all.len() > 30, "{all:?}");
    let package = "[package]\nname = \"everything\"\nversion = \"0.0.0\"\nedition = \"2024\"\n";
    let made = format!("{package}\n[dependencies]\n{}\n", all.join("\n"));
    fs::write(folder.path().join("Cargo.toml"), made).unwrap();
    fs::copy(workspace.join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("src/lib.rs"), "").unwrap();
    let packed = |more: &[&str]| {
        Command::new(env!("CARGO"))
            .args(["package", "--no-verify", "--allow-dirty", "--target-dir=target"])
            .args(more)
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let mut output = packed(&[]);
    if !output.status.success() {
        output = packed(&["--offline"]);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("Packaged"), "{stderr}");
    let yanked: Vec<_> = stderr.lines().filter(|line| line.contains("yanked")).collect();
    assert!(yanked.is_empty(), "`cargo update` takes others: {yanked:#?}");
}

#[test]
fn every_dependency_is_named_in_its_crate() {
    let root = mosb_tests::repository().join("builder");
    let unused: Vec<String> = fs::read_dir(root)
        .unwrap()
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            let manifest: toml::Table =
                fs::read_to_string(path.join("Cargo.toml")).unwrap().parse().unwrap();
            // Optional ones may be for the demo, which is not below the crate.
            let needed = manifest["dependencies"].as_table().unwrap().iter();
            let needed = needed.filter(|(_, how)| how.get("optional").is_none());
            let sources = sources(&path.join("src"));
            let is_unused = |name: &&String| !sources.contains(&name.replace('-', "_"));
            let unused = needed.map(|(name, _)| name).filter(is_unused);
            unused.map(|name| format!("{}: {name}", path.display())).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(unused, Vec::<String>::new());
}

/// The Rust files below a directory.
fn sources(directory: &Path) -> String {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| {
        if path.is_dir() { sources(&path) } else { fs::read_to_string(path).unwrap() }
    };
    entries.map(text).collect()
}

#[test]
fn licence_expressions_are_understood() {
    let policy = Policy::read();
    let cases = [
        ("one", "MIT", true),
        ("another", "GPL-3.0-only", false),
        ("none", "", false),
        ("either", "GPL-2.0-only OR MIT", true),
        ("the old way", "MIT/Apache-2.0", true),
        ("the old way, spaced", "GPL-2.0-only / MIT", true),
        ("both", "MIT AND GPL-2.0-only", false),
        ("one of the two sides", "GPL-2.0-only AND MIT OR ISC", true),
        ("an alternative in parentheses", "(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("one refused beside parentheses", "(MIT OR Apache-2.0) AND GPL-2.0-only", false),
    ];
    for (what, expression, want) in cases {
        assert_eq!(policy.allows(expression), want, "{what}");
    }
    for banned in ["native-tls", "openssl", "openssl-sys", "ring"] {
        assert!(policy.bans(banned).is_some(), "{banned}");
    }
    assert!(policy.bans("rustls").is_none());
}
