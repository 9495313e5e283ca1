//! The Ignition config of a pool's new machines: the settings that no image can contain, and the
//! unit that rebases to the image before the kubelet starts.
//!
//! A file that Ignition writes at first boot belongs to the machine and would hide the same file of
//! every later image. Therefore this config never contains a path that the image has, but only the
//! encapsulated config, and below [`FIRST_BOOT`] the input of a unit that runs `bootc` or
//! `rpm-ostree`. `docs/first-boot.md` describes these files.

mod own_config;
mod pull_files;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use mosb_api::RenderedConfig;
use mosb_ignition as ignition;
use mosb_types::{Diagnostic, Finding};

pub use own_config::{OwnConfig, OwnConfigError, merge};
pub use pull_files::PullFiles;

/// Folder of the unit's input. Not below `/run`, which is emptied when the machine leaves the
/// initial file system.
pub const FIRST_BOOT: &str = "/var/lib/mosb/first-boot";
/// Where node daemons look for the config that a machine was installed with.
const ENCAPSULATED: &str = "/etc/ignition-machine-config-encapsulated.json";
/// The unit that rebases to the image.
const UNIT: &str = "mosb-first-boot.service";
/// Not the preset file that Ignition writes for enabled units, because images contain that one.
const PRESET: &str = "/etc/systemd/system-preset/10-mosb-first-boot.preset";
/// Sections of `storage` that apply only when a machine is installed.
const DISKS: [&str; 4] = ["disks", "raid", "luks", "filesystems"];
/// Folders of an image-based system that belong to the machine; the last ones are links into the
/// first.
const OF_MACHINE: [&str; 7] =
    ["/var/", "/home/", "/root/", "/opt/", "/srv/", "/mnt/", "/usr/local/"];

/// Why there is no config.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum ConfigError {
    /// mosb made an Ignition config that Ignition would reject.
    #[error("pool {pool}: the Ignition config of its new machines is not valid")]
    #[diagnostic(code = "bad-first-boot-config", class = Internal)]
    Invalid { pool: String, source: ignition::Error },
    /// Machines must verify the image, and nothing would refuse it without a signature.
    #[error(
        "pool {pool}: its new machines must verify the signature of {image}, and the /etc/containers/policy.json of their config {cause}; let the default be reject, and require a signature of this repository"
    )]
    #[diagnostic(code = "policy-accepts-unsigned", class = InvalidInput)]
    WeakPolicy { pool: String, image: String, cause: String },
}

/// The config of a pool's new machines.
///
/// # Errors
/// The policy of a config whose image must be verified requires no signature; or the config is
/// invalid, which is a bug of mosb.
pub fn config(rendered: &RenderedConfig, pull_files: &PullFiles) -> Result<Value, ConfigError> {
    if let Some(cause) = pull_files.policy_weakness() {
        let (pool, image) = (rendered.pool().to_string(), pull_files.image().to_string());
        return Err(ConfigError::WeakPolicy { pool, image, cause });
    }
    let nothing = json!({});
    let from = rendered.ignition().unwrap_or(&nothing);
    let version = from.pointer("/ignition/version").cloned();
    let mut storage: Map<String, Value> = DISKS
        .iter()
        .filter_map(|section| Some(((*section).to_owned(), listed(from, &["storage", section])?)))
        .collect();
    let mut files = vec![
        file(ENCAPSULATED, 0o600, &rendered.current_config()),
        file(PRESET, 0o644, format!("enable {UNIT}\n").as_bytes()),
    ];
    files.extend(pull_files.files().into_iter().map(|one| {
        let path = format!("{FIRST_BOOT}/{}", one.name);
        file(&path, one.mode, &one.bytes)
    }));
    storage.insert("files".to_owned(), json!(files));
    storage.insert("directories".to_owned(), json!([{ "path": FIRST_BOOT, "mode": 0o700 }]));
    let unit = include_str!("mosb-first-boot.service");
    let mut config = json!({
        "ignition": { "version": version.unwrap_or_else(|| json!("3.5.0")) },
        "storage": storage,
        "systemd": { "units": [{ "name": UNIT, "contents": unit }] },
    });
    let mut passwd = Map::new();
    for section in ["users", "groups"] {
        if let Some(list) = listed(from, &["passwd", section]) {
            passwd.insert(section.to_owned(), list);
        }
    }
    if !passwd.is_empty() {
        config["passwd"] = json!(passwd);
    }
    if let Some(arguments) = own_config::of(rendered, from) {
        config["kernelArguments"] = arguments;
    }
    match ignition::parse(&config) {
        Ok(_) => Ok(config),
        Err(source) => Err(ConfigError::Invalid { pool: rendered.pool().to_string(), source }),
    }
}

/// A list of a config, unless it is empty.
fn listed(config: &Value, path: &[&str]) -> Option<Value> {
    let list = config.pointer(&format!("/{}", path.join("/")))?.as_array()?;
    (!list.is_empty()).then(|| json!(list))
}

fn file(path: &str, mode: u32, bytes: &[u8]) -> Value {
    let source = format!("data:;base64,{}", STANDARD.encode(bytes));
    json!({ "path": path, "mode": mode, "overwrite": true, "contents": { "source": source } })
}

/// Reports the parts of a rendered config that reach neither the image of a rebased machine nor its
/// Ignition config.
pub fn left_out(rendered: &RenderedConfig) -> Vec<Finding> {
    let mut findings = Vec::new();
    let of = |section: &str| {
        let path = format!("/storage/{section}");
        let list = rendered.ignition().and_then(|config| config.pointer(&path));
        list.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let entries = ["files", "directories", "links"].map(of).concat();
    let paths = entries.iter().filter_map(|entry| entry["path"].as_str());
    let lost: Vec<&str> =
        paths.filter(|path| OF_MACHINE.iter().any(|start| path.starts_with(start))).collect();
    if let Some(first) = lost.first() {
        let message = match lost.len() {
            1 => format!(
                "{first} is the machine's own, so it reaches only machines that are installed from the image, unless that is built with --build-on every-config; or let a unit or tmpfiles.d make it"
            ),
            more => format!(
                "{first} and {} more paths are the machine's own, so they reach only machines that are installed from the image, unless that is built with --build-on every-config; or let a unit or tmpfiles.d make them",
                more - 1
            ),
        };
        findings
            .push(Finding::new("var-at-installation", message).object(rendered.name().to_string()));
    }
    if rendered.fips {
        let message =
            "spec.fips is decided when a machine is installed; install the pool's machines with it";
        findings.push(Finding::new("fips", message).object(rendered.name().to_string()));
    }
    findings
}

#[cfg(test)]
mod tests;
