//! A file tree as a value, for comparing the results of two ways of building.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use sha2::{Digest, Sha256};
use tar::EntryType;

/// Every relative path of a tree except its root, with the entry at the path. Times are not
/// included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot(pub BTreeMap<String, Entry>);

/// The metadata and content of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: Kind,
    /// The permission bits with set-user-ID, set-group-ID and sticky. A link has 0777, because its
    /// bits have no effect.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// The type of an entry with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Directory,
    File { size: u64, sha256: String },
    Link { target: String },
    Other(&'static str),
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o} {}:{} ", self.mode, self.uid, self.gid)?;
        match &self.kind {
            Kind::Directory => f.write_str("directory"),
            Kind::File { size, sha256 } => write!(f, "file of {size} bytes, {}", &sha256[..12]),
            Kind::Link { target } => write!(f, "link to {target}"),
            Kind::Other(what) => f.write_str(what),
        }
    }
}

impl Snapshot {
    /// Reads a directory without following links.
    pub fn of(directory: &Path) -> Self {
        Self::of_with(directory, |_| None)
    }

    /// Reads a directory. If `known` returns the content of a regular file, the file is not read.
    pub fn of_with(directory: &Path, known: impl Fn(&str) -> Option<Kind>) -> Self {
        let mut snapshot = Self::default();
        let mut open = vec![String::new()];
        while let Some(parent) = open.pop() {
            for entry in fs::read_dir(directory.join(&parent)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let path = if parent.is_empty() { name } else { format!("{parent}/{name}") };
                let entry = read(&directory.join(&path), || known(&path));
                if entry.kind == Kind::Directory {
                    open.push(path.clone());
                }
                snapshot.0.insert(path, entry);
            }
        }
        snapshot
    }

    /// Returns this tree with an unpacked layer on top. A path through a link or a missing parent
    /// is an error, because an unpacker would write outside the tree or create the parent itself.
    pub fn with_layer(&self, layer: impl Read) -> Result<Self, String> {
        let mut tree = self.clone();
        let mut archive = tar::Archive::new(layer);
        for member in archive.entries().map_err(|why| why.to_string())? {
            let mut member = member.map_err(|why| why.to_string())?;
            let path = inside(&member.path_bytes())?;
            if !path.is_empty() {
                tree.unpack(&path, &mut member).map_err(|why| format!("{path}: {why}"))?;
            }
        }
        Ok(tree)
    }

    fn unpack<R: Read>(
        &mut self,
        path: &str,
        member: &mut tar::Entry<'_, R>,
    ) -> Result<(), String> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        if !parent.is_empty() && self.0.get(parent).is_none_or(|e| e.kind != Kind::Directory) {
            return Err(format!("its parent is {}", self.describe(parent)));
        }
        if name == ".wh..wh..opq" {
            self.remove_below(parent);
            return Ok(());
        }
        if let Some(removed) = name.strip_prefix(".wh.") {
            let removed =
                if parent.is_empty() { removed.to_owned() } else { format!("{parent}/{removed}") };
            self.remove_below(&removed);
            return match self.0.remove(&removed) {
                Some(_) => Ok(()),
                None => Err("a whiteout of nothing".to_owned()),
            };
        }
        let entry = self.entry(member)?;
        if entry.kind != Kind::Directory {
            self.remove_below(path);
        }
        self.0.insert(path.to_owned(), entry);
        Ok(())
    }

    fn entry<R: Read>(&self, member: &mut tar::Entry<'_, R>) -> Result<Entry, String> {
        let target =
            member.link_name_bytes().map(|name| String::from_utf8_lossy(&name).into_owned());
        let header = member.header();
        let number = |read: io::Result<u64>| {
            let number = read.map_err(|why| why.to_string())?;
            u32::try_from(number).map_err(|why| why.to_string())
        };
        let (uid, gid) = (number(header.uid())?, number(header.gid())?);
        let mode = header.mode().map_err(|why| why.to_string())? & 0o7777;
        let (kind, mode) = match header.entry_type() {
            EntryType::Directory => (Kind::Directory, mode),
            EntryType::Regular => (content(member).map_err(|why| why.to_string())?, mode),
            EntryType::Symlink => {
                let target = target.ok_or("a link without a target")?;
                (Kind::Link { target }, 0o777)
            }
            EntryType::Link => {
                let target = inside(target.ok_or("a hard link without a target")?.as_bytes())?;
                let found = self.0.get(&target).cloned();
                return found.ok_or_else(|| format!("a hard link to {}", self.describe(&target)));
            }
            other => return Err(format!("type {other:?}")),
        };
        Ok(Entry { kind, mode, uid, gid })
    }

    fn remove_below(&mut self, path: &str) {
        let prefix = format!("{path}/");
        let after = self.0.range(prefix.clone()..).map(|(path, _)| path);
        let below: Vec<_> = after.take_while(|path| path.starts_with(&prefix)).cloned().collect();
        below.iter().for_each(|path| drop(self.0.remove(path)));
    }

    fn describe(&self, path: &str) -> String {
        match self.0.get(path) {
            Some(entry) => format!("{path}: {entry}"),
            None => format!("{path}: nothing"),
        }
    }

    /// The differences to `other`, one line for each path: `-` for this tree, `+` for the other.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        let paths = self.0.keys().chain(other.0.keys().filter(|path| !self.0.contains_key(*path)));
        for path in paths {
            let (here, there) = (self.0.get(path), other.0.get(path));
            if here != there {
                lines.extend(here.map(|entry| format!("- {path}: {entry}")));
                lines.extend(there.map(|entry| format!("+ {path}: {entry}")));
            }
        }
        lines
    }

    /// Asserts that two trees are equal; the message lists the differences.
    #[track_caller]
    pub fn assert_same(&self, other: &Self, what: &str) {
        let lines = self.differences(other);
        assert!(lines.is_empty(), "{what}: the trees differ\n{}", lines.join("\n"));
    }
}

/// A member's name without the leading root and the trailing slash. `..` is an error.
fn inside(name: &[u8]) -> Result<String, String> {
    let name = std::str::from_utf8(name).map_err(|why| why.to_string())?;
    let parts: Vec<_> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(format!("{name}: leaves the tree"));
    }
    Ok(parts.join("/"))
}

fn read(path: &Path, known: impl Fn() -> Option<Kind>) -> Entry {
    let found = fs::symlink_metadata(path).unwrap();
    let kind = found.file_type();
    let (kind, mode) = if kind.is_symlink() {
        let target = fs::read_link(path).unwrap();
        (Kind::Link { target: target.into_os_string().into_string().unwrap() }, 0o777)
    } else {
        let what = if kind.is_dir() {
            Kind::Directory
        } else if kind.is_file() {
            known().unwrap_or_else(|| content(&mut File::open(path).unwrap()).unwrap())
        } else if kind.is_fifo() {
            Kind::Other("fifo")
        } else if kind.is_socket() {
            Kind::Other("socket")
        } else {
            Kind::Other("device")
        };
        (what, found.mode() & 0o7777)
    };
    Entry { kind, mode, uid: found.uid(), gid: found.gid() }
}

fn content(from: &mut impl Read) -> io::Result<Kind> {
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut size = 0;
    loop {
        match from.read(&mut buffer)? {
            0 => break,
            count => {
                sum.update(&buffer[..count]);
                size += count as u64;
            }
        }
    }
    Ok(Kind::File { size, sha256: hex(&sum.finalize()) })
}

/// Bytes as lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 of bytes as hex digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
