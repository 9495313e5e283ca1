//! `deny.toml` holds for every crate that is built on this machine.

use std::fs;
use std::process::Command;

struct Policy(toml::Table);

impl Policy {
    fn read() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deny.toml");
        Self(fs::read_to_string(path).unwrap().parse().unwrap())
    }

    /// Whether an SPDX expression can be met by allowed licences. Parentheses occur only around alternatives.
    fn allows(&self, expression: &str) -> bool {
        let licences = self.0["licenses"]["allow"].as_array().unwrap();
        let allowed = |licence: &str| {
            licences
                .iter()
                .any(|allowed| allowed.as_str() == Some(licence.trim()))
        };
        // `/` is how old manifests write OR; AND binds tighter.
        let expression = expression.replace('/', " OR ");
        let one = |part: &str| part.trim_matches(['(', ')']).split(" OR ").any(allowed);
        let all = |part: &str| part.split(" AND ").all(one);
        match expression.contains('(') {
            true => all(&expression),
            false => expression.split(" OR ").any(all),
        }
    }

    /// Why a crate is banned, if it is.
    fn bans(&self, name: &str) -> Option<&str> {
        let bans = self.0["bans"]["deny"].as_array().unwrap();
        let ban = bans
            .iter()
            .find(|ban| ban["crate"].as_str() == Some(name))?;
        ban["reason"].as_str()
    }
}

/// Name and licence of every crate.
fn crates() -> Vec<(String, String)> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--prefix=none", "--format={p}\t{l}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines = String::from_utf8(output.stdout).unwrap();
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
        (
            "an alternative in parentheses",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            true,
        ),
        (
            "one refused beside parentheses",
            "(MIT OR Apache-2.0) AND GPL-2.0-only",
            false,
        ),
    ];
    for (what, expression, want) in cases {
        assert_eq!(policy.allows(expression), want, "{what}");
    }
    assert!(policy.bans("ring").is_some() && policy.bans("rustls").is_none());
}
