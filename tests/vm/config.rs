//! Two rendered configs of a pool, of which the second follows the first, and what a machine is to
//! have of each.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::machine::Check;

/// What the images change: Debian enables `remote-fs.target`, which they disable, and starts
/// `systemd-user-sessions.service`, which they mask.
pub const ON_THE_BASE: [Check; 3] = [
    ("systemctl is-enabled remote-fs.target", "enabled"),
    ("systemctl is-active systemd-user-sessions.service", "active"),
    ("test -e /etc/vm || echo missing", "missing"),
];

/// What both images have, and what the importer leaves out: content of `/var`, and the mode of a
/// directory that the base has.
const ALWAYS: [Check; 16] = [
    ("stat -c '%F %a %U:%G' /etc/vm/by-name", "regular file 640 root:adm"),
    ("stat -c '%F %a %u:%g' /etc/vm/by-number", "regular file 604 1:2"),
    ("stat -c '%F %a %U:%G' /etc/vm/directory", "directory 711 root:adm"),
    ("stat -c '%a' /etc/security", "755"),
    ("test -e /var/lib/vm || echo missing", "missing"),
    ("readlink /etc/vm/link", "by-name"),
    ("stat -c '%a' /usr/libexec/vm-tool", "755"),
    ("systemctl is-enabled vm-enabled.service", "enabled"),
    ("systemctl is-active vm-enabled.service", "active"),
    ("systemctl is-enabled vm-disabled.service", "disabled"),
    ("systemctl is-active vm-disabled.service", "inactive"),
    ("systemctl is-enabled remote-fs.target", "disabled"),
    ("systemctl is-enabled systemd-user-sessions.service", "masked"),
    ("systemctl is-active systemd-user-sessions.service", "inactive"),
    (
        "stat -c '%F %a %U:%G' /etc/machine-config-daemon/currentconfig",
        "regular file 600 root:root",
    ),
    ("findmnt -no OPTIONS /usr | cut -d, -f1", "ro"),
];

const FIRST: [Check; 9] = [
    ("cat /etc/vm/by-name", "first"),
    ("cat /etc/vm/link", "first"),
    ("/usr/libexec/vm-tool", "first"),
    ("systemctl show -P Environment systemd-journald.service", "VM=first"),
    ("stat -c '%F %a %U:%G' /etc/vm/removed", "regular file 600 root:root"),
    ("systemctl is-enabled vm-removed.service", "enabled"),
    ("systemctl is-active vm-removed.service", "active"),
    ("systemctl is-enabled vm-switched.service", "enabled"),
    ("test -e /etc/vm/added || echo missing", "missing"),
];

const SECOND: [Check; 12] = [
    ("cat /etc/vm/by-name", "second"),
    ("cat /etc/vm/link", "second"),
    ("/usr/libexec/vm-tool", "second"),
    ("systemctl show -P Environment systemd-journald.service", "VM=second"),
    ("test -e /etc/vm/removed || echo missing", "missing"),
    ("systemctl show -P LoadState vm-removed.service", "not-found"),
    ("find /etc/systemd/system -name 'vm-removed*'", ""),
    ("systemctl is-enabled vm-switched.service", "disabled"),
    ("systemctl is-active vm-switched.service", "inactive"),
    ("stat -c '%F %a %U:%G' /etc/vm/added", "regular file 644 root:root"),
    ("systemctl is-enabled vm-added.service", "enabled"),
    ("systemctl is-active vm-added.service", "active"),
];

/// A config; its name and what it has differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Config {
    First,
    Second,
}

impl Config {
    /// What a machine is to have once it runs the image, but for `/etc/vm/on-machine`, which
    /// the machine changes.
    pub fn checks(self) -> Vec<Check<'static>> {
        match self {
            Self::First => [&ALWAYS[..], &FIRST].concat(),
            Self::Second => [&ALWAYS[..], &SECOND].concat(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::First => "rendered-worker-11111111111111111111111111111111",
            Self::Second => "rendered-worker-22222222222222222222222222222222",
        }
    }

    /// How its image is built.
    pub fn method(self) -> &'static str {
        match self {
            Self::First => "direct",
            Self::Second => "containerfile",
        }
    }

    /// The rendered MachineConfig, which is also what `currentconfig` is to hold.
    pub fn rendered(self) -> Value {
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": self.name() },
            "spec": { "config": self.ignition() },
        })
    }

    fn ignition(self) -> Value {
        let (word, is_first) = match self {
            Self::First => ("first", true),
            Self::Second => ("second", false),
        };
        let mut files = vec![
            file("/etc/vm/by-name", 0o640, word),
            file("/etc/vm/by-number", 0o604, word),
            file("/etc/vm/on-machine", 0o644, word),
            file("/usr/libexec/vm-tool", 0o755, &format!("#!/bin/sh\necho {word}\n")),
            file("/var/lib/vm/content", 0o644, word),
        ];
        files[0]["group"] = json!({ "name": "adm" });
        files[1]["user"] = json!({ "id": 1 });
        files[1]["group"] = json!({ "id": 2 });
        let setting = format!("[Service]\nEnvironment=VM={word}\n");
        let drop_in = json!({ "name": "10-vm.conf", "contents": setting });
        let mut units = vec![
            unit("vm-enabled.service", true),
            unit("vm-disabled.service", false),
            unit("vm-switched.service", is_first),
            json!({ "name": "remote-fs.target", "enabled": false }),
            json!({ "name": "systemd-user-sessions.service", "mask": true }),
            json!({ "name": "systemd-journald.service", "dropins": [drop_in] }),
        ];
        let (path, mode, only) = if is_first {
            ("/etc/vm/removed", 0o600, "vm-removed.service")
        } else {
            ("/etc/vm/added", 0o644, "vm-added.service")
        };
        files.push(file(path, mode, word));
        units.push(unit(only, true));
        json!({
            "ignition": { "version": "3.5.0" },
            "storage": {
                "files": files,
                "directories": [
                    { "path": "/etc/vm/directory", "mode": 0o711, "group": { "name": "adm" } },
                    { "path": "/etc/security", "mode": 0o700 },
                ],
                "links": [{ "path": "/etc/vm/link", "target": "by-name" }],
            },
            "systemd": { "units": units },
        })
    }
}

fn file(path: &str, mode: u32, content: &str) -> Value {
    let source = format!("data:;base64,{}", STANDARD.encode(content));
    json!({ "path": path, "mode": mode, "contents": { "source": source } })
}

fn unit(name: &str, enabled: bool) -> Value {
    let contents = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n\
        [Install]\nWantedBy=multi-user.target\n";
    json!({ "name": name, "enabled": enabled, "contents": contents })
}
