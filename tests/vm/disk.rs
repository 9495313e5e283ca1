//! The disk of a machine, a copy of the base's, and the boot loader's part: which deployments it
//! has and what each is started with. Nothing is mounted; debugfs reads the file system.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use mosb_tests::run;

/// Where ostree writes what a boot loader reads; paths in an entry are below `/boot`.
const ENTRIES: &str = "/boot/loader/entries";

#[derive(Debug)]
pub struct Disk {
    directory: TempDir,
}

/// A deployment as a boot loader sees it.
#[derive(Debug)]
pub struct BootEntry {
    version: u32,
    pub kernel: PathBuf,
    pub initramfs: PathBuf,
    pub options: String,
}

impl Disk {
    #[track_caller]
    pub fn copy(of: &Path) -> Self {
        let disk = Self { directory: TempDir::new().unwrap() };
        run("cp", ["--sparse=always".as_ref(), of.as_os_str(), disk.path().as_os_str()]);
        disk
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("disk.img")
    }

    /// The deployments in a boot loader's order: the default, then the one to go back to. Kernel
    /// and initramfs are copied out of the disk.
    #[track_caller]
    pub fn boot_entries(&self) -> Vec<BootEntry> {
        let list = self.debugfs(&format!("ls -p {ENTRIES}"));
        // /inode/mode/user/group/name/size/
        let names = list.lines().filter_map(|line| line.split('/').nth(5));
        let names = names.filter(|name| name.ends_with(".conf"));
        let mut entries: Vec<_> = names
            .enumerate()
            .map(|(index, name)| {
                let text = self.debugfs(&format!("cat {ENTRIES}/{name}"));
                let value = |key: &str| {
                    let mut words = text.lines().filter_map(|line| line.split_once(' '));
                    let found = words.find_map(|(word, value)| (word == key).then_some(value));
                    found.unwrap_or_else(|| panic!("{name} has no {key}: {text}")).to_owned()
                };
                BootEntry {
                    version: value("version").parse().unwrap(),
                    kernel: self.take_out(&value("linux"), &format!("kernel-{index}")),
                    initramfs: self.take_out(&value("initrd"), &format!("initramfs-{index}")),
                    options: value("options"),
                }
            })
            .collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.version));
        entries
    }

    #[track_caller]
    fn take_out(&self, path: &str, name: &str) -> PathBuf {
        let target = self.directory.path().join(name);
        self.debugfs(&format!("dump /boot{path} {}", target.display()));
        let size = fs::metadata(&target).map_or(0, |found| found.len());
        assert!(size > 0, "/boot{path} is not on the disk");
        target
    }

    #[track_caller]
    fn debugfs(&self, request: &str) -> String {
        run("debugfs", ["-R".as_ref(), request.as_ref(), self.path().as_os_str()]).text()
    }
}
