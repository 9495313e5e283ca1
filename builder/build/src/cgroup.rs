//! The kernel's counters for our own container.

use std::fs;
use std::path::Path;

/// The files with the number of processes that were killed for lack of memory, by version 2 of
/// control groups and by version 1. Only one of them exists; outside of a container perhaps none.
pub(crate) fn oom_counts() -> Vec<String> {
    let files = ["memory.events", "memory/memory.oom_control"].into_iter();
    let paths = files.map(|file| Path::new("/sys/fs/cgroup").join(file));
    paths.filter_map(|path| fs::read_to_string(path).ok()).collect()
}
