//! The section `passwd`.

use serde_json::{Value, json};

use super::super::object::Object;
use super::super::version::SpecV2;
use super::origins::{Origins, Places};
use super::shape::{Fields, copy, override_fields, remove_duplicates};

/// Lists of which a later duplicate of a user adds entries.
const UNITED: [&str; 2] = ["groups", "sshAuthorizedKeys"];

pub(super) fn translate(root: &Object<'_, '_>, origins: &mut Origins) -> Value {
    let passwd = root.object("passwd");
    let users = by_name("passwd.users", passwd.each("users", user), origins);
    let groups = passwd.each("groups", |o| copy(o, &[]));
    json!({ "users": users, "groups": by_name("passwd.groups", groups, origins) })
}

fn user(o: &Object<'_, '_>) -> Fields {
    if o.is_set("create") {
        let message = "spec 3 has no `create`; write its fields into the user itself, where spec 2.1.0 and later have them too";
        o.problem("create", "no-spec3-equal", message);
    }
    let mut user = copy(o, &["create"]);
    if o.spec() == SpecV2::V2_0.into() && o.text("passwordHash") == Some("") {
        user.remove("passwordHash");
    }
    for list in UNITED {
        remove_duplicates(&mut user, list);
    }
    user
}

/// Each name once, at its first place. A later duplicate overrides fields, and adds its keys and
/// groups.
fn by_name(list: &str, entries: Vec<Fields>, origins: &mut Origins) -> Vec<Fields> {
    let mut places = Places::default();
    let mut out: Vec<Fields> = Vec::new();
    for (index, fields) in entries.into_iter().enumerate() {
        let place = places.of(fields.get("name"), out.len(), origins);
        match out.get_mut(place) {
            Some(earlier) => override_fields(earlier, fields, &UNITED),
            None => {
                origins.add(format!("{list}[{place}]"), format!("{list}[{index}]"));
                out.push(fields);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::{are_refused, become_these};
    use serde_json::json;

    #[test]
    fn users_and_groups_are_translated() {
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
    fn invalid_users_and_groups_are_rejected() {
        let user = |user| json!({ "passwd": { "users": [{ "name": "b" }, user] } });
        let want: &[&str] = &["passwd.users[1].create: no-spec3-equal"];
        are_refused([
            ("create", "2.0.0", user(json!({ "name": "a", "create": { "uid": 5 } })), want),
            ("an empty create", "2.4.0", user(json!({ "name": "a", "create": {} })), want),
        ]);
    }
}
