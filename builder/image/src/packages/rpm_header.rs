//! The header of an rpm package (rpm's `docs/manual/format_header.md`), as a database has it: number
//! of entries, bytes of data (`u32` each), the entries (tag, type, offset in the data, count; `u32`
//! each), the data. All numbers are big-endian.

use super::{DatabaseError, MAX_FIELD, Manager, Package, field};

const NAME: u32 = 1000;
const VERSION: u32 = 1001;
const RELEASE: u32 = 1002;
const EPOCH: u32 = 1003;
const ARCH: u32 = 1022;
/// The most entries; a package has some hundred.
const MAX_ENTRIES: usize = 4096;
/// The most bytes from the first one to the last one that is read; a package needs some ten KiB,
/// most of them for its description.
const MAX_START: usize = 256 << 10;
const ENTRY: usize = 16;
const INTRO: usize = 8;

/// What the first bytes of a header say.
#[derive(Debug)]
pub(super) enum Start {
    Package(Package),
    /// More of them are needed.
    Short,
}

/// Where the data of a tag begins in the header.
#[derive(Debug, Clone, Copy)]
struct Place {
    kind: u32,
    at: usize,
}

const INT32: u32 = 4;
const STRING: u32 = 6;

/// Reads the first bytes of a header of `length` bytes.
///
/// # Errors
/// If no bytes behind them could make it the header of a package.
pub(super) fn read(start: &[u8], length: usize) -> Result<Start, DatabaseError> {
    let broken = |what| Err(DatabaseError::Header(what));
    let short = |what| {
        if start.len() >= length.min(MAX_START) { broken(what) } else { Ok(Start::Short) }
    };
    let (Some(entries), Some(data)) = (number(start, 0), number(start, 4)) else {
        return short("it ends in its first bytes");
    };
    let (entries, data) = (entries as usize, data as usize);
    if entries > MAX_ENTRIES {
        return broken("it has more entries than rpm writes");
    }
    let data_at = INTRO + entries * ENTRY;
    if data_at + data > length {
        return broken("it is longer than its row");
    }
    let Some(index) = start.get(INTRO..data_at) else {
        return short("its entries are too long");
    };
    let mut places = [None; 5];
    for entry in index.chunks_exact(ENTRY) {
        let [tag, kind, offset] = [0, 4, 8].map(|at| number(entry, at).unwrap_or_default());
        let tags = [NAME, VERSION, RELEASE, EPOCH, ARCH];
        if let Some(slot) = tags.iter().position(|known| *known == tag) {
            if offset as usize >= data {
                return broken("an entry is outside of its data");
            }
            // The first one of a tag counts, as for rpm.
            places[slot].get_or_insert(Place { kind, at: data_at + offset as usize });
        }
    }
    let [Some(name), Some(version), Some(release), epoch, arch] = places else {
        return broken("it has no name, version or release");
    };
    let mut texts: [&[u8]; 4] = [b""; 4];
    for (text, place) in texts.iter_mut().zip([Some(name), Some(version), Some(release), arch]) {
        let Some(Place { kind, at }) = place else { continue };
        if kind != STRING {
            return broken("its name, version, release or architecture is not a text");
        }
        let rest = start.get(at..).unwrap_or_default();
        match rest.iter().take(MAX_FIELD + 1).position(|b| *b == 0) {
            Some(end) => *text = &rest[..end],
            None if rest.len() > MAX_FIELD => {
                return broken("its name, version, release or architecture is too long");
            }
            None => return short("a text does not end, or is too far behind"),
        }
    }
    let epoch = match epoch {
        None => None,
        Some(Place { kind: INT32, at }) => match number(start, at) {
            Some(epoch) => Some(epoch),
            None => return short("its epoch is too far behind"),
        },
        Some(_) => return broken("its epoch is not a number"),
    };
    let [name, version, release, architecture] = texts;
    let (name, version, release) = (field(name)?, field(version)?, field(release)?);
    let epoch = epoch.map(|epoch| format!("{epoch}:")).unwrap_or_default();
    let arch = if architecture.is_empty() { None } else { Some(field(architecture)?) };
    let version = format!("{epoch}{version}-{release}");
    Ok(Start::Package(Package { name, version, arch, manager: Manager::Rpm }))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
