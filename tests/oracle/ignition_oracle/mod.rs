//! Compares mosb's parser with the real Ignition. Both have the same verdict on every config,
//! except for a list of errors that Ignition accepts and then cannot apply, or applies with an
//! unintended result.

use std::collections::BTreeSet;

use mosb_ignition::{self as ignition, Error, SpecVersion};
use mosb_types::{Diagnostic as _, Finding};
use proptest::test_runner::{Config as Runs, TestCaseError, TestRunner};
use serde_json::{Value, json};

use mosb_tests::Oracle;

pub mod generated;

/// The crate's own tests also read this table. They pin the problems and warnings.
const CASES: &str = include_str!("../../../testdata/ignition/cases.jsonl");

/// The codes of problems that Ignition does not report. `builder/ignition/src/lib.rs` describes
/// them.
pub const STRICTER: [&str; 13] = [
    "ambiguous-field",
    "append-without-source",
    "referenced-config",
    "remote-source",
    "unsafe-dropin-name",
    "unsafe-unit-name",
    "unusable-disk",
    "unusable-link",
    "unusable-owner",
    "unusable-path",
    "unusable-verification",
    "unusual-data-url",
    // `03.5.0`, which Go parses as `3.5.0`.
    "unknown-ignition-spec",
];

/// Compares a table of configs and then generated ones.
#[test]
fn accepts_and_refuses_as_ignition_does() {
    let mut oracle = Oracle::start();
    let mut excused = BTreeSet::new();
    let mut checked = 0;
    for (what, config) in table() {
        match agree(&config, &Verdict::of(&mut oracle, &config)) {
            Ok(stricter) => excused.extend(stricter),
            Err(difference) => panic!("{what}: {difference}\n{config}"),
        }
        checked += 1;
    }
    assert!(checked > 1500, "only {checked} configs in the table");
    let unused: Vec<_> = STRICTER.iter().filter(|code| !excused.contains(**code)).collect();
    assert!(unused.is_empty(), "{unused:?}: no config of the table is refused for it alone");

    let oracle = std::cell::RefCell::new(oracle);
    let verdicts = std::cell::Cell::new([0_u32; 2]);
    let mut runner =
        TestRunner::new(Runs { cases: 3000, failure_persistence: None, ..Runs::default() });
    let outcome = runner.run(&generated::config(), |config| {
        let verdict = Verdict::of(&mut oracle.borrow_mut(), &config);
        let mut counts = verdicts.get();
        counts[usize::from(verdict.accepted)] += 1;
        verdicts.set(counts);
        agree(&config, &verdict).map(drop).map_err(TestCaseError::fail)
    });
    if let Err(difference) = outcome {
        panic!("{difference}");
    }
    let [refused, accepted] = verdicts.get();
    assert!(refused > 400 && accepted > 400, "{refused} refused, {accepted} accepted: one-sided");
}

/// The verdict of the real Ignition on a config.
#[derive(Debug)]
struct Verdict {
    accepted: bool,
    /// The paths of its warnings, such as `$.storage.files.0.mode`.
    warnings: BTreeSet<String>,
    text: String,
}

impl Verdict {
    fn of(oracle: &mut Oracle, config: &Value) -> Self {
        let answer = oracle.judge(config);
        let entries = answer["entries"].as_array().expect("a verdict has entries");
        let warnings = entries.iter().filter(|e| e["kind"] == "warning" && is_ours(&e["message"]));
        Self {
            accepted: answer["accepted"].as_bool().expect("a verdict is one"),
            warnings: warnings
                .map(|e| e["path"].as_str().expect("an entry has a path").to_owned())
                .collect(),
            text: answer.to_string(),
        }
    }
}

/// Ignores warnings that depend on the machine (disks, proxies) or on line numbers (`null`), and
/// the one about owners of hard links, which Ignition reports for an empty name too.
fn is_ours(message: &Value) -> bool {
    let others = [
        "context tree",
        "filesystem overwrites",
        "device matches disk",
        "insecure plaintext",
        "user/group ignored",
    ];
    !others.iter().any(|start| message.as_str().is_some_and(|m| m.starts_with(start)))
}

/// Compares the verdicts and returns the codes of problems that only mosb reports.
fn agree(config: &Value, real: &Verdict) -> Result<Vec<String>, String> {
    let places = |findings: &[Finding]| -> BTreeSet<String> {
        let place = |f: &Finding| {
            f.object.as_deref().unwrap_or_default().replace('[', ".").replace(']', "")
        };
        findings
            .iter()
            .filter(|f| f.code != "hard-link-owner")
            .map(|f| format!("$.{}", place(f)))
            .collect()
    };
    let codes: Vec<String> = match ignition::parse(config) {
        Ok(parsed) if !real.accepted => {
            return Err(format!("we accept it: {parsed:?}\nIgnition: {}", real.text));
        }
        Ok(parsed)
            if !same_warnings(&parsed.warnings, &places(&parsed.warnings), &real.warnings) =>
        {
            return Err(format!("we warn: {:?}\nIgnition: {}", parsed.warnings, real.text));
        }
        Ok(_) => return Ok(Vec::new()),
        Err(_) if !real.accepted => return Ok(Vec::new()),
        Err(Error::Invalid { problems }) => problems.into_iter().map(|p| p.code).collect(),
        Err(other) => vec![other.code().to_owned()],
    };
    if codes.iter().all(|code| STRICTER.contains(&code.as_str())) {
        return Ok(codes);
    }
    Err(format!("we refuse it: {codes:?}\nIgnition: {}", real.text))
}

/// Ignition reports no unknown fields below a misspelt field, although it uses that field.
fn same_warnings(findings: &[Finding], ours: &BTreeSet<String>, theirs: &BTreeSet<String>) -> bool {
    let misspelt = findings.iter().any(|f| f.code == "misspelt-field");
    if misspelt { theirs.is_subset(ours) } else { theirs == ours }
}

/// Every row of the table in every version, also in those for which the table pins nothing.
fn table() -> Vec<(String, Value)> {
    let mut table = Vec::new();
    for line in CASES.lines() {
        let case: Value = serde_json::from_str(line).expect("the table is JSON");
        for version in SpecVersion::ALL {
            let mut config = case["config"].clone();
            config["ignition"]["version"] = json!(version.as_str());
            table.push((format!("{}, {version}", case["what"]), config));
        }
    }
    let versions = [
        json!("2.2.0"),
        json!("3.7.0"),
        json!("3.6.0-experimental"),
        json!("3.7.0-experimental"),
        json!("4.0.0"),
        json!("3.5"),
        json!("3.5.0 "),
        json!("v3.5.0"),
        json!("3.5.0+x"),
        json!("03.5.0"),
        json!(""),
        json!("x"),
        json!(3),
        json!(null),
        json!([]),
    ];
    for version in versions {
        table.push((format!("version {version}"), json!({ "ignition": { "version": version } })));
    }
    for config in [
        json!({}),
        json!({ "ignition": null }),
        json!({ "ignition": 5 }),
        json!([]),
        json!(null),
        json!(5),
    ] {
        table.push(("no version".to_owned(), config));
    }
    table
}
