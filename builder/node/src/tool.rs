//! Which program changes the machine's image.

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
        let has =
            |name: &str| PATH.split(':').any(|folder| root.exists(&format!("{folder}/{name}")));
        Self { bootc: has("bootc"), rpm_ostree: has("rpm-ostree") }
    }
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
}
