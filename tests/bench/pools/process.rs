//! The controller as a process of its own: its memory, its time.

use std::fs;

use super::site::{NAMESPACE, Site};
use mosb_tests::{Daemon, lasting};

/// How the kernel counts time, in a second.
const TICKS: f64 = 100.0;

pub struct Controller {
    daemon: Daemon,
}

impl Controller {
    /// One that acts, as this user.
    pub fn start(site: &Site, user: &str) -> Self {
        // The next one need not wait for the end of the Lease of one that was killed.
        let lease = format!("--namespace={NAMESPACE}");
        let words = ["delete", "lease", "mosb-controller", "--ignore-not-found", &*lease];
        site.node.kubectl(&words).ok();
        let mut command = lasting(mosb_tests::program());
        command
            .args(["controller", "--listen", "127.0.0.1:0", "--namespace", NAMESPACE])
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

    /// What is resident, in MiB.
    pub fn resident(&self) -> f64 {
        self.memory("VmRSS")
    }

    /// The most that ever was, in MiB.
    pub fn peak(&self) -> f64 {
        self.memory("VmHWM")
    }

    /// Seconds of processors that it used so far.
    pub fn seconds(&self) -> f64 {
        let stat = self.file("stat");
        // Its name may hold anything.
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let mut fields = fields.split_whitespace().skip(11);
        let mut ticks = || fields.next().unwrap().parse::<f64>().unwrap();
        (ticks() + ticks()) / TICKS
    }

    /// How often its log has this word.
    pub fn count_in_log(&self, word: &str) -> usize {
        self.daemon.log().matches(word).count()
    }
}
