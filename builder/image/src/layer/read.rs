//! Reads the changes of a layer of a base from its bytes, and a second time for contents that must
//! be retained.

use std::io::Read;
use std::sync::Arc;

use super::super::tree::{Kind, retained};
use super::entries::{ReadError, TarEntry, What};
use super::unpack::unpack;
use super::{Budget, Delta, EntryError, Error, Event, Layer, Put};
use crate::packages::{Effort, Listing, Manager};

/// The longest object of an ostree repository whose content is taken at the first reading.
const LONGEST_OBJECT: u64 = 64 << 10;
const WHITEOUT: &[u8] = b".wh.";

/// Reads a layer: every entry, and the contents that must be retained, as far as the layer alone
/// shows it. Its resources count against the budget of the image.
///
/// # Errors
/// If the blob doesn't match `layer`, is not a tar that can be unpacked, or exceeds the budget.
pub fn read_delta(layer: &Layer, blob: impl Read, budget: &Budget) -> Result<Delta, Error> {
    unpack(layer, blob, budget, |entries| {
        let mut delta = Delta::new(layer.digest);
        // A small object, until the entry behind it is known: there an exporter of ostree writes
        // the object's first name.
        let mut held: Option<(TarEntry, Vec<u8>)> = None;
        loop {
            let entry = entries.next()?;
            if let Some((object, content)) = held.take() {
                let take = retained::looks_retained(&content)
                    || entry.as_ref().is_some_and(|entry| is_retained_name(entry, &object));
                let take = take && budget.take_content(object.size);
                append(&mut delta, &object, take.then(|| content.into()))?;
            }
            let Some(entry) = entry else { break };
            match content(&entry) {
                Reading::Take if budget.take_content(entry.size) => {
                    append(&mut delta, &entry, Some(entries.content()?.into()))?;
                }
                Reading::Hold => held = Some((entry, entries.content()?)),
                Reading::List(manager) => {
                    let listing = entries.listing(manager, Effort::Streaming)?;
                    append(&mut delta, &entry, listing.map(|listing| listing.to_bytes().into()))?;
                }
                Reading::Take | Reading::Skip => append(&mut delta, &entry, None)?,
            }
        }
        Ok(delta)
    })
}

/// Reads a layer again and calls `take` with the content of these entries, which are sorted by
/// number.
///
/// # Errors
/// As [`read_delta`]; contents that `take` got before an error may be wrong.
pub fn read_contents(
    layer: &Layer,
    blob: impl Read,
    budget: &Budget,
    numbers: &[u32],
    mut take: impl FnMut(u32, &[u8]),
) -> Result<(), Error> {
    unpack(layer, blob, budget, |entries| {
        let mut number = 0;
        while let Some(entry) = entries.next()? {
            let file =
                entry.what == What::File { sparse: false } && entry.size <= retained::MAX_FILE_SIZE;
            if file && numbers.binary_search(&number).is_ok() {
                take(number, &entries.content()?);
            }
            number += 1;
        }
        Ok(())
    })
}

/// Reads a layer again for the package database that is the entry with this number, with the memory
/// that its pages need. `None` if there is no such file.
///
/// # Errors
/// As [`read_delta`].
pub fn read_listing(
    layer: &Layer,
    blob: impl Read,
    budget: &Budget,
    database: (u32, Manager),
) -> Result<Option<Listing>, Error> {
    unpack(layer, blob, budget, |entries| {
        let mut listing = None;
        let mut number = 0;
        while let Some(entry) = entries.next()? {
            if number == database.0 && entry.what == (What::File { sparse: false }) {
                listing = entries.listing(Some(database.1), Effort::Thorough)?;
            }
            number += 1;
        }
        Ok(listing)
    })
}

/// What becomes of the content of an entry.
enum Reading {
    Take,
    /// The next entry shows whether it is taken.
    Hold,
    /// It is a package database, of this manager or of one that its first bytes show.
    List(Option<Manager>),
    Skip,
}

fn content(entry: &TarEntry) -> Reading {
    let is_object = entry.path.starts_with(retained::OSTREE_OBJECTS.as_bytes());
    match (&entry.what, entry.size) {
        (What::File { sparse: false }, 1..) if Manager::of_path(&entry.path).is_some() => {
            Reading::List(Manager::of_path(&entry.path))
        }
        (What::File { sparse: false }, size)
            if retained::is_retained(&entry.path, size, entry.has_xattrs) =>
        {
            Reading::Take
        }
        (What::File { sparse: false }, 1..=LONGEST_OBJECT) if is_object => Reading::Hold,
        (What::File { sparse: false }, _) if is_object => Reading::List(None),
        _ => Reading::Skip,
    }
}

/// Whether an entry is a name of this object whose content is retained.
fn is_retained_name(entry: &TarEntry, object: &TarEntry) -> bool {
    let is_name = matches!(&entry.what, What::Hardlink(to) if *to == object.path);
    is_name && retained::is_retained(&entry.path, object.size, object.has_xattrs)
}

fn append(
    delta: &mut Delta,
    entry: &TarEntry,
    content: Option<Arc<[u8]>>,
) -> Result<(), ReadError> {
    push(delta, entry, content).map_err(|cause| ReadError::Entry {
        entry: String::from_utf8_lossy(&entry.path).into_owned(),
        cause,
    })
}

/// Appends an entry of a tar, or of a table of contents, to a delta.
pub(super) fn push(
    delta: &mut Delta,
    entry: &TarEntry,
    content: Option<Arc<[u8]>>,
) -> Result<(), EntryError> {
    let path = &entry.path;
    match named(path)? {
        Named::Path => {}
        Named::Whiteout(removed) => {
            delta.push(&removed, &Event::Whiteout);
            return Ok(());
        }
        Named::Opaque(directory) => {
            delta.push(directory, &Event::Opaque);
            return Ok(());
        }
        // It has a number, too: entries are found by their numbers.
        Named::Ignored => {
            delta.push(path, &Event::Whiteout);
            return Ok(());
        }
    }
    let (kind, bytes) = match &entry.what {
        What::Directory => (Kind::Directory, None),
        What::File { .. } if entry.size == 0 => (Kind::File, Some(Arc::default())),
        What::File { .. } => (Kind::File, content),
        What::Symlink(target) => (Kind::Symlink, Some(target.as_slice().into())),
        What::Other => (Kind::Other, None),
        What::Hardlink(to) => {
            delta.push(path, &Event::Link { to });
            return Ok(());
        }
    };
    let TarEntry { mode, uid, gid, size, has_xattrs, .. } = *entry;
    let put = Put { kind, mode, uid, gid, size, has_xattrs, bytes };
    delta.push(path, &Event::Put(put));
    Ok(())
}

/// The meaning of an entry's name (OCI image spec, layer, whiteouts).
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named<'a> {
    Path,
    /// This path is removed.
    Whiteout(Vec<u8>),
    /// The entries of lower layers in this directory are removed.
    Opaque(&'a [u8]),
    /// A file of aufs, which unpackers ignore.
    Ignored,
}

pub(super) fn named(path: &[u8]) -> Result<Named<'_>, EntryError> {
    let start = path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    let Some(removed) = path[start..].strip_prefix(WHITEOUT) else {
        return Ok(Named::Path);
    };
    match removed {
        b".wh..opq" => Ok(Named::Opaque(&path[..start.saturating_sub(1)])),
        b"" | b"." | b".." => Err(EntryError::Whiteout),
        meta if meta.starts_with(WHITEOUT) => Ok(Named::Ignored),
        name => Ok(Named::Whiteout([&path[..start], name].concat())),
    }
}
