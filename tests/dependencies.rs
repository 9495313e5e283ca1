//! What comes with our dependencies: licences that ours can live with, and one TLS provider.

use std::process::Command;

/// Licences that ask for no more than a notice, or, the MPL, for changes to their own files.
const ALLOWED: [&str; 14] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Zlib",
];

/// Name and licence of every crate that is built on this machine.
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

/// Whether an SPDX expression can be met by allowed licences. Parentheses occur only around alternatives.
fn allowed(expression: &str) -> bool {
    let all = |part: &str| {
        part.split(" AND ").all(|part| {
            let part = part.trim_matches(['(', ')', ' ']);
            part.split(" OR ").any(|licence| ALLOWED.contains(&licence))
        })
    };
    // `/` is how old manifests write OR.
    let expression = expression.replace('/', " OR ");
    all(&expression) || !expression.contains(" AND ") && expression.split(" OR ").any(all)
}

#[test]
fn licences_allow_what_ours_promises() {
    let crates = crates();
    assert!(crates.len() > 100, "{crates:?}");
    let refused: Vec<_> = crates
        .iter()
        .filter(|(_, licence)| !allowed(licence))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(!allowed("GPL-3.0-only") && !allowed("MIT AND GPL-2.0-only") && !allowed(""));
}

/// Two of them in one program make rustls panic at the first connection, as neither is the default.
#[test]
fn there_is_one_tls_provider() {
    let crates = crates();
    let found = |name: &str| crates.iter().any(|(found, _)| found == name);
    assert!(found("aws-lc-rs") && !found("ring"));
}
