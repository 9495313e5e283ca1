//! The typed form: the shape of spec 3.5.0 and 3.6.0, whatever version the config was written for.

use super::content::Resource;
use super::version::SpecVersion;

/// A checked config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The version that the config was written for, and whose rules it keeps.
    pub version: SpecVersion,
    /// `kernelArguments`.
    pub kernel_arguments: KernelArguments,
    /// `passwd`.
    pub passwd: Passwd,
    /// `storage`.
    pub storage: Storage,
    /// `systemd`.
    pub systemd: Systemd,
}

/// What lies in file systems, and by name what they are made on.
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
    /// Whether something that is there may be replaced.
    pub overwrite: Option<bool>,
    /// Permission bits, with setuid, setgid and sticky only in spec 3.6.0: older ones drop them.
    pub mode: Option<u32>,
    /// The owner.
    pub user: Owner,
    /// The group.
    pub group: Owner,
    /// The new contents; without, what is there stays, and a missing file is made empty.
    pub contents: Option<Resource>,
    /// What to append, in order; each has a source.
    pub append: Vec<Resource>,
}

/// One of `storage.directories`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Absolute and clean.
    pub path: String,
    /// Whether something that is there is removed first, a directory with all it holds.
    pub overwrite: Option<bool>,
    /// Permission bits, as of a file.
    pub mode: Option<u32>,
    /// The owner.
    pub user: Owner,
    /// The group.
    pub group: Owner,
}

/// One of `storage.links`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Absolute and clean, never `/`.
    pub path: String,
    /// Whether something that is there may be replaced.
    pub overwrite: Option<bool>,
    /// The owner of a symbolic link.
    pub user: Owner,
    /// The group of a symbolic link.
    pub group: Owner,
    /// Never empty. Of a hard link a path, counted from the root even if relative.
    pub target: String,
    /// A hard link.
    pub hard: bool,
}

/// Who a file belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The config doesn't say.
    #[default]
    Unsaid,
    /// By number.
    Id(u32),
    /// By name, to be looked up in the base; never empty.
    Name(String),
}

/// `systemd`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Systemd {
    /// Each name once.
    pub units: Vec<Unit>,
}

/// One of `systemd.units`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// A name that systemd would load, with its type.
    pub name: String,
    /// Enable, disable, or leave alone.
    pub enabled: Option<bool>,
    /// Mask, unmask, or leave alone.
    pub mask: Option<bool>,
    /// The unit file; nothing and an empty text both write none.
    pub contents: Option<String>,
    /// Each name once.
    pub dropins: Vec<Dropin>,
}

/// One of a unit's `dropins`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropin {
    /// A file name that ends in `.conf`.
    pub name: String,
    /// Its text; an empty one makes an empty file.
    pub contents: Option<String>,
}

/// The names under `passwd`. Hashes and keys are not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passwd {
    /// Names of users.
    pub users: Vec<String>,
    /// Names of groups.
    pub groups: Vec<String>,
}

/// `kernelArguments`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelArguments {
    /// To be there.
    pub should_exist: Vec<String>,
    /// Not to be there.
    pub should_not_exist: Vec<String>,
}
