//! The pages of an SQLite file (sqlite.org/fileformat2.html) as they stream by, in the order of the
//! file: what is on a page that belongs to a table. Pages of indexes are not looked at.

use std::io::Read;

use super::{DatabaseError, MAX_SIZE};

pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";
/// Bytes of the file's header, in the first page.
const HEADER: usize = 100;
/// Page sizes that SQLite writes.
const PAGE_SIZES: std::ops::RangeInclusive<usize> = 512..=65_536;
/// SQLite's least for what is usable of a page.
const MIN_USABLE: usize = 480;
/// The most pages. Their numbers must have three bytes: that shows which page is an overflow page,
/// which has no mark of its own.
const MAX_PAGES: u32 = 1 << 19;

/// A page, as its first byte shows it. One that is not in use may look like any of them.
#[derive(Debug)]
pub(super) enum Page<'p> {
    /// The rows of a table.
    Leaf(Vec<Cell<'p>>),
    /// The pages of a table below this one.
    Interior(Vec<u32>),
    /// The rest of a row, and the page behind it (0: none).
    Overflow {
        next: u32,
        content: &'p [u8],
    },
    /// A page of a table that can't be read.
    Damaged(&'static str),
    Other,
}

/// A row of a table, as far as its first page has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell<'p> {
    pub start: &'p [u8],
    /// The page with the rest; 0 if there is none.
    pub next: u32,
}

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'p> {
    Null,
    Integer(i64),
    /// As far as it is known, and its length.
    Blob(&'p [u8], usize),
    Text(&'p [u8]),
    Float,
}

/// Calls `each` with number and content of every page.
///
/// # Errors
/// If it is not an SQLite file, too large, or if `each` fails.
pub(super) fn each_page(
    mut bytes: impl Read,
    mut each: impl FnMut(u32, Page<'_>) -> Result<(), DatabaseError>,
) -> Result<(), DatabaseError> {
    let mut page = Vec::with_capacity(4096);
    (&mut bytes).take(HEADER as u64).read_to_end(&mut page)?;
    if page.len() < HEADER || !page.starts_with(MAGIC) {
        return Err(DatabaseError::NotSqlite);
    }
    let size = match u16::from_be_bytes([page[16], page[17]]) {
        1 => 65_536,
        size => usize::from(size),
    };
    let usable = size.saturating_sub(usize::from(page[20]));
    let is_utf8 = page[56..60] == 1_u32.to_be_bytes();
    if !PAGE_SIZES.contains(&size) || !size.is_power_of_two() || usable < MIN_USABLE || !is_utf8 {
        return Err(DatabaseError::NotSqlite);
    }
    let mut number = 0;
    loop {
        let missing = size - page.len();
        (&mut bytes).take(missing as u64).read_to_end(&mut page)?;
        if page.is_empty() {
            return Ok(());
        }
        number += 1;
        if page.len() < size {
            return Err(DatabaseError::Page { page: number, what: "the file ends in it" });
        }
        if number > MAX_PAGES || u64::from(number) * size as u64 > MAX_SIZE {
            let what = "pages";
            let limit = (MAX_SIZE / size as u64).min(u64::from(MAX_PAGES)) as usize;
            return Err(DatabaseError::TooMuch { what, limit });
        }
        each(number, read_page(number, &page[..usable]))?;
        page.clear();
    }
}

fn read_page(number: u32, page: &[u8]) -> Page<'_> {
    let start = if number == 1 { HEADER } else { 0 };
    match page[start] {
        0x0d => match leaf(page, start) {
            Some(cells) => Page::Leaf(cells),
            None => Page::Damaged("a row is outside of it"),
        },
        0x05 => match interior(page, start) {
            Some(children) => Page::Interior(children),
            None => Page::Damaged("a row is outside of it"),
        },
        0 => {
            let next = u32_at(page, 0).unwrap_or_default();
            Page::Overflow { next, content: &page[4..] }
        }
        _ => Page::Other,
    }
}

/// The places of the cells of a page.
fn cells(page: &[u8], start: usize, header: usize) -> impl Iterator<Item = Option<usize>> + '_ {
    let count = u16_at(page, start + 3).unwrap_or_default();
    (0..count).map(move |cell| u16_at(page, start + header + 2 * cell))
}

fn leaf(page: &[u8], start: usize) -> Option<Vec<Cell<'_>>> {
    cells(page, start, 8).map(|at| cell(page, at?)).collect()
}

fn interior(page: &[u8], start: usize) -> Option<Vec<u32>> {
    let last = u32_at(page, start + 8);
    let children = cells(page, start, 12).map(|at| u32_at(page, at?));
    children.chain([last]).collect()
}

fn cell(page: &[u8], at: usize) -> Option<Cell<'_>> {
    let mut rest = page.get(at..)?;
    let length = usize::try_from(varint(&mut rest)?).ok()?;
    // The number of the row.
    varint(&mut rest)?;
    let usable = page.len();
    let most = usable - 35;
    if length <= most {
        return Some(Cell { start: rest.get(..length)?, next: 0 });
    }
    let least = (usable - 12) * 32 / 255 - 23;
    let here = least + (length - least) % (usable - 4);
    let here = if here <= most { here } else { least };
    Some(Cell { start: rest.get(..here)?, next: u32_at(rest, here)? })
}

impl<'p> Cell<'p> {
    /// The values of a row of exactly `N` columns whose start has all types; a value whose bytes
    /// are not there is empty, or cut off.
    pub fn values<const N: usize>(&self) -> Option<[Value<'p>; N]> {
        let mut types = self.start;
        let header = usize::try_from(varint(&mut types)?).ok()?;
        let read = self.start.len() - types.len();
        types = types.get(..header.checked_sub(read)?)?;
        let mut rest = self.start.get(header..)?;
        let mut values = [Value::Null; N];
        for value in &mut values {
            let (read, length) = match varint(&mut types)? {
                0 => (Value::Null, 0),
                kind @ 1..=6 => {
                    let length = [1, 2, 3, 4, 6, 8][kind as usize - 1];
                    (Value::Integer(integer(rest.get(..length)?)), length)
                }
                7 => (Value::Float, 8),
                kind @ (8 | 9) => (Value::Integer(kind as i64 - 8), 0),
                10 | 11 => return None,
                kind => {
                    let length = usize::try_from((kind - 12) / 2).ok()?;
                    let here = &rest[..length.min(rest.len())];
                    let is_blob = kind % 2 == 0;
                    (if is_blob { Value::Blob(here, length) } else { Value::Text(here) }, length)
                }
            };
            *value = read;
            rest = rest.get(length..).unwrap_or_default();
        }
        types.is_empty().then_some(values)
    }
}

fn integer(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    bytes.iter().fold(if negative { -1 } else { 0 }, |number, byte| number << 8 | i64::from(*byte))
}

/// A number of one to nine bytes.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for at in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if at == 8 {
            return Some(number << 8 | u64::from(*byte));
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
