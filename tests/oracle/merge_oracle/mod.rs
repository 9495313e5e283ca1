//! Compares merging and translation with the real Ignition and ign-converter. The results are equal
//! except for the differences in `merge_oracle/decisions.rs`.
//!
//! `MOSB_ORACLE_CASES` sets the number of configs for each generated test; the default is some
//! hundreds.

use std::cell::{Cell, RefCell};
use std::env;

use proptest::prelude::*;
use proptest::test_runner::{Config as Runs, TestCaseError, TestRunner};
use serde_json::Value;

use crate::ignition_oracle::generated as of_spec_3;
use compare::{Agreement, compare};
use mosb_tests::Oracle;

mod compare;
mod decisions;
mod generated;
mod generated2;
mod rules;
mod table;

#[test]
fn every_list_merges_as_in_ignition() {
    agree_on(table::lists(), 0.7);
}

#[test]
fn every_field_merges_as_in_ignition() {
    agree_on(table::fields(), 0.7);
}

#[test]
fn configs_of_all_versions_merge_as_in_ignition() {
    agree_on(table::versions(), 1.0);
}

#[test]
fn the_rules_are_those_of_ignition() {
    agree_on(rules::cases(), 0.6);
}

/// The table of the crate's own tests, which pin the results.
#[test]
fn pinned_merge_results_match_ignition() {
    let mut oracle = Oracle::start();
    for line in include_str!("../../../testdata/ignition/merge.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let mut configs = case["configs"].as_array().unwrap().clone();
        for config in &mut configs {
            generated::set_missing_version(config, "3.5.0");
        }
        let mut want = case["want"].clone();
        generated::set_missing_version(&mut want, "3.5.0");
        let plain = oracle.merge(&configs);
        let decided = !case["decision"].is_null();
        let same = compare::without_empties(&plain["config"]) == want;
        assert_eq!(same, !decided, "{case}\noracle: {plain}");
        compare(&mut oracle, &configs).unwrap();
    }
}

#[test]
fn deliberate_differences_from_ignition_hold() {
    decisions::hold(&mut Oracle::start());
}

#[test]
fn generated_configs_are_translated_as_by_ignition() {
    let config = prop_oneof![
        6 => generated2::config(),
        3 => generated::config(),
        1 => of_spec_3::config(),
    ];
    agree_on_generated(config.prop_map(|config| vec![config]), 1000, 0.4);
}

#[test]
fn generated_configs_merge_as_in_ignition() {
    let config = prop_oneof![
        2 => generated2::config(),
        6 => generated::config(),
        1 => of_spec_3::config(),
    ];
    let configs = prop::collection::vec(config, 2..=8);
    agree_on_generated(configs, 200, 0.8);
}

/// The order of merging changes the intermediate configs, so the oracle merges each pair too.
#[test]
fn generated_configs_merge_from_the_end_on() {
    let configs = prop::collection::vec(generated::config(), 3..=4);
    let oracle = RefCell::new(Oracle::start());
    run(configs, 100, |mut configs| {
        let mut oracle = oracle.borrow_mut();
        configs.retain(|config| oracle.merge(std::slice::from_ref(config))["accepted"] == true);
        while configs.len() > 1 {
            let tail = configs.split_off(configs.len() - 2);
            compare(&mut oracle, &tail)?;
            let Ok(merged) = compare::merge(&tail) else {
                return Ok(());
            };
            configs.push(merged);
        }
        Ok(())
    });
}

/// Compares all cases. At least this share of them must be accepted.
#[track_caller]
fn agree_on(cases: Vec<table::Case>, share: f64) {
    let mut oracle = Oracle::start();
    let mut same = 0;
    let all = cases.len();
    let mut differing = Vec::new();
    for (what, configs) in cases {
        match compare(&mut oracle, &configs) {
            Ok(Agreement::Same) => same += 1,
            Ok(_) => {}
            Err(difference) => differing.push(format!(
                "{what}: {difference}\n{}",
                serde_json::to_string(&configs).unwrap()
            )),
        }
    }
    // These are enough to find a common cause.
    let first: Vec<&str> = differing
        .iter()
        .map(|difference| difference.get(..600).unwrap_or(difference))
        .take(30)
        .collect();
    assert!(differing.is_empty(), "{} of {all} differ:\n{}", differing.len(), first.join("\n\n"));
    let found = f64::from(same) / all as f64;
    assert!(found >= share, "only {same} of {all} are merged");
}

/// Compares generated lists of configs, both complete and without the configs that Ignition
/// rejects.
#[track_caller]
fn agree_on_generated(configs: impl Strategy<Value = Vec<Value>>, cases: u32, share: f64) {
    let oracle = RefCell::new(Oracle::start());
    let counts = Cell::new([0_u32; 2]);
    run(configs, cases, |mut configs| {
        let mut oracle = oracle.borrow_mut();
        let mut agreement = compare(&mut oracle, &configs)?;
        if configs.len() > 1 {
            configs.retain(|config| oracle.merge(std::slice::from_ref(config))["accepted"] == true);
            if configs.is_empty() {
                return Ok(());
            }
            agreement = compare(&mut oracle, &configs)?;
        }
        let [all, same] = counts.get();
        counts.set([all + 1, same + u32::from(agreement == Agreement::Same)]);
        Ok(())
    });
    let [all, same] = counts.get();
    assert!(f64::from(same) >= share * f64::from(all), "only {same} of {all} are merged");
}

#[track_caller]
fn run<T>(configs: impl Strategy<Value = T>, cases: u32, check: impl Fn(T) -> Result<(), String>)
where
    T: std::fmt::Debug,
{
    let cases = match env::var("MOSB_ORACLE_CASES") {
        Ok(wanted) => wanted.parse().unwrap(),
        Err(_) => cases,
    };
    let mut runner = TestRunner::new(Runs { cases, failure_persistence: None, ..Runs::default() });
    let outcome = runner.run(&configs, |configs| check(configs).map_err(TestCaseError::fail));
    if let Err(difference) = outcome {
        panic!("{difference}");
    }
}
