//! One tar header block, and the records of a PAX header: pure, so that a fuzzer can call them.
//!
//! Where unpackers differ, this follows Go's `archive/tar`, which podman, CRI-O, containerd and
//! umoci use.

use super::EntryError;

/// Bytes of a tar block.
pub const BLOCK: usize = 512;

/// A header block, before PAX records and long names are applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub flag: u8,
    /// Name, with the prefix where the format has one.
    pub path: Vec<u8>,
    pub link: Vec<u8>,
    /// Permission bits (`07777`).
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    /// Size of the content.
    pub size: u64,
    /// Of an old GNU sparse file: its real size, and whether more of its map follows.
    pub sparse: Option<(u64, bool)>,
}

/// Reads a header block; `None` for a block of zeros, which ends a tar.
///
/// # Errors
/// If checksum or a number is wrong.
pub fn parse(block: &[u8; BLOCK]) -> Result<Option<Header>, EntryError> {
    if block.iter().all(|b| *b == 0) {
        return Ok(None);
    }
    let raw = tar::Header::from_byte_slice(block);
    let old = raw.as_old();
    let sum = number(&old.cksum, "checksum")?;
    let bytes = || {
        let blanked = |(at, byte): (usize, &u8)| {
            if (148..156).contains(&at) { b' ' } else { *byte }
        };
        block.iter().enumerate().map(blanked)
    };
    // Some old tars added up signed bytes.
    let unsigned: u64 = bytes().map(u64::from).sum();
    let signed: i64 = bytes().map(|b| i64::from(b as i8)).sum();
    if sum != unsigned && i64::try_from(sum) != Ok(signed) {
        return Err(EntryError::Checksum);
    }
    let name = until_nul(&old.name);
    let prefix = raw.as_ustar().map_or(&b""[..], |ustar| until_nul(&ustar.prefix));
    let path = match prefix {
        b"" => name.to_vec(),
        prefix => [prefix, b"/", name].concat(),
    };
    let flag = old.linkflag[0];
    let sparse = match raw.as_gnu() {
        Some(gnu) if flag == b'S' => {
            Some((number(&gnu.realsize, "real size")?, gnu.isextended[0] == 1))
        }
        Some(_) | None => None,
    };
    Ok(Some(Header {
        flag: match (flag, path.last()) {
            (0, Some(b'/')) => b'5',
            (0 | b'7', _) => b'0',
            (flag, _) => flag,
        },
        path,
        link: until_nul(&old.linkname).to_vec(),
        mode: (number(&old.mode, "mode")? & 0o7777) as u32,
        uid: number(&old.uid, "uid")?,
        gid: number(&old.gid, "gid")?,
        size: number(&old.size, "size")?,
        sparse,
    }))
}

pub(super) fn until_nul(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|b| *b == 0);
    &field[..end.unwrap_or(field.len())]
}

/// Octal digits between blanks and NULs, none meaning 0; or, with the high bit set, the rest of the
/// field in base 256.
fn number(field: &[u8], what: &'static str) -> Result<u64, EntryError> {
    let wrong = EntryError::Number(what);
    let append = |number: u64, base: u64, digit: u8| {
        number
            .checked_mul(base)
            .and_then(|number| number.checked_add(u64::from(digit)))
            .ok_or(wrong.clone())
    };
    if field[0] & 0x80 != 0 {
        // The next bit is the sign; nothing here can be negative.
        if field[0] & 0x40 != 0 {
            return Err(wrong);
        }
        let first = u64::from(field[0] & 0x3f);
        return field[1..].iter().try_fold(first, |n, b| append(n, 256, *b));
    }
    let blank = |b: &u8| matches!(b, b' ' | 0);
    let start = field.iter().position(|b| !blank(b)).unwrap_or(field.len());
    let digits = field[start..].split(blank).next().unwrap_or_default();
    digits.iter().try_fold(0, |n, b| match b {
        b'0'..=b'7' => append(n, 8, b - b'0'),
        _ => Err(wrong.clone()),
    })
}

/// The fields of a PAX header that a tree needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pax {
    /// `path`, or `GNU.sparse.name`.
    pub path: Option<Vec<u8>>,
    /// `linkpath`.
    pub link: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub uid: Option<u64>,
    pub gid: Option<u64>,
    /// `GNU.sparse.realsize` or `GNU.sparse.size`: the size of a file with holes.
    pub real_size: Option<u64>,
    /// Whether there is an extended attribute other than the SELinux label, which the machine's
    /// policy sets.
    pub has_xattrs: bool,
}

/// The prefix of keys with extended attributes, as the unpackers of containers read them.
const XATTR: &[u8] = b"SCHILY.xattr.";
/// The attribute with the SELinux label.
pub(super) const SELINUX: &[u8] = b"security.selinux";

/// Reads the records of a PAX header (POSIX pax, "pax Extended Header"): `length key=value\n`, an
/// empty value meaning none.
///
/// # Errors
/// If a record or a number is invalid.
pub fn parse_pax(mut records: &[u8]) -> Result<Pax, EntryError> {
    let mut pax = Pax::default();
    let mut sparse_name = None;
    while !records.is_empty() {
        let space = records.iter().take(20).position(|b| *b == b' ');
        let space = space.ok_or(EntryError::Pax)?;
        let length = decimal(&records[..space]).ok_or(EntryError::Pax)?;
        let length = usize::try_from(length).map_err(|_| EntryError::Pax)?;
        let record = records.get(space + 1..length).ok_or(EntryError::Pax)?;
        records = &records[length..];
        let record = record.strip_suffix(b"\n").ok_or(EntryError::Pax)?;
        let equals = record.iter().position(|b| *b == b'=');
        let (key, value) = record.split_at(equals.ok_or(EntryError::Pax)?);
        let value = &value[1..];
        let text = || (!value.is_empty()).then(|| value.to_vec());
        let number = |what| match value {
            b"" => Ok(None),
            value => decimal(value).map(Some).ok_or(EntryError::Number(what)),
        };
        match key {
            b"path" => pax.path = text(),
            b"linkpath" => pax.link = text(),
            b"size" => pax.size = number("PAX size")?,
            b"uid" => pax.uid = number("PAX uid")?,
            b"gid" => pax.gid = number("PAX gid")?,
            b"GNU.sparse.name" => sparse_name = text(),
            b"GNU.sparse.realsize" | b"GNU.sparse.size" => {
                pax.real_size = number("PAX sparse size")?;
            }
            key => pax.has_xattrs |= key.strip_prefix(XATTR).is_some_and(|name| name != SELINUX),
        }
    }
    pax.path = sparse_name.or(pax.path);
    Ok(pax)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| all)?.parse().ok()
}

/// The path of an entry relative to the root: without leading slashes, empty and `.` components.
///
/// # Errors
/// If it has a `..` component, a NUL, or is too long for a file system.
pub fn clean(path: &[u8]) -> Result<Vec<u8>, EntryError> {
    let mut clean = Vec::with_capacity(path.len());
    for component in path.split(|b| *b == b'/') {
        match component {
            b"" | b"." => continue,
            b".." => return Err(EntryError::Path),
            long if long.len() > 255 || long.contains(&0) => return Err(EntryError::Path),
            _ => {}
        }
        if !clean.is_empty() {
            clean.push(b'/');
        }
        clean.extend_from_slice(component);
    }
    // PATH_MAX, with the NUL at its end.
    if clean.len() > 4095 {
        return Err(EntryError::Path);
    }
    Ok(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_base_256() {
        for (what, field, want) in [
            ("octal", &b"0000755\0"[..], Some(0o755)),
            ("blanks", b"   755 \0", Some(0o755)),
            ("nothing", b"\0\0\0\0\0\0\0\0", Some(0)),
            ("no NUL", b"77777777", Some(0o77777777)),
            ("rubbish", b"0008\0\0\0\0", None),
            ("base 256", b"\x80\0\0\0\0\x20\0\0", Some(1 << 21)),
            ("negative", b"\xff\xff\xff\xff\xff\xff\xff\xff", None),
            ("too big", b"\x80\0\0\x01\0\0\0\0\0\0\0\0", None),
        ] {
            assert_eq!(number(field, "x").ok(), want, "{what}");
        }
    }

    #[test]
    fn paths_stay_below_the_root() {
        let long = [b"a/".repeat(2048), b"b".to_vec()].concat();
        for (path, want) in [
            (&b"./etc//x/"[..], Some(&b"etc/x"[..])),
            (b"/etc/x", Some(b"etc/x")),
            (b"./", Some(b"")),
            (b"etc/../x", None),
            (b"..", None),
            (b"etc/..x", Some(b"etc/..x")),
            (b"a\0b", None),
            (&long, None),
            (&[b'x'; 256], None),
        ] {
            assert_eq!(clean(path).ok().as_deref(), want, "{path:?}");
        }
    }

    #[test]
    fn a_pax_header_is_records_with_their_length() {
        let size = |size| Pax { size: Some(size), ..Pax::default() };
        for (what, records, want) in [
            ("nothing", "", Some(Pax::default())),
            ("size", "11 size=42\n", Some(size(42))),
            ("empty value", "8 path=\n", Some(Pax::default())),
            (
                "sparse name wins, whatever the order",
                "24 GNU.sparse.name=real\n12 path=gnu\n",
                Some(Pax { path: Some(b"real".to_vec()), ..Pax::default() }),
            ),
            (
                "an attribute",
                "24 SCHILY.xattr.user.a=\n",
                Some(Pax { has_xattrs: true, ..Pax::default() }),
            ),
            ("only a label", "35 SCHILY.xattr.security.selinux=x\n", Some(Pax::default())),
            ("signed", "12 size=+42\n", None),
            ("length too short", "5 size=42\n", None),
            ("length too long", "99 size=42\n", None),
            ("length of nothing", "0 size=42\n", None),
            ("no newline", "10 size=42", None),
            ("no equals", "8 size2\n", None),
            ("no length", "size=42\n", None),
        ] {
            assert_eq!(parse_pax(records.as_bytes()).ok(), want, "{what}");
        }
    }
}
