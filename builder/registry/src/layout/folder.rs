//! A folder whose content may be hostile: nothing in it is reached through a link, and only regular
//! files are read.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::try_unfold;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use tokio::io::AsyncReadExt as _;

use mosb_image::Digest;
use mosb_safe_fs::open_file;

use crate::error::Error;
use crate::store::BlobStream;

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    fd: OwnedFd,
}

/// Bytes read at once from a blob.
const CHUNK: usize = 256 << 10;

impl Folder {
    /// Opens the folder itself; links in the path that the user wrote are the user's.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let fd = rustix::fs::open(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|e| io(path, "no folder that can be read", e))?;
        Ok(Self { path: path.to_owned(), fd })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// A folder in it. Each step is opened from the one before, and must not be a link: what openat2's
    /// `RESOLVE_NO_SYMLINKS` gives, also on kernels and in sandboxes that don't have that call.
    pub fn below(&self, name: &str) -> Result<Option<Self>, Error> {
        let path = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(Self { path, fd })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                Err(odd(&path, "a link or file where a folder should be"))
            }
            Err(e) => Err(io(&path, "not readable", e)),
        }
    }

    /// A regular file in it, and its size.
    pub fn file(&self, name: &str) -> Result<Option<(File, u64)>, Error> {
        let path = self.path.join(name);
        match open_file(&self.fd, name) {
            Ok((file, stat)) => Ok(Some((file, u64::try_from(stat.st_size).unwrap_or_default()))),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NXIO | Errno::INVAL) => {
                Err(odd(&path, "not a regular file; links are not followed"))
            }
            Err(e) => Err(io(&path, "not readable", e)),
        }
    }

    /// All of a small file.
    pub fn read(&self, name: &str, what: &'static str, limit: u64) -> Result<Option<Bytes>, Error> {
        let Some((file, size)) = self.file(name)? else {
            return Ok(None);
        };
        let path = self.path.join(name);
        let too_large =
            |found| Error::TooLarge { image: path.display().to_string(), what, limit, found };
        if size > limit {
            return Err(too_large(size));
        }
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes).map_err(|source| Error::Io {
            path: path.clone(),
            doing: "not readable",
            source,
        })?;
        if bytes.len() as u64 > limit {
            return Err(too_large(bytes.len() as u64));
        }
        Ok(Some(bytes.into()))
    }

    /// Bytes `range` of a file that is a blob, unverified.
    pub fn stream(
        &self,
        name: &str,
        blob: &Digest,
        range: Range<u64>,
    ) -> Result<BlobStream<Error>, Error> {
        let path = self.path.join(name);
        let Some((file, size)) = self.file(name)? else {
            return Err(odd(
                &self.path,
                &format!("blob {blob} is missing, so the image is not whole; copy it there again"),
            ));
        };
        if size < range.end {
            return Err(Error::SizeMismatch {
                image: self.path.display().to_string(),
                digest: *blob,
                want: range.end,
                found: size,
            });
        }
        file_stream(path, file, range)
    }
}

/// Bytes `range` of an open file.
pub(crate) fn file_stream(
    path: PathBuf,
    mut file: File,
    range: Range<u64>,
) -> Result<BlobStream<Error>, Error> {
    let failed =
        |path: &Path, source| Error::Io { path: path.to_owned(), doing: "not readable", source };
    file.seek(SeekFrom::Start(range.start)).map_err(|source| failed(&path, source))?;
    let left = range.end.saturating_sub(range.start);
    let start = (tokio::fs::File::from_std(file), left, path);
    Ok(try_unfold(start, move |(mut file, left, path)| async move {
        if left == 0 {
            return Ok(None);
        }
        let mut chunk = BytesMut::with_capacity(CHUNK.min(usize::try_from(left).unwrap_or(CHUNK)));
        let mut limited = (&mut file).take(left);
        let read = limited.read_buf(&mut chunk).await.map_err(|source| failed(&path, source))?;
        if read == 0 {
            return Err(odd(&path, "the file became shorter while it was read"));
        }
        Ok(Some((chunk.freeze(), (file, left - read as u64, path))))
    })
    .boxed())
}

pub(crate) fn io(path: &Path, doing: &'static str, error: Errno) -> Error {
    Error::Io { path: path.to_owned(), doing, source: error.into() }
}

pub(crate) fn odd(path: &Path, cause: &str) -> Error {
    Error::Layout { dir: path.to_owned(), cause: cause.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_types::Diagnostic as _;
    use std::os::unix::fs::symlink;

    #[tokio::test]
    async fn links_pipes_and_sizes_that_lie_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(dir.path().join("file"), "0123456789").unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        symlink(outside.path(), dir.path().join("link")).unwrap();
        symlink("sub", dir.path().join("sublink")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.path().join("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let reason = |got: Result<Option<(File, u64)>, Error>| {
            got.map(|f| f.is_some()).map_err(|e| e.code())
        };
        for (name, want) in [
            ("file", Ok(true)),
            ("none", Ok(false)),
            ("link", Err("bad-layout")),
            ("pipe", Err("bad-layout")),
            ("sub", Err("bad-layout")),
        ] {
            assert_eq!(reason(folder.file(name)), want, "{name}");
        }
        assert!(folder.below("sub").unwrap().is_some());
        assert_eq!(folder.below("sublink").unwrap_err().code(), "bad-layout");
        assert_eq!(folder.below("file").unwrap_err().code(), "bad-layout");
        assert_eq!(folder.read("file", "a", 9).unwrap_err().code(), "too-large");
        let blob = Digest::of(b"");
        assert_eq!(
            folder.stream("file", &blob, 0..11).err().map(|e| e.code()),
            Some("size-mismatch")
        );
        let mut bytes = folder.stream("file", &blob, 2..5).unwrap();
        assert_eq!(bytes.next().await.unwrap().unwrap(), "234");
        assert!(bytes.next().await.is_none());
    }
}
