//! `storage.directories`, `storage.files` and `storage.links`, in Ignition's order and with its
//! rules.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use super::paths::PathError;
use super::{Applier, ApplyError, FILE_LIMIT};
use crate::plan::method::Reason;
use mosb_ignition::{Directory, File, Link, Owner, Resource, Storage};
use mosb_image::overlay::{Content, Found, Meta, Node};
use mosb_image::path::TreePath;
use mosb_image::tree::Kind;

pub(super) enum Entry<'c> {
    Directory(&'c Directory),
    File(&'c File),
    Link(&'c Link),
}

impl Entry<'_> {
    pub(super) fn path(&self) -> &str {
        match self {
            Self::Directory(d) => &d.path,
            Self::File(f) => &f.path,
            Self::Link(l) => &l.path,
        }
    }

    fn overwrite(&self) -> bool {
        let overwrite = match self {
            Self::Directory(d) => d.overwrite,
            Self::File(f) => f.overwrite,
            Self::Link(l) => l.overwrite,
        };
        overwrite == Some(true)
    }

    fn is_hard_link(&self) -> bool {
        matches!(self, Self::Link(link) if link.hard)
    }

    /// From the shallowest to the deepest; hard links come last, so that they may lead to something
    /// deeper.
    pub(super) fn order(&self, at: &TreePath) -> (bool, usize) {
        let is_hard = self.is_hard_link();
        (is_hard, if is_hard { 0 } else { at.components().count() })
    }
}

/// What a kind is called in a message.
pub(super) fn called(kind: Kind) -> &'static str {
    match kind {
        Kind::Directory => "a directory",
        Kind::File => "a file",
        Kind::Symlink => "a symbolic link",
        Kind::Other => "a device or pipe",
    }
}

impl Applier<'_> {
    /// Makes all entries of a config. Where each one lands is settled before the first is made.
    pub(super) fn entries(&mut self, storage: &Storage) -> Result<(), ApplyError> {
        let directories = storage.directories.iter().map(Entry::Directory);
        let files = storage.files.iter().map(Entry::File);
        let links = storage.links.iter().map(Entry::Link);
        let mut landed: BTreeMap<TreePath, String> = BTreeMap::new();
        let mut entries = Vec::new();
        for entry in directories.chain(files).chain(links) {
            let at =
                self.paths.join(&self.tree, entry.path()).map_err(|stop| stop.of(entry.path()))?;
            if let Some(first) = landed.insert(at.clone(), entry.path().to_owned()) {
                let second = entry.path().to_owned();
                return Err(ApplyError::SamePath { first, second, real: at.to_string() });
            }
            entries.push((at, entry));
        }
        entries.sort_by_key(|(at, entry)| entry.order(at));
        for (at, entry) in entries {
            self.entry(&at, &entry)?;
        }
        Ok(())
    }

    pub(super) fn entry(&mut self, at: &TreePath, entry: &Entry<'_>) -> Result<(), ApplyError> {
        let stop = |stop: PathError| stop.of(entry.path());
        if entry.overwrite()
            && let Some(exact) = self.paths.exact(&self.tree, at).map_err(stop)?
            && self.tree.get(&exact).is_some()
        {
            self.tree.remove(&exact);
        }
        match entry {
            Entry::Directory(directory) => self.directory(at, directory),
            Entry::File(file) => self.file(at, file),
            Entry::Link(link) if link.hard => self.hard_link(at, link),
            Entry::Link(link) => self.symlink(at, link),
        }
    }

    fn there(&self, path: &str, at: &TreePath) -> Result<Option<(TreePath, Found)>, ApplyError> {
        let exact = self.paths.exact(&self.tree, at).map_err(|stop| stop.of(path))?;
        Ok(exact.and_then(|exact| Some((exact.clone(), self.tree.get(&exact)?))))
    }

    fn directory(&mut self, at: &TreePath, directory: &Directory) -> Result<(), ApplyError> {
        let path = &directory.path;
        let (real, was) = match self.there(path, at)? {
            Some((exact, found)) if found.kind == Kind::Directory => (exact, found.meta),
            Some((_, found)) => {
                return Err(ApplyError::InTheWay { path: path.clone(), found: called(found.kind) });
            }
            None => {
                let real = self.mkdir_all(at).map_err(|stop| stop.of(path))?;
                let meta = self.tree.get(&real).map(|found| found.meta);
                (real, meta.expect("it was just made"))
            }
        };
        let (uid, gid) =
            self.owners(path, &directory.user, &directory.group, (was.uid, was.gid))?;
        let meta = Meta { mode: directory.mode.unwrap_or(was.mode), uid, gid };
        if self.tree.get(&real).is_none_or(|found| found.meta != meta) {
            self.tree.put(real, Node::Directory { meta });
        }
        Ok(())
    }

    fn file(&mut self, at: &TreePath, file: &File) -> Result<(), ApplyError> {
        let path = &file.path;
        let source = file.contents.as_ref().filter(|contents| contents.source.is_some());
        match (self.there(path, at)?, source) {
            (Some((_, found)), _) if found.kind != Kind::File => {
                Err(ApplyError::InTheWay { path: path.clone(), found: called(found.kind) })
            }
            (Some(_), Some(_)) => {
                Err(ApplyError::InTheWay { path: path.clone(), found: called(Kind::File) })
            }
            (Some((exact, found)), None) => self.change_file(&exact, &found, file),
            (None, source) => {
                let real = self.place(at).map_err(|stop| stop.of(path))?;
                let mut content = BytesMut::new();
                for part in source.into_iter().chain(&file.append) {
                    content.extend_from_slice(&self.bytes(path, part)?);
                }
                let inherit_ownership =
                    self.inherit_ownership(&real.parent().unwrap_or_default(), 0o644, false);
                self.put_file(real, file, inherit_ownership, content.freeze())
            }
        }
    }

    /// A file that is there and stays: parts are appended, mode and owner change.
    fn change_file(
        &mut self,
        exact: &TreePath,
        found: &Found,
        file: &File,
    ) -> Result<(), ApplyError> {
        let (uid, gid) =
            self.owners(&file.path, &file.user, &file.group, (found.meta.uid, found.meta.gid))?;
        // Even the same owner set again takes away the bits that give somebody else's rights
        // (chown(2)).
        let stripped = if found.meta.mode & 0o010 != 0 { 0o6000 } else { 0o4000 };
        let meta = Meta { mode: file.mode.unwrap_or(found.meta.mode & !stripped), uid, gid };
        if file.append.is_empty() && meta == found.meta {
            return Ok(());
        }
        match self.tree.content(exact) {
            Content::Known(bytes) => {
                let mut content = BytesMut::from(bytes.as_ref());
                for part in &file.append {
                    content.extend_from_slice(&self.bytes(&file.path, part)?);
                }
                self.put_file(exact.clone(), file, found.meta, content.freeze())
            }
            Content::NotRetained | Content::NoFile => {
                let path = file.path.clone();
                self.reasons.push(if file.append.is_empty() {
                    Reason::KeepsBaseContent(path)
                } else {
                    Reason::AppendToBase(path)
                });
                Ok(())
            }
        }
    }

    fn put_file(
        &mut self,
        real: TreePath,
        file: &File,
        was: Meta,
        content: Bytes,
    ) -> Result<(), ApplyError> {
        let (uid, gid) = self.owners(&file.path, &file.user, &file.group, (was.uid, was.gid))?;
        let stripped = if was.mode & 0o010 != 0 { 0o6000 } else { 0o4000 };
        let meta = Meta { mode: file.mode.unwrap_or(was.mode & !stripped), uid, gid };
        self.tree.put(real, Node::File { meta, content });
        Ok(())
    }

    fn bytes(&mut self, path: &str, part: &Resource) -> Result<Bytes, ApplyError> {
        let bytes = part
            .bytes(FILE_LIMIT.min(self.left))
            .map_err(|source| ApplyError::Content { path: path.to_owned(), source })?;
        self.left -= bytes.len() as u64;
        Ok(bytes.into())
    }

    fn symlink(&mut self, at: &TreePath, link: &Link) -> Result<(), ApplyError> {
        let path = &link.path;
        if let Some((_, found)) = self.there(path, at)? {
            let same = found
                .target
                .as_deref()
                .is_some_and(|target| clean_text(target) == clean_text(&link.target));
            return match found.kind {
                Kind::Symlink if same => Ok(()),
                kind => Err(ApplyError::InTheWay { path: path.clone(), found: called(kind) }),
            };
        }
        let real = self.place(at).map_err(|stop| stop.of(path))?;
        // Owners that are not set are those of the link's target, if it exists at this moment.
        let parent = real.parent().unwrap_or_default();
        let leads = if link.target.starts_with('/') {
            link.target.clone()
        } else {
            format!("{parent}/{}", link.target)
        };
        let target = self
            .paths
            .real(&self.tree, &leads)
            .ok()
            .flatten()
            .and_then(|target| self.tree.get(&target));
        let there = target.map_or((0, 0), |found| (found.meta.uid, found.meta.gid));
        let (uid, gid) = self.owners(path, &Owner::clone(&link.user), &link.group, there)?;
        let meta = Meta { mode: 0o777, uid, gid };
        self.tree.put(real, Node::Symlink { meta, target: link.target.clone() });
        Ok(())
    }

    fn hard_link(&mut self, at: &TreePath, link: &Link) -> Result<(), ApplyError> {
        let path = &link.path;
        let wrong = |problem| ApplyError::HardLink {
            path: path.clone(),
            target: link.target.clone(),
            problem,
        };
        let target = self.paths.join(&self.tree, &link.target).map_err(|stop| stop.of(path))?;
        let target = self.paths.exact(&self.tree, &target).map_err(|stop| stop.of(path))?;
        let target = target.and_then(|target| Some((target.clone(), self.tree.get(&target)?)));
        if let Some((here, _)) = self.there(path, at)? {
            let (target, _) = target.ok_or_else(|| wrong("does not exist"))?;
            if here == target {
                return Ok(());
            }
            // Whether two names of the base are one file isn't known here; if it isn't, Ignition
            // refuses.
            self.reasons.push(Reason::HardLinkToBase(path.clone()));
            return Ok(());
        }
        let real = self.place(at).map_err(|stop| stop.of(path))?;
        let (target, found) = target.ok_or_else(|| wrong("does not exist"))?;
        match (found.kind, found.ours, found.target) {
            (Kind::Directory, ..) => return Err(wrong("is a directory")),
            (Kind::File, true, _) => self.tree.put(real, Node::Hardlink { to: target }),
            (Kind::File, false, _) => match self.tree.content(&target) {
                // A layer can only have hard links to its own files, so it repeats the base's.
                Content::Known(content) => {
                    self.tree.put(target.clone(), Node::File { meta: found.meta, content });
                    self.tree.put(real, Node::Hardlink { to: target });
                }
                Content::NotRetained | Content::NoFile => {
                    self.reasons.push(Reason::HardLinkToBase(path.clone()));
                }
            },
            (Kind::Symlink, _, Some(target)) => {
                let meta = Meta { mode: 0o777, ..found.meta };
                self.tree.put(real, Node::Symlink { meta, target });
            }
            (Kind::Symlink | Kind::Other, ..) => {
                self.reasons.push(Reason::HardLinkToBase(path.clone()));
            }
        }
        Ok(())
    }
}

/// A link's target without `.`, `..` and empty components, to compare two spellings
/// of one target.
fn clean_text(target: &str) -> String {
    let mut components: Vec<&str> = Vec::new();
    let rooted = target.starts_with('/');
    for component in target.split('/').filter(|c| !matches!(*c, "" | ".")) {
        match (component, components.last()) {
            ("..", Some(&last)) if last != ".." => drop(components.pop()),
            ("..", None) if rooted => {}
            (name, _) => components.push(name),
        }
    }
    format!("{}{}", if rooted { "/" } else { "" }, components.join("/"))
}
