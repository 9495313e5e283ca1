//! What machines need of a config beside its image.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use mosb_api::RenderedConfig;
use mosb_api::rollout::MachinePart;
use mosb_ignition::{Config, Document};
use mosb_merge::{CORE, OF_CORE};

/// The kernel arguments of a config, and the SSH keys and the password of its user `core`.
///
/// Each argument is there once, at its first place: those of `spec.kernelArguments`, then those of
/// Ignition. What is wanted is not removed. An empty password hash is none, so that no machine gets
/// an empty password. Of an Ignition config that can't be read, nothing is taken: it has no image
/// either.
pub fn machine_part(config: &RenderedConfig) -> MachinePart {
    let ignition = config.ignition().and_then(|raw| Document::read(raw).ok());
    let ignition = ignition.map(|read| read.document.into_json()).unwrap_or_default();
    let users = ignition.pointer("/passwd/users").and_then(Value::as_array);
    let core = users.into_iter().flatten().find(|user| user["name"] == CORE);
    let password_hash = core.and_then(|core| core["passwordHash"].as_str());
    MachinePart {
        ssh_authorized_keys: texts(core.and_then(|core| core.get("sshAuthorizedKeys")))
            .map(str::to_owned)
            .collect(),
        password_hash: password_hash.filter(|hash| !hash.is_empty()).map(str::to_owned),
        ..with_arguments(
            config,
            texts(ignition.pointer("/kernelArguments/shouldExist")),
            texts(ignition.pointer("/kernelArguments/shouldNotExist")),
        )
    }
}

/// Only the kernel arguments of [`machine_part`], of a config whose Ignition config is parsed.
pub(super) fn kernel_part(config: &RenderedConfig, ignition: Option<&Config>) -> MachinePart {
    let lists = ignition.map(|config| &config.kernel_arguments);
    let [wanted, removed] =
        [lists.map(|lists| &*lists.should_exist), lists.map(|lists| &*lists.should_not_exist)]
            .map(|list| list.unwrap_or_default().iter().map(String::as_str));
    with_arguments(config, wanted, removed)
}

fn with_arguments<'a>(
    config: &'a RenderedConfig,
    wanted: impl Iterator<Item = &'a str>,
    removed: impl Iterator<Item = &'a str>,
) -> MachinePart {
    let of_config = config.kernel_arguments.iter().map(String::as_str);
    let kernel_arguments = arguments(of_config.chain(wanted));
    let removed = arguments(removed).into_iter();
    MachinePart {
        removed_kernel_arguments: removed
            .filter(|argument| !kernel_arguments.contains(argument))
            .collect(),
        kernel_arguments,
        ..MachinePart::default()
    }
}

/// Whether two configs differ in nothing but their names, and the SSH keys and the password of
/// `core`: a machine takes that on without another image.
pub fn is_same_but_login(one: &RenderedConfig, another: &RenderedConfig) -> bool {
    without_login(one) == without_login(another)
}

fn without_login(config: &RenderedConfig) -> Value {
    let mut spec = config.as_value()["spec"].clone();
    let users = spec.pointer_mut("/config/passwd/users").and_then(Value::as_array_mut);
    let Some(users) = users else {
        return spec;
    };
    for user in users.iter_mut().filter(|user| user["name"] == CORE) {
        if let Some(user) = user.as_object_mut() {
            user.retain(|field, _| !OF_CORE.contains(&field.as_str()));
        }
    }
    users.retain(|user| *user != json!({ "name": CORE }));
    if users.is_empty()
        && let Some(ignition) = spec.pointer_mut("/config").and_then(Value::as_object_mut)
        && ignition["passwd"] == json!({ "users": [] })
    {
        ignition.remove("passwd");
    }
    spec
}

fn texts(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The arguments of these lines, each once.
fn arguments<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    lines
        .flat_map(split_arguments)
        .filter(|argument| seen.insert(*argument))
        .map(str::to_owned)
        .collect()
}

/// Splits a line of kernel arguments at blanks that are not between double quotes, as the kernel does (`next_arg` in
/// `lib/cmdline.c`).
pub fn split_arguments(line: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    line.split(move |character: char| {
        quoted ^= character == '"';
        character.is_ascii_whitespace() && !quoted
    })
    .filter(|argument| !argument.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(arguments: &Value, config: Value) -> MachinePart {
        machine_part(&rendered('a', arguments, config))
    }

    fn rendered(digit: char, arguments: &Value, mut config: Value) -> RenderedConfig {
        if config["ignition"].is_null() {
            config["ignition"] = json!({ "version": "3.5.0" });
        }
        let config = json!({
            "apiVersion": mosb_api::API_VERSION, "kind": "MachineConfig",
            "metadata": { "name": format!("rendered-worker-{}", digit.to_string().repeat(32)) },
            "spec": { "kernelArguments": arguments, "config": config },
        });
        RenderedConfig::from_value(config).unwrap()
    }

    #[test]
    fn arguments_are_split_at_blanks_and_there_once() {
        let ignition = |exist: Value, not: Value| json!({ "kernelArguments": { "shouldExist": exist, "shouldNotExist": not } });
        for (what, of_spec, config, want, removed) in [
            ("none", json!([]), json!({}), &[][..], &[][..]),
            (
                "both, in order",
                json!(["b", "a"]),
                ignition(json!(["c"]), json!([])),
                &["b", "a", "c"],
                &[],
            ),
            ("one line", json!([" a=1  b\tc\n"]), json!({}), &["a=1", "b", "c"], &[]),
            (
                "twice",
                json!(["a", "b a"]),
                ignition(json!(["b", "c"]), json!([])),
                &["a", "b", "c"],
                &[],
            ),
            (
                "a key with two values",
                json!(["console=tty0 console=ttyS0"]),
                json!({}),
                &["console=tty0", "console=ttyS0"],
                &[],
            ),
            (
                "quotes",
                json!(["dyndbg=\"file a.c +p\" b"]),
                json!({}),
                &["dyndbg=\"file a.c +p\"", "b"],
                &[],
            ),
            ("an open quote", json!(["a=\"b c"]), json!({}), &["a=\"b c"], &[]),
            ("removed", json!([]), ignition(json!([]), json!(["x y", "x"])), &[], &["x", "y"]),
            (
                "wanted and removed",
                json!(["x"]),
                ignition(json!([]), json!(["x", "y"])),
                &["x"],
                &["y"],
            ),
        ] {
            let part = part(&of_spec, config);
            assert_eq!(part.kernel_arguments, want, "{what}");
            assert_eq!(part.removed_kernel_arguments, removed, "{what}");
        }
    }

    #[test]
    fn keys_and_password_are_those_of_core() {
        let users = |users: Value| json!({ "passwd": { "users": users } });
        let keys = json!(["ssh-ed25519 AAAA", "ssh-rsa BBBB"]);
        for (what, config, keys, hash) in [
            ("none", json!({}), 0, None),
            (
                "another user",
                users(
                    json!([{ "name": "eve", "sshAuthorizedKeys": keys, "passwordHash": "$y$x" }]),
                ),
                0,
                None,
            ),
            (
                "core",
                users(
                    json!([{ "name": "eve" }, { "name": "core", "sshAuthorizedKeys": keys, "passwordHash": "$y$x" }]),
                ),
                2,
                Some("$y$x"),
            ),
            (
                "a name in another case",
                json!({ "Passwd": { "Users": [{ "Name": "core", "SSHAuthorizedKeys": keys }] } }),
                2,
                None,
            ),
            ("an empty hash", users(json!([{ "name": "core", "passwordHash": "" }])), 0, None),
            (
                "not readable",
                json!({ "ignition": { "version": "9.0.0" }, "passwd": { "users": [{ "name": "core", "passwordHash": "x" }] } }),
                0,
                None,
            ),
        ] {
            let part = part(&json!([]), config);
            assert_eq!(part.ssh_authorized_keys.len(), keys, "{what}");
            assert_eq!(part.password_hash.as_deref(), hash, "{what}");
            let is_empty = part == MachinePart::default();
            assert_eq!(is_empty, keys == 0 && hash.is_none(), "{what}");
        }
    }

    #[test]
    fn names_keys_and_password_make_no_other_image() {
        let core = |user: Value| json!({ "passwd": { "users": [user] } });
        let keys = core(json!({ "name": "core", "sshAuthorizedKeys": ["a"] }));
        for (what, config, arguments, same) in [
            ("nothing", keys.clone(), json!([]), true),
            (
                "another key",
                core(json!({ "name": "core", "sshAuthorizedKeys": ["b"], "passwordHash": "x" })),
                json!([]),
                true,
            ),
            ("no user", json!({}), json!([]), true),
            ("no users", json!({ "passwd": { "users": [] } }), json!([]), true),
            ("a shell", core(json!({ "name": "core", "shell": "/bin/sh" })), json!([]), false),
            (
                "another user",
                core(json!({ "name": "eve", "sshAuthorizedKeys": ["a"] })),
                json!([]),
                false,
            ),
            (
                "a group",
                json!({ "passwd": { "users": [], "groups": [{ "name": "g" }] } }),
                json!([]),
                false,
            ),
            ("an argument", keys.clone(), json!(["a"]), false),
            (
                "a directory",
                json!({ "storage": { "directories": [{ "path": "/etc/a" }] } }),
                json!([]),
                false,
            ),
        ] {
            let (one, another) =
                (rendered('a', &json!([]), keys.clone()), rendered('b', &arguments, config));
            assert_eq!(is_same_but_login(&one, &another), same, "{what}");
            assert_eq!(is_same_but_login(&another, &one), same, "{what}");
        }
    }
}
