//! The files that a Containerfile of ours is built with.
//!
//! Everything that a config says and a Containerfile must not is in one of them, so that it can't
//! become an instruction or a shell word.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Error, TRUST_BUNDLE_KEY};
use crate::plan::{
    BuildPlan, Mounted, MountedAs, Prepared, boot_check_files, collect_files, instance_of,
    is_trust_file, kargs_file, mounted,
};
use mosb_ignition::Systemd;

/// The folder of a context that holds them.
pub const FOLDER: &str = "machineconfig";

/// A file of the context's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its path in the folder.
    pub name: String,
    pub what: What,
}

/// A node at a path of the context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A file with this content.
    File(Vec<u8>),
    /// A symbolic link with this target, which is not followed.
    Link(String),
}

impl File {
    fn new(name: impl Into<String>, content: Vec<u8>) -> Self {
        Self { name: name.into(), what: What::File(content) }
    }
}

/// The files of a plan.
///
/// - `currentconfig`: what the image keeps at `/etc/machine-config-daemon/currentconfig`;
/// - `ignition.json`: `spec.config`, without `enabled` of instances such as `x@y.service`, on which
///   Ignition fails where systemd isn't running;
/// - `preset-lines`: the lines that Ignition would have written for those;
/// - `mounted/…`, `links/…`: files and links of `/etc` that no step can write, taken from
///   `ignition.json`;
/// - `preset-units`: the units to preset, one a line;
/// - `var-files/…`: what brings files below `/var` to machines, if there are any;
/// - `boot-check/…`: what brings a machine back by itself;
/// - `kargs.toml`: the kernel arguments, for an image without rpm-ostree;
/// - the trust bundle, if there is one.
///
/// # Errors
/// A unit's name with a line break.
pub fn files(plan: &BuildPlan) -> Result<Vec<File>, Error> {
    let config = &plan.request.config;
    let mut files = vec![File::new("currentconfig", config.current_config().to_vec())];
    if let (Some(raw), Some(checked)) = (config.ignition(), &plan.ignition) {
        let copied = mounted(checked)?;
        let mut raw = raw.clone();
        without_instances(&mut raw);
        without_paths(&mut raw, &copied.iter().map(Mounted::path).collect::<Vec<_>>());
        files.push(File::new("ignition.json", mosb_types::canonical_json(&raw)));
        files.push(File::new("preset-lines", instance_lines(&checked.systemd).into_bytes()));
        files.extend(copied.into_iter().map(|one| match one.what {
            MountedAs::File { content, .. } => File::new(format!("mounted/{}", one.name), content),
            MountedAs::Link { target } => {
                File { name: format!("links/{}", one.name), what: What::Link(target) }
            }
        }));
    }
    if let Some(bad) = plan.preset_units.iter().find(|unit| unit.contains(char::is_control)) {
        return Err(Error::UnitName(bad.clone()));
    }
    let units: String = plan.preset_units.iter().flat_map(|unit| [unit.as_str(), "\n"]).collect();
    files.push(File::new("preset-units", units.into_bytes()));
    if let Some(paths) = &plan.var_paths {
        let named = collect_files(paths).into_iter();
        files.extend(
            named.map(|(name, content)| {
                File::new(format!("var-files/{name}"), content.into_bytes())
            }),
        );
    }
    if plan.brings_to_machines() {
        let named = boot_check_files().into_iter();
        files.extend(
            named.map(|(name, content)| {
                File::new(format!("boot-check/{name}"), content.into_bytes())
            }),
        );
    }
    if let Some(arguments) = &plan.kernel_arguments {
        let content = kargs_file(arguments);
        files.push(File::new("kargs.toml", content.into_bytes()));
    }
    if let Some(bundle) = &plan.request.trust_bundle {
        files.push(File::new(TRUST_BUNDLE_KEY, bundle.to_vec()));
    }
    Ok(files)
}

/// The files of a prepared base.
///
/// - `ignition.json`: the entries of the config that the trust store is compiled from, if there are any;
/// - the trust bundle, if there is one.
pub fn prepared_files(prepared: &Prepared) -> Vec<File> {
    let config = prepared.request.config.ignition();
    let trust_files = config.filter(|_| prepared.has_trust_files).map(|config| {
        let config = only_trust_files(config.clone());
        File::new("ignition.json", mosb_types::canonical_json(&config))
    });
    let bundle = prepared.request.trust_bundle.as_ref();
    let bundle = bundle.map(|bundle| File::new(TRUST_BUNDLE_KEY, bundle.to_vec()));
    trust_files.into_iter().chain(bundle).collect()
}

/// A config with the version and these entries of another one.
fn only_trust_files(mut config: Value) -> Value {
    let version = field(&mut config, "ignition").and_then(|ignition| field(ignition, "version"));
    let mut only = json!({ "ignition": { "version": version }, "storage": {} });
    for kind in ["directories", "files", "links"] {
        let entries = field(&mut config, "storage").and_then(|storage| field(storage, kind));
        let Some(entries) = entries.and_then(Value::as_array_mut) else {
            continue;
        };
        entries.retain_mut(|entry| {
            let path = field(entry, "path").and_then(|path| path.as_str());
            path.is_some_and(is_trust_file)
        });
        only["storage"][kind] = json!(entries);
    }
    only
}

/// Takes `enabled` from instances. Field names in any case, as Ignition reads them.
fn without_instances(config: &mut Value) {
    let units = field(config, "systemd").and_then(|systemd| field(systemd, "units"));
    for unit in units.and_then(Value::as_array_mut).into_iter().flatten() {
        let instance = field(unit, "name")
            .and_then(|name| name.as_str())
            .is_some_and(|name| instance_of(name).is_some());
        if let (true, Some(unit)) = (instance, unit.as_object_mut()) {
            unit.retain(|key, _| !key.eq_ignore_ascii_case("enabled"));
        }
    }
}

/// Takes files and links with these paths.
fn without_paths(config: &mut Value, paths: &[String]) {
    for kind in ["files", "links"] {
        let entries = field(config, "storage").and_then(|storage| field(storage, kind));
        if let Some(entries) = entries.and_then(Value::as_array_mut) {
            entries.retain_mut(|entry| {
                let path = field(entry, "path").and_then(|path| path.as_str());
                !path.is_some_and(|path| paths.iter().any(|gone| gone == path))
            });
        }
    }
}

fn field<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let fields = object.as_object_mut()?;
    fields.iter_mut().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// What Ignition writes for enabled instances: those of one template share a line, in the order of
/// the config. Disabling one does nothing.
fn instance_lines(systemd: &Systemd) -> String {
    let mut templates: BTreeMap<String, String> = BTreeMap::new();
    for unit in systemd.units.iter().filter(|unit| unit.enabled == Some(true)) {
        if let Some((template, instance)) = instance_of(&unit.name) {
            let line =
                templates.entry(template.clone()).or_insert_with(|| format!("enable {template}"));
            line.push(' ');
            line.push_str(instance);
        }
    }
    templates.into_values().map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_lose_enabled_and_nothing_else_changes() {
        let mut config = json!({ "ignition": { "version": "3.5.0" }, "systemd": { "units": [
            { "name": "a@b.service", "enabled": true, "mask": false },
            { "Name": "a@c.service", "Enabled": false },
            { "name": "plain.service", "enabled": true },
        ] } });
        without_instances(&mut config);
        let want = json!([
            { "name": "a@b.service", "mask": false },
            { "Name": "a@c.service" },
            { "name": "plain.service", "enabled": true },
        ]);
        assert_eq!(config["systemd"]["units"], want);
    }

    #[test]
    fn files_and_links_go_by_their_path() {
        let mut config = json!({ "storage": {
            "files": [{ "path": "/etc/hosts" }, { "Path": "/etc/hostname" }, { "path": "/etc/x" }],
            "links": [{ "path": "/etc/resolv.conf" }], "directories": [{ "path": "/etc/hosts" }],
        } });
        without_paths(
            &mut config,
            &["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"].map(str::to_owned),
        );
        let want = json!({ "files": [{ "path": "/etc/x" }], "links": [], "directories": [{ "path": "/etc/hosts" }] });
        assert_eq!(config["storage"], want);
    }

    #[test]
    fn only_the_sources_of_the_trust_store_stay() {
        let source = "/etc/pki/ca-trust/source/anchors";
        let config = json!({ "Ignition": { "Version": "3.5.0", "timeouts": {} }, "storage": {
            "Files": [{ "Path": format!("{source}/a"), "Mode": 420 }, { "path": "/etc/pki/x" }],
            "directories": [{ "path": source }, { "path": "/etc/pki/ca-trust/source" }],
        }, "systemd": {} });
        let want = json!({ "ignition": { "version": "3.5.0" }, "storage": {
            "files": [{ "Path": format!("{source}/a"), "Mode": 420 }],
            "directories": [{ "path": source }],
        } });
        assert_eq!(only_trust_files(config), want);
    }

    #[test]
    fn instances_of_a_template_share_a_line() {
        let config = json!({ "ignition": { "version": "3.5.0" }, "systemd": { "units": [
            { "name": "z@2.service", "enabled": true }, { "name": "a@x.timer", "enabled": true },
            { "name": "z@1.service", "enabled": true }, { "name": "z@3.service", "enabled": false },
            { "name": "plain.service", "enabled": true },
        ] } });
        let checked = mosb_ignition::parse(&config).unwrap().config;
        assert_eq!(instance_lines(&checked.systemd), "enable a@.timer x\nenable z@.service 2 1\n");
    }
}
