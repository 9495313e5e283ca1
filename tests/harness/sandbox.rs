//! A Debian root that a test may change: an overlay in a mount namespace of its own, of which
//! nothing stays.
//!
//! Needs root, as CI has it. The tree is reached through `/proc/<pid>/root`, so an absolute link
//! inside it leads astray when Rust follows it from outside; programs that run inside are in a
//! chroot and see it right.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use super::child::{Daemon, Finished, finish, lasting, limited};
use super::root::{IGNITION_PATH, debian_root};
use super::snapshot::{Kind, Snapshot};

/// Holds the namespace open. Nothing outside sees these mounts, and the last process takes them
/// along.
const HOLD: &str = r#"
mount -t tmpfs -o mode=0755 tmpfs "$1"
mkdir "$1/changes" "$1/work" "$1/tree"
mount -t overlay -o "lowerdir=$2,upperdir=$1/changes,workdir=$1/work" overlay "$1/tree"
echo ready
exec sleep infinity"#;

/// Runs a program in the tree, with what a build container has mounted. The mounts go when the
/// program ends.
const INSIDE: &str = r#"
tree=$1 program=$2
shift 2
mount --rbind /dev "$tree/dev"
mount -t proc proc "$tree/proc"
exec chroot "$tree" /usr/bin/env -i container=oci PATH=/usr/sbin:/usr/bin "$program" "$@""#;

/// A shell script with mounts of its own. The command is that of `unshare`; its next arguments are
/// the script's.
pub fn in_private_mounts(mut unshare: Command, script: &str) -> Command {
    unshare.args(["--mount", "--propagation=private", "--"]);
    unshare.args(["sh", "-euc", script, "sh"]);
    unshare
}

/// A private, writable copy of the Debian root.
#[derive(Debug)]
pub struct Sandbox {
    holder: Daemon,
    directory: TempDir,
}

impl Sandbox {
    /// The Debian root as it is.
    #[track_caller]
    pub fn new() -> Self {
        let root = debian_root();
        let directory = TempDir::new().unwrap();
        assert_eq!(
            fs::metadata("/proc/self").unwrap().uid(),
            0,
            "a sandbox mounts and enters a chroot: run the tests as root"
        );
        let mut command = in_private_mounts(lasting("unshare"), HOLD);
        command.arg(directory.path()).arg(&root);
        let (holder, ()) = Daemon::start(command, |line| (line == "ready").then_some(()));
        Self { holder, directory }
    }

    /// A path in the tree, as this process reaches it; without a path, the tree itself.
    pub fn path(&self, path: &str) -> PathBuf {
        self.place("tree").join(path)
    }

    fn place(&self, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.pid));
        root.join(self.directory.path().strip_prefix("/").unwrap()).join(name)
    }

    /// Runs a program of the tree inside the tree, as an image build would: `container=oci`,
    /// `/dev`, `/proc`.
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

    /// Runs a shell line inside the tree, which must end well.
    #[track_caller]
    pub fn shell(&self, line: &str) -> Finished {
        self.run("/bin/sh", &["-euc", line], &[]).ok()
    }

    /// What the real Ignition makes of the tree; the error is its log.
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

    /// `systemctl --root=/ preset UNIT…`, for no unit nothing.
    #[track_caller]
    pub fn preset(&self, units: &[&str]) -> Finished {
        let mut arguments = vec!["--root=/", "preset", "--"];
        arguments.extend(units);
        self.run("/bin/systemctl", &arguments, &[])
    }

    /// The tree as it is now. What was not changed is not read again.
    pub fn snapshot(&self) -> Snapshot {
        let (base, changes) = (debian_snapshot(), self.place("changes"));
        Snapshot::of_with(&self.path(""), |path| unchanged(base, &changes, path))
    }
}

fn unchanged(base: &Snapshot, changes: &Path, path: &str) -> Option<Kind> {
    let copied_up = fs::symlink_metadata(changes.join(path)).is_ok();
    let known = base.0.get(path).filter(|_| !copied_up)?;
    Some(known.kind.clone())
}

/// The Debian root before any change, read once.
pub fn debian_snapshot() -> &'static Snapshot {
    static SNAPSHOT: OnceLock<Snapshot> = OnceLock::new();
    SNAPSHOT.get_or_init(|| Snapshot::of(&debian_root()))
}
