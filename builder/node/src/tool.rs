//! Which program changes the machine's image.

use mosb_plan::api::rollout::NodeTool;

use crate::host::PATH;
use crate::host_root::HostRoot;

/// Which of the programs the machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InstalledTools {
    pub bootc: bool,
    pub rpm_ostree: bool,
}

impl InstalledTools {
    pub fn of(root: &HostRoot) -> Self {
        let has = |name: &str| is_installed(root, name);
        Self { bootc: has("bootc"), rpm_ostree: has("rpm-ostree") }
    }

    /// The one that changes what the machine booted: what rpm-ostree changed, bootc refuses to update.
    pub fn tool(self, is_changed_by_rpm_ostree: bool) -> Option<NodeTool> {
        match (self.bootc, self.rpm_ostree) {
            (true, true) if is_changed_by_rpm_ostree => Some(NodeTool::RpmOstree),
            (true, _) => Some(NodeTool::Bootc),
            (false, true) => Some(NodeTool::RpmOstree),
            (false, false) => None,
        }
    }
}

/// Whether a program is where the machine's are.
pub(crate) fn is_installed(root: &HostRoot, name: &str) -> bool {
    PATH.split(':').any(|folder| root.exists(&format!("{folder}/{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_found_on_the_path_of_the_machine() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        let tools = |bootc, rpm_ostree| InstalledTools { bootc, rpm_ostree };
        assert_eq!(InstalledTools::of(&root), tools(false, false));
        for (path, want) in [
            ("/usr/bin/rpm-ostree", tools(false, true)),
            ("/usr/local/bin/bootc", tools(true, true)),
        ] {
            root.write(path, b"", 0o755).unwrap();
            assert_eq!(InstalledTools::of(&root), want, "{path}");
        }
    }

    #[test]
    fn what_rpm_ostree_changed_is_changed_by_it() {
        use NodeTool::{Bootc, RpmOstree};
        for (bootc, rpm_ostree, is_changed, want) in [
            (true, true, false, Some(Bootc)),
            (true, true, true, Some(RpmOstree)),
            (true, false, true, Some(Bootc)),
            (false, true, false, Some(RpmOstree)),
            (false, false, false, None),
        ] {
            let found = InstalledTools { bootc, rpm_ostree }.tool(is_changed);
            assert_eq!(found, want, "{bootc} {rpm_ostree} {is_changed}");
        }
    }
}
