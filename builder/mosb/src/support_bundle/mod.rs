//! What a support bundle of a cluster has.
//!
//! | file | does |
//! | --- | --- |
//! | `redaction` | object of the API → what a bundle has of it |
//! | `scope` | which objects of a cluster are read, and the requests for them |
//! | `collect` | objects and versions of a cluster → bundle |
//! | `logs` | reads logs |
//!
//! Invariant: no file has a secret. `redaction` keeps only the listed parts of objects, and
//! [`Bundle`](mosb_commands::bundle::Bundle) takes credentials out of all texts.

pub mod collect;
mod logs;
mod redaction;
pub mod scope;

use jiff::Timestamp;

/// Packs files into a tar.gz, below one folder.
///
/// # Errors
/// A path is too long.
pub fn pack(files: &[(String, Vec<u8>)], folder: &str, now: Timestamp) -> std::io::Result<Vec<u8>> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let mut archive = tar::Builder::new(gzip);
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(now.as_second().try_into().unwrap_or_default());
        archive.append_data(&mut header, format!("{folder}/{path}"), &**bytes)?;
    }
    archive.into_inner()?.finish()
}
