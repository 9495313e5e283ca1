//! The typed form of a config: the shape of spec 3.5.0 and 3.6.0, for input of any version.

use super::content::Resource;
use super::version::SpecVersion;

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
