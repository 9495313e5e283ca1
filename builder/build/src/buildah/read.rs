//! The layout that buildah left, which is not trusted: opened beneath its folder, bounded, checked.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::assemble::{Assembled, NewLayer, assemble, diff_ids, output, shared};
use super::container_build::ContainerBuild;
use super::error::Error;
use super::files::{io as io_error, make_dir};
use super::{commands, leftovers};
use mosb_image::gzip::{Compressed, compress};
use mosb_image::{DiffId, Digest};
use mosb_registry::folder::Folder;

/// Limit of a manifest or config: registries reject more than 4 MiB.
const JSON_LIMIT: u64 = 4 * 1024 * 1024;
/// Limit of an unpacked layer: no OS is larger.
const LAYERS_LIMIT: u64 = 64 * 1024 * 1024 * 1024;
/// Bytes read at once.
const PIECE: usize = 128 * 1024;

/// Limit of layers above the base: no file system stacks more.
const NEW_LAYERS: usize = 128;
/// Limit of a file with a digest: `sha256:`, 64 hex digits, a newline.
const DIGEST_FILE: u64 = 128;

/// Reads what buildah left, which is not trusted, and writes the layers above the base's into
/// `blobs`.
pub(super) fn read(build: &ContainerBuild, out: &Path, blobs: &Path) -> Result<Assembled, Error> {
    let odd = |error: mosb_registry::Error| output(error.to_string());
    let missing = |what: String| output(format!("{what} is missing"));
    let folder = Folder::open(out).map_err(odd)?;
    let manifest = folder
        .read(commands::DIGEST, "its digest", DIGEST_FILE)
        .map_err(odd)?
        .ok_or_else(|| missing(commands::DIGEST.to_owned()))?;
    let manifest: Digest = String::from_utf8_lossy(&manifest)
        .trim()
        .parse()
        .map_err(|e| output(format!("it gave no digest ({e})")))?;
    let mut below = folder;
    for name in [commands::LAYOUT, "blobs", "sha256"] {
        let next = below.below(name).map_err(odd)?;
        below = next.ok_or_else(|| missing(name.to_owned()))?;
    }
    let document = |digest: &Digest| -> Result<Value, Error> {
        let bytes = below.read(&digest.hex(), "its manifest or config", JSON_LIMIT).map_err(odd)?;
        let bytes = bytes.ok_or_else(|| missing(digest.to_string()))?;
        if Digest::of(&bytes) != *digest {
            return Err(output(format!("{digest} is something else")));
        }
        serde_json::from_slice(&bytes).map_err(|e| output(format!("{digest} is not JSON ({e})")))
    };
    let digest_of = |descriptor: &Value| -> Result<Digest, Error> {
        let digest = descriptor.get("digest").cloned().unwrap_or_default();
        serde_json::from_value(digest)
            .map_err(|e| output(format!("a descriptor has no digest ({e})")))
    };
    let manifest = document(&manifest)?;
    let config = document(&digest_of(&manifest["config"])?)?;
    for (label, value) in &build.labels {
        if config["config"]["Labels"].get(label).and_then(Value::as_str) != Some(value) {
            return Err(Error::NotConfigs { label: label.clone() });
        }
    }
    let base = build.lower();
    let diff_ids = diff_ids(&config)?;
    let base_layers = shared(base, &diff_ids);
    let descriptors =
        manifest.get("layers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if descriptors.len() != diff_ids.len() {
        return Err(output(format!(
            "{} layers in its manifest, {} in its config",
            descriptors.len(),
            diff_ids.len()
        )));
    }
    if diff_ids.len() - base_layers > NEW_LAYERS {
        return Err(output(format!(
            "{} layers above the base's; no image needs more than {NEW_LAYERS}",
            diff_ids.len() - base_layers
        )));
    }
    make_dir(blobs)?;
    let mut layers = Vec::new();
    let mut left = LAYERS_LIMIT;
    for (descriptor, diff_id) in descriptors.iter().zip(&diff_ids).skip(base_layers) {
        let digest = digest_of(descriptor)?;
        let (file, _) =
            below.file(&digest.hex()).map_err(odd)?.ok_or_else(|| missing(digest.to_string()))?;
        let (new, size) = layer(file, diff_id, left, blobs)?;
        layers.push(new);
        left -= size;
    }
    assemble(base, &config, layers, &build.annotations)
}

/// Checks a layer against its diffID, removes leftovers, and compresses it as all layers; returns
/// its unpacked size too.
///
/// It is read twice and never stored unpacked: a few bytes can unpack to more than a disk holds.
/// buildah's own compressed bytes are dropped, so their digest needn't be checked.
fn layer(file: File, diff_id: &DiffId, limit: u64, blobs: &Path) -> Result<(NewLayer, u64), Error> {
    let failed = |source: io::Error| Error::Io { path: blobs.to_owned(), source };
    let damaged = |source: io::Error| output(format!("layer {diff_id} can't be read ({source})"));
    let again = || file.try_clone().and_then(|file| Unpacked::new(file, limit));
    let mut first = again().map_err(damaged)?;
    let paths = leftovers::find(BufReader::new(&mut first)).map_err(damaged)?;
    let (found, size) = first.finish().map_err(damaged)?;
    if found != *diff_id {
        return Err(output(format!("layer {diff_id} is something else")));
    }
    let path = blobs.join("new");
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    let mut second = again().map_err(damaged)?;
    let made = if paths.is_empty() {
        compress(&mut second, written)
    } else {
        compress_without(&mut second, &paths, written)
    };
    let made = made.map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => failed(error),
        _ => damaged(error),
    })?;
    if second.finish().map_err(damaged)?.0 != found {
        return Err(output(format!("layer {diff_id} changed while it was read")));
    }
    let place = blobs.join(made.digest.hex());
    fs::rename(&path, &place).map_err(io_error(&place))?;
    let new = NewLayer { digest: made.digest, size: made.size, diff_id: made.diff_id };
    Ok((new, size))
}

/// Compresses a layer without these entries.
fn compress_without(
    layer: &mut Unpacked,
    found: &BTreeSet<Vec<u8>>,
    written: File,
) -> io::Result<Compressed> {
    let (reader, writer) = io::pipe()?;
    std::thread::scope(|scope| {
        let filter = scope.spawn(move || {
            leftovers::without(BufReader::new(layer), found, BufWriter::new(writer))
        });
        let made = compress(reader, written);
        let filtered = filter.join().expect("it does not panic");
        // If the compressor stops, the filter gets a broken pipe.
        made.and_then(|made| filtered.map(|()| made))
    })
}

/// The tar inside a layer of any compression; hashed while it is read.
struct Unpacked {
    inner: Box<dyn Read + Send>,
    hash: Sha256,
    size: u64,
    limit: u64,
}

impl Unpacked {
    /// From the beginning of the file, also if it was read before.
    fn new(mut file: File, limit: u64) -> io::Result<Self> {
        let mut magic = [0; 4];
        file.seek(SeekFrom::Start(0))?;
        let got = file.read(&mut magic)?;
        file.seek(SeekFrom::Start(0))?;
        let packed = BufReader::with_capacity(PIECE, file);
        let inner: Box<dyn Read + Send> = match &magic[..got] {
            [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(packed)),
            [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::Decoder::with_buffer(packed)?),
            _ => Box::new(packed),
        };
        Ok(Self { inner, hash: Sha256::new(), size: 0, limit })
    }

    /// Reads the rest; returns the diffID of the whole, and its size.
    fn finish(mut self) -> io::Result<(DiffId, u64)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((DiffId::from_sha256(self.hash), self.size))
    }
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.hash.update(&buffer[..got]);
        self.size += got as u64;
        if self.size > self.limit {
            Err(io::Error::other("it is larger than any OS"))
        } else {
            Ok(got)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, bytes).unwrap();
        file
    }

    /// An empty tar, and as much behind it as is wanted.
    fn zeros(size: usize) -> Vec<u8> {
        vec![0; size]
    }

    #[test]
    fn layer_of_any_compression_comes_out_the_same() {
        let plain = zeros(1 << 20);
        let diff_id = DiffId::of(&plain);
        let mut gzip = Vec::new();
        compress(&plain[..], &mut gzip).unwrap();
        let zstd = zstd::encode_all(&plain[..], 1).unwrap();
        for (what, bytes) in [("plain", &plain), ("gzip", &gzip), ("zstd", &zstd)] {
            let blobs = tempfile::tempdir().unwrap();
            let (new, size) = layer(file(bytes), &diff_id, 1 << 20, blobs.path()).unwrap();
            assert_eq!((new.diff_id, size), (diff_id, 1 << 20), "{what}");
            let written = fs::read(blobs.path().join(new.digest.hex())).unwrap();
            assert_eq!(written, gzip, "{what}");
        }
    }

    #[test]
    fn bomb_is_no_layer_and_fills_no_disk() {
        let plain = zeros(1 << 20);
        let zstd = zstd::encode_all(&plain[..], 1).unwrap();
        for (what, bytes) in [("plain", &plain), ("zstd", &zstd)] {
            let blobs = tempfile::tempdir().unwrap();
            let refused = layer(file(bytes), &DiffId::of(&plain), (1 << 20) - 1, blobs.path());
            assert!(matches!(refused, Err(Error::Output(_))), "{what}: {refused:?}");
            assert_eq!(fs::read_dir(blobs.path()).unwrap().count(), 0, "{what}");
        }
    }
}
