//! What a step leaves in a layer unintentionally: the mount points of files that buildah shows to
//! each `RUN`, if the base has no such file.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use tar::{Archive, EntryType};

/// Files over which buildah mounts its own.
const MOUNTED: [&str; 3] = ["etc/hostname", "etc/hosts", "etc/resolv.conf"];
/// Mode of a file that buildah makes to mount upon.
const MADE_MODE: u32 = 0o755;
/// Limit of the records before an entry.
const RECORDS: u64 = 1024 * 1024;
/// A layer with more entries than this below `/run` is not the result of mounts; it stays as it is.
const LOOKED_AT: usize = 100_000;
/// The largest file whose size fits a header: eleven octal digits.
const HEADER_SIZE: u64 = 0o77_777_777_777;

/// Whether an entry is such a mount point: empty, of the mode that buildah gives it, at one of the
/// places. `/run` too, where `/etc/resolv.conf` often links to.
fn is_leftover(header: &tar::Header, path: &[u8]) -> bool {
    let place =
        MOUNTED.iter().any(|mounted| mounted.as_bytes() == path) || path.starts_with(b"run/");
    place
        && header.entry_type() == EntryType::Regular
        && header.entry_size().is_ok_and(|size| size == 0)
        && header.mode().is_ok_and(|mode| mode & 0o7777 == MADE_MODE)
}

/// Paths as a tar spells them, without `./` before and a slash behind.
fn clean(path: &[u8]) -> &[u8] {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    path.strip_suffix(b"/").unwrap_or(path)
}

/// The mount points in a layer, and the directories below `/run` that were made for nothing else.
pub(super) fn find(layer: impl Read) -> io::Result<BTreeSet<Vec<u8>>> {
    let mut found = BTreeSet::new();
    let mut directories = Vec::new();
    let mut stay = BTreeSet::new();
    // As they are stored: a name of its own entry could have any length.
    for entry in Archive::new(layer).entries()?.raw(true) {
        let mut entry = entry?;
        let looked_at = directories.len() + stay.len() + found.len();
        if looked_at > LOOKED_AT || is_vast(&mut entry)? {
            return Ok(BTreeSet::new());
        }
        let path = entry.path_bytes().into_owned();
        let path = clean(&path);
        if is_leftover(entry.header(), path) {
            found.insert(path.to_vec());
        } else if path.starts_with(b"run/") {
            match entry.header().entry_type() {
                EntryType::Directory => directories.push(path.to_vec()),
                _ => {
                    stay.insert(path.to_vec());
                }
            }
        }
    }
    // The deepest first, so that one that stays keeps those above it.
    directories.sort_by_key(|directory| std::cmp::Reverse(directory.len()));
    for directory in directories {
        if holds(&found, &directory) && !holds(&stay, &directory) {
            found.insert(directory)
        } else {
            stay.insert(directory)
        };
    }
    Ok(found)
}

/// Whether an entry is a record too large for a header, or announces that the next entry is.
fn is_vast(entry: &mut tar::Entry<'_, impl Read>) -> io::Result<bool> {
    if !is_record(entry.header().entry_type()) {
        return Ok(false);
    }
    let mut records = Vec::new();
    let large = entry.header().entry_size()? > RECORDS;
    entry.take(RECORDS).read_to_end(&mut records)?;
    Ok(large || says_size(&records))
}

/// Whether it belongs to the entry behind it: its long name, its PAX records.
fn is_record(kind: EntryType) -> bool {
    kind.is_pax_local_extensions() || kind.is_gnu_longname() || kind.is_gnu_longlink()
}

/// Whether one of the paths is below a directory.
fn holds(paths: &BTreeSet<Vec<u8>>, directory: &[u8]) -> bool {
    let below = [directory, b"/"].concat();
    let first = paths.range(below.clone()..).next();
    first.is_some_and(|path| path.starts_with(&below))
}

/// Copies a layer without these. Every other entry stays as it is, byte by byte.
pub(super) fn without(
    layer: impl Read,
    leftovers: &BTreeSet<Vec<u8>>,
    mut out: impl Write,
) -> io::Result<()> {
    let mut archive = Archive::new(layer);
    // Records before an entry that belong to it: its long name, its PAX records.
    let mut before: Vec<u8> = Vec::new();
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        let header = entry.header().clone();
        let size = header.entry_size()?;
        let kind = header.entry_type();
        if is_record(kind) {
            if size > RECORDS {
                return Err(io::Error::other("a header of more than 1 MiB"));
            }
            before.extend_from_slice(header.as_bytes());
            copy_padded(&mut entry, size, &mut before)?;
            continue;
        }
        // The records before it could say another size. buildah writes none for a path as short as
        // ours.
        if size == HEADER_SIZE || says_size(&before) {
            return Err(io::Error::other("a file of more than 8 GiB"));
        }
        if before.is_empty() && leftovers.contains(clean(&header.path_bytes())) {
            before.clear();
            continue;
        }
        out.write_all(&before)?;
        before.clear();
        out.write_all(header.as_bytes())?;
        copy_padded(&mut entry, size, &mut out)?;
    }
    out.write_all(&[0; 1024])
}

fn says_size(records: &[u8]) -> bool {
    records.windows(6).any(|window| window == b" size=")
}

fn copy_padded(entry: &mut impl Read, size: u64, out: &mut impl Write) -> io::Result<()> {
    let copied = io::copy(&mut entry.take(size), out)?;
    let padding = copied.next_multiple_of(512) - copied;
    out.write_all(&[0; 512][..usize::try_from(padding).expect("less than 512")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::{Builder, Header};

    fn layer(files: &[(&str, u32, &[u8])]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (path, mode, content) in files {
            let mut header = Header::new_ustar();
            header.set_entry_type(if path.ends_with('/') {
                EntryType::Directory
            } else {
                EntryType::Regular
            });
            header.set_mode(*mode);
            header.set_size(content.len() as u64);
            builder.append_data(&mut header, path, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn only_mount_points_are_removed() {
        let long = "usr/".to_owned() + &"x".repeat(180);
        let stays: &[(&str, u32, &[u8])] = &[
            ("etc/hosts", 0o644, b""),
            (long.as_str(), 0o755, b"content"),
            ("etc/hostname", 0o755, b"web\n"),
            ("usr/etc/hostname", 0o755, b""),
            ("run/kept/", 0o755, b""),
            ("run/kept/file", 0o644, b""),
            ("run/empty/", 0o755, b""),
        ];
        let mut all = stays.to_vec();
        all.insert(2, ("run/systemd/", 0o755, b""));
        all.insert(3, ("run/systemd/resolve/", 0o755, b""));
        all.insert(4, ("run/systemd/resolve/stub-resolv.conf", 0o755, b""));
        all.push(("run/kept/mounted", 0o755, b""));
        all.push(("etc/resolv.conf", 0o755, b""));
        let (want, all) = (layer(stays), layer(&all));
        assert!(find(&want[..]).unwrap().is_empty());
        let leftovers = find(&all[..]).unwrap();
        assert_eq!(leftovers.len(), 5, "{leftovers:?}");
        let mut made = Vec::new();
        without(&all[..], &leftovers, &mut made).unwrap();
        assert!(made == want);
    }

    #[test]
    fn entries_that_no_mount_left_are_not_found() {
        // More below /run than anybody mounts.
        let many: Vec<String> = (0..LOOKED_AT + 10).map(|n| format!("run/{n}/")).collect();
        let mut files: Vec<(&str, u32, &[u8])> =
            many.iter().map(|path| (&**path, 0o755, &b""[..])).collect();
        files.push(("etc/hosts", 0o755, b""));
        assert_eq!(find(&layer(&files)[..]).unwrap(), BTreeSet::new());
        // Neither a name of a terabyte nor a size in PAX is read.
        let record = |kind: EntryType, size: u64| {
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(size);
            header.set_path("record").unwrap();
            header.set_cksum();
            header.as_bytes().to_vec()
        };
        let vast = record(EntryType::GNULongName, 1 << 40);
        assert_eq!(find(vast.chain(io::repeat(b'x'))).unwrap(), BTreeSet::new());
        let mut sized = record(EntryType::XHeader, 512);
        let mut record = b"20 size=99999999999\n".to_vec();
        record.resize(512, 0);
        sized.extend(record);
        sized.extend(layer(&[("etc/hosts", 0o755, b"")]));
        assert_eq!(find(&sized[..]).unwrap(), BTreeSet::new());
    }
}
