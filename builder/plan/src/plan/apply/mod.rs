//! Computes what the real tools would write onto the base, without running them
//! (`docs/direct-build.md`, What is in the image).
//!
//! Input: the base's tree and the checked config. Output: the [`Overlay`] with every change, and the
//! reasons why a tool must run. The order is Ignition's: directories, files and links from the
//! shallowest to the deepest, hard links, units; then the `[Install]` links of `systemctl preset`,
//! the config itself, and the removals of a container commit. It was verified with `ignition-apply
//! --ignore-unsupported` 2.26 with root `/` in a chroot of the base.

mod commit;
mod entries;
mod on_machine;
mod owners;
mod paths;
#[cfg(test)]
mod tests;
mod units;
mod var_files;

use bytes::Bytes;

use super::method::Reason;
pub use commit::CURRENT_CONFIG;
pub(super) use commit::has_rpm_ostree;
use mosb_ignition::{Config, ContentError};
use mosb_image::overlay::{Meta, Node, Overlay};
use mosb_image::path::TreePath;
use mosb_image::tree::BaseTree;
use mosb_types::{Diagnostic, Finding, escape_control};
pub use on_machine::{WrittenEntry, WrittenEtc, written_to_etc};
pub(crate) use owners::number_in;
use paths::Paths;
pub(super) use paths::real_paths;
pub use units::instance_of;
pub(super) use units::preset_units;

/// What an image has beside what the config says.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Additions<'a> {
    /// Of these paths, those that lie below `/var` are brought to machines, and what an earlier image
    /// brought is removed. With nothing here, the image does neither.
    pub var_paths: Option<&'a [String]>,
    /// The kernel arguments, for an image without rpm-ostree; nothing for an image that brings none and
    /// removes none.
    pub kernel_arguments: Option<&'a [String]>,
    /// What brings a machine back by itself.
    pub boot_check: bool,
}

/// The changed tree, and the decisions about it.
#[derive(Debug)]
pub(super) struct Applied<'a> {
    /// The base with every change on it.
    pub tree: Overlay<'a>,
    /// Decisions that need the real tools. If there are any, the tree is incomplete.
    pub reasons: Vec<Reason>,
    /// Entries that are not in the image, and why.
    pub left_out: Vec<Finding>,
    /// The paths below `/var` that the image brings to machines.
    pub var_files: Vec<String>,
    /// Whether the image has a file with the kernel arguments.
    pub has_kernel_arguments: bool,
    /// Notes about the decisions, for the user.
    pub warnings: Vec<Finding>,
}

/// Failures that the real Ignition has too. A path of a config may contain any character, so
/// messages escape control characters.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[diagnostic(code = "conflicts-with-base", class = InvalidInput)]
#[non_exhaustive]
pub enum ApplyError {
    /// The base has a node there already.
    #[error(
        "{}: {found} is there in the base already; set overwrite: true to replace it, or take it out of the config",
        escape_control(path)
    )]
    InTheWay {
        path: String,
        /// The type of the existing node.
        found: &'static str,
    },
    /// A parent is not a directory.
    #[error("{}: {} is not a directory in the base, so nothing can be written below it; choose another path", escape_control(path), escape_control(&parent.to_string()))]
    NotADirectory { path: String, parent: TreePath },
    /// A parent is a link that leads nowhere.
    #[error("{}: {} is a link in the base that leads nowhere, so no directory can be made there; name the real path", escape_control(path), escape_control(&link.to_string()))]
    DanglingLink { path: String, link: TreePath },
    /// Links lead in a circle.
    #[error("{}: the base's links lead in a circle; choose another path", escape_control(path))]
    LinkLoop { path: String },
    /// Two entries have the same real path because of the base's links.
    #[error(
        "{} and {} are both {} through the base's links; keep one of them",
        escape_control(first),
        escape_control(second),
        escape_control(real)
    )]
    SamePath {
        first: String,
        second: String,
        /// The real path.
        real: String,
    },
    /// An owner by name that the base doesn't have.
    #[error(
        "{}: the base has no {what} {name:?}; give the number, or a name from its /etc/{file}",
        escape_control(path)
    )]
    UnknownOwner {
        path: String,
        /// `user` or `group`.
        what: &'static str,
        /// `passwd` or `group`.
        file: &'static str,
        name: String,
    },
    /// A hard link to an invalid target.
    #[error("{}: a hard link to {}, which {problem}", escape_control(path), escape_control(target))]
    HardLink {
        path: String,
        /// The target as it is written.
        target: String,
        problem: &'static str,
    },
    /// An append to a node that is not a file.
    #[error(
        "{}: {found} is there in the base; something can only be appended to a file",
        escape_control(path)
    )]
    AppendTo {
        path: String,
        /// The type of the existing node.
        found: &'static str,
    },
    /// A name that removes another path in a layer.
    #[error("{}: a name that begins with .wh. takes another path away in a layer of an image; give the unit or alias another name", escape_control(&path.to_string()))]
    Whiteout {
        /// The path in the image.
        path: TreePath,
    },
    /// The content can't be decoded or verified.
    #[error("{}: {source}", escape_control(path))]
    #[diagnostic(transparent)]
    Content { path: String, source: ContentError },
}

/// Most unpacked bytes of one file of a config.
const FILE_LIMIT: u64 = 64 * 1024 * 1024;
/// Most unpacked bytes of all files of a config together.
const TOTAL_LIMIT: u64 = 256 * 1024 * 1024;

/// Applies a config and the config's own object to a base.
///
/// `current_config` is the content of `/etc/machine-config-daemon/currentconfig`; with `commits`, a
/// container commit follows.
pub(super) fn apply<'a>(
    base: &'a BaseTree,
    config: Option<&Config>,
    current_config: Bytes,
    additions: Additions<'_>,
    commits: bool,
) -> Result<Applied<'a>, ApplyError> {
    let mut applier = Applier {
        tree: Overlay::new(base),
        paths: Paths::default(),
        reasons: Vec::new(),
        warnings: Vec::new(),
        left: TOTAL_LIMIT,
    };
    if let Some(config) = config {
        applier.entries(&config.storage)?;
        applier.units(&config.systemd)?;
        applier.presets(&config.systemd);
    }
    applier.current_config(current_config)?;
    let var_files = match additions.var_paths {
        Some(paths) => applier.var_files(paths)?,
        None => Vec::new(),
    };
    let has_kernel_arguments = match additions.kernel_arguments {
        Some(arguments) => applier.kernel_arguments(arguments)?,
        None => false,
    };
    if additions.boot_check {
        applier.boot_check()?;
    }
    applier.no_whiteouts()?;
    let left_out = if commits { applier.commit() } else { Vec::new() };
    let Applier { tree, reasons, warnings, .. } = applier;
    Ok(Applied { tree, reasons, left_out, var_files, has_kernel_arguments, warnings })
}

struct Applier<'a> {
    tree: Overlay<'a>,
    paths: Paths,
    reasons: Vec<Reason>,
    warnings: Vec<Finding>,
    /// Bytes of content that are still allowed.
    left: u64,
}

impl Applier<'_> {
    /// Mode and owner of a node that root creates in a directory. If the directory has the set-gid
    /// bit, the node inherits its group and, if it is a directory itself, the bit.
    fn inherit_ownership(&self, parent: &TreePath, mode: u32, directory: bool) -> Meta {
        let inherits = self.tree.get(parent).filter(|found| found.meta.mode & 0o2000 != 0);
        match inherits {
            Some(parent) => Meta {
                mode: mode | if directory { 0o2000 } else { 0 },
                uid: 0,
                gid: parent.meta.gid,
            },
            None => Meta { mode, uid: 0, gid: 0 },
        }
    }

    /// Rejects names that a layer can't contain (OCI image spec, layer, whiteouts). Names in `[Install]`
    /// may be such names.
    fn no_whiteouts(&self) -> Result<(), ApplyError> {
        let mut puts = self.tree.puts().map(|(path, _)| path);
        match puts.find(|path| path.name().starts_with(".wh.")) {
            Some(path) => Err(ApplyError::Whiteout { path: path.clone() }),
            None => Ok(()),
        }
    }

    /// Replaces a file as a rename of a temporary file does: it removes the existing node, and fails
    /// for a directory.
    fn write(
        &mut self,
        path: &str,
        real: TreePath,
        content: Bytes,
        mode: u32,
    ) -> Result<(), ApplyError> {
        let parent = real.parent().unwrap_or_default();
        if let Some(found) = self.tree.get(&real)
            && found.kind == mosb_image::tree::Kind::Directory
        {
            return Err(ApplyError::InTheWay { path: path.to_owned(), found: "a directory" });
        }
        let meta = self.inherit_ownership(&parent, mode, false);
        self.tree.put(real, Node::File { meta, content });
        Ok(())
    }
}
