//! Layers, both ways: the bytes of a base's layers become a [`BaseTree`](super::tree::BaseTree),
//! and the entries of an [`Overlay`](super::overlay::Overlay) become a layer.
//!
//! Input: readers of untrusted blobs, which are accepted only with the size, digest and diffID of
//! the manifest and config. Invariant: memory is bounded for any blob, and equal entries are
//! always written as equal bytes.

mod budget;
mod delta;
mod entries;
mod error;
pub mod header;
mod json_strings;
mod list;
mod pieces;
mod read;
mod toc;
mod unpack;
mod write;

use std::collections::BTreeMap;

use super::{DiffId, Digest};

pub(crate) use budget::MAX_ENTRIES;
pub use budget::{Budget, MAX_LAYERS};
#[cfg(test)]
pub(crate) use budget::{MAX_PATH_BYTES, MAX_UNPACKED_SIZE};
pub use delta::{Delta, Event, Put};
pub use entries::{TarEntry, What};
pub use error::{EntryError, Error};
pub use list::{Listed, ListedKind, list_layer, read_file};
pub use pieces::{Piece, database_piece, ranges, read_listing_piece, read_pieces};
pub use read::{read_contents, read_delta, read_listing};
pub use toc::{Toc, read_toc};
pub use write::{LayerBlob, MTIME, write_layer};

/// A layer of a base as its manifest and config describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// From the descriptor.
    pub media_type: String,
    /// Digest of the blob.
    pub digest: Digest,
    /// Bytes of the blob.
    pub size: u64,
    /// Digest of the unpacked layer, from the config.
    pub diff_id: DiffId,
    /// From the descriptor; those of a zstd:chunked layer locate its table of contents.
    pub annotations: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod toc_tests;

#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, reason = "only tests call it")]
mod chunked;
#[cfg(any(test, feature = "testing"))]
pub use chunked::chunked;
