//! What differs between the trees of two deployments. ostree checks equal files out as hard links of
//! one file, so few contents are read.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use mosb_safe_fs::attributes;

/// The most entries of both trees; an image has some 100,000.
const MAX_ENTRIES: usize = 2_000_000;
/// The most bytes of files that must be read, because they are not hard links of one file.
const MAX_BYTES: u64 = 256 * 1024 * 1024;
/// The most paths that may differ.
const MAX_PATHS: usize = 2_000;
/// How deep a tree may be.
const MAX_DEPTH: usize = 64;
/// How much of two files is compared at once.
const PIECE: u64 = 64 * 1024;
/// What of a deployment is the machine's, or depends on how it is mounted.
const OF_MACHINE: [&str; 2] = ["etc", "var"];
/// The beginning of the names of ostree's own files in a deployment.
const OF_OSTREE: &[u8] = b".ostree";

/// Why two trees can't be compared, or what differs that may not.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A path, which may have been shortened.
    Differs(String),
    /// There is too much to compare.
    TooMuch(&'static str),
    Unreadable {
        path: String,
        source: io::Error,
    },
}

/// The paths that differ, sorted, relative to the trees: files, directories and links, also all below
/// a directory that one tree lacks. Each of them may differ, by `may_differ`.
pub(crate) fn tree_difference(
    before: &OwnedFd,
    after: &OwnedFd,
    may_differ: &dyn Fn(&str) -> bool,
) -> Result<Vec<String>, Stop> {
    let mut walk = Walk { may_differ, paths: Vec::new(), entries: 0, bytes: 0 };
    walk.folder("", [Some(before), Some(after)], MAX_DEPTH)?;
    walk.paths.sort();
    Ok(walk.paths)
}

struct Walk<'a> {
    may_differ: &'a dyn Fn(&str) -> bool,
    paths: Vec<String>,
    entries: usize,
    bytes: u64,
}

impl Walk<'_> {
    fn folder(
        &mut self,
        path: &str,
        trees: [Option<&OwnedFd>; 2],
        depth: usize,
    ) -> Result<(), Stop> {
        if depth == 0 {
            return Err(Stop::TooMuch("directories are nested too deeply"));
        }
        let mut names = BTreeSet::new();
        for tree in trees.into_iter().flatten() {
            self.names(tree, &mut names).map_err(|error| unreadable(path, error))?;
            if self.entries > MAX_ENTRIES {
                return Err(Stop::TooMuch("the images have too many files"));
            }
        }
        for name in names {
            let is_left_out = path.is_empty()
                && (OF_MACHINE.iter().any(|own| own.as_bytes() == name)
                    || name.starts_with(OF_OSTREE));
            if !is_left_out {
                self.entry(path, &name, trees, depth)?;
            }
        }
        Ok(())
    }

    fn names(&mut self, tree: &OwnedFd, names: &mut BTreeSet<Vec<u8>>) -> Result<(), Errno> {
        for entry in Dir::read_from(tree)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                self.entries += 1;
                names.insert(name.to_vec());
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        folder: &str,
        name: &[u8],
        trees: [Option<&OwnedFd>; 2],
        depth: usize,
    ) -> Result<(), Stop> {
        let text = String::from_utf8_lossy(name);
        let path = if folder.is_empty() { text.into_owned() } else { format!("{folder}/{text}") };
        let [before, after] = trees.map(|tree| tree.map(|tree| stat(tree, name)));
        let found = |stat: Option<Result<Option<Stat>, Errno>>| {
            stat.transpose().map(Option::flatten).map_err(|error| unreadable(&path, error))
        };
        let (before, after) = (found(before)?, found(after)?);
        if let (Some(before), Some(after)) = (&before, &after)
            && (before.st_dev, before.st_ino) == (after.st_dev, after.st_ino)
        {
            return Ok(());
        }
        let is_folder =
            |stat: &Option<Stat>| stat.as_ref().is_some_and(|it| kind(it) == FileType::Directory);
        let open = |tree: Option<&OwnedFd>, stat: &Option<Stat>| match tree {
            Some(tree) if is_folder(stat) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                openat(tree, name, flags, Mode::empty()).map(Some)
            }
            _ => Ok(None),
        };
        let opened = || Ok([open(trees[0], &before)?, open(trees[1], &after)?]);
        let folders = opened().map_err(|error| unreadable(&path, error))?;
        let is_same = match (&before, &after) {
            (Some(before), Some(after)) => {
                let same = self.is_same(name, trees, [before, after], &folders);
                same.map_err(|source| Stop::Unreadable { path: path.clone(), source })?
            }
            _ => false,
        };
        if self.bytes > MAX_BYTES {
            return Err(Stop::TooMuch("the images share too few files"));
        }
        if !is_same {
            if std::str::from_utf8(name).is_err() || !(self.may_differ)(&path) {
                return Err(Stop::Differs(path));
            }
            if self.paths.len() >= MAX_PATHS {
                return Err(Stop::TooMuch("too many files differ"));
            }
            self.paths.push(path.clone());
        }
        match folders {
            [None, None] => Ok(()),
            [before, after] => self.folder(&path, [before.as_ref(), after.as_ref()], depth - 1),
        }
    }

    /// Whether an entry is the same in both trees; for a directory, without what is in it.
    fn is_same(
        &mut self,
        name: &[u8],
        trees: [Option<&OwnedFd>; 2],
        [before, after]: [&Stat; 2],
        folders: &[Option<OwnedFd>; 2],
    ) -> io::Result<bool> {
        let [Some(one), Some(other)] = trees else { return Ok(false) };
        let is_link = kind(before) == FileType::Symlink;
        let mode = |stat: &Stat| if is_link { 0 } else { stat.st_mode };
        if (kind(before), mode(before), before.st_uid, before.st_gid)
            != (kind(after), mode(after), after.st_uid, after.st_gid)
        {
            return Ok(false);
        }
        match kind(before) {
            FileType::Symlink => {
                Ok(readlinkat(one, name, Vec::new())? == readlinkat(other, name, Vec::new())?)
            }
            FileType::Directory => match folders {
                [Some(one), Some(other)] => Ok(attributes(one)? == attributes(other)?),
                _ => Ok(false),
            },
            FileType::RegularFile if before.st_size == after.st_size => {
                let (mut one, mut other) = (open_file(one, name)?, open_file(other, name)?);
                if attributes(&one)? != attributes(&other)? {
                    return Ok(false);
                }
                self.has_same_content(&mut one, &mut other)
            }
            _ => Ok(false),
        }
    }

    fn has_same_content(&mut self, one: &mut File, other: &mut File) -> io::Result<bool> {
        let piece = |file: &mut File| {
            let mut piece = Vec::new();
            file.take(PIECE).read_to_end(&mut piece).map(|_| piece)
        };
        while self.bytes <= MAX_BYTES {
            let (one, other) = (piece(one)?, piece(other)?);
            if one != other {
                return Ok(false);
            }
            if one.is_empty() {
                return Ok(true);
            }
            self.bytes += one.len() as u64;
        }
        Ok(false)
    }
}

fn stat(tree: &OwnedFd, name: &[u8]) -> Result<Option<Stat>, Errno> {
    match statat(tree, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn open_file(tree: &OwnedFd, name: &[u8]) -> io::Result<File> {
    // Without NONBLOCK a named pipe that took its place would block for ever.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(tree, name, flags, Mode::empty())?;
    if kind(&fstat(&file)?) != FileType::RegularFile {
        return Err(Errno::INVAL.into());
    }
    Ok(File::from(file))
}

fn unreadable(path: &str, error: Errno) -> Stop {
    Stop::Unreadable { path: path.to_owned(), source: error.into() }
}
