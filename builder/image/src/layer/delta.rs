//! The changes of a layer, entry by entry, in a compact form.

use std::sync::Arc;
use std::{fmt, mem, slice};

use super::super::Digest;
use super::super::tree::Kind;
use crate::hidden::Hidden;

/// The change of an entry at its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    Put(Put),
    /// A hard link to this path.
    Link {
        /// The path, clean, without a leading slash.
        to: &'a [u8],
    },
    /// Removes what lower layers have at the path.
    Whiteout,
    /// Removes what lower layers have in the directory.
    Opaque,
}

/// An inode as an entry describes it.
#[derive(Clone, PartialEq, Eq)]
pub struct Put {
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky (`07777`).
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Bytes of a regular file, else 0.
    pub size: u64,
    /// Whether it has extended attributes other than its SELinux label.
    pub has_xattrs: bool,
    /// The target of a symbolic link, or the content of a file if it was read.
    pub bytes: Option<Arc<[u8]>>,
}

impl fmt::Debug for Put {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Put")
            .field("kind", &self.kind)
            .field("mode", &self.mode)
            .field("uid", &self.uid)
            .field("gid", &self.gid)
            .field("size", &self.size)
            .field("has_xattrs", &self.has_xattrs)
            .field("bytes", &Hidden::of(self.bytes.as_deref()))
            .finish()
    }
}

/// The entries of a layer, in their order. A path is stored without the prefix that it shares with
/// the one before.
#[derive(Clone, PartialEq, Eq)]
pub struct Delta {
    layer: Digest,
    log: Vec<u8>,
    /// Those of files, in the order of their entries; a tree shares them.
    contents: Vec<Arc<[u8]>>,
    entries: u32,
    last_path: Vec<u8>,
    last_link: Vec<u8>,
}

impl fmt::Debug for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Delta({} entries of {})", self.entries, self.layer)
    }
}

impl Delta {
    pub fn new(layer: Digest) -> Self {
        Self {
            layer,
            log: Vec::new(),
            contents: Vec::new(),
            entries: 0,
            last_path: Vec::new(),
            last_link: Vec::new(),
        }
    }
    pub fn layer(&self) -> &Digest {
        &self.layer
    }
    pub fn len(&self) -> u32 {
        self.entries
    }

    /// Whether the layer has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Appends an entry; its number is the [`Delta::len`] before.
    pub fn push(&mut self, path: &[u8], event: &Event<'_>) {
        self.entries += 1;
        self.log.push(match event {
            Event::Put(put) => {
                let has_bytes = if put.bytes.is_some() { HAS_BYTES } else { 0 };
                let has_xattrs = if put.has_xattrs { HAS_XATTRS } else { 0 };
                put.kind as u8 | has_bytes | has_xattrs
            }
            Event::Link { .. } => LINK,
            Event::Whiteout => WHITEOUT,
            Event::Opaque => OPAQUE,
        });
        write_shared(&mut self.log, &mut self.last_path, path);
        match event {
            Event::Put(put) => {
                for number in [put.mode, put.uid, put.gid] {
                    write_number(&mut self.log, u64::from(number));
                }
                write_number(&mut self.log, put.size);
                match &put.bytes {
                    Some(content) if put.kind == Kind::File => self.contents.push(content.clone()),
                    Some(bytes) => {
                        write_number(&mut self.log, bytes.len() as u64);
                        self.log.extend_from_slice(bytes);
                    }
                    None => {}
                }
            }
            Event::Link { to } => write_shared(&mut self.log, &mut self.last_link, to),
            Event::Whiteout | Event::Opaque => {}
        }
    }

    /// Calls `each` with number, path and event of every entry.
    ///
    /// # Errors
    /// The first error of `each`, with the path of its entry.
    pub fn each<E>(
        &self,
        mut each: impl FnMut(u32, &[u8], Event<'_>) -> Result<(), E>,
    ) -> Result<(), (String, E)> {
        let mut log = Log(&self.log);
        let mut contents = self.contents.iter();
        let (mut path, mut link) = (Vec::new(), Vec::new());
        for number in 0..self.entries {
            let tag = log.take(1)[0];
            log.shared(&mut path);
            let event = match tag {
                LINK => {
                    log.shared(&mut link);
                    Event::Link { to: &link }
                }
                WHITEOUT => Event::Whiteout,
                OPAQUE => Event::Opaque,
                tag => Event::Put(log.put(tag, &mut contents)),
            };
            each(number, &path, event)
                .map_err(|error| (String::from_utf8_lossy(&path).into_owned(), error))?;
        }
        Ok(())
    }
}

const HAS_BYTES: u8 = 4;
const HAS_XATTRS: u8 = 16;
const LINK: u8 = 8;
const WHITEOUT: u8 = 9;
const OPAQUE: u8 = 10;
const KINDS: [Kind; 4] = [Kind::Directory, Kind::File, Kind::Symlink, Kind::Other];

fn write_number(log: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        log.push(number as u8 | 0x80);
        number >>= 7;
    }
    log.push(number as u8);
}

fn write_shared(log: &mut Vec<u8>, last: &mut Vec<u8>, new: &[u8]) {
    let shared = last.iter().zip(new).take_while(|(a, b)| a == b).count();
    write_number(log, shared as u64);
    write_number(log, (new.len() - shared) as u64);
    log.extend_from_slice(&new[shared..]);
    last.truncate(shared);
    last.extend_from_slice(&new[shared..]);
}

/// The unread rest of a log that [`Delta::push`] wrote.
struct Log<'a>(&'a [u8]);

impl<'a> Log<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (head, rest) = mem::take(&mut self.0).split_at(length);
        self.0 = rest;
        head
    }

    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.take(1)[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return number;
            }
            shift += 7;
        }
    }

    fn length(&mut self) -> usize {
        usize::try_from(self.number()).expect("a length that was in memory")
    }

    fn small(&mut self) -> u32 {
        u32::try_from(self.number()).expect("was written from 32 bits")
    }

    fn shared(&mut self, last: &mut Vec<u8>) {
        let (shared, rest) = (self.length(), self.length());
        last.truncate(shared);
        last.extend_from_slice(self.take(rest));
    }

    fn put(&mut self, tag: u8, contents: &mut slice::Iter<'_, Arc<[u8]>>) -> Put {
        let kind = KINDS[usize::from(tag & 3)];
        Put {
            kind,
            mode: self.small(),
            uid: self.small(),
            gid: self.small(),
            size: self.number(),
            has_xattrs: tag & HAS_XATTRS != 0,
            bytes: match kind {
                _ if tag & HAS_BYTES == 0 => None,
                Kind::File => contents.next().cloned(),
                Kind::Directory | Kind::Symlink | Kind::Other => {
                    let length = self.length();
                    Some(self.take(length).into())
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_as_they_went_in() {
        let put = |kind, size, bytes: Option<&'static [u8]>| {
            let has_xattrs = bytes.is_some();
            let bytes = bytes.map(Into::into);
            Event::Put(Put { kind, mode: 0o4755, uid: u32::MAX, gid: 7, size, has_xattrs, bytes })
        };
        let all = [
            ("", put(Kind::Directory, 0, None)),
            ("etc/passwd", put(Kind::File, 1 << 40, Some(b"root"))),
            ("etc/past", put(Kind::File, 0, None)),
            ("etc", put(Kind::Symlink, 0, Some(b"usr/etc"))),
            ("dev/null", put(Kind::Other, 0, None)),
            ("a", Event::Link { to: b"etc/passwd" }),
            ("b", Event::Link { to: b"etc/past" }),
            ("c", Event::Whiteout),
            ("", Event::Opaque),
        ];
        let mut delta = Delta::new(Digest::of(b""));
        for (path, event) in &all {
            delta.push(path.as_bytes(), event);
        }
        let mut seen = 0;
        delta
            .each(|number, path, event| {
                let (want_path, want) = &all[number as usize];
                assert_eq!((path, &event), (want_path.as_bytes(), want), "entry {number}");
                seen += 1;
                Ok::<_, ()>(())
            })
            .unwrap();
        assert_eq!((seen, delta.len()), (all.len(), 9));
        let stop = delta.each(|_, path, _| if path == b"etc" { Err(()) } else { Ok(()) });
        assert_eq!(stop, Err(("etc".to_owned(), ())));
    }
}
