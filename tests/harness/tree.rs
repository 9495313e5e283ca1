//! Tar archives for layers: built from entries, also invalid ones, or from a directory.

use std::fs;
use std::path::Path;

use tar::{Builder, EntryType, Header};

use super::child::run;

/// A tar archive under construction. Entries keep their order and are not validated.
#[derive(Debug, Clone, Default)]
pub struct Tree(Vec<Member>);

#[derive(Debug, Clone)]
struct Member {
    path: String,
    target: Option<String>,
    header: Header,
    content: Vec<u8>,
}

impl Tree {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn directory(self, path: &str, mode: u32) -> Self {
        self.add(EntryType::Directory, path, mode, None, b"")
    }

    pub fn file(self, path: &str, mode: u32, content: impl AsRef<[u8]>) -> Self {
        self.add(EntryType::Regular, path, mode, None, content.as_ref())
    }

    pub fn link(self, path: &str, target: &str) -> Self {
        self.add(EntryType::Symlink, path, 0o777, Some(target), b"")
    }

    pub fn hard_link(self, path: &str, target: &str) -> Self {
        self.add(EntryType::Link, path, 0o644, Some(target), b"")
    }

    /// Adds an entry of a type without content and target: a device, a fifo, or a type that tar
    /// does not know.
    pub fn special(self, path: &str, kind: EntryType) -> Self {
        self.add(kind, path, 0o644, None, b"")
    }

    /// Sets the owner of the last entry, which is root by default.
    pub fn owned(mut self, uid: u64, gid: u64) -> Self {
        let header = &mut self.0.last_mut().expect("an entry to own").header;
        header.set_uid(uid);
        header.set_gid(gid);
        self
    }

    fn add(
        mut self,
        kind: EntryType,
        path: &str,
        mode: u32,
        target: Option<&str>,
        content: &[u8],
    ) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(content.len() as u64);
        self.0.push(Member {
            path: path.to_owned(),
            target: target.map(str::to_owned),
            header,
            content: content.to_owned(),
        });
        self
    }

    /// The bytes of the archive.
    pub fn tar(&self) -> Vec<u8> {
        let mut archive = Builder::new(Vec::new());
        for member in &self.0 {
            if let Some(target) = &member.target {
                extension(&mut archive, b'K', target);
            }
            extension(&mut archive, b'L', &member.path);
            let mut header = member.header.clone();
            let fields = header.as_gnu_mut().expect("a GNU header");
            // This writes the fields directly, because the setters of the crate reject the names of
            // hostile archives.
            put(&mut fields.name, &member.path);
            put(&mut fields.linkname, member.target.as_deref().unwrap_or_default());
            header.set_cksum();
            archive.append(&header, member.content.as_slice()).unwrap();
        }
        archive.into_inner().unwrap()
    }
}

/// Writes GNU's extension entry for a name that is longer than its field.
fn extension(archive: &mut Builder<Vec<u8>>, kind: u8, name: &str) {
    if name.len() > 100 {
        let mut header = Header::new_gnu();
        put(&mut header.as_gnu_mut().expect("a GNU header").name, "././@LongLink");
        header.set_entry_type(EntryType::new(kind));
        header.set_mode(0o644);
        header.set_size(name.len() as u64 + 1);
        header.set_cksum();
        archive.append(&header, format!("{name}\0").as_bytes()).unwrap();
    }
}

fn put(field: &mut [u8; 100], value: &str) {
    let length = value.len().min(field.len());
    field[..length].copy_from_slice(&value.as_bytes()[..length]);
}

/// A directory, or these paths in it, as an archive from GNU tar: sorted, with numeric owners and
/// without times.
#[track_caller]
pub fn archive(directory: &Path, only: &[&str]) -> Vec<u8> {
    let mut paths: Vec<String> = only.iter().map(|path| (*path).to_owned()).collect();
    if only.is_empty() {
        let names = fs::read_dir(directory).unwrap();
        paths.extend(names.map(|entry| entry.unwrap().file_name().into_string().unwrap()));
        paths.sort();
    }
    let flags =
        ["--create", "--file=-", "--sort=name", "--numeric-owner", "--mtime=@0", "--format=gnu"];
    let mut arguments: Vec<String> = flags.map(str::to_owned).to_vec();
    arguments.push(format!("--directory={}", directory.display()));
    arguments.push("--".to_owned());
    arguments.extend(paths);
    run("tar", arguments).stdout
}
