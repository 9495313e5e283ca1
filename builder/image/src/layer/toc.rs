//! The table of contents of a zstd:chunked layer (containers/storage,
//! `docs/containers-storage-zstd-chunked.md`): JSON in a frame that other readers skip. With it a
//! tree needs a few MB of a layer of gigabytes.
//!
//! Its digest is in the manifest; the contents that are fetched by it are verified one by one.

use std::fmt;
use std::io::{BufReader, Read};
use std::ops::Range;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::super::Digest;
use super::budget::{Counted, limit_of};
use super::entries::{TarEntry, What};
use super::header::{SELINUX, clean};
use super::json_strings::ShortStrings;
use super::pieces::Piece;
use super::read::push;
use super::{Budget, Delta, EntryError, Error, Layer};

const POSITION: &str = "io.github.containers.zstd-chunked.manifest-position";
const CHECKSUM: &str = "io.github.containers.zstd-chunked.manifest-checksum";
/// The only type and version.
const TYPE: &str = "1";
const VERSION: u64 = 1;
/// The type of a chunk of zeros.
const ZEROS: &str = "zeros";
/// Maximum size of an unpacked table; a layer of 100 000 paths has about 40 MB.
const MAX_TABLE_SIZE: u64 = 256 << 20;

/// The place of a layer's table of contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toc {
    layer: Digest,
    range: Range<u64>,
    checksum: Digest,
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

pub(super) fn broken(layer: Digest, cause: impl fmt::Display) -> Error {
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
