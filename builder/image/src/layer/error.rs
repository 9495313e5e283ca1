//! What can be wrong with a layer.

use std::io;

use super::super::{DiffId, Digest, TreePath};
use mosb_types::ErrorClass;

/// A layer of a base that can't be taken as it is, or one of ours that can't be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No layer, encrypted, or compressed in another way.
    #[error(
        "layer {layer}: media type {media_type:?} is not a gzip, zstd or uncompressed tar; convert the base, for example with skopeo copy --dest-compress-format gzip"
    )]
    MediaType {
        /// The layer.
        layer: Digest,
        /// What its descriptor says.
        media_type: String,
    },
    /// The blob is longer or shorter than its descriptor says.
    #[error(
        "layer {layer}: {found} bytes where the manifest says {want}; copy the base to this place again"
    )]
    Size {
        /// The layer.
        layer: Digest,
        /// Bytes as the manifest says.
        want: u64,
        /// Bytes that came; one more than wanted if there were too many.
        found: u64,
    },
    /// The blob is something else.
    #[error("layer {layer}: its bytes are those of {found}; copy the base to this place again")]
    Digest {
        /// The layer.
        layer: Digest,
        /// What was served.
        found: Digest,
    },
    /// The unpacked layer is something else than the config of the image says.
    #[error(
        "layer {layer}: unpacks to {found} where the image config says {want}; the base is broken, build it again"
    )]
    DiffId {
        /// The layer.
        layer: Digest,
        /// As the config says.
        want: DiffId,
        /// As it is.
        found: DiffId,
    },
    /// The bytes can't be unpacked.
    #[error("layer {layer}: not readable as a compressed tar; the base is broken, build it again")]
    Unpack {
        /// The layer.
        layer: Digest,
        /// Why.
        source: io::Error,
    },
    /// An entry of the tar is broken, hostile or too much.
    #[error(
        "layer {layer}: entry {:?}: {cause}; the base is broken or hostile, build it again or choose another",
        shown(entry)
    )]
    Entry {
        /// The layer.
        layer: Digest,
        /// The path as the layer writes it, or what is known of it.
        entry: String,
        /// What is wrong with it.
        cause: EntryError,
    },
    /// The layers of the image have more together than is read.
    #[error(
        "layer {layer}: the image has {cause}; the base is hostile or far larger than others, choose another"
    )]
    Limit {
        /// The layer that was read when it showed.
        layer: Digest,
        /// What there is too much of.
        cause: EntryError,
    },
    /// The table of contents of a zstd:chunked layer isn't what the manifest says.
    #[error("layer {layer}: zstd:chunked table of contents: {cause}; push the base again")]
    Toc {
        /// The layer.
        layer: Digest,
        /// What is wrong with it.
        cause: String,
    },
    /// A hard link of a layer to write has no file in that layer.
    #[error("{path}: hard link to {to}, which is not a file of the same layer; give it contents")]
    LinkWithoutFile {
        /// The link.
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
    /// Beyond a limit.
    #[error("{found} {what}, and no more than {limit} are read")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// What there is, as far as it was read.
        found: u64,
    },
    /// Too many links on the way.
    #[error("its path goes through a loop of symbolic links")]
    LinkLoop,
    /// A file stands where a directory must be.
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

impl Error {
    /// What the caller should do: a base that lies stays so, however often it is read.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::LinkWithoutFile { .. } => ErrorClass::Internal,
            Self::MediaType { .. }
            | Self::Size { .. }
            | Self::Digest { .. }
            | Self::DiffId { .. }
            | Self::Unpack { .. }
            | Self::Entry { .. }
            | Self::Limit { .. }
            | Self::Toc { .. } => ErrorClass::InvalidInput,
        }
    }

    /// One of `layer-media-type`, `layer-size`, `layer-digest`, `layer-diff-id`, `layer-unreadable`, `layer-entry`,
    /// `layer-limit`, `layer-toc`, `layer-link`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::MediaType { .. } => "layer-media-type",
            Self::Size { .. } => "layer-size",
            Self::Digest { .. } => "layer-digest",
            Self::DiffId { .. } => "layer-diff-id",
            Self::Unpack { .. } => "layer-unreadable",
            Self::Entry { .. } => "layer-entry",
            Self::Limit { .. } => "layer-limit",
            Self::Toc { .. } => "layer-toc",
            Self::LinkWithoutFile { .. } => "layer-link",
        }
    }
}
