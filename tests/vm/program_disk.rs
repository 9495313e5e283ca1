//! A disk with the tested program and the files that a test gives it, for a machine to read.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use mosb_tests::{program, run};

/// More than the file system needs for itself.
const SPARE: u64 = 32 * 1024 * 1024;

#[derive(Debug)]
pub struct ProgramDisk {
    directory: TempDir,
}

impl ProgramDisk {
    /// Where the machine has it.
    pub const PLACE: &str = "/run/vm-test";
    /// It is the machine's second disk.
    pub const MOUNT: &str = "mkdir -p /run/vm-test && mount -o ro /dev/vdb /run/vm-test\n";

    /// With `mosb`, and files of these names and contents.
    #[track_caller]
    pub fn new(files: &[(String, Vec<u8>)]) -> Self {
        let disk = Self { directory: TempDir::new().unwrap() };
        let folder = disk.directory.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let copy = folder.join("mosb");
        // Most of a program of the profile of tests is for a debugger.
        run("objcopy", [OsStr::new("--strip-debug"), program().as_os_str(), copy.as_os_str()]);
        for (name, content) in files {
            fs::write(folder.join(name), content).unwrap();
        }
        let size = fs::metadata(&copy).unwrap().len() + SPARE;
        fs::File::create(disk.path()).unwrap().set_len(size).unwrap();
        let format = ["-q", "-t", "ext4", "-d"].map(OsStr::new);
        run("mke2fs", format.into_iter().chain([folder.as_os_str(), disk.path().as_os_str()]));
        disk
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("disk.img")
    }
}
