//! The typed form of a config: the shape of spec 3.5.0 and 3.6.0, for input of any version.

use mosb_types::Finding;

use crate::content::Resource;
use crate::error::shown;
use crate::version::SpecVersion;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The version of the input, whose rules it conforms to.
    pub version: SpecVersion,
    pub kernel_arguments: KernelArguments,
    pub passwd: Passwd,
    pub storage: Storage,
    pub systemd: Systemd,
}

/// `storage`: files, directories and links, and the names of disks, arrays, file systems and
/// volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Storage {
    /// Files to write, append to, or give another mode or owner.
    pub files: Vec<File>,
    /// Directories to make, or give another mode or owner.
    pub directories: Vec<Directory>,
    /// Symbolic and hard links.
    pub links: Vec<Link>,
    /// The devices of disks to partition.
    pub disks: Vec<String>,
    /// The names of arrays to make.
    pub raid: Vec<String>,
    /// The devices to make file systems on.
    pub filesystems: Vec<String>,
    /// The names of encrypted volumes.
    pub luks: Vec<String>,
}

/// One of `storage.files`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Absolute and clean, never `/`.
    pub path: String,
    /// Whether an existing file may be replaced.
    pub overwrite: Option<bool>,
    /// Permission bits, with setuid, setgid and sticky only in spec 3.6.0: older ones drop them.
    pub mode: Option<u32>,
    pub user: Owner,
    pub group: Owner,
    /// The new contents; without them, existing contents remain, and a missing file is created
    /// empty.
    pub contents: Option<Resource>,
    /// What to append, in order; each has a source.
    pub append: Vec<Resource>,
}

/// One of `storage.directories`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Absolute and clean.
    pub path: String,
    /// Whether something at the path is removed first, a directory with all its entries.
    pub overwrite: Option<bool>,
    /// Permission bits, as of a file.
    pub mode: Option<u32>,
    pub user: Owner,
    pub group: Owner,
}

/// One of `storage.links`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Absolute and clean, never `/`.
    pub path: String,
    /// Whether an existing file may be replaced.
    pub overwrite: Option<bool>,
    /// The owner of a symbolic link.
    pub user: Owner,
    /// The group of a symbolic link.
    pub group: Owner,
    /// Never empty. The path of a hard link's target is relative to the root.
    pub target: String,
    pub hard: bool,
}

/// The owner or group of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Owner {
    #[default]
    Unset,
    Id(u32),
    /// To be looked up in the base; never empty.
    Name(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Systemd {
    /// Each name once.
    pub units: Vec<Unit>,
}

/// One of `systemd.units`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// A name that systemd would load, with the suffix of its type.
    pub name: String,
    /// Enable, disable, or leave unchanged.
    pub enabled: Option<bool>,
    /// Mask, unmask, or leave unchanged.
    pub mask: Option<bool>,
    /// The unit file; none is written if it is empty or not set.
    pub contents: Option<String>,
    /// Each name once.
    pub dropins: Vec<Dropin>,
}

/// One of a unit's `dropins`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropin {
    /// A file name that ends in `.conf`.
    pub name: String,
    /// An empty text writes an empty file.
    pub contents: Option<String>,
}

/// The names in `passwd`, without hashes and keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passwd {
    pub users: Vec<String>,
    pub groups: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelArguments {
    pub should_exist: Vec<String>,
    pub should_not_exist: Vec<String>,
}

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
