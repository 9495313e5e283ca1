//! A writable copy of the root of a plain base: an overlay in a separate mount namespace that disappears
//! with the test.
//!
//! It needs root, as CI has. Tests reach the tree through `/proc/<pid>/root`. From outside,
//! absolute links inside the tree resolve against the root of the machine; programs inside run in a
//! chroot, where these links resolve correctly.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::child::{Daemon, Finished, finish, lasting, limited};
use super::root::IGNITION_PATH;
use super::second_base::PlainBase;
use super::snapshot::{Kind, Snapshot};

/// Creates the mounts and holds the namespace open. The mounts are invisible from outside and
/// disappear with the last process.
const HOLD: &str = r#"
mount -t tmpfs -o mode=0755 tmpfs "$1"
mkdir "$1/changes" "$1/work" "$1/tree"
mount -t overlay -o "lowerdir=$2,upperdir=$1/changes,workdir=$1/work" overlay "$1/tree"
echo ready
exec sleep infinity"#;

/// Runs a program in the tree with the mounts of a build container, which disappear with the
/// program.
const INSIDE: &str = r#"
tree=$1 program=$2
shift 2
mount --rbind /dev "$tree/dev"
mount -t proc proc "$tree/proc"
exec chroot "$tree" /usr/bin/env -i container=oci PATH=/usr/sbin:/usr/bin "$program" "$@""#;

/// A shell script in a private mount namespace, from an `unshare` command. Its next arguments are
/// those of the script.
pub fn in_private_mounts(mut unshare: Command, script: &str) -> Command {
    unshare.args(["--mount", "--propagation=private", "--"]);
    unshare.args(["sh", "-euc", script, "sh"]);
    unshare
}

/// A private, writable copy of the root of a plain base.
#[derive(Debug)]
pub struct Sandbox {
    base: PlainBase,
    holder: Daemon,
    directory: TempDir,
}

impl Sandbox {
    /// Creates an unchanged copy of the Debian root.
    #[track_caller]
    pub fn new() -> Self {
        Self::of(PlainBase::First)
    }

    /// Creates an unchanged copy.
    #[track_caller]
    pub fn of(base: PlainBase) -> Self {
        let root = base.root();
        let directory = TempDir::new().unwrap();
        assert_eq!(
            fs::metadata("/proc/self").unwrap().uid(),
            0,
            "a sandbox mounts and enters a chroot: run the tests as root"
        );
        let mut command = in_private_mounts(lasting("unshare"), HOLD);
        command.arg(directory.path()).arg(&root);
        let (holder, ()) = Daemon::start(command, |line| (line == "ready").then_some(()));
        Self { base, holder, directory }
    }

    /// The path of a file in the tree for this process, or of the tree itself for an empty path.
    pub fn path(&self, path: &str) -> PathBuf {
        self.place("tree").join(path)
    }

    fn place(&self, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.pid));
        root.join(self.directory.path().strip_prefix("/").unwrap()).join(name)
    }

    /// Runs a program of the tree in the environment of an image build: `container=oci`, `/dev`,
    /// `/proc`.
    #[track_caller]
    pub fn run(&self, program: &str, arguments: &[&str], stdin: &[u8]) -> Finished {
        let tree = self.directory.path().join("tree");
        let mut command = limited("nsenter");
        command
            .arg(format!("--mount=/proc/{}/ns/mnt", self.holder.pid))
            .args(["--", "unshare", "--mount", "--propagation=private", "--"])
            .args(["sh", "-euc", INSIDE, "sh"])
            .arg(tree)
            .arg(program)
            .args(arguments);
        finish(&mut command, stdin)
    }

    /// Runs a shell command in the tree and requires success.
    #[track_caller]
    pub fn shell(&self, line: &str) -> Finished {
        self.run("/bin/sh", &["-euc", line], &[]).ok()
    }

    /// Applies a config by the real Ignition. The error is its log.
    #[track_caller]
    pub fn ignition_apply(&self, config: &str) -> Result<(), String> {
        let line = format!(r#"exec -a ignition-apply /{IGNITION_PATH} --ignore-unsupported -"#);
        let finished = self.run("/bin/bash", &["-c", &line], config.as_bytes());
        match finished.code() {
            Some(0) => Ok(()),
            Some(1) => Err(finished.text()),
            _ => panic!("{finished:?}"),
        }
    }

    /// Runs `systemctl --root=/ preset UNIT…`, or nothing without a unit.
    #[track_caller]
    pub fn preset(&self, units: &[&str]) -> Finished {
        let mut arguments = vec!["--root=/", "preset", "--"];
        arguments.extend(units);
        self.run("/bin/systemctl", &arguments, &[])
    }

    /// The current tree. Unchanged files are not read again.
    pub fn snapshot(&self) -> Snapshot {
        let (base, changes) = (self.base.snapshot(), self.place("changes"));
        Snapshot::of_with(&self.path(""), |path| unchanged(base, &changes, path))
    }
}

fn unchanged(base: &Snapshot, changes: &Path, path: &str) -> Option<Kind> {
    let copied_up = fs::symlink_metadata(changes.join(path)).is_ok();
    let known = base.0.get(path).filter(|_| !copied_up)?;
    Some(known.kind.clone())
}
