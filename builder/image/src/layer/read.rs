//! What a layer of a base does, read once from its bytes; and once more for contents that turn out to decide something.

use std::io::{BufRead, Read};

use super::super::tree::{Kind, retained};
use super::entries::{Entries, ReadError, TarEntry, What};
use super::unpack::unpack;
use super::{Budget, Delta, EntryError, Error, Event, Layer, Put};

/// Longest object of an ostree repository that is looked into for a unit, a preset or accounts.
const LONGEST_CANDIDATE: u64 = 64 << 10;
const WHITEOUT: &[u8] = b".wh.";

/// Reads a layer: every entry, and the contents that decide something as far as that can be known from the layer alone. What it
/// takes is counted with the other layers of its image.
///
/// # Errors
/// If the blob isn't what `layer` says, or not a tar that can be unpacked, or the image has too much in all.
pub fn read_delta(layer: &Layer, blob: impl Read, budget: &Budget) -> Result<Delta, Error> {
    unpack(layer, blob, budget, |entries| {
        let mut delta = Delta::new(layer.digest);
        while let Some(entry) = entries.next()? {
            let content = match entry.what {
                What::File { sparse: false } => content(entries, &entry, budget)?,
                _ => None,
            };
            push(&mut delta, &entry, content.as_deref()).map_err(|cause| ReadError::Entry {
                entry: String::from_utf8_lossy(&entry.path).into_owned(),
                cause,
            })?;
        }
        Ok(delta)
    })
}

/// Reads a layer again and calls `take` with the content of these entries, which are sorted by number.
///
/// # Errors
/// As [`read_delta`]; what `take` got before an error is not to be believed.
pub fn read_contents(
    layer: &Layer,
    blob: impl Read,
    budget: &Budget,
    wanted: &[u32],
    mut take: impl FnMut(u32, &[u8]),
) -> Result<(), Error> {
    unpack(layer, blob, budget, |entries| {
        let mut number = 0;
        while let Some(entry) = entries.next()? {
            let file =
                entry.what == What::File { sparse: false } && entry.size <= retained::MAX_FILE_SIZE;
            if file && wanted.binary_search(&number).is_ok() {
                take(number, &entries.content()?);
            }
            number += 1;
        }
        Ok(())
    })
}

fn content<R: BufRead>(
    entries: &mut Entries<R>,
    entry: &TarEntry,
    budget: &Budget,
) -> Result<Option<Vec<u8>>, ReadError> {
    let object = entry.path.starts_with(retained::OSTREE_OBJECTS.as_bytes());
    let take = match entry.size {
        _ if retained::is_retained(&entry.path) => entry.size <= retained::MAX_FILE_SIZE,
        1..=LONGEST_CANDIDATE if object => retained::looks_retained(entries.peek()?),
        _ => false,
    };
    if take && budget.take_content(entry.size) {
        return entries.content().map(Some);
    }
    Ok(None)
}

/// Appends an entry of a tar, or of a table of contents, to a delta.
pub(super) fn push(
    delta: &mut Delta,
    entry: &TarEntry,
    content: Option<&[u8]>,
) -> Result<(), EntryError> {
    let path = &entry.path;
    match named(path)? {
        Named::Path => {}
        Named::Whiteout(gone) => {
            delta.push(&gone, &Event::Whiteout);
            return Ok(());
        }
        Named::Opaque(directory) => {
            delta.push(directory, &Event::Opaque);
            return Ok(());
        }
        // It keeps its number, by which contents are asked for.
        Named::Nothing => {
            delta.push(path, &Event::Whiteout);
            return Ok(());
        }
    }
    let (kind, bytes) = match &entry.what {
        What::Directory => (Kind::Directory, None),
        What::File { .. } if entry.size == 0 => (Kind::File, Some(&b""[..])),
        What::File { .. } => (Kind::File, content),
        What::Symlink(target) => (Kind::Symlink, Some(target.as_slice())),
        What::Other => (Kind::Other, None),
        What::Hardlink(to) => {
            delta.push(path, &Event::Link { to });
            return Ok(());
        }
    };
    let TarEntry { mode, uid, gid, size, .. } = *entry;
    let put = Put { kind, mode, uid, gid, size, bytes };
    delta.push(path, &Event::Put(put));
    Ok(())
}

/// What the name of an entry says (OCI image spec, layer, whiteouts).
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named<'a> {
    /// The entry is what it is.
    Path,
    /// This path is gone.
    Whiteout(Vec<u8>),
    /// What lower layers have in this directory is gone.
    Opaque(&'a [u8]),
    /// Left behind by aufs; unpackers pass over it.
    Nothing,
}

pub(super) fn named(path: &[u8]) -> Result<Named<'_>, EntryError> {
    let start = path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    let Some(gone) = path[start..].strip_prefix(WHITEOUT) else {
        return Ok(Named::Path);
    };
    match gone {
        b".wh..opq" => Ok(Named::Opaque(&path[..start.saturating_sub(1)])),
        b"" | b"." | b".." => Err(EntryError::Whiteout),
        meta if meta.starts_with(WHITEOUT) => Ok(Named::Nothing),
        name => Ok(Named::Whiteout([&path[..start], name].concat())),
    }
}
