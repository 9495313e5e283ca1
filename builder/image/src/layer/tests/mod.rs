mod read;
mod write;

use std::io::{Cursor, Write};

use bytes::Bytes;
use proptest::prelude::*;

use super::super::overlay::{LayerEntry, Meta, Node};
use super::super::tree::{Builder, retained};
use super::super::{DiffId, Digest, TreePath};
use super::*;
use crate::packages::Installed;
use mosb_types::Diagnostic as _;

fn layer_of(media_type: &str, blob: &[u8], tar: &[u8]) -> Layer {
    Layer {
        media_type: format!("application/vnd.oci.image.layer.v1.{media_type}"),
        digest: Digest::of(blob),
        size: blob.len() as u64,
        diff_id: DiffId::of(tar),
        annotations: BTreeMap::new(),
    }
}

fn list(tar: &[u8]) -> Result<Vec<String>, Error> {
    let layer = layer_of("tar", tar, tar);
    // What can be listed can be read, and the other way round.
    assert_eq!(
        read_delta(&layer, tar, &Budget::default()).is_ok(),
        list_layer(&layer, tar).is_ok()
    );
    let lines = list_layer(&layer, tar)?.into_iter().map(|entry| {
        let path = String::from_utf8_lossy(&entry.path).into_owned();
        let target = entry.target.map(|to| format!(" -> {}", String::from_utf8_lossy(&to)));
        let Listed { kind, mode, uid, gid, size, .. } = entry;
        format!("{kind:?} {path}{} {mode:o} {uid}:{gid} {size}", target.unwrap_or_default())
    });
    Ok(lines.collect())
}

/// A header with a right checksum, and the content behind it.
fn entry(name: &[u8], flag: u8, content: &[u8], change: impl FnOnce(&mut tar::Header)) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.as_old_mut().linkflag = [flag];
    header.set_mode(0o644);
    header.set_uid(1);
    header.set_gid(2);
    header.set_size(content.len() as u64);
    change(&mut header);
    header.set_cksum();
    let mut bytes = [header.as_bytes(), content].concat();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn plain(name: &str, flag: u8, content: &str) -> Vec<u8> {
    entry(name.as_bytes(), flag, content.as_bytes(), |_| ())
}

fn linked(name: &str, flag: u8, to: &str) -> Vec<u8> {
    entry(name.as_bytes(), flag, b"", |header| {
        header.as_old_mut().linkname[..to.len()].copy_from_slice(to.as_bytes());
    })
}

/// A PAX header of `key=value` lines.
fn pax(lines: &str) -> Vec<u8> {
    let record = |line: &str| {
        let rest = line.len() + 2;
        let digits = if rest + 1 < 10 { 1 } else { 2 };
        format!("{} {line}\n", rest + digits)
    };
    plain("x", b'x', &lines.split(';').map(record).collect::<String>())
}

fn end(entries: &[Vec<u8>]) -> Vec<u8> {
    [entries.concat(), vec![0; 1024]].concat()
}
