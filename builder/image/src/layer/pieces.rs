//! The contents of a zstd:chunked layer that are read one by one, at the places that its table of
//! contents names.
//!
//! Input: pieces, and the bytes of ranges of the blob. Invariant: a content is used only if it has the
//! digest of the table.

use std::io::{self, BufReader, Read};
use std::ops::Range;

use sha2::{Digest as _, Sha256};

use super::super::Digest;
use super::super::tree::retained;
use super::Error;
use super::toc::broken;
use crate::packages::{self, Effort, Listing, Manager};

/// Maximum size of a compressed file; zstd never makes one of [`retained::MAX_FILE_SIZE`] bytes
/// longer.
const MAX_COMPRESSED_FILE_SIZE: u64 = 2 * retained::MAX_FILE_SIZE;
/// A shorter gap between two contents is read, not skipped by another request.
pub(super) const GAP: u64 = 64 << 10;
/// With more requests for a layer, longer gaps are read, too.
pub(super) const FEW_RANGES: usize = 64;

/// Where in the blob the content of an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub entry: u32,
    pub range: Range<u64>,
    pub(super) size: u64,
    pub(super) digest: Digest,
    /// Where in the content zeros are that the blob leaves out.
    pub(super) zeros: Vec<Range<u64>>,
}

/// The pieces of these entries, in few ranges of a blob of `size` bytes. An entry without a known
/// place is left out: its number in the tar may be another one.
pub fn ranges(pieces: &[Piece], entries: &[u32], size: u64) -> Vec<(Range<u64>, Vec<Piece>)> {
    let find = |entry| {
        let at = pieces.binary_search_by_key(entry, |piece: &Piece| piece.entry);
        let piece = &pieces[at.ok()?];
        let stored = piece.range.end - piece.range.start;
        (piece.range.end <= size && stored <= MAX_COMPRESSED_FILE_SIZE).then(|| piece.clone())
    };
    let mut found: Vec<Piece> = entries.iter().filter_map(find).collect();
    found.sort_by_key(|piece| piece.range.start);
    let mut gap = GAP;
    loop {
        let ranges = merge(&found, gap);
        // Pieces that overlap are never merged.
        if ranges.len() <= FEW_RANGES || gap >= size {
            return ranges;
        }
        gap *= 4;
    }
}

fn merge(pieces: &[Piece], gap: u64) -> Vec<(Range<u64>, Vec<Piece>)> {
    let mut ranges: Vec<(Range<u64>, Vec<Piece>)> = Vec::new();
    for piece in pieces.iter().cloned() {
        match ranges.last_mut() {
            Some((range, inside))
                if piece.range.start >= range.end && piece.range.start - range.end <= gap =>
            {
                range.end = piece.range.end;
                inside.push(piece);
            }
            Some(_) | None => ranges.push((piece.range.clone(), vec![piece])),
        }
    }
    ranges
}

/// Reads the contents of pieces from the bytes of one range of [`ranges`].
///
/// # Errors
/// If a content doesn't match the table of contents.
pub fn read_pieces(
    layer: &Digest,
    range: &Range<u64>,
    pieces: &[Piece],
    mut bytes: impl Read,
    mut take: impl FnMut(u32, &[u8]),
) -> Result<(), Error> {
    let unreadable = |source| Error::Unpack { layer: *layer, source };
    let mut at = range.start;
    for piece in pieces {
        let gap = piece.range.start - at;
        io::copy(&mut (&mut bytes).take(gap), &mut io::sink()).map_err(unreadable)?;
        at = piece.range.end;
        let mut stored = (&mut bytes).take(piece.range.end - piece.range.start);
        let mut content = Vec::new();
        Unpacked::new(piece, &mut stored)
            .and_then(|unpacked| unpacked.take(piece.size + 1).read_to_end(&mut content))
            .map_err(unreadable)?;
        io::copy(&mut stored, &mut io::sink()).map_err(unreadable)?;
        let found = Digest::from_sha256(Sha256::new_with_prefix(&content));
        if found != piece.digest {
            let cause = format!("entry {} has bytes of {found}", piece.entry);
            return Err(broken(*layer, cause));
        }
        take(piece.entry, &content);
    }
    Ok(())
}

/// The piece of a package database with this entry number.
pub fn database_piece(pieces: &[Piece], entry: u32) -> Option<&Piece> {
    let at = pieces.binary_search_by_key(&entry, |piece| piece.entry).ok()?;
    Some(&pieces[at])
}

/// Reads a package database from the bytes of its piece. `None` if it must be read again,
/// [`Thorough`](Effort::Thorough). A piece that is not what the table of contents says is an unreadable
/// database, because nothing that is built depends on it.
///
/// # Errors
/// The layer can't be read.
pub fn read_listing_piece(
    layer: &Digest,
    piece: &Piece,
    manager: Manager,
    effort: Effort,
    bytes: impl Read,
) -> Result<Option<Listing>, Error> {
    if piece.size > packages::MAX_SIZE {
        let cause = format!(
            "it has {} bytes, and no more than {} are read",
            piece.size,
            packages::MAX_SIZE
        );
        return Ok(Some(Listing::Unreadable(manager, cause)));
    }
    let mut hash = Sha256::new();
    let mut stored = Stored { inner: bytes, failed: false };
    let listing = Unpacked::new(piece, &mut stored).and_then(|unpacked| {
        let mut unpacked =
            BufReader::new(Tee { inner: unpacked.take(piece.size), hash: &mut hash });
        let listing = Listing::read(manager, &mut unpacked, effort)?;
        io::copy(&mut unpacked, &mut io::sink())?;
        Ok(listing)
    });
    let listing = match listing {
        Ok(listing) => listing,
        Err(source) if stored.failed => return Err(Error::Unpack { layer: *layer, source }),
        Err(error) => {
            let cause = format!("it can't be unpacked: {error}");
            return Ok(Some(Listing::Unreadable(manager, cause)));
        }
    };
    let found = Digest::from_sha256(hash);
    if found != piece.digest {
        let cause = format!("it has the bytes of {found}, and not of {}", piece.digest);
        return Ok(Some(Listing::Unreadable(manager, cause)));
    }
    Ok(listing)
}

/// Bytes of a blob, and whether they could not be read.
struct Stored<R> {
    inner: R,
    failed: bool,
}

impl<R: Read> Read for Stored<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer);
        self.failed |= got.is_err();
        got
    }
}

/// A reader that hashes its bytes.
struct Tee<'h, R> {
    inner: R,
    hash: &'h mut Sha256,
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.hash.update(&buffer[..got]);
        Ok(got)
    }
}

/// The content of a piece, with the zeros that the blob leaves out.
struct Unpacked<'p, R: Read> {
    zstd: zstd::Decoder<'static, BufReader<R>>,
    zeros: &'p [Range<u64>],
    at: u64,
}

impl<'p, R: Read> Unpacked<'p, R> {
    fn new(piece: &'p Piece, stored: R) -> io::Result<Self> {
        Ok(Self { zstd: zstd::Decoder::new(stored)?, zeros: &piece.zeros, at: 0 })
    }
}

impl<R: Read> Read for Unpacked<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.zeros.first().is_some_and(|zeros| zeros.end <= self.at) {
            self.zeros = &self.zeros[1..];
        }
        let within = |end: u64| {
            let length = usize::try_from(end - self.at).unwrap_or(usize::MAX);
            length.min(buffer.len())
        };
        let got = match self.zeros.first() {
            Some(zeros) if zeros.start <= self.at => {
                let length = within(zeros.end);
                buffer[..length].fill(0);
                length
            }
            Some(zeros) => {
                let length = within(zeros.start);
                self.zstd.read(&mut buffer[..length])?
            }
            None => self.zstd.read(buffer)?,
        };
        self.at += got as u64;
        Ok(got)
    }
}
