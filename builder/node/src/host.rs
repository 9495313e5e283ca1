//! The machine that this process runs on, seen from a container with the machine's process IDs: its
//! files below the root of process 1, its programs in the namespaces of process 1.

use std::path::Path;
use std::time::Duration;

use mosb_build::exec::Command;

use crate::error::Error;
use crate::host_root::HostRoot;

/// The root of the machine, for whoever shares its process IDs.
const ROOT: &str = "/proc/1/root";
/// systemd makes it where it is process 1 (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";
/// Where the machine's programs are.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Written at each boot by the kernel.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The machine.
#[derive(Debug)]
pub struct Host {
    root: HostRoot,
}

impl Host {
    /// The machine of process 1.
    ///
    /// # Errors
    /// Process 1 is not a machine's systemd, or this process may not see its files.
    pub fn open() -> Result<Self, Error> {
        let root = HostRoot::open(Path::new(ROOT))
            .map_err(|error| Error::NotMachine { cause: format!("{ROOT}: {error}") })?;
        if !root.exists(SYSTEMD) {
            return Err(Error::NotMachine { cause: "it is not systemd".to_owned() });
        }
        Ok(Self { root })
    }

    pub(crate) fn root(&self) -> &HostRoot {
        &self.root
    }

    /// Identifies the boot of the machine.
    pub(crate) fn boot_id(&self) -> Result<String, Error> {
        let text = self.root.text(BOOT_ID, 100)?;
        let id = text.as_deref().map(str::trim).filter(|id| is_boot_id(id));
        id.map(str::to_owned)
            .ok_or_else(|| Error::NotMachine { cause: format!("{BOOT_ID} has no boot ID") })
    }

    /// Runs a program of the machine, and returns what it writes to stdout.
    ///
    /// # Errors
    /// It fails, is not there, or takes longer than `limit`.
    pub(crate) async fn run(
        &self,
        command: &'static str,
        words: &[String],
        limit: Duration,
    ) -> Result<String, Error> {
        let ran = in_host(words).limit(limit).run(|_, _| ()).await;
        let stdout = ran.map_err(|source| Error::Program { command, source })?;
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    }
}

/// `command` in the namespaces of process 1. That of the network is one of them: rpm-ostree's daemon
/// has a socket without a file for each transaction. The environment is the machine's: with a variable
/// `container`, bootc would refuse to run.
fn in_host(words: &[String]) -> Command {
    let command = Command::new("nsenter", "the package util-linux")
        .arg("--target=1")
        .arg("--mount")
        .arg("--uts")
        .arg("--ipc")
        .arg("--net")
        .arg("--")
        .arg("env")
        .arg("-i")
        .arg(format!("PATH={PATH}"))
        .arg("LC_ALL=C");
    words.iter().fold(command, |command, word| command.arg(word))
}

/// 32 hex digits, with hyphens or without.
pub(crate) fn is_boot_id(text: &str) -> bool {
    let hex = text.bytes().filter(u8::is_ascii_hexdigit).count();
    hex == 32 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

/// The words of a command line.
pub(crate) fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_run_in_the_machines_namespaces_and_environment() {
        assert_eq!(
            in_host(&words(["bootc", "status", "--json"])).to_string(),
            format!(
                "nsenter --target=1 --mount --uts --ipc --net -- env -i PATH={PATH} LC_ALL=C bootc status --json"
            )
        );
    }

    #[test]
    fn a_boot_id_has_32_hex_digits() {
        assert!(is_boot_id("0b9c1f6e-9d6e-4d0f-8f0e-3d2c1b0a9f8e"));
        assert!(is_boot_id("0b9c1f6e9d6e4d0f8f0e3d2c1b0a9f8e"));
        for wrong in ["", "0b9c1f6e", "--directory=/x", "0b9c1f6e-9d6e-4d0f-8f0e-3d2c1b0a9f8g"] {
            assert!(!is_boot_id(wrong), "{wrong}");
        }
    }
}
