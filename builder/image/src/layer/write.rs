//! Writes the layer of a build: equal entries are equal bytes.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

use super::super::gzip::{self, Compressed};
use super::super::overlay::{LayerEntry, Meta, Node};
use super::super::{DiffId, Digest, TreePath};
use super::Error;
use super::header::BLOCK;

/// The time of every entry, in seconds since 1970: an image must not depend on the clock.
pub const MTIME: u64 = 0;
/// Mode and owner of a whiteout, which have no effect.
const WHITEOUT: Meta = Meta { mode: 0, uid: 0, gid: 0 };
/// The greatest number in the 7 octal digits of a ustar owner.
const LARGEST_ID: u32 = 0o7_777_777;
/// The greatest number in the 11 octal digits of a ustar size.
const LARGEST_SIZE: u64 = 0o77_777_777_777;

/// A layer to push.
#[derive(Clone, PartialEq, Eq)]
pub struct LayerBlob {
    /// The gzipped tar.
    pub bytes: Bytes,
    pub digest: Digest,
    /// Digest of the tar.
    pub diff_id: DiffId,
    pub size: u64,
    /// Length of the tar.
    pub unpacked_size: u64,
}

impl fmt::Debug for LayerBlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LayerBlob({} bytes, {}, {})", self.size, self.digest, self.diff_id)
    }
}

/// Writes the entries in their order, as ustar if possible, else with PAX records. Of a file with
/// hard links, the first name has the content.
///
/// # Errors
/// If a hard link names no file of these entries.
pub fn write_layer(entries: &[LayerEntry]) -> Result<LayerBlob, Error> {
    let tar = write_tar(entries)?;
    let (bytes, compressed) = gzip::compress_bytes(&tar);
    let Compressed { digest, diff_id, size, unpacked_size } = compressed;
    Ok(LayerBlob { bytes: bytes.into(), digest, diff_id, size, unpacked_size })
}

fn write_tar(entries: &[LayerEntry]) -> Result<Vec<u8>, Error> {
    let nodes: BTreeMap<&TreePath, &Node> = entries
        .iter()
        .filter_map(|entry| match entry {
            LayerEntry::Put(path, node) => Some((path, node)),
            LayerEntry::Parent(..) | LayerEntry::Whiteout(_) => None,
        })
        .collect();
    // For each file with hard links, the name that was written first.
    let mut first_paths: BTreeMap<&TreePath, &TreePath> = BTreeMap::new();
    let mut tar = Vec::with_capacity(tar_length(entries));
    for entry in entries {
        match entry {
            LayerEntry::Parent(path, meta) => directory(&mut tar, path, *meta),
            LayerEntry::Whiteout(path) => {
                let name = match path.parent() {
                    Some(parent) if !parent.is_root() => {
                        format!("{}/.wh.{}", parent.relative(), path.name())
                    }
                    Some(_) | None => format!(".wh.{}", path.name()),
                };
                append(&mut tar, b'0', &name, "", WHITEOUT, b"");
            }
            LayerEntry::Put(path, node) => {
                let (file, node) = behind(&nodes, path, node)?;
                let first_path = first_paths.get(file).copied();
                let (flag, meta, link, content): (_, _, _, &[u8]) = match (node, first_path) {
                    (Node::Directory { meta }, _) => {
                        directory(&mut tar, path, *meta);
                        continue;
                    }
                    (Node::File { meta, .. } | Node::Symlink { meta, .. }, Some(first_path)) => {
                        (b'1', *meta, first_path.relative(), b"")
                    }
                    (Node::File { meta, content }, None) => (b'0', *meta, "", content),
                    (Node::Symlink { meta, target }, None) => (b'2', *meta, target.as_str(), b""),
                    (Node::Hardlink { to }, _) => return Err(no_file(path, to)),
                };
                append(&mut tar, flag, path.relative(), link, meta, content);
                first_paths.entry(file).or_insert(path);
            }
        }
    }
    tar.resize(tar.len() + 2 * BLOCK, 0);
    Ok(tar)
}

/// The length of the tar, unless it has PAX records.
fn tar_length(entries: &[LayerEntry]) -> usize {
    let content = |entry: &LayerEntry| match entry {
        LayerEntry::Put(_, Node::File { content, .. }) => content.len().next_multiple_of(BLOCK),
        LayerEntry::Put(..) | LayerEntry::Parent(..) | LayerEntry::Whiteout(_) => 0,
    };
    entries.iter().map(|entry| BLOCK + content(entry)).sum::<usize>() + 2 * BLOCK
}

/// The file or link at a path, through a hard link.
fn behind<'e>(
    nodes: &BTreeMap<&'e TreePath, &'e Node>,
    path: &'e TreePath,
    node: &'e Node,
) -> Result<(&'e TreePath, &'e Node), Error> {
    let mut found = (path, node);
    for _ in 0..=nodes.len() {
        let Node::Hardlink { to } = found.1 else {
            break;
        };
        let next = nodes.get(to).filter(|node| !matches!(node, Node::Directory { .. }));
        found = (to, next.ok_or_else(|| no_file(path, to))?);
    }
    Ok(found)
}

fn no_file(path: &TreePath, to: &TreePath) -> Error {
    Error::LinkWithoutFile { path: path.clone(), to: to.clone() }
}

fn directory(tar: &mut Vec<u8>, path: &TreePath, meta: Meta) {
    let name = if path.is_root() { "./".to_owned() } else { format!("{}/", path.relative()) };
    append(tar, b'5', &name, "", meta, b"");
}

fn append(tar: &mut Vec<u8>, flag: u8, path: &str, link: &str, meta: Meta, content: &[u8]) {
    let size = content.len() as u64;
    let fits = |text: &str, most: usize| text.is_ascii() && text.len() <= most;
    let place = if path.is_ascii() { split(path) } else { None };
    let mut pax = Vec::new();
    if place.is_none() {
        record(&mut pax, "path", path);
    }
    if !fits(link, 100) {
        record(&mut pax, "linkpath", link);
    }
    for (key, id) in [("uid", meta.uid), ("gid", meta.gid)] {
        if id > LARGEST_ID {
            record(&mut pax, key, &id.to_string());
        }
    }
    if size > LARGEST_SIZE {
        record(&mut pax, "size", &size.to_string());
    }
    if !pax.is_empty() {
        let root = Meta { mode: 0o644, uid: 0, gid: 0 };
        block(tar, b'x', ("", "PaxHeaders/entry"), "", root, pax.len() as u64);
        tar.extend_from_slice(&pax);
        pad(tar);
    }
    let meta = Meta {
        mode: meta.mode & 0o7777,
        uid: if meta.uid > LARGEST_ID { 0 } else { meta.uid },
        gid: if meta.gid > LARGEST_ID { 0 } else { meta.gid },
    };
    let link = if fits(link, 100) { link } else { "" };
    let size = if size > LARGEST_SIZE { 0 } else { size };
    block(tar, flag, place.unwrap_or(("", "PaxHeaders/long")), link, meta, size);
    tar.extend_from_slice(content);
    pad(tar);
}

/// A path as prefix and name of a ustar header (POSIX pax, "ustar Interchange Format"), if it fits.
fn split(path: &str) -> Option<(&str, &str)> {
    if path.len() <= 100 {
        return Some(("", path));
    }
    let slashes = path.match_indices('/').map(|(at, _)| path.split_at(at));
    slashes
        .map(|(prefix, name)| (prefix, &name[1..]))
        .find(|(prefix, name)| prefix.len() <= 155 && (1..=100).contains(&name.len()))
}

/// A PAX record: its length, which counts itself, key and value.
fn record(pax: &mut Vec<u8>, key: &str, value: &str) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    pax.extend_from_slice(format!("{length} {key}={value}\n").as_bytes());
}

fn block(tar: &mut Vec<u8>, flag: u8, path: (&str, &str), link: &str, meta: Meta, size: u64) {
    let mut header = tar::Header::new_ustar();
    let ustar = header.as_ustar_mut().expect("just made as ustar");
    ustar.prefix[..path.0.len()].copy_from_slice(path.0.as_bytes());
    ustar.name[..path.1.len()].copy_from_slice(path.1.as_bytes());
    ustar.linkname[..link.len()].copy_from_slice(link.as_bytes());
    ustar.typeflag = [flag];
    header.set_mode(meta.mode);
    header.set_uid(meta.uid.into());
    header.set_gid(meta.gid.into());
    header.set_size(size);
    header.set_mtime(MTIME);
    header.set_cksum();
    tar.extend_from_slice(header.as_bytes());
}

fn pad(tar: &mut Vec<u8>) {
    tar.resize(tar.len().next_multiple_of(BLOCK), 0);
}
