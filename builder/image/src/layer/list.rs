//! Lists the entries of a layer.

use std::io::Read;

use super::entries::{ReadError, TarEntry, What};
use super::read::{Named, named};
use super::unpack::unpack;
use super::{Budget, Error, Layer};

/// An entry of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The path without the leading slash; of a whiteout the removed path, of an opaque directory
    /// the directory.
    pub path: Vec<u8>,
    pub kind: ListedKind,
    /// Permission bits with setuid, setgid and sticky (`07777`).
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Bytes of a regular file, else 0.
    pub size: u64,
    /// The target of a symbolic or hard link.
    pub target: Option<Vec<u8>>,
}

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedKind {
    Directory,
    File,
    Symlink,
    Hardlink,
    /// A device or pipe.
    Other,
    Whiteout,
    /// Removes everything that lower layers have in the directory.
    Opaque,
}

/// Lists the entries of a layer in its order.
///
/// # Errors
/// If the blob doesn't match `layer`, or is not a tar that can be unpacked.
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

/// Reads one regular file of a layer; `None` if the layer has no such file, or one of more than
/// `most` bytes.
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
            // Later entries of a path replace earlier ones.
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
