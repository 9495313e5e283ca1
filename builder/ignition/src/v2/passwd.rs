//! The section `passwd`.

use serde_json::Value;

use super::super::fields::Object;
use super::super::version::{Spec, SpecV2};
use super::origins::{Origins, Places};
use super::shape::{Fields, each_once, filled, list, number, object, part, say_again, text, truth};

/// Reads the section.
pub(super) fn read(root: &mut Object<'_, '_>, origins: &mut Origins) -> Option<Value> {
    let mut passwd = root.object("passwd");
    let users = by_name("passwd.users", passwd.each("users", user), origins);
    let groups = by_name("passwd.groups", passwd.each("groups", group), origins);
    passwd.finish();
    part(object([("users", list(users)), ("groups", list(groups))]))
}

fn user(o: &mut Object<'_, '_>) -> Fields {
    let mut fields = object([("name", text(o.text("name")))]);
    let hash = o.text("passwordHash");
    let hash = match o.spec() {
        Spec::V2(SpecV2::V2_0) => filled(hash),
        _ => text(hash),
    };
    let keys = each_once(o.texts("sshAuthorizedKeys"));
    fields.extend(object([("passwordHash", hash), ("sshAuthorizedKeys", keys)]));
    if o.has("uid", SpecV2::V2_1) {
        for key in ["gecos", "homeDir", "primaryGroup", "shell"] {
            fields.extend(object([(key, filled(o.text(key)))]));
        }
        for key in ["noCreateHome", "noLogInit", "noUserGroup", "system"] {
            fields.extend(object([(key, truth(o.truth(key)))]));
        }
        let (uid, groups) = (number(o.number("uid")), each_once(o.texts("groups")));
        fields.extend(object([("uid", uid), ("groups", groups)]));
    }
    if o.given("create") {
        let message = "spec 3 has no `create`; write its fields into the user itself, where spec 2.1.0 and later have them too";
        o.problem("create", "no-spec3-equal", message);
    }
    read_create(&mut o.object("create"));
    fields
}

/// Only for the types and names of its fields.
fn read_create(o: &mut Object<'_, '_>) {
    for key in ["gecos", "homeDir", "primaryGroup", "shell"] {
        o.text(key);
    }
    for key in ["noCreateHome", "noLogInit", "noUserGroup", "system"] {
        o.truth(key);
    }
    o.number("uid");
    o.texts("groups");
    o.finish();
}

fn group(o: &mut Object<'_, '_>) -> Fields {
    object([
        ("name", text(o.text("name"))),
        ("gid", number(o.number("gid"))),
        ("passwordHash", filled(o.text("passwordHash"))),
        ("system", truth(o.truth("system"))),
    ])
}

/// Each name once, where it first stands. What a later one says counts; its keys and groups are added.
fn by_name(list: &str, entries: Vec<Fields>, origins: &mut Origins) -> Vec<Value> {
    let mut places = Places::default();
    let mut out: Vec<Fields> = Vec::new();
    for (index, fields) in entries.into_iter().enumerate() {
        let place = places.of(fields.get("name"), out.len(), origins);
        match out.get_mut(place) {
            Some(earlier) => say_again(earlier, fields, &["groups", "sshAuthorizedKeys"]),
            None => {
                origins.add(format!("{list}[{place}]"), format!("{list}[{index}]"));
                out.push(fields);
            }
        }
    }
    out.into_iter().map(Value::Object).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{are_refused, become_these};
    use serde_json::json;

    #[test]
    fn what_becomes_of_the_section() {
        become_these([
            (
                "all fields",
                "2.1.0",
                json!({ "passwd": {
                    "users": [{ "name": "a", "uid": 0, "gecos": "g", "homeDir": "/h", "noCreateHome": true, "noUserGroup": true,
                        "noLogInit": true, "primaryGroup": "p", "shell": "/s", "system": true, "passwordHash": "", "groups": ["b", "a", "b"] }],
                    "groups": [{ "name": "g", "gid": 0, "passwordHash": "h", "system": true }],
                } }),
                json!({ "passwd": {
                    "users": [{ "name": "a", "uid": 0, "gecos": "g", "homeDir": "/h", "noCreateHome": true, "noUserGroup": true,
                        "noLogInit": true, "primaryGroup": "p", "shell": "/s", "system": true, "passwordHash": "", "groups": ["b", "a"] }],
                    "groups": [{ "name": "g", "gid": 0, "passwordHash": "h", "system": true }],
                } }),
            ),
            (
                "empty and false are unsaid",
                "2.4.0",
                json!({ "passwd": { "users": [{ "name": "a", "gecos": "", "system": false, "groups": [], "create": null }], "groups": [{ "name": "g", "passwordHash": "", "system": false }] } }),
                json!({ "passwd": { "users": [{ "name": "a" }], "groups": [{ "name": "g" }] } }),
            ),
            (
                "an empty hash was unsaid at first",
                "2.0.0",
                json!({ "passwd": { "users": [{ "name": "a", "passwordHash": "", "sshAuthorizedKeys": ["k"] }] } }),
                json!({ "passwd": { "users": [{ "name": "a", "sshAuthorizedKeys": ["k"] }] } }),
            ),
            (
                "twice",
                "2.2.0",
                json!({ "passwd": {
                    "users": [{ "name": "a", "uid": 1, "shell": "/s", "sshAuthorizedKeys": ["x", "y"] }, { "name": "b" }, { "name": "a", "uid": 2, "sshAuthorizedKeys": ["z", "x"] }],
                    "groups": [{ "name": "g", "gid": 1, "system": true }, { "name": "h" }, { "name": "g", "gid": 2 }],
                } }),
                json!({ "passwd": {
                    "users": [{ "name": "a", "uid": 2, "shell": "/s", "sshAuthorizedKeys": ["x", "y", "z"] }, { "name": "b" }],
                    "groups": [{ "name": "g", "gid": 2, "system": true }, { "name": "h" }],
                } }),
            ),
        ]);
    }

    #[test]
    fn what_is_refused() {
        let user = |user| json!({ "passwd": { "users": [{ "name": "b" }, user] } });
        let want: &[&str] = &["passwd.users[1].create: no-spec3-equal"];
        are_refused([
            ("create", "2.0.0", user(json!({ "name": "a", "create": { "uid": 5 } })), want),
            ("an empty create", "2.4.0", user(json!({ "name": "a", "create": {} })), want),
        ]);
    }
}
