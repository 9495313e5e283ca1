//! The entries of a tar that streams by.
//!
//! The `tar` crate's own iterator reads PAX headers and long names of any length into memory, and
//! its raw mode does not know the sizes in PAX headers. This module therefore reads the blocks
//! itself and uses the crate's header only for the offsets of fields.

use std::io::{self, BufRead, Read};

use super::header::{BLOCK, Header, Pax, clean, parse, parse_pax, until_nul};
use super::{Budget, EntryError};
use crate::packages::{Effort, Listing, Manager};

/// Maximum size of a PAX header or a long name, as in Go's `archive/tar`.
const MAX_HEADER_SIZE: u64 = 1 << 20;

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Directory,
    File {
        /// Whether the bytes in the tar leave out its holes.
        sparse: bool,
    },
    /// A symbolic link to this, as it is written there.
    Symlink(Vec<u8>),
    /// A hard link to this path.
    Hardlink(Vec<u8>),
    /// A device or pipe.
    Other,
}

/// An entry of a tar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TarEntry {
    /// Its path from the root, clean; whiteouts still by their names.
    pub path: Vec<u8>,
    pub what: What,
    /// Permission bits with setuid, setgid and sticky (`07777`).
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Bytes of a regular file, holes included; else 0.
    pub size: u64,
    /// Whether it has extended attributes, other than its SELinux label.
    pub has_xattrs: bool,
}

/// Why reading a tar ended.
#[derive(Debug)]
pub(super) enum ReadError {
    Io(io::Error),
    Entry { entry: String, cause: EntryError },
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn stop(path: &[u8]) -> impl FnOnce(EntryError) -> ReadError + '_ {
    move |cause| ReadError::Entry { entry: String::from_utf8_lossy(path).into_owned(), cause }
}

fn too_much(what: &'static str, limit: u64, found: u64) -> EntryError {
    EntryError::TooMuch { what, limit, found }
}

/// Reads a tar entry by entry.
#[derive(Debug)]
pub(super) struct Entries<R> {
    reader: R,
    /// Bytes of the present entry's content that weren't read yet.
    left: u64,
    padding: u64,
    budget: Budget,
}

impl<R: BufRead> Entries<R> {
    pub(super) fn new(reader: R, budget: &Budget) -> Self {
        Self { reader, left: 0, padding: 0, budget: budget.clone() }
    }

    /// The next entry; the unread rest of the entry before is skipped.
    pub(super) fn next(&mut self) -> Result<Option<TarEntry>, ReadError> {
        let (mut pax, mut long_path, mut long_link) = (Pax::default(), None, None);
        loop {
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            match header.flag {
                b'x' => {
                    let records = self.meta(&header)?;
                    pax = parse_pax(&records).map_err(stop(&header.path))?;
                }
                // Unpackers of containers ignore global headers.
                b'g' => self.skip()?,
                b'L' => long_path = Some(self.long_name(&header)?),
                b'K' => long_link = Some(self.long_name(&header)?),
                _ => {
                    let path = long_path.or_else(|| pax.path.take());
                    let link = long_link.or_else(|| pax.link.take());
                    let path = path.unwrap_or_else(|| header.path.clone());
                    return self.entry(&header, &path, link, &pax).map(Some);
                }
            }
        }
    }

    fn entry(
        &mut self,
        header: &Header,
        path: &[u8],
        link: Option<Vec<u8>>,
        pax: &Pax,
    ) -> Result<TarEntry, ReadError> {
        let link = link.as_deref().unwrap_or(&header.link);
        let stored = pax.size.unwrap_or(header.size);
        let real = pax.real_size.or(header.sparse.map(|(size, _)| size));
        let id = |id: u64, what| u32::try_from(id).map_err(|_| EntryError::Number(what));
        let make = || {
            self.budget.add_entry(path.len() + link.len())?;
            let what = match header.flag {
                b'0' | b'S' => What::File { sparse: real.is_some() },
                b'1' => What::Hardlink(clean(link)?),
                b'2' if link.is_empty() || link.len() > 4095 || link.contains(&0) => {
                    return Err(EntryError::Path);
                }
                b'2' => What::Symlink(link.to_vec()),
                b'3' | b'4' | b'6' => What::Other,
                b'5' => What::Directory,
                other => return Err(EntryError::Type(other)),
            };
            Ok(TarEntry {
                path: clean(path)?,
                mode: header.mode,
                uid: id(pax.uid.unwrap_or(header.uid), "uid")?,
                gid: id(pax.gid.unwrap_or(header.gid), "gid")?,
                size: match what {
                    What::File { .. } => real.unwrap_or(stored),
                    What::Directory | What::Symlink(_) | What::Hardlink(_) | What::Other => 0,
                },
                has_xattrs: pax.has_xattrs,
                what,
            })
        };
        let entry = make().map_err(stop(path))?;
        let has_content = matches!(entry.what, What::File { .. });
        self.expect(if has_content { stored } else { 0 });
        if let Some((_, true)) = header.sparse {
            self.skip_sparse_map(path)?;
        }
        Ok(entry)
    }

    fn expect(&mut self, content: u64) {
        self.left = content;
        self.padding = content.wrapping_neg() % BLOCK as u64;
    }

    fn header(&mut self) -> Result<Option<Header>, ReadError> {
        self.skip()?;
        let Some(block) = self.block()? else {
            return Ok(None);
        };
        let header = parse(&block).map_err(stop(until_nul(&block[..100])))?;
        if let Some(header) = &header {
            self.expect(header.size);
            return Ok(Some(header.clone()));
        }
        // One block of zeros and then something else is damage, not an end.
        match self.block()? {
            Some(block) if block.iter().any(|b| *b != 0) => Err(stop(b"")(EntryError::Checksum)),
            Some(_) | None => Ok(None),
        }
    }

    /// The next block; `None` at the end.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, ReadError> {
        let mut block = [0; BLOCK];
        if self.reader.fill_buf()?.is_empty() {
            return Ok(None);
        }
        self.reader.read_exact(&mut block).map_err(truncated)?;
        Ok(Some(block))
    }

    fn meta(&mut self, header: &Header) -> Result<Vec<u8>, ReadError> {
        if header.size > MAX_HEADER_SIZE {
            let what = "bytes of PAX header or long name";
            let cause = too_much(what, MAX_HEADER_SIZE, header.size);
            return Err(stop(&header.path)(cause));
        }
        self.content()
    }

    fn long_name(&mut self, header: &Header) -> Result<Vec<u8>, ReadError> {
        let mut name = self.meta(header)?;
        let end = name.iter().position(|b| *b == 0);
        name.truncate(end.unwrap_or(name.len()));
        Ok(name)
    }

    fn skip_sparse_map(&mut self, path: &[u8]) -> Result<(), ReadError> {
        // A block has 21 pieces, and byte 504 shows whether another block follows.
        for _ in 0..MAX_HEADER_SIZE / BLOCK as u64 {
            match self.block()? {
                Some(block) if block[504] == 1 => {}
                Some(_) => return Ok(()),
                None => return Err(stop(path)(EntryError::Truncated)),
            }
        }
        let found = MAX_HEADER_SIZE + 1;
        let cause = too_much("bytes of sparse map", MAX_HEADER_SIZE, found);
        Err(stop(path)(cause))
    }

    /// All of the present entry's content; the caller has seen that its size is bearable.
    pub(super) fn content(&mut self) -> Result<Vec<u8>, ReadError> {
        let mut content = Vec::new();
        let got = (&mut self.reader).take(self.left).read_to_end(&mut content)?;
        if got as u64 != self.left {
            return Err(stop(b"")(EntryError::Truncated));
        }
        self.left = 0;
        Ok(content)
    }

    /// The present entry as a package database of this manager, or of one that its first bytes show.
    /// `None` if it is not a database, or must be read again.
    pub(super) fn listing(
        &mut self,
        manager: Option<Manager>,
        effort: Effort,
    ) -> Result<Option<Listing>, ReadError> {
        let content = Content(self);
        let listing = match manager {
            Some(manager) => Listing::read(manager, content, effort),
            None => Listing::detect(content),
        };
        listing.map_err(truncated)
    }

    /// Reads the bytes after the end of the tar, which are part of its digest.
    pub(super) fn drain(&mut self) -> Result<(), ReadError> {
        loop {
            match self.reader.fill_buf()?.len() {
                0 => return Ok(()),
                here => self.reader.consume(here),
            }
        }
    }

    fn skip(&mut self) -> Result<(), ReadError> {
        let rest = self.left.checked_add(self.padding);
        let mut rest = rest.ok_or_else(|| stop(b"")(EntryError::Number("size")))?;
        while rest > 0 {
            let here = self.reader.fill_buf()?.len();
            if here == 0 {
                // A last entry without its padding is read by everybody.
                if rest <= self.padding {
                    break;
                }
                return Err(stop(b"")(EntryError::Truncated));
            }
            let step = here.min(usize::try_from(rest).unwrap_or(usize::MAX));
            self.reader.consume(step);
            rest -= step as u64;
        }
        self.expect(0);
        Ok(())
    }
}

/// The content of the present entry.
struct Content<'e, R>(&'e mut Entries<R>);

impl<R: BufRead> BufRead for Content<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let left = self.0.left;
        if left == 0 {
            return Ok(&[]);
        }
        let here = self.0.reader.fill_buf()?;
        if here.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(&here[..here.len().min(usize::try_from(left).unwrap_or(usize::MAX))])
    }

    fn consume(&mut self, amount: usize) {
        self.0.reader.consume(amount);
        self.0.left -= amount as u64;
    }
}

impl<R: BufRead> Read for Content<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let here = self.fill_buf()?;
        let length = here.len().min(buffer.len());
        buffer[..length].copy_from_slice(&here[..length]);
        self.consume(length);
        Ok(length)
    }
}

fn truncated(error: io::Error) -> ReadError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return stop(b"")(EntryError::Truncated);
    }
    ReadError::Io(error)
}
