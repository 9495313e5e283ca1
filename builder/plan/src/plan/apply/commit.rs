//! The config's own object in the image, and the files that a container commit removes.

use bytes::Bytes;

use mosb_image::overlay::Overlay;
use mosb_image::path::TreePath;
use mosb_image::tree::Kind;
use mosb_types::Finding;

use super::paths::Paths;
use super::{Applier, ApplyError};
use crate::plan::kernel_arguments::{FILE, RPM_OSTREE, kargs_file};

/// The file from which the machine-config-daemon reads the machine's current config.
pub const CURRENT_CONFIG: &str = "/etc/machine-config-daemon/currentconfig";

/// What `ostree container commit` empties (ostree-ext, `commit`).
const EMPTIED: [&str; 4] = ["/run", "/tmp", "/var/tmp", "/var/cache"];

impl Applier<'_> {
    /// Writes [`CURRENT_CONFIG`], 0600.
    pub(super) fn current_config(&mut self, content: Bytes) -> Result<(), ApplyError> {
        let path: TreePath = CURRENT_CONFIG.parse().expect("a clean path");
        let at = self.place(&path).map_err(|stop| stop.of(CURRENT_CONFIG))?;
        self.write(CURRENT_CONFIG, at, content, 0o600)
    }

    /// Removes the entries of directories that a commit empties, also those of the base, and
    /// returns their names.
    pub(super) fn commit(&mut self) -> Vec<Finding> {
        let mut left_out = Vec::new();
        let mut leaves_out = |path: &TreePath, of_the_base: &str, emptied: &str| {
            let message = format!(
                "{path}{of_the_base} is not in the image: {emptied} is emptied when the image is committed"
            );
            left_out.push(Finding::new("emptied-by-commit", message).path(path.to_string()));
        };
        let paths = Paths::default();
        for emptied in EMPTIED {
            let Ok(Some(directory)) = paths.real(&self.tree, emptied) else {
                continue;
            };
            if self.tree.get(&directory).is_none_or(|found| found.kind != Kind::Directory) {
                continue;
            }
            let ours: Vec<TreePath> = self
                .tree
                .puts()
                .map(|(path, _)| path.clone())
                .filter(|path| directory.holds(path) && *path != directory)
                .collect();
            for path in &ours {
                leaves_out(path, "", emptied);
            }
            for path in ours {
                self.tree.withdraw(&path);
            }
            for name in self.tree.children(&directory) {
                let path = directory.join(&name).expect("the name of a child");
                leaves_out(&path, " of the base", emptied);
                self.tree.remove(&path);
            }
        }
        left_out
    }
}

impl Applier<'_> {
    /// Adds the file of these arguments, and returns whether it did: not if the base has rpm-ostree.
    /// Without arguments the file is there too, because bootc keeps those of the image before if the
    /// new one has no such file.
    pub(super) fn kernel_arguments(&mut self, arguments: &[String]) -> Result<bool, ApplyError> {
        if has_rpm_ostree(&self.tree)? {
            return Ok(false);
        }
        self.add_file(FILE, kargs_file(arguments).into(), 0o644)?;
        Ok(true)
    }
}

/// Whether machines of this tree set their kernel arguments by rpm-ostree.
pub(in crate::plan) fn has_rpm_ostree(tree: &Overlay<'_>) -> Result<bool, ApplyError> {
    let program: TreePath = RPM_OSTREE.parse().expect("a clean path");
    let program = Paths::default().exact(tree, &program).map_err(|stop| stop.of(RPM_OSTREE))?;
    Ok(program.is_some_and(|program| tree.get(&program).is_some()))
}
