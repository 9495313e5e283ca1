//! Whether this process has a user namespace of its own.

use std::io;
use std::path::Path;

/// The file that maps this process's users to the machine's.
const UID_MAP: &str = "/proc/self/uid_map";

/// Whether root here is another user on the machine.
///
/// # Errors
/// The map can't be read.
pub fn is_own() -> io::Result<bool> {
    std::fs::read_to_string(Path::new(UID_MAP)).map(|map| !is_identity(&map))
}

/// The map of the machine's first namespace: every user is the same user.
fn is_identity(map: &str) -> bool {
    let mut lines = map.lines().map(str::split_whitespace);
    let same = |line: &mut std::str::SplitWhitespace<'_>| line.next() == line.next();
    // A map of its own never has the same number on both sides of its first line; without any map
    // the namespace can't be relied on.
    lines.next().is_none_or(|mut line| same(&mut line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_namespace_is_known_by_its_map() {
        for (what, map, want) in [
            ("the machine's", "         0          0 4294967295\n", true),
            ("a pod's", "         0  131072  65536\n", false),
            ("a user's", "0 1000 1\n1 100000 65536\n", false),
            ("none", "", true),
            ("a part, unchanged", "0 0 65536\n", true),
        ] {
            assert_eq!(is_identity(map), want, "{what}");
        }
    }
}
