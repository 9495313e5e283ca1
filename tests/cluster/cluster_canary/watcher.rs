//! Collects short-lived data while pods run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Collects command lines and environments of all processes, and hard links to the logs and
/// termination messages of the namespace's containers. A hard link also sees later output.
pub struct Watcher<'a> {
    pub node: &'a Path,
    pub namespace: &'a str,
    pub to: PathBuf,
    pub lines: BTreeSet<String>,
}

impl Watcher<'_> {
    pub fn poll(&mut self) {
        for process in fs::read_dir("/proc").unwrap().flatten() {
            for file in ["cmdline", "environ"] {
                // The process may have ended.
                let Ok(text) = fs::read(process.path().join(file)) else {
                    continue;
                };
                let text = String::from_utf8_lossy(&text).replace('\0', " ");
                if self.lines.len() < 100_000 {
                    self.lines.insert(text);
                }
            }
        }
        let prefix = format!("{}_", self.namespace);
        for pod in entries(&self.node.join("log/pods")) {
            if pod.file_name().unwrap().to_str().unwrap().starts_with(&prefix) {
                let containers = entries(&pod);
                containers.iter().flat_map(|it| entries(it)).for_each(|log| self.keep(&log));
            }
        }
        for pod in entries(&self.node.join("lib/kubelet/pods")) {
            let containers = entries(&pod.join("containers"));
            containers.iter().flat_map(|it| entries(it)).for_each(|last| self.keep(&last));
        }
    }

    fn keep(&self, file: &Path) {
        let name = file.strip_prefix(self.node).unwrap().to_str().unwrap().replace('/', "!");
        // The link exists already, or the file was deleted. The test checks that enough was
        // collected.
        fs::hard_link(file, self.to.join(name)).ok();
    }
}

pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten();
    found.flatten().map(|entry| entry.path()).collect()
}
