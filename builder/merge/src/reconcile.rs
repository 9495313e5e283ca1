//! What nodes that run one config can't take of another without being installed anew.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Error;
use mosb_api::RenderedConfig;
use mosb_ignition::{self as ignition, Document};
use mosb_types::Finding;

/// The user whose keys and password a machine takes on from a config after its installation.
pub const CORE: &str = "core";
/// What of that user may change.
pub const OF_CORE: [&str; 2] = ["sshAuthorizedKeys", "passwordHash"];

/// Lists of objects by what their entries are found by, whether an entry may go, and whether an
/// image brings them.
const LISTS: [(&str, &str, &str, bool, bool); 7] = [
    ("/passwd/groups", "passwd.groups", "name", false, false),
    ("/storage/disks", "storage.disks", "device", false, false),
    ("/storage/raid", "storage.raid", "name", false, false),
    ("/storage/filesystems", "storage.filesystems", "device", false, false),
    ("/storage/luks", "storage.luks", "name", false, false),
    ("/storage/directories", "storage.directories", "path", false, true),
    ("/storage/links", "storage.links", "path", true, true),
];

/// How machines come from one config to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// A daemon changes what differs.
    Daemon,
    /// They boot an image that holds directories, links, and files that are appended to, and a
    /// roll-out brings them kernel arguments.
    Image,
}

/// The file with which an administrator makes a node's daemon apply a config without checks.
const FORCE: &str = "/run/machine-config-daemon-force";
/// What of `ignition` a machine uses at its first boot only. A daemon does not look at it.
const AT_FIRST_BOOT: [&str; 3] = ["proxy", "security", "timeouts"];

/// What nodes of config `old` can't take of `new` without being installed anew: `object` is the
/// field.
///
/// # Errors
/// The old config has no Ignition config that can be read.
pub fn unreconcilable(
    old: &RenderedConfig,
    new: &RenderedConfig,
    update: Update,
) -> Result<Vec<Finding>, Error> {
    let by_image = update == Update::Image;
    let read = |config: &RenderedConfig| match config.ignition() {
        None => Ok(Value::Null),
        Some(raw) => match Document::read(raw) {
            Ok(read) => Ok(read.document.into_json()),
            Err(source) => Err(unreadable(config, source)),
        },
    };
    let (before, after) = (read(old)?, read(new)?);
    let mut found = Found::default();
    if old.fips != new.fips {
        found.add("spec.fips", "it is decided when a node is installed");
    }
    for (pointer, list, key, may_go, in_image) in LISTS {
        if by_image && in_image {
            continue;
        }
        found.list(list, by(before.pointer(pointer), key), by(after.pointer(pointer), key), may_go);
    }
    found.users(
        by(before.pointer("/passwd/users"), "name"),
        by(after.pointer("/passwd/users"), "name"),
    );
    for part in AT_FIRST_BOOT {
        if by_image && first_boot_part(&before, part) != first_boot_part(&after, part) {
            let what = "it is changed, and nodes use it at their first boot only";
            found.add(&format!("spec.config.ignition.{part}"), what);
        }
    }
    if !by_image && before.get("kernelArguments") != after.get("kernelArguments") {
        found.add(
            "spec.config.kernelArguments",
            "nodes read it when they are installed; use spec.kernelArguments",
        );
    }
    let files = by(after.pointer("/storage/files"), "path").into_iter();
    for (path, file) in files.filter(|_| !by_image) {
        let field = format!("spec.config.storage.files[{path}]");
        if file.get("append").is_some() {
            found.add(
                &format!("{field}.append"),
                "it would be appended again with each update; give the whole contents",
            );
        }
        if path == FORCE {
            found.add(&field, "nodes refuse this file in a config");
        }
    }
    Ok(found.0)
}

fn unreadable(config: &RenderedConfig, source: ignition::Error) -> Error {
    Error::Previous { name: config.name().to_string(), source }
}

/// What of the section `ignition` of a valid config a machine uses at its first boot only. No other
/// section is read.
pub fn first_boot_parts(config: &Value) -> Vec<&'static str> {
    let sections = config.as_object().into_iter().flatten();
    let section = sections.filter(|(name, _)| name.eq_ignore_ascii_case("ignition"));
    let section = section.map(|(name, section)| (name.clone(), section.clone())).collect();
    let Ok(read) = Document::read(&Value::Object(section)) else {
        return Vec::new();
    };
    let ignition = read.document.into_json();
    let is_there = |part: &&str| first_boot_part(&ignition, part).is_some();
    AT_FIRST_BOOT.into_iter().filter(is_there).collect()
}

fn first_boot_part<'c>(ignition: &'c Value, part: &str) -> Option<&'c Value> {
    ignition.pointer(&format!("/ignition/{part}")).filter(|value| !is_empty(value))
}

/// Absent, null and empty are equal.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

type Entries<'a> = BTreeMap<&'a str, &'a Value>;

/// The entries of a list by their key.
fn by<'a>(list: Option<&'a Value>, key: &str) -> Entries<'a> {
    let entries = list.and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(|entry| Some((entry.get(key)?.as_str()?, entry))).collect()
}

#[derive(Debug, Default)]
struct Found(Vec<Finding>);

impl Found {
    fn add(&mut self, field: &str, why: &str) {
        self.0.push(Finding::new("needs-reinstall", why).object(field.escape_debug().to_string()));
    }

    fn list(&mut self, list: &str, before: Entries<'_>, after: Entries<'_>, may_go: bool) {
        for (key, entry) in &after {
            let what = match before.get(key) {
                None => "it is new, and nodes take it when they are installed only",
                Some(old) if old != entry => {
                    "it is changed, and nodes take it when they are installed only"
                }
                Some(_) => continue,
            };
            self.add(&format!("spec.config.{list}[{key}]"), what);
        }
        let removed = before.keys().filter(|key| !after.contains_key(*key));
        for key in removed.filter(|_| !may_go) {
            let what = "it is gone, and nodes keep it until they are installed anew";
            self.add(&format!("spec.config.{list}[{key}]"), what);
        }
    }

    fn users(&mut self, before: Entries<'_>, after: Entries<'_>) {
        let rest = |user: &&Value| {
            let mut rest = (*user).clone();
            if let Some(fields) = rest.as_object_mut() {
                fields.retain(|field, _| !OF_CORE.contains(&field.as_str()));
            }
            rest
        };
        let core = |users: &Entries<'_>| users.get(CORE).map(rest);
        let plain = serde_json::json!({ "name": CORE });
        let nothing_more = |user: Option<Value>| user.is_none_or(|user| user == plain);
        if core(&before) != core(&after)
            && !(nothing_more(core(&before)) && nothing_more(core(&after)))
        {
            let what = "nodes take SSH keys and the password hash of this user, and nothing else";
            self.add(&format!("spec.config.passwd.users[{CORE}]"), what);
        }
        let others = |users: Entries<'_>| -> BTreeMap<String, Value> {
            let users = users.into_iter().filter(|(name, _)| *name != CORE);
            users.map(|(name, user)| (name.to_owned(), user.clone())).collect()
        };
        let (before, after) = (others(before), others(after));
        let mut names: Vec<_> = before.keys().chain(after.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            if before.get(name) != after.get(name) {
                let what = "nodes take no user but core";
                self.add(&format!("spec.config.passwd.users[{name}]"), what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rendered(mut config: Value, fips: bool) -> RenderedConfig {
        config["ignition"]["version"] = json!("3.5.0");
        RenderedConfig::from_value(json!({
            "apiVersion": mosb_api::API_VERSION, "kind": "MachineConfig",
            "metadata": { "name": "rendered-worker-0123456789abcdef0123456789abcdef" },
            "spec": { "config": config, "fips": fips },
        }))
        .unwrap()
    }

    #[test]
    fn changes_that_need_a_new_installation_are_listed() {
        let storage = |list: &str, entry: Value| json!({ "storage": { list: [entry] } });
        let user = |user: Value| json!({ "passwd": { "users": [user] } });
        let file = |path: &str| {
            storage("files", json!({ "path": path, "contents": { "source": "data:,a" } }))
        };
        let (none, link) =
            (json!({}), storage("links", json!({ "path": "/etc/l", "target": "/x" })));
        let directory = storage("directories", json!({ "path": "/etc/d" }));
        let disk = |label: &str| {
            storage("disks", json!({ "device": "/dev/sda", "partitions": [{ "label": label }] }))
        };
        for (what, before, after, want) in [
            ("files", file("/etc/a"), file("/etc/b"), &[][..]),
            (
                "keys",
                user(json!({ "name": "core", "sshAuthorizedKeys": ["a"] })),
                user(json!({ "name": "core", "passwordHash": "x" })),
                &[],
            ),
            (
                "a first key",
                none.clone(),
                user(json!({ "name": "core", "sshAuthorizedKeys": ["a"] })),
                &[],
            ),
            (
                "core's shell",
                none.clone(),
                user(json!({ "name": "core", "shell": "/bin/sh" })),
                &["passwd.users[core]"],
            ),
            ("another user", none.clone(), user(json!({ "name": "eve" })), &["passwd.users[eve]"]),
            (
                "that user goes",
                user(json!({ "name": "eve" })),
                none.clone(),
                &["passwd.users[eve]"],
            ),
            (
                "group",
                none.clone(),
                json!({ "passwd": { "groups": [{ "name": "g" }] } }),
                &["passwd.groups[g]"],
            ),
            ("new link", none.clone(), link.clone(), &["storage.links[/etc/l]"]),
            ("link goes", link, none.clone(), &[]),
            ("new directory", none.clone(), directory.clone(), &["storage.directories[/etc/d]"]),
            ("directory goes", directory, none.clone(), &["storage.directories[/etc/d]"]),
            ("disk", disk("a"), disk("b"), &["storage.disks[/dev/sda]"]),
            ("same disk", disk("a"), disk("a"), &[]),
            (
                "append",
                none.clone(),
                storage("files", json!({ "path": "/etc/a", "append": [{ "source": "data:,a" }] })),
                &["storage.files[/etc/a].append"],
            ),
            (
                "force",
                none.clone(),
                file(FORCE),
                &["storage.files[/run/machine-config-daemon-force]"],
            ),
            (
                "arguments",
                none.clone(),
                json!({ "kernelArguments": { "shouldExist": ["a"] } }),
                &["kernelArguments"],
            ),
        ] {
            let (before, after) = (rendered(before, false), rendered(after, false));
            let found = unreconcilable(&before, &after, Update::Daemon).unwrap();
            let objects: Vec<_> = found.iter().filter_map(|it| it.object.as_deref()).collect();
            let want: Vec<_> = want.iter().map(|field| format!("spec.config.{field}")).collect();
            assert_eq!(objects, want, "{what}");
            let by_image = unreconcilable(&before, &after, Update::Image).unwrap();
            let brought =
                ["new link", "new directory", "directory goes", "append", "force", "arguments"];
            let left = if brought.contains(&what) { Vec::new() } else { found };
            assert_eq!(by_image, left, "{what}, by an image");
        }
        let timeouts = |seconds: Value| json!({ "ignition": { "timeouts": seconds } });
        for (before, after, want) in [
            (timeouts(json!({})), none.clone(), false),
            (timeouts(json!({ "httpTotal": 5 })), timeouts(json!({ "httpTotal": 6 })), true),
        ] {
            let (before, after) = (rendered(before, false), rendered(after, false));
            let found = unreconcilable(&before, &after, Update::Image).unwrap();
            let objects: Vec<_> = found.iter().filter_map(|it| it.object.as_deref()).collect();
            assert_eq!(objects, if want { vec!["spec.config.ignition.timeouts"] } else { vec![] });
            assert_eq!(unreconcilable(&before, &after, Update::Daemon).unwrap(), []);
        }
        let fips =
            unreconcilable(&rendered(json!({}), false), &rendered(json!({}), true), Update::Image);
        assert_eq!(fips.unwrap()[0].object.as_deref(), Some("spec.fips"));
    }
}
