//! Finding the file of a unit, through links and aliases, and reading it.

use bytes::Bytes;

use mosb_image::TreePath;
use mosb_image::overlay::Overlay;
use mosb_image::tree::Kind;

use super::chroot::{self, FinalComponent, PathResolution, resolve_path};
use super::dialect::{CONFIG, Dialect, RUNTIME_CONFIG, TRANSIENT, path};
use super::error::{EmulationError, Failure};
use super::install::{Install, Reader};
use super::name::{NameKind, UnitName};

/// As in systemd; far more than a real chain of aliases.
const MAX_ALIASES: usize = 64;

/// A unit as `systemctl` finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    /// The name, after aliases.
    pub(super) name: UnitName,
    /// The file that its links point to; for a link that leads out of the unit directories the file
    /// it leads to.
    pub(super) path: TreePath,
    pub(super) masked: bool,
    /// Its text; empty if it wasn't read.
    pub(super) install: Install,
}

impl Unit {
    /// Whether it was made at run time, so that links to it make no sense.
    pub(super) fn is_transient(&self) -> bool {
        let parent = self.path.parent();
        TRANSIENT.iter().any(|dir| parent == Some(path(dir)))
    }
}

/// How a unit is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    /// Whether `[Install]` is read.
    pub(super) load: bool,
    /// Whether links in the configuration directories are followed, which hold the administrator's
    /// choices.
    pub(super) follow_config: bool,
}

enum File {
    Regular {
        path: TreePath,
        bytes: Bytes,
    },
    Masked(TreePath),
    /// A link out of the unit directories, to the unit itself.
    Linked {
        link: TreePath,
        target: String,
    },
    /// A link to another name.
    Alias {
        link: TreePath,
        target: UnitName,
        leads_to: TreePath,
    },
}

/// Looks for units in one tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search<'a> {
    pub(super) tree: &'a Overlay<'a>,
    pub(super) dialect: &'a Dialect,
}

impl Search<'_> {
    /// The unit of this name, through aliases.
    pub(super) fn unit(&self, name: &UnitName, mode: Mode) -> Result<Unit, EmulationError> {
        let mut name = name.clone();
        let mut file = self.file(&name)?;
        for _ in 0..MAX_ALIASES {
            match file {
                File::Masked(path) => {
                    return Ok(Unit { name, path, masked: true, install: Install::default() });
                }
                File::Regular { path, bytes } => {
                    let install = if mode.load {
                        self.install(&name, &path, &bytes)?
                    } else {
                        Install::default()
                    };
                    return Ok(Unit { name, path, masked: false, install });
                }
                File::Linked { link, .. } | File::Alias { link, .. }
                    if !mode.follow_config && is_config(&link) =>
                {
                    return Err(Failure::Loop.into());
                }
                File::Linked { link, target } => file = self.linked(link, &target)?,
                File::Alias { link, target, leads_to } => {
                    let next = match (name.kind(), target.kind()) {
                        (NameKind::Instance, NameKind::Template) => target
                            .with_instance(name.instance())
                            .map_err(|_| Failure::OtherKind(link))?,
                        _ => target.clone(),
                    };
                    file = match leads_to.parent() {
                        // An instance that is a link to its own template: the link's target is the
                        // file.
                        Some(directory) if next == name => self.candidate(&directory, &target),
                        _ => self.file(&next),
                    }
                    .map_err(|stop| match stop {
                        EmulationError::Failed(Failure::NotFound) => Failure::Dangling.into(),
                        stop => stop,
                    })?;
                    name = next;
                }
            }
        }
        Err(Failure::Loop.into())
    }

    /// The first file of this name, or of its template.
    fn file(&self, name: &UnitName) -> Result<File, EmulationError> {
        for name in [Some(name.clone()), name.template()].into_iter().flatten() {
            for directory in self.dialect.unit_directories() {
                match self.candidate(&directory, &name) {
                    Err(EmulationError::Failed(Failure::NotFound)) => {}
                    decided => return decided,
                }
            }
        }
        Err(Failure::NotFound.into())
    }

    fn candidate(&self, directory: &TreePath, name: &UnitName) -> Result<File, EmulationError> {
        let real = chroot::directory(self.tree, directory)?.ok_or(Failure::NotFound)?;
        let real = real.join(name.as_str()).expect("a unit name is one component");
        let named = directory.join(name.as_str()).expect("a unit name is one component");
        let found = self.tree.get(&real).ok_or(Failure::NotFound)?;
        match (found.kind, found.target) {
            (Kind::Symlink, Some(target)) => self.link(named, target, name),
            (Kind::Symlink | Kind::Other, _) => Err(super::Unsupported::Path(real).into()),
            (Kind::Directory, _) => Err(Failure::Unreadable(named).into()),
            (Kind::File, _) => self.regular(named, &real),
        }
    }

    fn regular(&self, named: TreePath, real: &TreePath) -> Result<File, EmulationError> {
        match chroot::read(self.tree, real)? {
            Some(bytes) if bytes.is_empty() => Ok(File::Masked(named)),
            Some(bytes) => Ok(File::Regular { path: named, bytes }),
            None => Err(Failure::Unreadable(named).into()),
        }
    }

    /// A link into a unit directory is an alias; one out of them is the unit itself, or its mask.
    fn link(
        &self,
        link: TreePath,
        target: String,
        name: &UnitName,
    ) -> Result<File, EmulationError> {
        let absolute = chroot::absolute(&link, &target);
        let leads_to = match resolve_path(self.tree, &absolute, FinalComponent::NoFollow)? {
            PathResolution::Found(path) | PathResolution::Missing(path) => path,
            PathResolution::Unreachable => return Err(Failure::NotFound.into()),
            PathResolution::Loop => return Err(Failure::Loop.into()),
        };
        if leads_to == path("/dev/null") {
            return Ok(File::Masked(link));
        }
        let directories = self.dialect.unit_directories();
        if !directories.iter().any(|directory| directory.holds(&leads_to)) {
            return Ok(File::Linked { link, target: absolute });
        }
        let target: UnitName =
            leads_to.name().parse().map_err(|_| Failure::OtherKind(link.clone()))?;
        match target {
            target if target == *name => Err(Failure::Loop.into()),
            target if !name.may_lead_to(&target) => Err(Failure::OtherKind(link).into()),
            target => Ok(File::Alias { link, target, leads_to }),
        }
    }

    /// The file outside the unit directories that a link leads to.
    fn linked(&self, link: TreePath, target: &str) -> Result<File, EmulationError> {
        match resolve_path(self.tree, target, FinalComponent::Follow)? {
            PathResolution::Found(real) | PathResolution::Missing(real)
                if real == path("/dev/null") =>
            {
                Ok(File::Masked(link))
            }
            PathResolution::Found(real) => self.regular(real.clone(), &real),
            PathResolution::Missing(_) | PathResolution::Unreachable => {
                Err(Failure::NotFound.into())
            }
            PathResolution::Loop => Err(Failure::Loop.into()),
        }
    }

    fn install(
        &self,
        name: &UnitName,
        file: &TreePath,
        bytes: &[u8],
    ) -> Result<Install, EmulationError> {
        let mut reader = Reader { dialect: self.dialect, unit: name, install: Install::default() };
        reader.file(file, bytes)?;
        for (path, bytes) in self.dropins(name)? {
            reader.file(&path, &bytes)?;
        }
        Ok(reader.install)
    }

    /// The drop-ins of a unit and its template, by file name; of equal names the instance's, then
    /// the more important directory's.
    fn dropins(&self, name: &UnitName) -> Result<Vec<(TreePath, Bytes)>, EmulationError> {
        let mut directories = Vec::new();
        for name in [Some(name.clone()), name.template()].into_iter().flatten() {
            for directory in self.dialect.unit_directories() {
                // Longer than a path component may be, so not there.
                directories.extend(directory.join(&format!("{name}.d")));
            }
        }
        let mut files = Vec::new();
        for file in conf_files(self.tree, &directories, ".conf")? {
            let real = match resolve_path(self.tree, &file.to_string(), FinalComponent::Follow)? {
                PathResolution::Found(real) => real,
                PathResolution::Missing(real) if real == path("/dev/null") => continue,
                PathResolution::Missing(_) | PathResolution::Unreachable => {
                    return Err(Failure::NotFound.into());
                }
                PathResolution::Loop => return Err(Failure::Loop.into()),
            };
            let bytes = chroot::read(self.tree, &real)?.ok_or(Failure::Unreadable(file.clone()))?;
            files.push((file, bytes));
        }
        Ok(files)
    }
}

/// The files with this ending in several directories, by name; of equal names the first
/// directory's.
pub(super) fn conf_files(
    tree: &Overlay<'_>,
    directories: &[TreePath],
    ending: &str,
) -> Result<Vec<TreePath>, super::Unsupported> {
    let mut files: Vec<TreePath> = Vec::new();
    for directory in directories {
        for (file, _) in chroot::list(tree, directory)? {
            let name = file.name();
            let counts = name.ends_with(ending) && !name.starts_with('.');
            if counts && files.iter().all(|other| other.name() != name) {
                files.push(file);
            }
        }
    }
    files.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(files)
}

fn is_config(link: &TreePath) -> bool {
    let parent = link.parent();
    [CONFIG, RUNTIME_CONFIG].iter().any(|directory| parent == Some(path(directory)))
}
