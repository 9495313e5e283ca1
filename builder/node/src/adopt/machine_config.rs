//! The config that a machine was made from.

use std::path::Path;

use mosb_api::yaml::{self, INPUT_LIMIT};
use mosb_plan::plan::CURRENT_CONFIG;
use serde_json::Value;

use crate::error::Error;
use crate::host_root::HostRoot;

/// Where a machine has it: as the machine-config-daemon last applied it; as the
/// machine-config-server served it; as the first boot of mosb wrote it. The one that Ignition gets
/// for a machine-config-daemon has no Ignition part, and is not taken.
const RECORDS: [&str; 4] = [
    CURRENT_CONFIG,
    "/etc/mcs-machine-config-content.json",
    "/etc/ignition-machine-config-encapsulated.json",
    "/etc/ignition-machine-config-encapsulated.json.bak",
];

/// A config, as far as it is about files and units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MachineConfig {
    /// Of the MachineConfig; else that of the file.
    pub name: String,
    /// The file that it was read from.
    pub source: String,
    pub ignition: Value,
}

impl MachineConfig {
    /// The config in a file of this program's own file system, else the machine's record. A record
    /// that is the image's says nothing about the machine's installation.
    pub fn find(root: &HostRoot, file: Option<&Path>) -> Result<Self, Error> {
        if let Some(file) = file {
            return Self::read(file);
        }
        for record in RECORDS {
            let limit = INPUT_LIMIT as u64;
            let Some(bytes) = root.read(record, limit)? else { continue };
            if root.read(&format!("/usr{record}"), limit)?.as_ref() == Some(&bytes) {
                continue;
            }
            let config = Self::parse(&bytes, record)?;
            if config.has_content() {
                return Ok(config);
            }
        }
        Err(Error::NoMachineConfig)
    }

    fn read(file: &Path) -> Result<Self, Error> {
        let name = file.display().to_string();
        let failed = |cause: String| Error::BadMachineConfig { file: name.clone(), cause };
        let size = std::fs::metadata(file).map_err(|error| failed(error.to_string()))?.len();
        if size > INPUT_LIMIT as u64 {
            return Err(failed(format!("it has more than {INPUT_LIMIT} bytes")));
        }
        let bytes = std::fs::read(file).map_err(|error| failed(error.to_string()))?;
        Self::parse(&bytes, &name)
    }

    /// A MachineConfig, or an Ignition config.
    fn parse(bytes: &[u8], source: &str) -> Result<Self, Error> {
        let failed = |cause: String| Error::BadMachineConfig { file: source.to_owned(), cause };
        let mut object = yaml::parse_one(bytes).map_err(|error| failed(error.to_string()))?;
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let name = name.unwrap_or(source).to_owned();
        let ignition = match object.pointer_mut("/spec/config") {
            Some(config) => config.take(),
            None => object,
        };
        if !ignition["ignition"].is_object() {
            let cause = "it is neither a MachineConfig nor an Ignition config";
            return Err(failed(cause.to_owned()));
        }
        Ok(Self { name, source: source.to_owned(), ignition })
    }

    fn has_content(&self) -> bool {
        ["/storage/files", "/storage/directories", "/storage/links", "/systemd/units"]
            .iter()
            .filter_map(|pointer| self.ignition.pointer(pointer)?.as_array())
            .any(|list| !list.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;

    fn machine_config(name: &str, has_content: bool) -> String {
        let files = if has_content { json!([{ "path": "/etc/x" }]) } else { json!([]) };
        json!({
            "metadata": { "name": name },
            "spec": { "config": { "ignition": { "version": "3.4.0" }, "storage": { "files": files } } },
        })
        .to_string()
    }

    #[test]
    fn records_are_the_machines_own_and_not_empty() {
        let full = machine_config("full", true);
        let empty = machine_config("empty", false);
        let ignition = json!({ "ignition": { "version": "3.4.0" }, "systemd": { "units": [{}] } });
        let current = "etc/machine-config-daemon/currentconfig";
        let encapsulated = "etc/ignition-machine-config-encapsulated.json";
        let backup = "etc/ignition-machine-config-encapsulated.json.bak";
        for (what, files, want) in [
            ("none", vec![], None),
            ("the daemon's", vec![(current, &*full)], Some("full")),
            (
                "the image's",
                vec![(current, &*full), ("usr/etc/machine-config-daemon/currentconfig", &*full)],
                None,
            ),
            (
                "one without files, then the server's",
                vec![(encapsulated, &*empty), ("etc/mcs-machine-config-content.json", &*full)],
                Some("full"),
            ),
            ("renamed", vec![(backup, &*full)], Some("full")),
            ("only an empty one", vec![(encapsulated, &*empty)], None),
        ] {
            let dir = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = dir.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let root = HostRoot::open(dir.path()).unwrap();
            let found = MachineConfig::find(&root, None);
            match want {
                Some(name) => assert_eq!(found.unwrap().name, name, "{what}"),
                None => assert!(matches!(found, Err(Error::NoMachineConfig)), "{what}: {found:?}"),
            }
            let given = dir.path().join("given.ign");
            fs::write(&given, ignition.to_string()).unwrap();
            let found = MachineConfig::find(&root, Some(&given)).unwrap();
            assert_eq!(
                (found.ignition, found.name),
                (ignition.clone(), given.display().to_string())
            );
        }
    }

    #[test]
    fn what_is_no_config_is_rejected() {
        for text in ["", "[]", "{}", "kind: Pod", "{\"spec\": {\"config\": null}}", "\u{0}"] {
            let parsed = MachineConfig::parse(text.as_bytes(), "x");
            assert!(matches!(parsed, Err(Error::BadMachineConfig { .. })), "{text:?}");
        }
    }
}
