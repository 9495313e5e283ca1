//! Which changes of a config a running machine can take without a reboot: those of the files that
//! say how images are pulled and whom the machine trusts.
//!
//! Input: two configs, or a path. Output: a [`LiveChange`], or the [`LiveAction`] that makes a file
//! effective. Invariant: two configs that differ in anything else give no such change. Which paths
//! of an image may differ is decided by the same list ([`is_live_in_image`]).

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use mosb_api::RenderedConfig;

/// The pull secret of a machine, where kubelet and CRI-O read it.
pub const PULL_SECRET: &str = "/var/lib/kubelet/config.json";
/// What `update-ca-trust` makes of the CAs.
const CA_BUNDLES: &str = "/etc/pki/ca-trust/extracted";

/// The files: a directory stands for the files in it, and one that is followed by `**` for all below
/// it.
const LIVE: [(&str, Below, LiveAction); 8] = [
    (PULL_SECRET, Below::Itself, LiveAction::Write),
    ("/etc/containers/registries.conf", Below::Itself, LiveAction::ReloadCrio),
    ("/etc/containers/registries.conf.d", Below::Files, LiveAction::ReloadCrio),
    ("/etc/containers/policy.json", Below::Itself, LiveAction::ReloadCrio),
    ("/etc/containers/registries.d", Below::Files, LiveAction::ReloadCrio),
    ("/etc/containers/certs.d", Below::All, LiveAction::Write),
    ("/etc/docker/certs.d", Below::All, LiveAction::Write),
    ("/etc/pki/ca-trust/source/anchors", Below::Files, LiveAction::Write),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    /// The path is a file.
    Itself,
    /// The files in a directory.
    Files,
    /// The files in a directory and in those below it.
    All,
}

/// What makes a file effective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LiveAction {
    /// Nothing: what reads it does so whenever it needs it, or at its own start.
    Write,
    /// `crio.service` is reloaded, if it runs.
    ReloadCrio,
}

/// A change that needs no reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LiveChange {
    /// What is done on a machine.
    pub actions: BTreeSet<LiveAction>,
    /// The files that are added, removed or changed.
    pub paths: BTreeSet<String>,
}

/// What makes a change of this file of a config effective on a running machine; none if that needs
/// a reboot. A path that is not in its shortest spelling needs one.
pub fn is_live_path(path: &str) -> Option<LiveAction> {
    LIVE.into_iter().find_map(|(live, below, action)| {
        let is_live = match below {
            Below::Itself => path == live,
            Below::Files => names_below(path, live).is_some_and(|names| names.len() == 1),
            Below::All => names_below(path, live).is_some(),
        };
        is_live.then_some(action)
    })
}

/// Whether two images may differ in this path, a file or a directory of their `/etc`, if a running
/// machine is to come from one to the other: beside [what a config has](is_live_path), what
/// `update-ca-trust` makes, and directories that hold such files only.
pub fn is_live_in_image(path: &str) -> bool {
    let is_folder =
        |(live, below, _): &(&str, Below, LiveAction)| *below != Below::Itself && path == *live;
    is_live_path(path).is_some()
        || LIVE.iter().any(is_folder)
        || path == CA_BUNDLES
        || names_below(path, CA_BUNDLES).is_some()
}

/// The names from a directory to a path below it.
fn names_below<'p>(path: &'p str, folder: &str) -> Option<Vec<&'p str>> {
    let names: Vec<&str> = path.strip_prefix(folder)?.strip_prefix('/')?.split('/').collect();
    let is_plain = |name: &&str| !matches!(*name, "" | "." | "..");
    names.iter().all(is_plain).then_some(names)
}

/// The change from one config to another, if it is one that a running machine can take: they differ
/// in nothing but their names and such files.
///
/// Spellings of the Ignition config that the API does not use, such as `Storage`, need a reboot.
pub fn live_change(before: &RenderedConfig, after: &RenderedConfig) -> Option<LiveChange> {
    let (rest_before, live_before) = split(before)?;
    let (rest_after, live_after) = split(after)?;
    if rest_before != rest_after {
        return None;
    }
    let paths = live_before.keys().chain(live_after.keys());
    let differs = |path: &&String| live_before.get(*path) != live_after.get(*path);
    let paths: BTreeSet<String> = paths.filter(differs).cloned().collect();
    let actions = paths.iter().filter_map(|path| is_live_path(path)).collect();
    (!paths.is_empty()).then_some(LiveChange { actions, paths })
}

/// What of a config needs a reboot, and the files that need none, by path; none if a path is there
/// twice.
fn split(config: &RenderedConfig) -> Option<(Value, BTreeMap<String, Value>)> {
    let mut spec = config.as_value()["spec"].clone();
    let mut live = BTreeMap::new();
    let Some(Value::Array(files)) = spec.pointer_mut("/config/storage/files") else {
        return Some((spec, live));
    };
    for file in std::mem::take(files) {
        match file["path"].as_str().filter(|path| is_live_path(path).is_some()) {
            Some(path) => {
                if live.insert(path.to_owned(), file.clone()).is_some() {
                    return None;
                }
            }
            None => files.push(file),
        }
    }
    // A config whose only file comes or goes has a list, or none.
    if files.is_empty()
        && let Some(Value::Object(ignition)) = spec.get_mut("config")
        && let Some(Value::Object(storage)) = ignition.get_mut("storage")
    {
        storage.remove("files");
        if ignition["storage"] == json!({}) {
            ignition.remove("storage");
        }
    }
    Some((spec, live))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REGISTRIES: &str = "/etc/containers/registries.conf";

    fn rendered(name: char, edit: impl FnOnce(&mut Value)) -> RenderedConfig {
        let mut config = json!({
            "apiVersion": mosb_api::API_VERSION, "kind": "MachineConfig",
            "metadata": { "name": format!("rendered-worker-{}", name.to_string().repeat(32)) },
            "spec": { "config": { "ignition": { "version": "3.5.0" } } },
        });
        edit(&mut config["spec"]);
        RenderedConfig::from_value(config).unwrap()
    }

    fn file(path: &str, content: &str) -> Value {
        json!({ "path": path, "mode": 420, "contents": { "source": format!("data:,{content}") } })
    }

    fn with_files(name: char, files: &[(&str, &str)]) -> RenderedConfig {
        let files: Vec<Value> = files.iter().map(|(path, content)| file(path, content)).collect();
        rendered(name, |spec| spec["config"]["storage"] = json!({ "files": files }))
    }

    #[test]
    fn each_path_has_its_action() {
        use LiveAction::{ReloadCrio, Write};
        for (path, action, in_image) in [
            (PULL_SECRET, Some(Write), true),
            (REGISTRIES, Some(ReloadCrio), true),
            ("/etc/containers/registries.conf/a", None, false),
            ("/etc/containers/registries.conf.d", None, true),
            ("/etc/containers/registries.conf.d/a.conf", Some(ReloadCrio), true),
            ("/etc/containers/registries.conf.d/a/b.conf", None, false),
            ("/etc/containers/policy.json", Some(ReloadCrio), true),
            ("/etc/containers/storage.conf", None, false),
            ("/etc/containers/registries.d/a.yaml", Some(ReloadCrio), true),
            ("/etc/containers/certs.d", None, true),
            ("/etc/containers/certs.d/reg:5000/ca.crt", Some(Write), true),
            ("/etc/containers/certs.d/../storage.conf", None, false),
            ("/etc/containers/certs.d//ca.crt", None, false),
            ("/etc/containers/certs.d/./ca.crt", None, false),
            ("/etc/containers/certs.d/", None, false),
            ("/etc/containers/certs.d-other", None, false),
            ("/etc/docker/certs.d/reg/ca.crt", Some(Write), true),
            ("/etc/docker/daemon.json", None, false),
            ("/etc/pki/ca-trust/source/anchors/ca.pem", Some(Write), true),
            ("/etc/pki/ca-trust/source/anchors/a/ca.pem", None, false),
            ("/etc/pki/ca-trust/source/ca.pem", None, false),
            ("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", None, true),
            ("/etc/pki/ca-trust/extracted/../../x", None, false),
            ("/etc/pki", None, false),
            ("/etc", None, false),
            ("/", None, false),
            ("", None, false),
        ] {
            assert_eq!(is_live_path(path), action, "{path}");
            assert_eq!(is_live_in_image(path), in_image, "{path}");
        }
    }

    #[test]
    fn what_a_running_machine_takes() {
        use LiveAction::{ReloadCrio, Write};
        type Files = &'static [(&'static str, &'static str)];
        type Want = Option<(&'static [LiveAction], &'static [&'static str])>;
        const CERT: &str = "/etc/containers/certs.d/reg/ca.crt";
        let cases: [(&str, Files, Files, Want); 11] = [
            ("nothing", &[(REGISTRIES, "a")], &[(REGISTRIES, "a")], None),
            ("no files", &[], &[], None),
            (
                "another content",
                &[(REGISTRIES, "a")],
                &[(REGISTRIES, "b")],
                Some((&[ReloadCrio], &[REGISTRIES])),
            ),
            ("added", &[], &[(CERT, "a")], Some((&[Write], &[CERT]))),
            ("removed", &[(CERT, "a")], &[], Some((&[Write], &[CERT]))),
            (
                "two of three, in another order",
                &[("/etc/a", "a"), (CERT, "a"), (REGISTRIES, "a")],
                &[(REGISTRIES, "b"), ("/etc/a", "a"), (PULL_SECRET, "b"), (CERT, "a")],
                Some((&[Write, ReloadCrio], &[REGISTRIES, PULL_SECRET])),
            ),
            (
                "and another file",
                &[("/etc/a", "a"), (REGISTRIES, "a")],
                &[("/etc/a", "b"), (REGISTRIES, "b")],
                None,
            ),
            ("and another file is added", &[], &[("/etc/a", "b"), (REGISTRIES, "b")], None),
            (
                "other files in another order",
                &[("/etc/a", "a"), ("/etc/b", "a"), (CERT, "a")],
                &[("/etc/b", "a"), ("/etc/a", "a")],
                None,
            ),
            ("only another file", &[], &[("/etc/a", "b")], None),
            ("twice", &[], &[(CERT, "a"), (CERT, "b")], None),
        ];
        for (what, before, after, want) in cases {
            let want = want.map(|(actions, paths)| LiveChange {
                actions: actions.iter().copied().collect(),
                paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            });
            let (before, after) = (with_files('a', before), with_files('b', after));
            assert_eq!(live_change(&before, &after), want, "{what}");
            assert_eq!(live_change(&after, &before), want, "{what}, back");
        }
    }

    type Edit = fn(&mut Value);

    #[test]
    fn any_other_field_needs_a_reboot() {
        let before = with_files('a', &[(REGISTRIES, "a")]);
        let edits: [(&str, Edit); 12] = [
            ("a mode", |spec| spec["config"]["storage"]["files"][0]["mode"] = json!(384)),
            ("an argument", |spec| spec["kernelArguments"] = json!(["a"])),
            ("a kernel", |spec| spec["kernelType"] = json!("realtime")),
            ("an extension", |spec| spec["extensions"] = json!(["usbguard"])),
            ("FIPS", |spec| spec["fips"] = json!(true)),
            ("a base", |spec| spec["osImageURL"] = json!("reg.example/os:1")),
            ("an unknown field", |spec| spec["unknown"] = json!(1)),
            ("a key", |spec| {
                spec["config"]["passwd"] =
                    json!({ "users": [{ "name": "core", "sshAuthorizedKeys": ["a"] }] });
            }),
            ("a unit", |spec| {
                spec["config"]["systemd"] = json!({ "units": [{ "name": "a.service" }] });
            }),
            ("a link in such a directory", |spec| {
                spec["config"]["storage"]["links"] =
                    json!([{ "path": "/etc/containers/certs.d/a", "target": "b" }]);
            }),
            ("a directory", |spec| {
                spec["config"]["storage"]["directories"] =
                    json!([{ "path": "/etc/containers/certs.d" }]);
            }),
            ("a name in another case", |spec| {
                spec["config"]["Storage"] = spec["config"]["storage"].take();
            }),
        ];
        for (what, edit) in edits {
            let after = rendered('b', |spec| {
                spec["config"]["storage"] = json!({ "files": [file(REGISTRIES, "b")] });
                edit(spec);
            });
            assert_eq!(live_change(&before, &after).is_some(), what == "a mode", "{what}");
        }
    }

    /// Files of both kinds: a path, and whether it is live.
    const PATHS: [(&str, bool); 6] = [
        (REGISTRIES, true),
        ("/etc/containers/registries.d/a.yaml", true),
        (PULL_SECRET, true),
        ("/etc/a", false),
        ("/etc/containers/storage.conf", false),
        ("/var/lib/kubelet/other", false),
    ];

    proptest! {
        /// By the definition: the other files are the same, and a live one differs.
        #[test]
        fn change_is_live_if_only_such_files_differ(
            before in prop::collection::vec(0..3_u8, PATHS.len()),
            after in prop::collection::vec(0..3_u8, PATHS.len()),
        ) {
            let config = |name, contents: &[u8]| {
                let files = PATHS.iter().zip(contents).filter(|(_, content)| **content > 0);
                let files: Vec<Value> =
                    files.map(|((path, _), content)| file(path, &content.to_string())).collect();
                rendered(name, |spec| spec["config"]["storage"] = json!({ "files": files }))
            };
            let differing: Vec<_> = (0..PATHS.len()).filter(|at| before[*at] != after[*at]).collect();
            let is_live = !differing.is_empty() && differing.iter().all(|at| PATHS[*at].1);
            let found = live_change(&config('a', &before), &config('b', &after));
            prop_assert_eq!(found.is_some(), is_live);
            if let Some(LiveChange { paths, .. }) = found {
                let want = differing.iter().map(|at| PATHS[*at].0.to_owned());
                prop_assert_eq!(paths, want.collect::<BTreeSet<_>>());
            }
        }
    }
}
