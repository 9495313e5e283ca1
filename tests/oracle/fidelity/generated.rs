//! Generated configs. Entries and units use few paths and names, so that they often conflict with
//! each other and with the base.

use proptest::prelude::*;
use serde_json::{Value, json};

const DIRECTORIES: [&str; 16] = [
    "/etc",
    "/etc/shared",
    "/etc/sudoers.d",
    "/etc/private",
    "/etc/local",
    "/etc/chain",
    "/etc/gone",
    "/etc/escape",
    "/etc/a",
    "/etc/a/b",
    "/bin",
    "/lib",
    "/usr/local",
    "/var/run",
    "/opt/x",
    "/etc/plain",
];
const NAMES: [&str; 7] = ["x", "y", "plain", "single", "nothing", "local", "deep/er"];
const UNITS: [&str; 8] = [
    "on.service",
    "off.service",
    "static.service",
    "masked.service",
    "own.service",
    "t@.service",
    "t@one.service",
    "remote-fs.target",
];

fn path() -> impl Strategy<Value = String> {
    (prop::sample::select(&DIRECTORIES[..]), prop::sample::select(&NAMES[..]))
        .prop_map(|(directory, name)| format!("{directory}/{name}"))
}

fn owner() -> impl Strategy<Value = Option<Value>> {
    prop::option::weighted(
        0.4,
        prop::sample::select(vec![
            json!({ "id": 0 }),
            json!({ "id": 7 }),
            json!({ "name": "daemon" }),
        ]),
    )
}

fn mode() -> impl Strategy<Value = Option<u32>> {
    prop::option::weighted(
        0.5,
        prop::sample::select(vec![0o600, 0o644, 0o755, 0o2750, 0o4711, 0o1777, 0]),
    )
}

/// The fields of all entries. Fields without a value are absent.
fn node() -> impl Strategy<Value = Value> {
    (path(), prop::option::weighted(0.5, any::<bool>()), owner(), owner()).prop_map(
        |(path, overwrite, user, group)| {
            let mut node =
                json!({ "path": path, "overwrite": overwrite, "user": user, "group": group });
            node.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            node
        },
    )
}

fn with(
    node: impl Strategy<Value = Value>,
    fields: impl Strategy<Value = Value>,
) -> impl Strategy<Value = Value> {
    (node, fields).prop_map(|(mut node, fields)| {
        let fields =
            fields.as_object().unwrap().clone().into_iter().filter(|(_, value)| !value.is_null());
        node.as_object_mut().unwrap().extend(fields);
        node
    })
}

fn file() -> impl Strategy<Value = Value> {
    let contents = prop::option::weighted(
        0.8,
        prop::sample::select(vec![json!({ "source": "data:,x%0A" }), json!({ "source": "" })]),
    );
    let append = prop::option::weighted(0.2, Just(json!([{ "source": "data:,more" }])));
    with(node(), (mode(), contents, append).prop_map(|(mode, contents, append)| json!({ "mode": mode, "contents": contents, "append": append })))
}

fn directory() -> impl Strategy<Value = Value> {
    with(node(), mode().prop_map(|mode| json!({ "mode": mode })))
}

fn link() -> impl Strategy<Value = Value> {
    let target = prop_oneof![path(), Just("x".to_owned()), Just("../etc/shared".to_owned())];
    with(
        node(),
        (target, prop::option::weighted(0.3, Just(true)))
            .prop_map(|(target, hard)| json!({ "target": target, "hard": hard })),
    )
}

fn unit() -> impl Strategy<Value = Value> {
    let contents = prop::option::of(prop::sample::select(vec![
        "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
        "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=a.target\nAlias=other.service\n",
        "[Service]\nExecStart=/bin/true\n",
        "",
    ]));
    (
        prop::sample::select(&UNITS[..]),
        contents,
        prop::option::of(any::<bool>()),
        prop::option::weighted(0.3, any::<bool>()),
    )
        .prop_map(|(name, contents, enabled, mask)| {
            let mut unit =
                json!({ "name": name, "contents": contents, "enabled": enabled, "mask": mask });
            unit.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            unit
        })
}

/// A config. Most configs are valid, because entries with equal paths and units with equal names
/// are merged.
pub fn config() -> impl Strategy<Value = Value> {
    let entries = (
        prop::collection::vec(file(), 0..4),
        prop::collection::vec(directory(), 0..3),
        prop::collection::vec(link(), 0..3),
        prop::collection::vec(unit(), 0..4),
    );
    entries.prop_map(|(files, directories, links, units)| {
        let mut seen = std::collections::BTreeSet::new();
        let mut once = |entries: Vec<Value>, key: &str| -> Vec<Value> {
            entries.into_iter().filter(|entry| seen.insert(entry[key].as_str().unwrap().to_owned())).collect()
        };
        json!({
            "ignition": { "version": "3.5.0" },
            "storage": { "files": once(files, "path"), "directories": once(directories, "path"), "links": once(links, "path") },
            "systemd": { "units": once(units, "name") },
        })
    })
}
