//! The parts of a config that can't be part of an image.

use super::config::Config;
use super::error::shown;
use mosb_types::Finding;

impl Config {
    /// A finding for each part that the machine applies, in the order of the config; `object` is
    /// its kind and name. `has_kernel_arguments` is whether the image brings those that should
    /// exist.
    pub fn left_to_machine(&self, has_kernel_arguments: bool) -> Vec<Finding> {
        let storage = &self.storage;
        let kinds: [(&str, &[String], &str); 8] = [
            (
                "user",
                &self.passwd.users,
                "users, their passwords and keys are set up on the machine",
            ),
            ("group", &self.passwd.groups, "groups are set up on the machine"),
            (
                "kernel argument",
                if has_kernel_arguments { &[] } else { &self.kernel_arguments.should_exist },
                "the kernel's command line is the machine's",
            ),
            (
                "kernel argument to remove",
                &self.kernel_arguments.should_not_exist,
                "the kernel's command line is the machine's",
            ),
            ("disk", &storage.disks, "disks are partitioned when the machine is installed"),
            ("raid", &storage.raid, "arrays are made when the machine is installed"),
            (
                "filesystem",
                &storage.filesystems,
                "file systems are made when the machine is installed",
            ),
            ("luks volume", &storage.luks, "volumes are encrypted when the machine is installed"),
        ];
        let finding = |(kind, names, why): (&str, &[String], &str)| {
            names
                .iter()
                .map(|name| {
                    Finding::new("left-to-machine", format!("not part of the image: {why}"))
                        .object(format!("{kind} {}", shown(name)))
                })
                .collect::<Vec<_>>()
        };
        kinds.into_iter().flat_map(finding).collect()
    }
}
