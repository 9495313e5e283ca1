//! The pull secret of the machine, which lies below `/var`: `mosb-var-files.service` brings it at a
//! boot, from the list and the copies in the image. This does the same for this one file, with the
//! same record, so that each of them knows what the other wrote.

use std::cmp::Reverse;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use mosb_image::Digest;
use mosb_plan::plan::VAR_FILES;
use mosb_plan::plan::live::PULL_SECRET;
use mosb_types::Secret;
use rustix::fs::{AtFlags, Gid, Mode, Uid, fchmod, fchown, fsync};

use crate::error::Error;
use crate::file_tree::{FileTree, entry_state, fingerprint};
use crate::host_root::{HostRoot, TEMPORARY, split};
use mosb_safe_fs::{copy_attributes, remove_entry, write_entry};

/// What was written below `/var`.
const RECORD: &str = "/var/lib/mosb/var-files";
/// The most bytes of a list, a record, or the secret.
const LIMIT: u64 = 4 * 1024 * 1024;

/// What becomes of the pull secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PullSecretPlan {
    /// What is done.
    pub step: PullSecretStep,
    /// Whether another boot of the booted image undoes it.
    pub only_in_boot: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PullSecretStep {
    Nothing,
    /// A person changed it, so it stays, as at a reboot.
    Keep,
    /// It becomes that of this line of the list, from this folder.
    Write {
        line: String,
        folder: String,
    },
    Remove,
    /// Only a reboot brings it.
    Reboot(&'static str),
}

/// Where the importer has what an image has below `/var`, for machines that are installed from it.
const FACTORY: &str = "usr/share/factory";

/// Whether the images may differ in this path, relative to their roots.
pub(super) fn may_differ(path: &str) -> bool {
    let (folder, _) = split(PULL_SECRET);
    let for_new_machines = path.strip_prefix(FACTORY);
    if for_new_machines.is_some_and(|path| [PULL_SECRET, folder].contains(&path)) {
        return true;
    }
    let below = path.strip_prefix(&VAR_FILES[1..]).and_then(|rest| rest.strip_prefix('/'));
    below.is_some_and(|below| below == "list" || below.starts_with("content/"))
}

/// What becomes of it for the image whose root is `wanted`, on a machine that booted another one.
pub(super) fn plan(root: &HostRoot, wanted: &str) -> Result<PullSecretPlan, Error> {
    let folder = format!("{wanted}{VAR_FILES}");
    let (booted, wanted) = (list(root, VAR_FILES)?, list(root, &folder)?);
    let (booted_line, booted_rest) = split_list(&booted);
    let (line, rest) = split_list(&wanted);
    let plan = |step| PullSecretPlan { step, only_in_boot: line != booted_line };
    if rest != booted_rest {
        return Ok(plan(PullSecretStep::Reboot("other files below /var differ")));
    }
    if line.is_none() && booted_line.is_none() && !is_recorded(root, PULL_SECRET)? {
        return Ok(plan(PullSecretStep::Nothing));
    }
    if line.is_some_and(|line| !line.starts_with("f ")) {
        return Ok(plan(PullSecretStep::Reboot("the pull secret is not a file")));
    }
    let (var, path) = (root.tree("/var")?, Path::new(&PULL_SECRET["/var/".len()..]));
    let state = entry_state(&var, path)?;
    let now = state.as_ref().map(|_| format!("{} {PULL_SECRET}", fingerprint(state.as_ref())));
    let is_ours = match &now {
        None => true,
        Some(now) => record(root)?.lines().any(|line| line == now),
    };
    Ok(plan(match (line, now) {
        (None, None) => PullSecretStep::Nothing,
        (Some(line), Some(now)) if line == now => PullSecretStep::Nothing,
        _ if !is_ours => PullSecretStep::Keep,
        (None, Some(_)) => PullSecretStep::Remove,
        (Some(line), _) => {
            if var.entry(path.parent().unwrap_or(path))?.is_none() {
                PullSecretStep::Reboot("the directory of the pull secret is missing")
            } else {
                PullSecretStep::Write { line: line.to_owned(), folder }
            }
        }
    }))
}

/// Does it. The record first: what it does not have is a person's.
pub(super) fn carry_out(root: &HostRoot, step: &PullSecretStep) -> Result<(), Error> {
    match step {
        PullSecretStep::Nothing | PullSecretStep::Keep | PullSecretStep::Reboot(_) => Ok(()),
        PullSecretStep::Write { line, folder } => {
            add_to_record(root, line)?;
            write(root, line, folder)
        }
        PullSecretStep::Remove => remove(root),
    }
}

fn list(root: &HostRoot, folder: &str) -> Result<String, Error> {
    Ok(root.text(&format!("{folder}/list"), LIMIT)?.unwrap_or_default())
}

fn record(root: &HostRoot) -> Result<String, Error> {
    Ok(root.text(RECORD, LIMIT)?.unwrap_or_default())
}

fn is_recorded(root: &HostRoot, path: &str) -> Result<bool, Error> {
    Ok(record(root)?.lines().any(|line| path_of(line) == path))
}

/// The line of the pull secret, and the others.
fn split_list(list: &str) -> (Option<&str>, Vec<&str>) {
    let (found, rest): (Vec<&str>, Vec<&str>) =
        list.lines().partition(|line| path_of(line) == PULL_SECRET);
    (found.first().copied(), rest)
}

/// The path of a line `TYPE MODE USER GROUP SHA256 PATH`.
fn path_of(line: &str) -> &str {
    line.splitn(6, ' ').nth(5).unwrap_or_default()
}

/// As `mosb-var-files.service` has it: sorted by path, the last one first.
fn add_to_record(root: &HostRoot, line: &str) -> Result<(), Error> {
    let record = record(root)?;
    let mut lines: Vec<&str> = record.lines().collect();
    if lines.contains(&line) {
        return Ok(());
    }
    lines.push(line);
    lines.sort_by_key(|line| Reverse((path_of(line), *line)));
    let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
    root.write(RECORD, text.as_bytes(), 0o600)
}

fn write(root: &HostRoot, line: &str, folder: &str) -> Result<(), Error> {
    let bad = || Error::File {
        path: format!("{folder}/list"),
        doing: "not readable",
        source: std::io::ErrorKind::InvalidData.into(),
    };
    let words: Vec<&str> = line.splitn(6, ' ').collect();
    let [_, mode, uid, gid, digest, _] = words[..] else { return Err(bad()) };
    let mode = u32::from_str_radix(mode, 8).map_err(|_| bad())?;
    let uid: u32 = uid.parse().map_err(|_| bad())?;
    let gid: u32 = gid.parse().map_err(|_| bad())?;
    let content = root.read(&format!("{folder}/content/{digest}"), LIMIT)?.ok_or_else(bad)?;
    let content = Secret::new(content);
    if Digest::of(content.expose()).hex() != digest {
        return Err(bad());
    }
    let (var, path) = (root.tree("/var")?, Path::new(&PULL_SECRET["/var/".len()..]));
    let old = match var.entry(path)? {
        Some(_) => Some(var.open(path)?),
        None => None,
    };
    let fill = |file: &mut File| {
        fchown(&*file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        fchmod(&*file, Mode::from_raw_mode(mode))?;
        if let Some(old) = &old {
            copy_attributes(old, &*file)?;
        }
        file.write_all(content.expose())
    };
    let (name, temporary) = names();
    let written = folder_of(&var, path)
        .and_then(|folder| write_entry(&folder, (name, &temporary), Mode::RUSR | Mode::WUSR, fill));
    written.map_err(failed)
}

fn remove(root: &HostRoot) -> Result<(), Error> {
    let (var, path) = (root.tree("/var")?, Path::new(&PULL_SECRET["/var/".len()..]));
    let (name, temporary) = names();
    let removed = folder_of(&var, path).and_then(|folder| {
        for name in [name, &*temporary] {
            remove_entry(&folder, name, AtFlags::empty())?;
        }
        Ok(fsync(&folder)?)
    });
    removed.map_err(failed)
}

fn names() -> (&'static str, String) {
    let (_, name) = split(PULL_SECRET);
    (name, format!(".{name}{TEMPORARY}"))
}

fn folder_of(var: &FileTree, path: &Path) -> std::io::Result<std::os::fd::OwnedFd> {
    Ok(var.open_folder(path.parent().unwrap_or(path))?)
}

fn failed(source: std::io::Error) -> Error {
    Error::File { path: PULL_SECRET.to_owned(), doing: "not writable", source }
}
