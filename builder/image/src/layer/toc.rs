//! The table of contents of a zstd:chunked layer (containers/storage,
//! `docs/containers-storage-zstd-chunked.md`): JSON in a frame that other readers skip. With it a
//! tree needs a few MB of a layer of gigabytes.
//!
//! Its digest is in the manifest; the contents that are fetched by it are verified one by one.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::ops::Range;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use sha2::{Digest as _, Sha256};

use super::super::Digest;
use super::super::tree::retained;
use super::budget::{Counted, limit_of};
use super::entries::{TarEntry, What};
use super::header::{SELINUX, clean};
use super::json_strings::ShortStrings;
use super::read::push;
use super::{Budget, Delta, EntryError, Error, Layer};
use crate::packages::{self, Effort, Listing, Manager};

const POSITION: &str = "io.github.containers.zstd-chunked.manifest-position";
const CHECKSUM: &str = "io.github.containers.zstd-chunked.manifest-checksum";
/// The only type and version.
const TYPE: &str = "1";
const VERSION: u64 = 1;
/// The type of a chunk of zeros.
const ZEROS: &str = "zeros";
/// Maximum size of an unpacked table; a layer of 100 000 paths has about 40 MB.
const MAX_TABLE_SIZE: u64 = 256 << 20;
/// Maximum size of a compressed file; zstd never makes one of [`retained::MAX_FILE_SIZE`] bytes
/// longer.
const MAX_COMPRESSED_FILE_SIZE: u64 = 2 * retained::MAX_FILE_SIZE;
/// A shorter gap between two contents is read, not skipped by another request.
pub(super) const GAP: u64 = 64 << 10;
/// With more requests for a layer, longer gaps are read, too.
pub(super) const FEW_RANGES: usize = 64;

/// The place of a layer's table of contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toc {
    layer: Digest,
    range: Range<u64>,
    checksum: Digest,
}

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

impl Toc {
    /// Reads the annotations of a layer; `None` for a layer without table of contents.
    ///
    /// # Errors
    /// If they are not valid.
    pub fn of(layer: &Layer) -> Result<Option<Self>, Error> {
        let annotation = |key| layer.annotations.get(key);
        let (Some(position), Some(checksum)) = (annotation(POSITION), annotation(CHECKSUM)) else {
            return Ok(None);
        };
        let wrong = |what: &str| broken(layer.digest, format!("bad annotation {what}"));
        let numbers: Vec<&str> = position.split(':').collect();
        let [offset, length, _, kind] = numbers[..] else {
            return Err(wrong(position));
        };
        if kind != TYPE {
            return Ok(None);
        }
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong(position));
        let offset = number(offset)?;
        let end = offset
            .checked_add(number(length)?)
            .filter(|end| *end <= layer.size)
            .ok_or_else(|| wrong(position))?;
        Ok(Some(Self {
            layer: layer.digest,
            range: offset..end,
            checksum: checksum.parse().map_err(|_| wrong(checksum))?,
        }))
    }

    /// Its bytes in the blob.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }
}

fn broken(layer: Digest, cause: impl fmt::Display) -> Error {
    Error::Toc { layer, cause: cause.to_string() }
}

/// Reads a table of contents: every entry of the layer, and the places of the contents that may
/// have to be retained. `None` if it is incomplete, as for names that aren't UTF-8: then the layer
/// itself must be read.
///
/// # Errors
/// If it doesn't match the manifest, or has an entry that can't be unpacked.
pub fn read_toc(
    toc: &Toc,
    bytes: impl Read,
    budget: &Budget,
) -> Result<Option<(Delta, Vec<Piece>)>, Error> {
    let layer = toc.layer;
    let mut compressed = Vec::new();
    let length = toc.range.end - toc.range.start;
    // The compressed bytes are few, and verified before they are unpacked.
    if length > MAX_TABLE_SIZE / 8 {
        return Ok(None);
    }
    bytes
        .take(length)
        .read_to_end(&mut compressed)
        .map_err(|source| Error::Unpack { layer, source })?;
    let found = Digest::of(&compressed);
    if found != toc.checksum {
        return Err(broken(layer, format!("its bytes are those of {found}")));
    }
    let unpacked = zstd::Decoder::with_buffer(&*compressed).map_err(|e| broken(layer, e))?;
    let counted = Counted::new(unpacked.take(MAX_TABLE_SIZE), budget);
    let reader = BufReader::new(ShortStrings::new(counted));
    let mut table =
        Table { delta: Delta::new(layer), pieces: Vec::new(), complete: true, wrong: None, budget };
    let mut json = serde_json::Deserializer::from_reader(reader);
    let read = Document(&mut table).deserialize(&mut json);
    match (read, table.wrong) {
        (_, Some((entry, cause))) => Err(Error::Entry { layer, entry, cause }),
        (Err(error), None) => {
            let text = error.to_string();
            Err(match limit_of(&error.into()) {
                Some(cause) => Error::Limit { layer, cause },
                None => broken(layer, text),
            })
        }
        (Ok(()), None) if table.complete => Ok(Some((table.delta, table.pieces))),
        (Ok(()), None) => Ok(None),
    }
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

#[derive(Debug)]
struct Table<'b> {
    budget: &'b Budget,
    delta: Delta,
    pieces: Vec<Piece>,
    complete: bool,
    wrong: Option<(String, EntryError)>,
}

/// An entry of the table.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    link_name: String,
    #[serde(default)]
    mode: i64,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    uid: u32,
    #[serde(default)]
    gid: u32,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    end_offset: u64,
    #[serde(default)]
    chunk_offset: u64,
    #[serde(default)]
    chunk_size: u64,
    #[serde(default)]
    chunk_type: String,
    #[serde(default)]
    xattrs: Xattrs,
}

impl Row {
    /// The zeros that the blob leaves out for this row, if it is a row of zeros.
    fn zeros(&self) -> Option<Range<u64>> {
        let end = self.chunk_offset.checked_add(self.chunk_size)?;
        (self.chunk_type == ZEROS).then_some(self.chunk_offset..end)
    }
}

/// Whether there is an extended attribute other than the SELinux label; nothing else of them is in
/// memory, however many there are.
#[derive(Debug, Default)]
struct Xattrs(bool);

impl<'de> Deserialize<'de> for Xattrs {
    fn deserialize<D: serde::Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(Self::default())
    }
}

impl<'de> Visitor<'de> for Xattrs {
    type Value = Self;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("extended attributes")
    }
    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some((name, IgnoredAny)) = map.next_entry::<String, _>()? {
            self.0 |= name.as_bytes() != SELINUX;
        }
        Ok(self)
    }
}

impl Table<'_> {
    fn add(&mut self, row: &Row) -> Result<(), EntryError> {
        self.budget.add_entry(row.name.len() + row.link_name.len())?;
        // What Go's JSON makes of bytes that aren't UTF-8.
        let lossy = |text: &str| text.contains('\u{fffd}');
        self.complete &= !lossy(&row.name) && !lossy(&row.link_name);
        let number = self.delta.len();
        let what = match row.kind.as_str() {
            "dir" => What::Directory,
            "reg" => What::File { sparse: false },
            "symlink" => What::Symlink(row.link_name.clone().into_bytes()),
            "hardlink" => What::Hardlink(clean(row.link_name.as_bytes())?),
            "char" | "block" | "fifo" => What::Other,
            "chunk" => {
                // Another chunk of the file before it.
                let before = self.pieces.last_mut();
                if let Some(piece) = before.filter(|piece| piece.entry + 1 == number) {
                    piece.range.end = piece.range.end.max(row.end_offset);
                    piece.zeros.extend(row.zeros());
                }
                return Ok(());
            }
            other => return Err(EntryError::Type(other.bytes().next().unwrap_or(0))),
        };
        let file = matches!(what, What::File { .. });
        if let Ok(digest) = row.digest.parse::<Digest>()
            && file
            && row.size > 0
            && row.offset < row.end_offset
        {
            self.pieces.push(Piece {
                entry: number,
                range: row.offset..row.end_offset,
                size: row.size,
                digest,
                zeros: row.zeros().into_iter().collect(),
            });
        }
        let entry = TarEntry {
            path: clean(row.name.as_bytes())?,
            mode: (row.mode & 0o7777) as u32,
            uid: row.uid,
            gid: row.gid,
            size: if file { row.size } else { 0 },
            has_xattrs: row.xattrs.0,
            what,
        };
        push(&mut self.delta, &entry, None)
    }
}

/// The whole table, entry by entry, so that it is never in memory as a whole.
struct Document<'t, 'b>(&'t mut Table<'b>);

impl<'de> DeserializeSeed<'de> for Document<'_, '_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of contents")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "entries" => map.next_value_seed(Rows(self.0))?,
                "version" => self.0.complete &= map.next_value::<u64>()? == VERSION,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct Rows<'t, 'b>(&'t mut Table<'b>);

impl<'de> DeserializeSeed<'de> for Rows<'_, '_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the entries of a layer")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        while let Some(row) = rows.next_element::<Row>()? {
            if let Err(cause) = self.0.add(&row) {
                let error = A::Error::custom(&cause);
                self.0.wrong = Some((row.name, cause));
                return Err(error);
            }
        }
        Ok(())
    }
}
