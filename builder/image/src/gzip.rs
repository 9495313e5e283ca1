//! The only function that compresses, so that equal bytes are compressed to equal bytes everywhere.
//!
//! gzip's output depends on the library, its level, and on how the input is cut into pieces; all
//! three are fixed here, and a test pins a digest. Several threads compress the pieces: each piece
//! is compressed by itself, with only the bytes before it as dictionary, and ends on a whole byte
//! (RFC 1951, 3.2.4), so that the pieces in a row are one gzip member, whichever thread made them.
//! On configuration that costs half a percent of size.

use std::io::{self, Read, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{iter, thread};

use flate2::{Compress, Compression, Crc, FlushCompress};
use sha2::{Digest as _, Sha256};

use super::{DiffId, Digest};

/// The level of everything that mosb compresses: on configuration within a few percent of 6, and
/// faster.
const LEVEL: u32 = 3;
/// A member without name and time, and with "unknown" as operating system, as in Go's gzip (RFC
/// 1952, 2.3).
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// An empty last block: no piece is marked as the last.
const LAST_BLOCK: [u8; 2] = [3, 0];
/// Bytes of a piece.
const PIECE: usize = 64 << 10;
/// Bytes before a piece that it may refer to: the maximum of the format.
const WINDOW: usize = 32 << 10;
/// Pieces in memory for each thread.
const PIECES_PER_THREAD: usize = 8;
/// More threads would wait for input.
const MAX_THREADS: usize = 16;

/// Digests and sizes of compressed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compressed {
    /// Digest of the compressed bytes.
    pub digest: Digest,
    /// Digest of the unpacked bytes.
    pub diff_id: DiffId,
    pub size: u64,
    pub unpacked_size: u64,
}

/// Compresses everything from `reader` into `writer`, with constant memory, on all processors.
///
/// # Errors
/// Those of `reader` and `writer`.
pub fn compress(reader: impl Read, writer: impl Write) -> io::Result<Compressed> {
    compress_on(threads(), reader, writer)
}

/// The same of bytes in memory, which are not copied. Equal bytes are compressed as `compress` does.
pub fn compress_bytes(bytes: &[u8]) -> (Vec<u8>, Compressed) {
    let mut member = Member::begin(Vec::new()).expect("memory can be written");
    member.add(threads(), bytes, 0).expect("memory can be written");
    member.end().expect("memory can be written")
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS)
}

fn compress_on(
    threads: usize,
    mut reader: impl Read,
    writer: impl Write,
) -> io::Result<Compressed> {
    let mut member = Member::begin(writer)?;
    let limit = threads * PIECES_PER_THREAD * PIECE;
    // The window of the bytes before, then the bytes that are compressed next.
    let mut bytes = Vec::with_capacity(WINDOW + limit);
    loop {
        let window = bytes.len();
        if (&mut reader).take(limit as u64).read_to_end(&mut bytes)? == 0 {
            break;
        }
        member.add(threads, &bytes, window)?;
        bytes.drain(..bytes.len().saturating_sub(WINDOW));
    }
    Ok(member.end()?.1)
}

/// A gzip member that is being written.
struct Member<W> {
    written: HashedWriter<W>,
    sum: Crc,
    hash: Sha256,
    unpacked_size: u64,
}

impl<W: Write> Member<W> {
    fn begin(writer: W) -> io::Result<Self> {
        let mut written = HashedWriter { inner: writer, hash: Sha256::new(), count: 0 };
        written.write_all(&HEADER)?;
        Ok(Self { written, sum: Crc::new(), hash: Sha256::new(), unpacked_size: 0 })
    }

    /// Appends the bytes behind the first `window` ones, which were appended before.
    fn add(&mut self, threads: usize, bytes: &[u8], window: usize) -> io::Result<()> {
        let new = &bytes[window..];
        let pieces: Vec<OnceLock<Vec<u8>>> =
            Vec::from_iter(iter::repeat_n(OnceLock::new(), new.len().div_ceil(PIECE)));
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..threads.min(pieces.len()) {
                scope.spawn(|| {
                    let turn = || next.fetch_add(1, Ordering::Relaxed);
                    let turns = iter::repeat_with(turn).map_while(|at| Some((at, pieces.get(at)?)));
                    for (at, piece) in turns {
                        let compressed = compress_piece(bytes, window + at * PIECE);
                        piece.set(compressed).expect("each number comes once");
                    }
                });
            }
            self.sum.update(new);
            self.hash.update(new);
        });
        self.unpacked_size += new.len() as u64;
        for piece in pieces {
            self.written.write_all(&piece.into_inner().expect("all numbers came"))?;
        }
        Ok(())
    }

    fn end(mut self) -> io::Result<(W, Compressed)> {
        self.written.write_all(&LAST_BLOCK)?;
        self.written.write_all(&self.sum.sum().to_le_bytes())?;
        // The length modulo 2^32, as the checksum has it.
        self.written.write_all(&self.sum.amount().to_le_bytes())?;
        self.written.flush()?;
        let HashedWriter { inner, hash, count } = self.written;
        let compressed = Compressed {
            digest: Digest::from_sha256(hash),
            diff_id: DiffId::from_sha256(self.hash),
            size: count,
            unpacked_size: self.unpacked_size,
        };
        Ok((inner, compressed))
    }
}

/// Compresses the piece that begins at `start`, so that another one can follow. Each piece gets a
/// new compressor: the output of zlib-rs 0.6 after a reset depends on its earlier input.
fn compress_piece(bytes: &[u8], start: usize) -> Vec<u8> {
    let piece = &bytes[start..bytes.len().min(start + PIECE)];
    let mut compressed = Vec::with_capacity(piece.len() + piece.len() / 8 + 64);
    let mut deflate = Compress::new(Compression::new(LEVEL), false);
    deflate
        .set_dictionary(&bytes[start.saturating_sub(WINDOW)..start])
        .and_then(|_| deflate.compress_vec(piece, &mut compressed, FlushCompress::Sync))
        .expect("memory can be compressed");
    assert!(
        deflate.total_in() == piece.len() as u64 && compressed.len() < compressed.capacity(),
        "bytes that can't be compressed grow by a few bytes"
    );
    compressed
}

/// Hashes and counts the bytes that the writer accepted.
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
    fn same_bytes_are_compressed_to_the_same_bytes() {
        let text: Vec<u8> =
            (0..40_000_u32).flat_map(|n| format!("line {}\n", n * n % 977).into_bytes()).collect();
        let (mut at_once, mut slowly) = (Vec::new(), Vec::new());
        let compressed = compress(&*text, &mut at_once).unwrap();
        assert_eq!(compress(Slow(&text), &mut slowly).unwrap(), compressed);
        assert_eq!(at_once, slowly);
        assert_eq!(compress_bytes(&text), (at_once.clone(), compressed));
        assert_eq!(compressed.digest, Digest::of(&at_once));
        assert_eq!(compressed.diff_id, DiffId::of(&text));
        assert_eq!(
            (compressed.size, compressed.unpacked_size),
            (at_once.len() as u64, text.len() as u64)
        );
        // Another digest here means that every image gets another one: raise the format number.
        assert_eq!(
            compressed.digest.to_string(),
            "sha256:ce6e7727f868edba73bc24751427647380dd4f8aad35c2214adf7f870978257d"
        );
    }

    #[test]
    fn every_length_is_one_member_and_round_trips() {
        let mut state = 1_u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let noise: Vec<u8> = (0..3 * PIECES_PER_THREAD * PIECE).map(|_| byte()).collect();
        let words: Vec<u8> =
            noise.iter().map(|b| b"etc/crio=conf\n# "[usize::from(b % 16)]).collect();
        for bytes in [&noise, &words] {
            for length in [
                0,
                1,
                PIECE - 1,
                PIECE,
                PIECE + 1,
                PIECES_PER_THREAD * PIECE,
                PIECES_PER_THREAD * PIECE + 1,
                bytes.len(),
            ] {
                let (bytes, mut packed) = (&bytes[..length], Vec::new());
                let compressed = compress_on(1, bytes, &mut packed).unwrap();
                // With three times as much in memory at once.
                let on_three = compress_on(3, bytes, io::sink()).unwrap();
                assert_eq!(on_three, compressed, "{length} bytes");
                assert_eq!(compress_bytes(bytes), (packed.clone(), compressed), "{length} bytes");
                let mut member = flate2::bufread::GzDecoder::new(&*packed);
                let mut back = Vec::new();
                member.read_to_end(&mut back).unwrap();
                assert!(back == bytes, "{length} bytes");
                assert_eq!(member.into_inner(), b"", "{length} bytes");
            }
        }
    }
}
