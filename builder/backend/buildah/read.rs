//! The layout that buildah left, which is not trusted: opened beneath its folder, bounded, checked.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::assemble::{Assembled, NewLayer, assemble, diff_ids, output, shared};
use super::error::Error;
use super::{io as io_error, leftovers, make_dir};
use crate::image::gzip::compress;
use crate::image::{DiffId, Digest};
use crate::plan::BuildPlan;
use crate::registry::folder::Folder;

/// A manifest or config larger than this is none: registries refuse more than 4 MiB.
const JSON_LIMIT: u64 = 4 * 1024 * 1024;
/// An unpacked layer larger than this is no OS.
const LAYER_LIMIT: u64 = 64 * 1024 * 1024 * 1024;

/// Reads the layout that buildah left, which is not trusted, and writes the layers above the base's into `blobs`.
pub(super) fn read(
    plan: &BuildPlan,
    out: &Path,
    manifest: &Digest,
    blobs: &Path,
) -> Result<Assembled, Error> {
    let odd = |error: crate::registry::Error| output(error.to_string());
    let missing = |what: String| output(format!("{what} is missing"));
    let folder = Folder::open(out).map_err(odd)?;
    let below = folder
        .below("blobs")
        .map_err(odd)?
        .ok_or_else(|| missing("blobs".to_owned()))?;
    let below = below
        .below("sha256")
        .map_err(odd)?
        .ok_or_else(|| missing("blobs/sha256".to_owned()))?;
    let document = |digest: &Digest| -> Result<Value, Error> {
        let bytes = below
            .read(&digest.hex(), "its manifest or config", JSON_LIMIT)
            .map_err(odd)?;
        let bytes = bytes.ok_or_else(|| missing(digest.to_string()))?;
        if Digest::of(&bytes) != *digest {
            return Err(output(format!("{digest} is something else")));
        }
        serde_json::from_slice(&bytes).map_err(|e| output(format!("{digest} is no JSON ({e})")))
    };
    let digest_of = |descriptor: &Value| -> Result<Digest, Error> {
        let digest = descriptor.get("digest").cloned().unwrap_or_default();
        serde_json::from_value(digest)
            .map_err(|e| output(format!("a descriptor has no digest ({e})")))
    };
    let manifest = document(manifest)?;
    let config = document(&digest_of(&manifest["config"])?)?;
    for (label, value) in &plan.labels {
        if config["config"]["Labels"]
            .get(label)
            .and_then(Value::as_str)
            != Some(value)
        {
            return Err(Error::NotConfigs {
                label: label.clone(),
            });
        }
    }
    let base = &plan.request.base;
    let diff_ids = diff_ids(&config)?;
    let kept = shared(base, &diff_ids);
    let descriptors = manifest
        .get("layers")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    if descriptors.len() != diff_ids.len() {
        return Err(output(format!(
            "{} layers in its manifest, {} in its config",
            descriptors.len(),
            diff_ids.len()
        )));
    }
    make_dir(blobs)?;
    let mut layers = Vec::new();
    for (descriptor, diff_id) in descriptors.iter().zip(&diff_ids).skip(kept) {
        let digest = digest_of(descriptor)?;
        let (file, _) = below
            .file(&digest.hex())
            .map_err(odd)?
            .ok_or_else(|| missing(digest.to_string()))?;
        layers.push(layer(file, diff_id, blobs)?);
    }
    assemble(base, &config, layers)
}

/// Unpacks a layer, checks it against its diffID, takes out what nobody asked for, and compresses it as we always do.
///
/// The bytes as buildah compressed them are not kept, so their digest needn't be checked.
fn layer(mut file: File, diff_id: &DiffId, blobs: &Path) -> Result<NewLayer, Error> {
    let failed = |source: io::Error| Error::Io {
        path: blobs.to_owned(),
        source,
    };
    let damaged = |source: io::Error| output(format!("layer {diff_id} can't be read ({source})"));
    let mut magic = [0; 2];
    let got = file.read(&mut magic).map_err(damaged)?;
    file.seek(SeekFrom::Start(0)).map_err(damaged)?;
    let packed = BufReader::new(file);
    let mut unpacked: Box<dyn Read> = match got == 2 && magic == [0x1f, 0x8b] {
        true => Box::new(MultiGzDecoder::new(packed)),
        false => Box::new(packed),
    };
    let mut plain = tempfile::tempfile_in(blobs).map_err(failed)?;
    let mut hash = Sha256::new();
    let (mut left, mut piece) = (LAYER_LIMIT, vec![0; 128 * 1024]);
    loop {
        let got = unpacked.read(&mut piece).map_err(damaged)?;
        if got == 0 {
            break;
        }
        left = left
            .checked_sub(got as u64)
            .ok_or_else(|| output(format!("layer {diff_id} is larger than any OS")))?;
        hash.update(&piece[..got]);
        io::Write::write_all(&mut plain, &piece[..got]).map_err(failed)?;
    }
    if DiffId::from_sha256(hash) != *diff_id {
        return Err(output(format!("layer {diff_id} is something else")));
    }
    let rewind = |file: &mut File| file.seek(SeekFrom::Start(0)).map(drop).map_err(failed);
    rewind(&mut plain)?;
    let gone = leftovers::find(BufReader::new(&plain)).map_err(damaged)?;
    if !gone.is_empty() {
        rewind(&mut plain)?;
        let mut clean = tempfile::tempfile_in(blobs).map_err(failed)?;
        leftovers::without(BufReader::new(&plain), &gone, &mut clean).map_err(damaged)?;
        plain = clean;
    }
    rewind(&mut plain)?;
    let path = blobs.join("new");
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path);
    let made = written
        .and_then(|file| compress(BufReader::new(plain), file))
        .map_err(failed)?;
    let place = blobs.join(made.digest.hex());
    fs::rename(&path, &place).map_err(io_error(&place))?;
    Ok(NewLayer {
        digest: made.digest,
        size: made.size,
        diff_id: made.diff_id,
    })
}
