//! The one place that compresses, so that equal bytes are compressed to equal bytes everywhere.
//!
//! gzip's output depends on the library, its level, and on how the input is cut into pieces; all three are fixed here, and
//! a test pins a digest.

use std::io::{self, Read, Write};

use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};

use super::{DiffId, Digest};

/// Level of all that mosb compresses: on configuration within a few percent of 6, at several times its speed.
const LEVEL: u32 = 3;
/// "Unknown", as Go's gzip writes it, whatever system this runs on (RFC 1952, 2.3.1, OS).
const OS: u8 = 255;
/// Bytes that are handed to the compressor at once.
const PIECE: usize = 128 << 10;

/// What was read and written while compressing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compressed {
    /// Of what was written.
    pub digest: Digest,
    /// Of what was read.
    pub diff_id: DiffId,
    /// Bytes written.
    pub size: u64,
    /// Bytes read.
    pub unpacked_size: u64,
}

/// Compresses all that `reader` gives into `writer`, with flat memory.
///
/// # Errors
/// Those of `reader` and `writer`.
pub fn compress(mut reader: impl Read, writer: impl Write) -> io::Result<Compressed> {
    let hashed = HashedWriter {
        inner: writer,
        hash: Sha256::new(),
        count: 0,
    };
    let mut gzip = GzBuilder::new()
        .mtime(0)
        .operating_system(OS)
        .write(hashed, Compression::new(LEVEL));
    let mut piece = Vec::with_capacity(PIECE);
    let mut unpacked = Sha256::new();
    let mut unpacked_size = 0;
    loop {
        piece.clear();
        let got = (&mut reader).take(PIECE as u64).read_to_end(&mut piece)?;
        if got == 0 {
            break;
        }
        unpacked.update(&piece);
        unpacked_size += got as u64;
        gzip.write_all(&piece)?;
    }
    let mut written = gzip.finish()?;
    written.flush()?;
    Ok(Compressed {
        digest: Digest::from_sha256(written.hash),
        diff_id: DiffId::from_sha256(unpacked),
        size: written.count,
        unpacked_size,
    })
}

/// Hashes and counts what really reached the writer.
#[derive(Debug)]
struct HashedWriter<W> {
    inner: W,
    hash: Sha256,
    count: u64,
}

impl<W: Write> Write for HashedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.count += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time, as a slow pipe may.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(buffer.len()).min(1);
            self.0.read(&mut buffer[..length])
        }
    }

    #[test]
    fn the_same_bytes_are_compressed_to_the_same_bytes() {
        let text: Vec<u8> = (0..40_000_u32)
            .flat_map(|n| format!("line {}\n", n * n % 977).into_bytes())
            .collect();
        let (mut at_once, mut slowly) = (Vec::new(), Vec::new());
        let said = compress(&*text, &mut at_once).unwrap();
        assert_eq!(compress(Slow(&text), &mut slowly).unwrap(), said);
        assert_eq!(at_once, slowly);
        assert_eq!(said.digest, Digest::of(&at_once));
        assert_eq!(said.diff_id, DiffId::of(&text));
        assert_eq!(
            (said.size, said.unpacked_size),
            (at_once.len() as u64, text.len() as u64)
        );
        // Another digest here means that every image gets another one: raise the format number.
        assert_eq!(
            said.digest.to_string(),
            "sha256:118a556918d4868261d22a5da936cb1db0968702b9a3d2d9564d3fb53e2fdce8"
        );
        assert_eq!(at_once[4..10], [0, 0, 0, 0, at_once[8], OS]);
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(&*at_once)
            .read_to_end(&mut back)
            .unwrap();
        assert_eq!(back, text);
    }
}
