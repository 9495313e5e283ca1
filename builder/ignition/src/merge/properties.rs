//! What holds for all merges, on generated configs whose entries often meet.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

/// An object of some of these fields.
fn some(
    fields: Vec<(&'static str, BoxedStrategy<Value>)>,
) -> impl Strategy<Value = Map<String, Value>> {
    let field = |(name, value): (&'static str, BoxedStrategy<Value>)| {
        proptest::option::of(value)
            .prop_map(move |value| (name.to_owned(), value.unwrap_or_default()))
    };
    fields.into_iter().map(field).collect::<Vec<_>>().prop_map(Map::from_iter)
}

fn choice<const N: usize>(values: [Value; N]) -> BoxedStrategy<Value> {
    proptest::sample::select(values.to_vec()).boxed()
}

/// A list of some of `keys`, each with `field` and what `rest` gives.
fn entries(
    field: &'static str,
    keys: &'static [&'static str],
    rest: BoxedStrategy<Map<String, Value>>,
) -> BoxedStrategy<Value> {
    let keys = proptest::sample::subsequence(keys, 0..=keys.len()).prop_shuffle();
    keys.prop_flat_map(move |keys| {
        let rests = proptest::collection::vec(rest.clone(), keys.len());
        rests.prop_map(move |rests| {
            let entry = |(key, mut rest): (&&str, Map<String, Value>)| {
                rest.insert(field.to_owned(), json!(key));
                Value::Object(rest)
            };
            keys.iter().zip(rests).map(entry).collect()
        })
    })
    .boxed()
}

fn texts(of: &'static [&'static str]) -> BoxedStrategy<Value> {
    let some = proptest::sample::subsequence(of, 0..=of.len()).prop_shuffle();
    some.prop_map(|texts| json!(texts)).boxed()
}

fn node() -> Vec<(&'static str, BoxedStrategy<Value>)> {
    let owner =
        || choice([json!({ "id": 1 }), json!({ "id": 2 }), json!({ "name": "u" }), json!({})]);
    let truth = choice([json!(false), json!(null)]);
    vec![("user", owner()), ("group", owner()), ("overwrite", truth)]
}

/// The fields of a config. `lists_that_grow` are those that a repeated config would add to again;
/// with `one_kind`, a path is always of a file, or always of a directory, and a kernel argument
/// always wanted.
fn config(lists_that_grow: bool, one_kind: bool) -> impl Strategy<Value = Document> {
    let grown = move |of| {
        if lists_that_grow { texts(of) } else { Just(json!([])).boxed() }
    };
    let contents = choice([
        json!({ "source": "data:,a", "compression": "gzip" }),
        json!({ "source": "data:,b" }),
        json!({ "source": "" }),
        json!({ "compression": "" }),
        json!({ "source": "https://a/", "httpHeaders": [{ "name": "A", "value": "1" }, { "name": "B" }] }),
    ]);
    let mode = || choice([json!(0), json!(420)]);
    let files: &[_] = if one_kind { &["/a", "/b"] } else { &["/a", "/b", "/c"] };
    let directories: &[_] = if one_kind { &["/c", "/d"] } else { &["/d", "/b", "/c"] };
    let append = grown(&["data:,x", "data:,y"]).prop_map(|sources| {
        sources.as_array().unwrap().iter().map(|source| json!({ "source": source })).collect()
    });
    let mut file = node();
    file.extend([("mode", mode()), ("contents", contents), ("append", append.boxed())]);
    let mut directory = node();
    directory.push(("mode", mode()));
    let dropins = entries(
        "name",
        &["x.conf", "y.conf"],
        some(vec![("contents", choice([json!(""), json!("[Unit]\n")]))]).boxed(),
    );
    let unit = some(vec![
        ("enabled", choice([json!(true), json!(false)])),
        ("contents", choice([json!(""), json!("[Unit]\n")])),
        ("dropins", dropins),
    ]);
    let user = some(vec![
        ("uid", choice([json!(1), json!(2)])),
        ("groups", texts(&["a", "b"])),
        ("sshAuthorizedKeys", texts(&["k", "l", "m"])),
    ]);
    let filesystem =
        some(vec![("options", grown(&["o", "p"])), ("label", choice([json!("x"), json!("")]))]);
    let partitions = entries(
        "label",
        &["x", "y"],
        some(vec![("sizeMiB", choice([json!(1), json!(2)]))]).boxed(),
    );
    let parts = (
        entries("path", files, some(file).boxed()),
        entries("path", directories, some(directory).boxed()),
        entries("name", &["a.service", "b.service"], unit.boxed()),
        entries("name", &["core", "root"], user.boxed()),
        entries("device", &["/dev/a", "/dev/b"], filesystem.boxed()),
        entries("device", &["/dev/c"], some(vec![("partitions", partitions)]).boxed()),
        texts(&["q", "r"]),
        if one_kind { Just(json!([])).boxed() } else { texts(&["s", "r"]) },
    );
    parts.prop_filter_map("valid alone", |(files, directories, units, users, mut filesystems, disks, wanted, unwanted)| {
        for filesystem in filesystems.as_array_mut().unwrap() {
            filesystem["format"] = json!("ext4");
        }
        let config = json!({
            "ignition": { "version": "3.5.0" },
            "kernelArguments": { "shouldExist": wanted, "shouldNotExist": unwanted },
            "passwd": { "users": users },
            "storage": { "files": files, "directories": directories, "filesystems": filesystems, "disks": disks },
            "systemd": { "units": units },
        });
        Some(Document::read(&config).ok()?.document)
    })
}

fn merge<const N: usize>(documents: [&Document; N]) -> Document {
    let mut merger = Merger::new();
    for (origin, document) in documents.into_iter().enumerate() {
        merger.add(origin, document.clone());
    }
    merger.finish().document
}

fn explain(documents: &[&Document]) -> Merged {
    let mut merger = Merger::explaining();
    for (origin, document) in documents.iter().enumerate() {
        merger.add(origin, (*document).clone());
    }
    merger.finish()
}

fn places(merged: &Merged) -> BTreeSet<String> {
    let lines = merged.provenance.iter();
    lines.map(|line| line.place.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn with_nothing_a_config_stays_as_it_is(a in config(true, false)) {
        let nothing = Document::empty();
        prop_assert_eq!(merge([&a]).into_json(), a.as_json().clone());
        prop_assert_eq!(merge([&nothing, &a]).into_json(), a.as_json().clone());
        prop_assert_eq!(merge([&a, &nothing]).into_json(), a.as_json().clone());
    }

    #[test]
    fn twice_is_once(a in config(false, false), b in config(false, true)) {
        prop_assert_eq!(merge([&a, &a]).into_json(), a.as_json().clone());
        let ab = merge([&b, &a]);
        prop_assert_eq!(merge([&b, &a, &a]).into_json(), ab.into_json());
    }

    /// Where nothing is taken away: then an entry that comes back keeps nothing, whatever was
    /// merged first.
    #[test]
    fn merging_is_associative(a in config(true, true), b in config(true, true), c in config(true, true)) {
        let (ab, bc) = (merge([&a, &b]), merge([&b, &c]));
        let all = merge([&a, &b, &c]).into_json();
        prop_assert_eq!(merge([&ab, &c]).into_json(), all.clone());
        prop_assert_eq!(merge([&a, &bc]).into_json(), all);
    }

    /// One pair at a time, as Ignition does it.
    #[test]
    fn one_by_one_is_all_at_once(a in config(true, false), b in config(true, false), c in config(true, false)) {
        let pairs = merge([&merge([&a, &b]), &c]);
        prop_assert_eq!(merge([&a, &b, &c]).into_json(), pairs.into_json());
    }

    #[test]
    fn provenance_names_the_config_that_set_a_field(a in config(true, true), b in config(true, true), c in config(true, true)) {
        let explained = explain(&[&a, &b, &c]);
        prop_assert_eq!(&explained.document, &merge([&a, &b, &c]));
        let alone = [&a, &b, &c].map(|config| places(&explain(&[config])));
        let all = places(&explained);
        prop_assert_eq!(all.len(), explained.provenance.len(), "each place once");
        for line in &explained.provenance {
            // Entries of these lists are identified by their index, which differs from list to
            // list.
            if ["append", "options", "sshAuthorizedKeys"].iter().any(|list| line.place.contains(list)) {
                continue;
            }
            let mut sayers: Vec<usize> = (0..3).filter(|n| alone[*n].contains(line.place.as_str())).collect();
            let keys = ["name", "path", "device", "label"];
            let entry = keys.iter().any(|key| all.contains(&format!("{}.{key}", line.place)));
            if entry {
                prop_assert_eq!((line.from, line.overrides.len()), (sayers[0], 0), "{}", line.place);
            } else {
                prop_assert_eq!(Some(line.from), sayers.pop(), "{}", line.place);
                prop_assert_eq!(&line.overrides, &sayers, "{}", line.place);
            }
        }
    }
}
