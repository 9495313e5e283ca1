//! How the CRDs of `deploy/crds` differ from the published ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use expect_test::expect_file;
use serde_json::Value;

use mosb_tests::{PUBLISHED_KINDS, deployed_crd, published_crd};

/// The parts of a list by their names, and rules by their text, so that the order does not matter.
fn by_name(list: &[Value]) -> Option<BTreeMap<String, &Value>> {
    let name = |one: &Value| {
        let name = one.get("rule").or_else(|| one.get("name"))?.as_str()?;
        Some(name.to_owned())
    };
    list.iter().map(|one| Some((name(one)?, one))).collect()
}

/// Writes what differs at a place and below it. Descriptions and messages may.
fn compare(place: &str, published: Option<&Value>, ours: Option<&Value>, out: &mut String) {
    if published == ours {
        return;
    }
    let parts = |value: Option<&Value>| match value {
        Some(Value::Object(fields)) => {
            let is_text = |(key, value): &(&String, &Value)| {
                value.is_string() && ["description", "message"].contains(&key.as_str())
            };
            let fields = fields.iter().filter(|field| !is_text(field));
            Some(fields.map(|(key, value)| (key.clone(), value.clone())).collect())
        }
        Some(Value::Array(list)) => {
            let parts = by_name(list)?.into_iter();
            Some(parts.map(|(key, value)| (key, value.clone())).collect::<BTreeMap<_, _>>())
        }
        _ => None,
    };
    if let (Some(published), Some(ours)) = (parts(published), parts(ours)) {
        let keys: BTreeSet<_> = published.keys().chain(ours.keys()).collect();
        for key in keys {
            compare(&format!("{place}/{key}"), published.get(key), ours.get(key), out);
        }
        return;
    }
    for (whose, value) in [("published", published), ("ours", ours)] {
        if let Some(value) = value {
            let place =
                place.replace("/schema/openAPIV3Schema/properties", "").replace("/properties", "");
            writeln!(out, "{place}\n    {whose}: {value}").unwrap();
        }
    }
}

#[test]
fn the_differences_from_the_published_are_known() {
    let mut differences = String::new();
    for kind in PUBLISHED_KINDS {
        let (published, ours) = (published_crd(kind), deployed_crd(kind));
        assert_eq!(ours["metadata"]["name"], published["metadata"]["name"]);
        assert_eq!(ours["metadata"]["labels"], published["metadata"]["labels"]);
        compare(kind, Some(&published["spec"]), Some(&ours["spec"]), &mut differences);
    }
    expect_file!["../../../testdata/crds/differences"].assert_eq(&differences);
}
