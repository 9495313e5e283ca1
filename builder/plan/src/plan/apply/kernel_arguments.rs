//! The kernel arguments of the config, in an image that only bootc brings to machines. What a
//! section of the Containerfile does in a build of buildah.

use super::{Applier, ApplyError};
use crate::plan::kernel_arguments::{FILE, RPM_OSTREE, kargs_file};
use mosb_image::path::TreePath;

impl Applier<'_> {
    /// Adds the file of these arguments, and returns whether it did: not if there are none, or if
    /// the base has rpm-ostree.
    pub(super) fn kernel_arguments(&mut self, arguments: &[String]) -> Result<bool, ApplyError> {
        let program: TreePath = RPM_OSTREE.parse().expect("a clean path");
        let program = self.paths.exact(&self.tree, &program).map_err(|stop| stop.of(RPM_OSTREE))?;
        let has_rpm_ostree = program.is_some_and(|program| self.tree.get(&program).is_some());
        if arguments.is_empty() || has_rpm_ostree {
            return Ok(false);
        }
        self.add_file(FILE, kargs_file(arguments).into(), 0o644)?;
        Ok(true)
    }
}
