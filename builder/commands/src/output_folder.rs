//! A folder that is written atomically.
//!
//! A temporary folder is written beside it, and replaces it in one step. An existing folder is only
//! replaced if an earlier run wrote all of its files.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat, renameat_with};
use rustix::io::Errno;

use super::error::Error;
use mosb_bootstrap::File;

/// Lists the files that we made. Without an extension, so that `kubectl apply -f` leaves it alone.
const MARK: &str = ".mosb-bootstrap";

/// Checks that the folder may be replaced: it does not exist, is empty, or contains only the files
/// of an earlier run.
///
/// # Errors
/// The folder contains other files, or can't be read.
pub fn check(folder: &Path) -> Result<(), Error> {
    let folder = &*meant(folder)?;
    let mut found = BTreeSet::new();
    match below(folder, "", &mut found) {
        Ok(()) => {}
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(unreadable(folder, source)),
    }
    if found.is_empty() {
        return Ok(());
    }
    let mark = fs::read_to_string(folder.join(MARK)).unwrap_or_default();
    let ours: BTreeSet<&str> = mark.lines().chain([MARK]).collect();
    let mut strange = found.iter().filter(|path| !ours.contains(&***path));
    match strange.next() {
        None => Ok(()),
        Some(first) => {
            Err(Error::ForeignFolder { folder: folder.display().to_string(), file: first.clone() })
        }
    }
}

/// Writes all files and replaces those of an earlier run.
///
/// # Errors
/// As [`check`]; a failed write, which leaves the folder unchanged.
pub fn write(folder: &Path, files: &[File]) -> Result<(), Error> {
    let folder = &*meant(folder)?;
    check(folder)?;
    let part = part(folder);
    let made = make(&part, files).and_then(|()| put(&part, folder));
    if made.is_err() {
        // What can't be removed now is in the way of the next run, which removes it.
        let _ = fs::remove_dir_all(&part);
    }
    made.map_err(|source| Error::Write { file: folder.display().to_string(), source })
}

/// The folder itself, where a link leads to it: the link stays as it is.
fn meant(folder: &Path) -> Result<PathBuf, Error> {
    match fs::canonicalize(folder) {
        Ok(folder) => Ok(folder),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.is_symlink() => {
            Ok(folder.to_owned())
        }
        Err(source) => Err(unreadable(folder, source)),
    }
}

/// Where it is written: a fixed name, so that the next run finds what a killed one left.
fn part(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!(".{name}.mosb-part"))
}

fn make(part: &Path, files: &[File]) -> io::Result<()> {
    match fs::remove_dir_all(part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o755).create(part)?;
    for file in files {
        let path = part.join(&file.path);
        let parent = path.parent().unwrap_or(part);
        if !parent.exists() {
            builder.create(parent)?;
        }
        one(&path, &file.bytes, if file.is_private { 0o600 } else { 0o644 })?;
    }
    let list: String = files.iter().map(|file| format!("{}\n", file.path)).collect();
    one(&part.join(MARK), list.as_bytes(), 0o644)
}

fn one(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The new one replaces the old one, if there is one, which is then removed.
fn put(part: &Path, folder: &Path) -> io::Result<()> {
    match renameat_with(CWD, part, CWD, folder, RenameFlags::EXCHANGE) {
        Ok(()) => fs::remove_dir_all(part),
        Err(Errno::NOENT) => Ok(renameat(CWD, part, CWD, folder)?),
        // Some file systems can't exchange.
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::remove_dir_all(folder)?;
            Ok(renameat(CWD, part, CWD, folder)?)
        }
        Err(error) => Err(error.into()),
    }
}

/// All files below a folder, by their path in it; an empty folder counts for nothing.
fn below(folder: &Path, name: &str, found: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(name))? {
        let entry = entry?;
        let part = entry.file_name().to_string_lossy().into_owned();
        let path = if name.is_empty() { part } else { format!("{name}/{part}") };
        if entry.file_type()?.is_dir() {
            below(folder, &path, found)?
        } else {
            found.insert(path);
        }
    }
    Ok(())
}

fn unreadable(folder: &Path, source: io::Error) -> Error {
    Error::Read { file: folder.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn file(path: &str, text: &str, is_private: bool) -> File {
        File { path: path.to_owned(), bytes: text.into(), is_private }
    }

    #[test]
    fn the_second_run_leaves_what_it_made_and_nothing_of_the_first() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("out");
        // What a killed run left.
        fs::create_dir_all(part(&folder).join("x")).unwrap();
        write(&folder, &[file("a.yaml", "1", false), file("ignition/w.ign", "2", true)]).unwrap();
        let mode =
            |path: &str| fs::metadata(folder.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("ignition/w.ign"), 0o600);
        write(&folder, &[file("b.yaml", "3", false)]).unwrap();
        let mut found = BTreeSet::new();
        below(&folder, "", &mut found).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [MARK, "b.yaml"]);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_a_link() {
        let home = tempfile::tempdir().unwrap();
        let (folder, link) = (home.path().join("out"), home.path().join("link"));
        std::os::unix::fs::symlink("out", &link).unwrap();
        let nowhere = write(&link, &[file("a.yaml", "1", false)]).unwrap_err();
        assert!(matches!(nowhere, Error::Read { .. }), "{nowhere}");
        fs::create_dir(&folder).unwrap();
        for text in ["1", "2"] {
            write(&link, &[file("a.yaml", text, false)]).unwrap();
            assert_eq!(fs::read_to_string(folder.join("a.yaml")).unwrap(), text);
        }
        assert!(link.is_symlink() && !folder.is_symlink());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
    }

    #[test]
    fn foreign_files_are_not_deleted() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("out");
        write(&folder, &[file("a.yaml", "1", false)]).unwrap();
        fs::write(folder.join("mine"), "").unwrap();
        let refused = write(&folder, &[file("b.yaml", "3", false)]).unwrap_err();
        assert!(matches!(refused, Error::ForeignFolder { file, .. } if file == "mine"));
        assert!(folder.join("a.yaml").exists());
        // An empty folder may be used.
        fs::create_dir(home.path().join("empty")).unwrap();
        write(&home.path().join("empty"), &[file("b.yaml", "3", false)]).unwrap();
    }
}
