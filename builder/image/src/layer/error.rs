//! What can be wrong with a layer.

use std::io;

use super::super::{DiffId, Digest, TreePath};
use mosb_types::Diagnostic;

/// A layer of a base that can't be used, or a layer of ours that can't be written.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// No layer, encrypted, or compressed in another way.
    #[error(
        "layer {layer}: media type {media_type:?} is not a gzip, zstd or uncompressed tar; convert the base, for example with skopeo copy --dest-compress-format gzip"
    )]
    #[diagnostic(code = "layer-media-type", class = InvalidInput)]
    MediaType { layer: Digest, media_type: String },
    /// The blob's size differs from its descriptor.
    #[error(
        "layer {layer}: {found} bytes where the manifest says {want}; copy the base to this place again"
    )]
    #[diagnostic(code = "layer-size", class = InvalidInput)]
    Size {
        layer: Digest,
        /// The size in the manifest.
        want: u64,
        /// Bytes that came; one more than wanted if there were too many.
        found: u64,
    },
    /// The blob is something else.
    #[error("layer {layer}: its bytes are those of {found}; copy the base to this place again")]
    #[diagnostic(code = "layer-digest", class = InvalidInput)]
    Digest { layer: Digest, found: Digest },
    /// The unpacked layer differs from the diffID in the image's config.
    #[error(
        "layer {layer}: unpacks to {found} where the image config says {want}; the base is broken, build it again"
    )]
    #[diagnostic(code = "layer-diff-id", class = InvalidInput)]
    DiffId { layer: Digest, want: DiffId, found: DiffId },
    /// The bytes can't be unpacked.
    #[error("layer {layer}: not readable as a compressed tar; the base is broken, build it again")]
    #[diagnostic(code = "layer-unreadable", class = InvalidInput)]
    Unpack { layer: Digest, source: io::Error },
    /// An entry of the tar is broken, hostile or too much.
    #[error(
        "layer {layer}: entry {:?}: {cause}; the base is broken or hostile, build it again or choose another",
        shown(entry)
    )]
    #[diagnostic(code = "layer-entry", class = InvalidInput)]
    Entry {
        layer: Digest,
        /// The path in the layer, as far as it is known.
        entry: String,
        /// What is wrong with it.
        cause: EntryError,
    },
    /// The layers of the image have more together than is read.
    #[error(
        "layer {layer}: the image has {cause}; the base is hostile or far larger than others, choose another"
    )]
    #[diagnostic(code = "layer-limit", class = InvalidInput)]
    Limit {
        /// The layer that was read when it showed.
        layer: Digest,
        /// What there is too much of.
        cause: EntryError,
    },
    /// The table of contents of a zstd:chunked layer does not match the manifest.
    #[error("layer {layer}: zstd:chunked table of contents: {cause}; push the base again")]
    #[diagnostic(code = "layer-toc", class = InvalidInput)]
    Toc {
        layer: Digest,
        /// What is wrong with it.
        cause: String,
    },
    /// A hard link of a layer to write has no file in that layer.
    #[error("{path}: hard link to {to}, which is not a file of the same layer; give it contents")]
    #[diagnostic(code = "layer-link", class = Internal)]
    LinkWithoutFile {
        path: TreePath,
        /// What it should be another name of.
        to: TreePath,
    },
}

/// What is wrong with one entry of a tar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// The sum of the header's bytes is another.
    #[error("the sum in its header is another")]
    Checksum,
    /// A number that is none, negative or out of range.
    #[error("{0} is not a number that fits")]
    Number(&'static str),
    /// A PAX header whose records can't be read.
    #[error("malformed PAX header")]
    Pax,
    /// A type that unpackers refuse.
    #[error("unknown entry type {0:#04x}")]
    Type(u8),
    /// A path that leads out of the root or can't be one.
    #[error(
        "a path, or a hard link's target, with .., a NUL or an overlong component is refused by every unpacker"
    )]
    Path,
    /// A whiteout of nothing.
    #[error("a whiteout that names nothing")]
    Whiteout,
    /// A limit is exceeded.
    #[error("{found} {what}, and no more than {limit} are read")]
    TooMuch {
        what: &'static str,
        limit: u64,
        /// What there is, as far as it was read.
        found: u64,
    },
    /// Too many links on the way.
    #[error("its path goes through a loop of symbolic links")]
    LinkLoop,
    /// A file is in the place of a directory.
    #[error("its path goes through a file of the same layer")]
    NotADirectory,
    /// A hard link to nothing in this or any other layer.
    #[error("hard link to {0:?}, which is in no layer")]
    DanglingLink(String),
    /// A hard link to a directory.
    #[error("hard link to the directory {0:?}")]
    LinkToDirectory(String),
    /// The tar ends within an entry.
    #[error("the tar ends in the middle")]
    Truncated,
}

/// A path that may be long without end.
fn shown(entry: &str) -> String {
    const MOST: usize = 200;
    match entry.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &entry[..end]),
        None => entry.to_owned(),
    }
}
