//! What a layer holds, for a reader.

use std::io::Read;

use super::entries::{ReadError, TarEntry, What};
use super::read::{Named, named};
use super::unpack::unpack;
use super::{Budget, Error, Layer};

/// One entry of a layer as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The path it is about, without the leading slash; of a whiteout what is gone, of an opaque directory the directory.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: ListedKind,
    /// Permission bits with setuid, setgid and sticky (`07777`).
    pub mode: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Bytes of a regular file, else 0.
    pub size: u64,
    /// Where a symbolic link points, or the path that a hard link is another name of.
    pub target: Option<Vec<u8>>,
}

/// What an entry of a layer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// Another name of a path.
    Hardlink,
    /// A device or pipe.
    Other,
    /// The path is gone.
    Whiteout,
    /// All that lower layers have in the directory is gone.
    Opaque,
}

/// Lists the entries of a layer in its order.
///
/// # Errors
/// If the blob isn't what `layer` says, or not a tar that can be unpacked.
pub fn list_layer(layer: &Layer, blob: impl Read) -> Result<Vec<Listed>, Error> {
    unpack(layer, blob, &Budget::default(), |entries| {
        let mut list = Vec::new();
        while let Some(entry) = entries.next()? {
            let entry = listed(entry)?;
            list.extend(entry);
        }
        Ok(list)
    })
}

/// Reads one regular file of a layer, whole; `None` if the layer has no such file, or one of more than `most` bytes.
///
/// # Errors
/// As [`list_layer`].
pub fn read_file(
    layer: &Layer,
    blob: impl Read,
    path: &[u8],
    most: u64,
) -> Result<Option<Vec<u8>>, Error> {
    unpack(layer, blob, &Budget::default(), |entries| {
        let mut found = None;
        while let Some(entry) = entries.next()? {
            if entry.path != path {
                continue;
            }
            // The last entry of a path counts.
            found = match entry.what {
                What::File { sparse: false } if entry.size <= most => Some(entries.content()?),
                _ => None,
            };
        }
        Ok(found)
    })
}

fn listed(entry: TarEntry) -> Result<Option<Listed>, ReadError> {
    let (path, whiteout) = match named(&entry.path) {
        Ok(Named::Path) => (entry.path.clone(), None),
        Ok(Named::Whiteout(path)) => (path, Some(ListedKind::Whiteout)),
        Ok(Named::Opaque(path)) => (path.to_vec(), Some(ListedKind::Opaque)),
        Ok(Named::Ignored) => return Ok(None),
        Err(cause) => {
            return Err(ReadError::Entry {
                entry: String::from_utf8_lossy(&entry.path).into_owned(),
                cause,
            });
        }
    };
    let (kind, target) = match entry.what {
        What::Directory => (ListedKind::Directory, None),
        What::File { .. } => (ListedKind::File, None),
        What::Symlink(target) => (ListedKind::Symlink, Some(target)),
        What::Hardlink(to) => (ListedKind::Hardlink, Some(to)),
        What::Other => (ListedKind::Other, None),
    };
    Ok(Some(Listed {
        path,
        kind: whiteout.unwrap_or(kind),
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        size: entry.size,
        target,
    }))
}
