//! The memory of one controller process over time.

use std::time::{Duration, Instant};
use std::{fmt, fs};

/// The minimum time between two samples.
const BETWEEN: Duration = Duration::from_secs(2);
/// A shorter run is not long enough to judge.
const LIFE: Duration = Duration::from_secs(180);
/// The last quarter of a run may use this factor of the second one, because an allocator does not
/// return all freed memory.
const ALLOWED: f64 = 1.1;

#[derive(Debug, Default)]
pub struct Memory {
    started: Option<Instant>,
    /// In MiB.
    resident: Vec<(Instant, f64)>,
}

impl Memory {
    /// Whether the process still runs.
    pub fn sample(&mut self, process: u32) -> bool {
        let now = Instant::now();
        self.started.get_or_insert(now);
        if self.resident.last().is_some_and(|(at, _)| now - *at < BETWEEN) {
            return true;
        }
        // A process that ended has no memory, or no such file any more.
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let mut lines = status.lines().filter_map(|line| line.strip_prefix("VmRSS:"));
        let Some(resident) = lines.next() else {
            return false;
        };
        let kibibytes = resident.trim().trim_end_matches(" kB");
        self.resident.push((now, kibibytes.parse::<f64>().unwrap() / 1024.0));
        true
    }

    /// The median of each quarter of the run.
    fn quarters(&self) -> Vec<f64> {
        let size = self.resident.len().div_ceil(4).max(1);
        let middle = |part: &[(Instant, f64)]| {
            let mut all: Vec<f64> = part.iter().map(|(_, resident)| *resident).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        self.resident.chunks(size).map(middle).collect()
    }

    /// Asserts that memory does not grow after the first half of the run, which includes the
    /// warm-up.
    pub fn is_flat(&self) {
        let life = self.started.map_or(Duration::ZERO, |started| started.elapsed());
        if let [_, second, .., last] = self.quarters()[..]
            && life > LIFE
        {
            assert!(last <= second * ALLOWED, "{self}");
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let life = self.started.map_or(Duration::ZERO, |started| started.elapsed());
        let quarters = self.quarters();
        let quarters: Vec<_> = quarters.iter().map(|mib| format!("{mib:.1}")).collect();
        let (life, quarters) = (life.as_secs(), quarters.join(", "));
        write!(f, "MiB resident in each quarter of the last {life} s: {quarters}")
    }
}
