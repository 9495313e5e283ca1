//! The directory of a build context, whose content may be hostile: nothing in it is reached through
//! a link, and only regular files are read.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Stat, readlinkat, statat};
use sha2::{Digest as _, Sha256};

use mosb_image::Digest;
use mosb_plan::plan::{
    BuildContext, ContextEntry, ContextPath, IgnoreFile, Listing, MissingPath, used_paths,
};
use mosb_registry::folder::Folder;
use mosb_types::Diagnostic;

/// Limit of an ignore file.
const IGNORE_FILE: u64 = 1 << 20;
/// Limits of a directory: more is the wrong one, such as a home directory.
const ENTRIES: usize = 100_000;
const DEPTH: usize = 64;
/// Bytes read at once.
const PIECE: usize = 128 * 1024;

/// Why a directory is not a build context.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Missing(#[from] MissingPath),
    #[error("--context {}: can't be read; check that it is a directory and yours", path.display())]
    #[diagnostic(code = "unusable-context", class = InvalidInput)]
    Io { path: PathBuf, source: io::Error },
    #[error("--context {}: {problem}", path.display())]
    #[diagnostic(code = "unusable-context", class = InvalidInput)]
    Unusable { path: PathBuf, problem: String },
    #[error(
        "--context: {} changed while the image was built; build again when nothing writes there",
        path.display()
    )]
    #[diagnostic(code = "context-changed", class = InvalidInput)]
    Changed { path: PathBuf },
}

/// Reads what is used of a directory.
///
/// # Errors
/// It can't be read, it has not what is used, or it is far too large.
pub fn read(dir: &Path, uses: &[ContextPath]) -> Result<BuildContext, Error> {
    let root = open(dir)?;
    let mut found = Found { ignored: ignore_file(&root)?, listing: Listing::new() };
    found.list(&root, "", DEPTH)?;
    let mut entries = BTreeMap::new();
    for path in used_paths(&found.listing, uses)? {
        entries.insert(path.to_owned(), entry(&root, path)?);
    }
    Ok(BuildContext::new(entries))
}

/// Copies a build context out of its directory into another one, which is empty.
///
/// # Errors
/// The directory has something else by now, or can't be read.
pub fn copy(dir: &Path, context: &BuildContext, to: &Path) -> Result<(), Error> {
    let root = open(dir)?;
    for (path, entry) in context.entries() {
        let target = to.join(path);
        let parent = target.parent().unwrap_or(to);
        fs::DirBuilder::new().mode(0o755).recursive(true).create(parent).map_err(at(parent))?;
        match entry {
            // Its mode comes when all is in it.
            ContextEntry::Directory { .. } => {
                fs::DirBuilder::new().mode(0o755).recursive(true).create(&target)
            }
            ContextEntry::File { digest, .. } => {
                let source = file(&root, path)?;
                let options =
                    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).clone();
                let written = options.open(&target).map_err(at(&target))?;
                if hashed(source, written).map_err(at(&target))?.0 != *digest {
                    return Err(Error::Changed { path: dir.join(path) });
                }
                Ok(())
            }
            ContextEntry::Link { target: link } => symlink(link, &target),
        }
        .map_err(at(&target))?;
    }
    let entries: Vec<_> = context.entries().collect();
    for (path, entry) in entries.into_iter().rev() {
        let target = to.join(path);
        match entry {
            ContextEntry::Directory { mode } | ContextEntry::File { mode, .. } => {
                let set = fs::set_permissions(&target, Permissions::from_mode(*mode));
                set.map_err(at(&target))?;
            }
            ContextEntry::Link { .. } => {}
        }
    }
    Ok(())
}

/// The paths that a directory has.
struct Found {
    ignored: IgnoreFile,
    listing: Listing,
}

impl Found {
    fn list(&mut self, folder: &Folder, above: &str, depth: usize) -> Result<(), Error> {
        let path = folder.path();
        let unusable = |problem: String| Error::Unusable { path: path.to_owned(), problem };
        for item in Dir::read_from(folder.fd()).map_err(|error| at(path)(error.into()))? {
            let item = item.map_err(|error| at(path)(error.into()))?;
            let name = item.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let name = name.to_str().map_err(|_| {
                unusable(format!("{name:?} is not UTF-8; rename it or add it to .containerignore"))
            })?;
            let relative =
                if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") };
            let is_ignored = self.ignored.ignores(&relative);
            let kind = FileType::from_raw_mode(stat(folder, name)?.st_mode);
            let is_directory = kind == FileType::Directory;
            let is_there =
                is_directory || matches!(kind, FileType::RegularFile | FileType::Symlink);
            if is_there && !is_ignored {
                self.listing.insert(relative.clone(), kind == FileType::Symlink);
            }
            if self.listing.len() > ENTRIES || depth == 0 {
                return Err(unusable(format!(
                    "it has more than {ENTRIES} entries or {DEPTH} levels; give the directory of the Containerfile only, or list what is not needed in .containerignore"
                )));
            }
            if is_directory && (!is_ignored || self.ignored.has_exceptions()) {
                let below = folder.below(name).map_err(|error| unusable(error.to_string()))?;
                if let Some(below) = below {
                    self.list(&below, &relative, depth - 1)?;
                }
            }
        }
        Ok(())
    }
}

fn open(dir: &Path) -> Result<Folder, Error> {
    Folder::open(dir).map_err(|error| at(dir)(io::Error::other(error)))
}

fn ignore_file(root: &Folder) -> Result<IgnoreFile, Error> {
    for name in IgnoreFile::NAMES {
        let read = root.read(name, "ignore file", IGNORE_FILE);
        let read = read.map_err(|error| at(&root.path().join(name))(io::Error::other(error)))?;
        if let Some(bytes) = read {
            return Ok(IgnoreFile::parse(&String::from_utf8_lossy(&bytes)));
        }
    }
    Ok(IgnoreFile::default())
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

fn stat(folder: &Folder, name: &str) -> Result<Stat, Error> {
    statat(folder.fd(), name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|error| at(&folder.path().join(name))(error.into()))
}

/// The folder that a path is in, and its name there.
fn parent<'a>(root: &Folder, path: &'a str) -> Result<(Option<Folder>, &'a str), Error> {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    let mut folder: Option<Folder> = None;
    for component in above.split('/').filter(|component| !component.is_empty()) {
        let next = folder.as_ref().unwrap_or(root).below(component);
        let changed = || Error::Changed { path: root.path().join(path) };
        folder = Some(next.ok().flatten().ok_or_else(changed)?);
    }
    Ok((folder, name))
}

fn file(root: &Folder, path: &str) -> Result<fs::File, Error> {
    let (folder, name) = parent(root, path)?;
    let found = folder.as_ref().unwrap_or(root).file(name);
    let found = found.map_err(|error| at(&root.path().join(path))(io::Error::other(error)))?;
    found.map(|(file, _)| file).ok_or_else(|| Error::Changed { path: root.path().join(path) })
}

fn entry(root: &Folder, path: &str) -> Result<ContextEntry, Error> {
    let (folder, name) = parent(root, path)?;
    let folder = folder.as_ref().unwrap_or(root);
    let found = stat(folder, name)?;
    let mode = found.st_mode & 0o7777;
    Ok(match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => ContextEntry::Directory { mode },
        FileType::Symlink => {
            let target = readlinkat(folder.fd(), name, Vec::new());
            let target = target.map_err(|error| at(&root.path().join(path))(error.into()))?;
            ContextEntry::Link { target: target.to_string_lossy().into_owned() }
        }
        _ => {
            let read = hashed(file(root, path)?, io::sink());
            let (digest, size) = read.map_err(at(&root.path().join(path)))?;
            ContextEntry::File { mode, size, digest }
        }
    })
}

/// Copies, and returns digest and size.
fn hashed(mut from: impl Read, mut to: impl Write) -> io::Result<(Digest, u64)> {
    let (mut hash, mut size, mut piece) = (Sha256::new(), 0, vec![0; PIECE]);
    loop {
        let read = match from.read(&mut piece) {
            Ok(0) => return Ok((Digest::from_sha256(hash), size)),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(&piece[..read]);
        to.write_all(&piece[..read])?;
        size += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn uses(paths: &[&str]) -> Vec<ContextPath> {
        let of = |path: &&str| ContextPath { line: 1, by: "COPY", path: Some((*path).to_owned()) };
        paths.iter().map(of).collect()
    }

    #[test]
    fn only_what_is_used_leaves_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("context");
        fs::create_dir_all(dir.join("files/deep")).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        fs::write(dir.join("files/deep/a"), "a").unwrap();
        fs::set_permissions(dir.join("files/deep/a"), Permissions::from_mode(0o750)).unwrap();
        fs::write(dir.join("files/key.pem"), "key").unwrap();
        fs::write(dir.join("other"), "other").unwrap();
        fs::write(dir.join(".dockerignore"), "**/*.pem\n").unwrap();
        symlink("../../secret", dir.join("files/link")).unwrap();
        symlink("..", dir.join("up")).unwrap();
        let context = read(&dir, &uses(&["files/"])).unwrap();
        let paths: Vec<&str> = context.entries().map(|(path, _)| path).collect();
        assert_eq!(paths, ["files", "files/deep", "files/deep/a", "files/link"]);
        for path in ["up/secret", "files/link", "files/key.pem", "up"] {
            let error = read(&dir, &uses(&[path])).unwrap_err();
            assert_eq!(error.code(), "not-in-context", "{path}");
        }

        let to = folder.path().join("copy");
        fs::create_dir(&to).unwrap();
        copy(&dir, &context, &to).unwrap();
        let copied = fs::metadata(to.join("files/deep/a")).unwrap();
        assert_eq!(copied.permissions().mode() & 0o7777, 0o750);
        assert_eq!(fs::read_link(to.join("files/link")).unwrap(), Path::new("../../secret"));
        assert!(!to.join("files/key.pem").exists() && !to.join("other").exists());

        for change in ["content", "a link"] {
            let file = dir.join("files/deep/a");
            fs::remove_file(&file).unwrap();
            match change {
                "content" => fs::write(&file, "b").unwrap(),
                _ => symlink("../../../secret", &file).unwrap(),
            }
            let to = tempfile::tempdir().unwrap();
            assert!(copy(&dir, &context, to.path()).is_err(), "{change}");
        }
    }

    #[test]
    fn what_an_exception_brings_back_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        fs::create_dir(dir.join("files")).unwrap();
        fs::write(dir.join("files/keep"), "a").unwrap();
        fs::write(dir.join("files/other"), "b").unwrap();
        fs::write(dir.join(".containerignore"), "files\n!files/keep\n").unwrap();
        let context = read(dir, &uses(&["files/keep"])).unwrap();
        assert_eq!(context.entries().map(|(path, _)| path).collect::<Vec<_>>(), ["files/keep"]);
        assert!(read(dir, &uses(&["files/other"])).is_err());
    }

    #[test]
    fn sockets_and_the_wrong_directory_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let _socket = UnixListener::bind(dir.join("socket")).unwrap();
        fs::write(dir.join("a"), "a").unwrap();
        let context = read(dir, &uses(&["."])).unwrap();
        assert_eq!(context.entries().map(|(path, _)| path).collect::<Vec<_>>(), ["a"]);
        for (levels, is_read) in [(DEPTH - 1, true), (DEPTH + 1, false)] {
            let deep: PathBuf = [dir].into_iter().chain(vec![Path::new("d"); levels]).collect();
            fs::create_dir_all(deep).unwrap();
            let found = read(dir, &uses(&["."])).map_err(|error| error.code());
            assert_eq!(
                found.map(drop),
                is_read.then_some(()).ok_or("unusable-context"),
                "{levels}"
            );
        }
    }
}
