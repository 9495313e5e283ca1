//! The parts of a config that can't be part of an image.

use super::config::Config;
use super::error::shown;
use mosb_types::Finding;

/// The user whose SSH keys and password a machine takes on after its installation.
const CORE: &str = "core";
/// Set on the machine, also after its installation.
const LEFT: &str = "left-to-machine";
/// Made when the machine is installed, and never after.
const INSTALLED: &str = "at-installation";

impl Config {
    /// A finding for each part that the machine applies, in the order of the config; `object` is
    /// its kind and name. `has_kernel_arguments` is whether the image brings those that should
    /// exist.
    pub fn left_to_machine(&self, has_kernel_arguments: bool) -> Vec<Finding> {
        let storage = &self.storage;
        let arguments: &[String] =
            if has_kernel_arguments { &[] } else { &self.kernel_arguments.should_exist };
        let (core, others): (Vec<String>, Vec<String>) =
            self.passwd.users.iter().cloned().partition(|name| name == CORE);
        let command_line = "the kernel's command line is the machine's";
        let kinds: [(&str, &[String], &'static str, &str); 9] = [
            (
                "user",
                &core,
                LEFT,
                "its SSH keys and password are set on the machine, all else when the machine is installed",
            ),
            ("user", &others, INSTALLED, "users are made when the machine is installed"),
            (
                "group",
                &self.passwd.groups,
                INSTALLED,
                "groups are made when the machine is installed",
            ),
            ("kernel argument", arguments, LEFT, command_line),
            (
                "kernel argument to remove",
                &self.kernel_arguments.should_not_exist,
                LEFT,
                command_line,
            ),
            (
                "disk",
                &storage.disks,
                INSTALLED,
                "disks are partitioned when the machine is installed",
            ),
            ("raid", &storage.raid, INSTALLED, "arrays are made when the machine is installed"),
            (
                "filesystem",
                &storage.filesystems,
                INSTALLED,
                "file systems are made when the machine is installed",
            ),
            (
                "luks volume",
                &storage.luks,
                INSTALLED,
                "volumes are encrypted when the machine is installed",
            ),
        ];
        let finding = |(kind, names, code, why): (&str, &[String], &'static str, &str)| {
            names
                .iter()
                .map(|name| {
                    Finding::new(code, format!("not part of the image: {why}"))
                        .object(format!("{kind} {}", shown(name)))
                })
                .collect::<Vec<_>>()
        };
        kinds.into_iter().flat_map(finding).collect()
    }
}
