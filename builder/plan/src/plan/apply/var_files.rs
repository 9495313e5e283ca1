//! What an image brings to machines beside its tree: the copies of what the config has below `/var`,
//! with their list and the unit that writes them, which the program `collect` adds in a build of
//! buildah; and the boot check.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Applier, ApplyError};
use crate::plan::boot_check;
use crate::plan::method::Reason;
use crate::plan::var_files::{APPLY, FOLDER, UNIT, UNIT_FILE, UNITS, VarFile, VarFileKind};
use mosb_image::Digest;
use mosb_image::overlay::{Content, Node};
use mosb_image::path::TreePath;
use mosb_image::tree::Kind;

impl Applier<'_> {
    /// Adds what brings these paths of the config to machines, as far as they lie below `/var`, and
    /// removes there what an earlier image brought; returns the paths in the image.
    pub(super) fn var_files(&mut self, paths: &[String]) -> Result<Vec<String>, ApplyError> {
        let mut files: BTreeMap<TreePath, VarFile> = BTreeMap::new();
        let mut contents: BTreeMap<String, Bytes> = BTreeMap::new();
        for path in paths {
            if let Some((file, content)) = self.var_file(path)? {
                if let (VarFileKind::File(digest) | VarFileKind::Symlink(digest), Some(content)) =
                    (&file.kind, content)
                {
                    contents.insert(digest.hex(), content);
                }
                files.insert(file.path.clone(), file);
            }
        }
        self.make_directory(&format!("{FOLDER}/content"))?;
        for (name, content) in contents {
            self.add_file(&format!("{FOLDER}/content/{name}"), content, 0o600)?;
        }
        let list: String = files.values().map(|file| format!("{file}\n")).collect();
        self.add_file(&format!("{FOLDER}/list"), list.into(), 0o644)?;
        self.add_file(&format!("{FOLDER}/apply"), APPLY.into(), 0o755)?;
        self.add_file(&format!("{UNITS}/{UNIT}"), UNIT_FILE.into(), 0o644)?;
        self.start_unit(UNIT, "sysinit.target.wants")?;
        Ok(files.into_keys().map(|path| path.to_string()).collect())
    }

    /// Adds what brings a machine back to its earlier image by itself.
    pub(super) fn boot_check(&mut self) -> Result<(), ApplyError> {
        let program = format!("{}/{}", boot_check::FOLDER, boot_check::PROGRAM);
        self.add_file(&program, boot_check::PROGRAM_FILE.into(), 0o755)?;
        for unit in &boot_check::BOOT_UNITS {
            self.add_file(&format!("{UNITS}/{}", unit.name), unit.file.into(), 0o644)?;
            self.start_unit(unit.name, unit.started_by)?;
        }
        Ok(())
    }

    /// Adds the link in a target's folder that starts a unit.
    fn start_unit(&mut self, unit: &str, folder: &str) -> Result<(), ApplyError> {
        let real = self.place_of(&format!("{UNITS}/{folder}/{unit}"))?;
        let meta = self.inherit_ownership(&real.parent().unwrap_or_default(), 0o777, false);
        self.tree.put(real, Node::Symlink { meta, target: format!("../{unit}") });
        Ok(())
    }

    /// The line of a path of the config, and the bytes that go with it; nothing if the path is not
    /// below `/var`.
    fn var_file(&mut self, path: &str) -> Result<Option<(VarFile, Option<Bytes>)>, ApplyError> {
        let Ok(at) = path.parse::<TreePath>() else {
            return Ok(None);
        };
        let Some(real) = self.paths.exact(&self.tree, &at).map_err(|stop| stop.of(path))? else {
            return Ok(None);
        };
        let is_below_var = real.relative().starts_with("var/");
        let Some(found) = self.tree.get(&real).filter(|_| is_below_var) else {
            return Ok(None);
        };
        let (kind, content) = match (found.kind, found.target) {
            (Kind::Directory, _) => (VarFileKind::Directory, None),
            (Kind::Symlink, Some(target)) => {
                (VarFileKind::Symlink(Digest::of(target.as_bytes())), Some(target.into()))
            }
            (Kind::File, _) => match self.tree.content(&real) {
                Content::Known(content) => (VarFileKind::File(Digest::of(&content)), Some(content)),
                Content::NotRetained | Content::NoFile => {
                    self.reasons.push(Reason::KeepsBaseContent(path.to_owned()));
                    return Ok(None);
                }
            },
            (Kind::Symlink, None) | (Kind::Other, _) => return Ok(None),
        };
        Ok(Some((VarFile { kind, meta: found.meta, path: real }, content)))
    }

    pub(super) fn add_file(
        &mut self,
        path: &str,
        content: Bytes,
        mode: u32,
    ) -> Result<(), ApplyError> {
        let real = self.place_of(path)?;
        self.write(path, real, content, mode)
    }

    fn make_directory(&mut self, path: &str) -> Result<TreePath, ApplyError> {
        let at: TreePath = path.parse().expect("a clean path");
        self.mkdir_all(&at).map_err(|stop| stop.of(path))
    }

    fn place_of(&mut self, path: &str) -> Result<TreePath, ApplyError> {
        let at: TreePath = path.parse().expect("a clean path");
        self.place(&at).map_err(|stop| stop.of(path))
    }
}
