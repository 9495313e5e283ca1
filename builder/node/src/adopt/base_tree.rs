//! The image that a machine booted, as a base: its `/etc` is the image's, and of `/usr` there is what
//! decides about units, users and links.

use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use mosb_image::tree::retained::{MAX_FILE_SIZE, is_for_decisions};
use mosb_image::tree::{BaseTree, Kind, OwnedEntry};

use crate::error::Error;
use crate::file_tree::{EntryKind, FileTree};
use crate::host_root::HostRoot;

/// The most entries of an image that are read.
const MAX_ENTRIES: usize = 100_000;

/// What is read below a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// The entries in it.
    One,
    All,
}

/// The commit that the image is based on.
///
/// # Errors
/// A file of the image can't be read, or it has too many.
pub(super) fn base_tree(root: &HostRoot) -> Result<BaseTree, Error> {
    let mut reader = Reader { entries: Vec::new() };
    let (top, usr) = (root.tree("/")?, root.tree("/usr")?);
    reader.read(&top, "", "", Depth::One)?;
    // The machine's own; the image's is below /usr.
    reader.entries.retain(|(path, _)| path != b"etc");
    reader.read(&usr, "", "usr", Depth::One)?;
    reader.read(&usr, "lib", "usr/lib", Depth::One)?;
    for library in ["lib", "lib64"] {
        let mut folders = vec![PathBuf::from(library)];
        if usr.entry(Path::new(library))?.is_some_and(|entry| entry.kind == EntryKind::Directory) {
            let names = usr.names(Path::new(library))?;
            // Debian's, such as x86_64-linux-gnu.
            let names = names.into_iter().filter(|name| name.to_string_lossy().contains("-linux-"));
            folders.extend(names.map(|name| Path::new(library).join(name)));
        }
        for folder in folders {
            let folder = folder.join("systemd").to_string_lossy().into_owned();
            reader.read(&usr, &folder, &format!("usr/{folder}"), Depth::One)?;
        }
    }
    for folder in ["lib/systemd/system", "lib/systemd/system-preset"] {
        reader.read(&usr, folder, &format!("usr/{folder}"), Depth::All)?;
    }
    for program in ["bin/systemctl", "sbin/systemctl"] {
        reader.entry(&usr, Path::new(program), format!("usr/{program}").into_bytes())?;
    }
    reader.read(&usr, "etc", "etc", Depth::All)?;
    Ok(BaseTree::from_entries(reader.entries))
}

struct Reader {
    entries: Vec<(Vec<u8>, OwnedEntry)>,
}

impl Reader {
    /// The entries of the directory `from`, as those of `to`; nothing if there is none.
    fn read(&mut self, tree: &FileTree, from: &str, to: &str, depth: Depth) -> Result<(), Error> {
        let mut folders = vec![PathBuf::from(from)];
        if !from.is_empty() && self.entry(tree, &folders[0], to.into())? != Some(Kind::Directory) {
            return Ok(());
        }
        while let Some(folder) = folders.pop() {
            for name in tree.names(&folder)? {
                let path = folder.join(name);
                let below = path.strip_prefix(from).unwrap_or(&path).as_os_str().as_bytes();
                let to = [to.as_bytes(), below].join(&b'/');
                let to = to.strip_prefix(b"/").unwrap_or(&to).to_vec();
                let kind = self.entry(tree, &path, to)?;
                if kind == Some(Kind::Directory) && depth == Depth::All {
                    folders.push(path);
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, tree: &FileTree, path: &Path, to: Vec<u8>) -> Result<Option<Kind>, Error> {
        let Some(found) = tree.entry(path)? else { return Ok(None) };
        if self.entries.len() >= MAX_ENTRIES {
            return Err(Error::TooManyFiles { path: "/usr/etc", limit: MAX_ENTRIES });
        }
        let mut entry =
            OwnedEntry { uid: found.uid, gid: found.gid, ..OwnedEntry::directory(found.mode) };
        match found.kind {
            EntryKind::Directory => {}
            EntryKind::File { size } => {
                entry.kind = Kind::File;
                entry.size = size;
                if is_for_decisions(&to) && size <= MAX_FILE_SIZE {
                    let mut content = Vec::new();
                    let mut file = tree.open(path)?.take(MAX_FILE_SIZE);
                    file.read_to_end(&mut content)
                        .map_err(|error| tree.not_readable(path, error))?;
                    entry.size = content.len() as u64;
                    entry.content = Some(content);
                }
            }
            EntryKind::Link { target } => {
                entry.kind = Kind::Symlink;
                entry.target = Some(target);
            }
            EntryKind::Other => entry.kind = Kind::Other,
        }
        let kind = entry.kind;
        self.entries.push((to, entry));
        Ok(Some(kind))
    }
}
