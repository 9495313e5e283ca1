//! The controller as a separate process, with its memory and CPU time.

use std::fs;

use super::site::{NAMESPACE, Site};
use mosb_tests::{Daemon, lasting};

/// The kernel's clock ticks in a second.
const TICKS: f64 = 100.0;

pub struct Controller {
    daemon: Daemon,
}

impl Controller {
    /// Starts a controller as this user, with more arguments, and waits until it is active.
    pub fn start(site: &Site, user: &str, more: &[&str]) -> Self {
        // The next controller would wait until the Lease of a killed one expires.
        let lease = format!("--namespace={NAMESPACE}");
        let words = ["delete", "lease", "mosb-controller", "--ignore-not-found", &*lease];
        site.node.kubectl(&words).ok();
        let mut command = lasting(mosb_tests::program());
        command
            .args(["controller", "--listen", "127.0.0.1:0", "--namespace", NAMESPACE])
            .args(more)
            .arg("--kubeconfig")
            .arg(site.node.kubeconfig_of(user))
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        let acts = |line: &str| line.contains("the lease is held; reconciling").then_some(());
        let (daemon, ()) = Daemon::start(command, acts);
        Self { daemon }
    }

    fn file(&self, name: &str) -> String {
        let file = format!("/proc/{}/{name}", self.daemon.pid);
        fs::read_to_string(file).unwrap_or_else(|why| panic!("{why}\n{}", self.daemon.log()))
    }

    fn memory(&self, field: &str) -> f64 {
        let status = self.file("status");
        let mut lines = status.lines().filter_map(|line| line.strip_prefix(field));
        let kibibytes = lines.next().unwrap().trim_start_matches(':').trim();
        let kibibytes: f64 = kibibytes.trim_end_matches(" kB").parse().unwrap();
        kibibytes / 1024.0
    }

    /// The resident memory in MiB.
    pub fn resident(&self) -> f64 {
        self.memory("VmRSS")
    }

    /// The peak of the resident memory in MiB.
    pub fn peak(&self) -> f64 {
        self.memory("VmHWM")
    }

    /// The CPU seconds used so far.
    pub fn seconds(&self) -> f64 {
        let stat = self.file("stat");
        // The process name may contain any character.
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let mut fields = fields.split_whitespace().skip(11);
        let mut ticks = || fields.next().unwrap().parse::<f64>().unwrap();
        (ticks() + ticks()) / TICKS
    }

    /// Counts the occurrences of a word in the log.
    pub fn count_in_log(&self, word: &str) -> usize {
        self.daemon.log().matches(word).count()
    }
}
