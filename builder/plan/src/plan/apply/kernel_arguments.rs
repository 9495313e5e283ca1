//! The kernel arguments of the config, in an image that only bootc brings to machines. What a
//! section of the Containerfile does in a build of buildah.

use super::paths::Paths;
use super::{Applier, ApplyError};
use crate::plan::kernel_arguments::{FILE, RPM_OSTREE, kargs_file};
use mosb_image::overlay::Overlay;
use mosb_image::path::TreePath;

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
