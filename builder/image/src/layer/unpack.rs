//! From the bytes of a blob to the bytes of its tar, both hashed as they pass.

use std::io::{self, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use sha2::{Digest as _, Sha256};

use super::super::{DiffId, Digest};
use super::budget::{Counted, limit_of};
use super::entries::{Entries, ReadError};
use super::{Budget, Error, Layer};
use crate::media_type;

/// Bytes that are read at once, of the blob and of the tar.
const BUFFER: usize = 128 << 10;

/// The media types of layers (OCI image spec, layer; Docker image manifest v2 schema 2).
///
/// How a blob is compressed is read off its first bytes, as unpackers do: media types are wrong
/// often enough.
const MEDIA_TYPES: [&str; 10] = [
    media_type::OCI_LAYER,
    media_type::OCI_LAYER_GZIP,
    media_type::OCI_LAYER_ZSTD,
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
    media_type::DOCKER_LAYER,
    media_type::DOCKER_LAYER_GZIP,
    media_type::DOCKER_LAYER_ZSTD,
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
];

/// A reader that counts and hashes its bytes, up to a limit.
#[derive(Debug)]
struct Hashed<R> {
    inner: R,
    hash: Sha256,
    count: u64,
    limit: u64,
}

impl<R: Read> Hashed<R> {
    fn new(inner: R, limit: u64) -> Self {
        Self { inner, hash: Sha256::new(), count: 0, limit }
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.hash.update(&buffer[..got]);
        self.count += got as u64;
        if self.count > self.limit {
            return Err(io::Error::other(format!("more than {} bytes", self.limit)));
        }
        Ok(got)
    }
}

type Blob<R> = Hashed<io::Chain<Cursor<Vec<u8>>, R>>;

enum Decoder<R: Read> {
    Plain(Blob<R>),
    Gzip(Box<MultiGzDecoder<BufReader<Blob<R>>>>),
    Zstd(zstd::Decoder<'static, BufReader<Blob<R>>>),
}

impl<R: Read> Decoder<R> {
    fn new(mut blob: R, limit: u64) -> io::Result<Self> {
        let mut magic = Vec::with_capacity(4);
        (&mut blob).take(4).read_to_end(&mut magic)?;
        let gzip = magic.starts_with(&[0x1f, 0x8b]);
        // RFC 8878: a frame, or one to skip.
        let zstd = magic == [0x28, 0xb5, 0x2f, 0xfd]
            || magic.first().is_some_and(|b| b >> 4 == 5) && magic.ends_with(&[0x2a, 0x4d, 0x18]);
        let blob = Hashed::new(Cursor::new(magic).chain(blob), limit);
        let buffered = |blob| BufReader::with_capacity(BUFFER, blob);
        Ok(if gzip {
            Self::Gzip(Box::new(MultiGzDecoder::new(buffered(blob))))
        } else if zstd {
            Self::Zstd(zstd::Decoder::with_buffer(buffered(blob))?)
        } else {
            Self::Plain(blob)
        })
    }

    fn into_blob(self) -> Blob<R> {
        match self {
            Self::Plain(blob) => blob,
            Self::Gzip(gzip) => gzip.into_inner().into_inner(),
            Self::Zstd(zstd) => zstd.finish().into_inner(),
        }
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(blob) => blob.read(buffer),
            Self::Gzip(gzip) => gzip.read(buffer),
            Self::Zstd(zstd) => zstd.read(buffer),
        }
    }
}

/// Whether a descriptor of this media type is a layer that can be read.
pub(super) fn is_layer(media_type: &str) -> bool {
    MEDIA_TYPES.contains(&media_type)
}

/// Calls `read` with the entries of a layer, and believes its result only if size, digest and
/// diffID are as they should be. What the layer takes is counted.
pub(super) fn unpack<R: Read, T>(
    layer: &Layer,
    blob: R,
    budget: &Budget,
    read: impl FnOnce(&mut Entries<BufReader<&mut dyn Read>>) -> Result<T, ReadError>,
) -> Result<T, Error> {
    let digest = layer.digest;
    if !is_layer(&layer.media_type) {
        return Err(Error::MediaType { layer: digest, media_type: layer.media_type.clone() });
    }
    let unreadable = |source| Error::Unpack { layer: digest, source };
    let decoder = Decoder::new(blob, layer.size).map_err(unreadable)?;
    let mut tar = Hashed::new(Counted::new(decoder, budget), u64::MAX);
    let result = {
        let reader: &mut dyn Read = &mut tar;
        let mut entries = Entries::new(BufReader::with_capacity(BUFFER, reader), budget);
        read(&mut entries).and_then(|value| entries.drain().map(|()| value))
    };
    let Hashed { inner, hash, .. } = tar;
    // The rest of one that is too large isn't waited for.
    if let Err(ReadError::Io(source)) = &result
        && let Some(cause) = limit_of(source)
    {
        return Err(Error::Limit { layer: digest, cause });
    }
    check_blob(layer, inner.into_inner().into_blob())?;
    let value = result.map_err(|stop| match stop {
        ReadError::Io(source) => unreadable(source),
        ReadError::Entry { entry, cause } => Error::Entry { layer: digest, entry, cause },
    })?;
    let found = DiffId::from_sha256(hash);
    if found != layer.diff_id {
        return Err(Error::DiffId { layer: digest, want: layer.diff_id, found });
    }
    Ok(value)
}

/// A blob with a wrong digest explains every other error, so the rest of it is read even after an
/// error.
fn check_blob<R: Read>(layer: &Layer, mut blob: Blob<R>) -> Result<(), Error> {
    let rest = io::copy(&mut blob, &mut io::sink());
    if blob.count != layer.size {
        return Err(Error::Size { layer: layer.digest, want: layer.size, found: blob.count });
    }
    rest.map_err(|source| Error::Unpack { layer: layer.digest, source })?;
    let found = Digest::from_sha256(blob.hash);
    if found != layer.digest {
        return Err(Error::Digest { layer: layer.digest, found });
    }
    Ok(())
}
