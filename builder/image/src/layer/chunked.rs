//! A zstd:chunked layer for tests.

use std::collections::BTreeMap;

use super::Layer;
use crate::{DiffId, Digest};

pub(super) const POSITION: &str = "io.github.containers.zstd-chunked.manifest-position";
pub(super) const CHECKSUM: &str = "io.github.containers.zstd-chunked.manifest-checksum";

pub(super) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// A blob of files, each in a frame of its own, with a table of contents that has these rows and
/// those of the files.
pub(super) fn with_rows(files: &[(&str, &str)], rows: &str) -> (Vec<u8>, Layer) {
    let mut blob = zstd(b"header of the first file");
    let mut entries = Vec::new();
    for (name, content) in files {
        let (head, tail) = content.split_at(content.len() / 2);
        let start = blob.len();
        blob.extend(zstd(head.as_bytes()));
        let middle = blob.len();
        blob.extend(zstd(tail.as_bytes()));
        entries.push(format!(
            r#"{{"type":"reg","name":"{name}","mode":33188,"size":{},"uid":1,"gid":2,"digest":"{}","offset":{start},"endOffset":{middle},"chunkSize":{},"xattrs":{{"security.selinux":"b"}}}}"#,
            content.len(),
            Digest::of(content.as_bytes()),
            head.len(),
        ));
        entries.push(format!(
            r#"{{"type":"chunk","name":"{name}","offset":{middle},"endOffset":{},"chunkOffset":{}}}"#,
            blob.len(),
            head.len(),
        ));
    }
    if !rows.is_empty() {
        entries.push(rows.to_owned());
    }
    let json = format!(r#"{{"version":1,"entries":[{}],"tarSplitDigest":""}}"#, entries.join(","));
    let table = zstd(json.as_bytes());
    blob.extend([0x50, 0x2a, 0x4d, 0x18]);
    blob.extend((table.len() as u32).to_le_bytes());
    let position = format!("{}:{}:{}:1", blob.len(), table.len(), json.len());
    blob.extend(&table);
    let layer = Layer {
        media_type: "application/vnd.oci.image.layer.v1.tar+zstd".to_owned(),
        digest: Digest::of(&blob),
        size: blob.len() as u64,
        diff_id: DiffId::of(b""),
        annotations: BTreeMap::from([
            (POSITION.to_owned(), position),
            (CHECKSUM.to_owned(), Digest::of(&table).to_string()),
        ]),
    };
    (blob, layer)
}

/// A zstd:chunked blob of these files.
pub fn chunked(files: &[(&str, &str)]) -> (Vec<u8>, Layer) {
    with_rows(files, "")
}
