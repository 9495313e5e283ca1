//! The user `core` of a machine: the one whose SSH keys and password a config may change after the
//! machine was installed.

use crate::error::Error;
use crate::host_root::HostRoot;

pub(crate) const CORE: &str = "core";
/// The second one is that of ostree's images, for users that the image brings.
const PASSWD: [&str; 2] = ["/etc/passwd", "/usr/lib/passwd"];
/// The most bytes that are read.
const LIMIT: u64 = 16 * 1024 * 1024;

/// The user, as passwd(5) has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CoreUser {
    pub uid: u32,
    pub gid: u32,
    /// An absolute path without `..`.
    pub home: String,
}

impl CoreUser {
    /// None if the machine has no such user, or one without a home.
    pub fn find(root: &HostRoot) -> Result<Option<Self>, Error> {
        for file in PASSWD {
            let text = root.text(file, LIMIT)?.unwrap_or_default();
            if let Some(found) = text.lines().find_map(of_line) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

fn of_line(line: &str) -> Option<CoreUser> {
    let mut fields = line.strip_prefix(CORE)?.strip_prefix(':')?.split(':');
    let (_password, uid, gid) = (fields.next()?, fields.next()?, fields.next()?);
    let (_comment, home) = (fields.next()?, fields.next()?);
    let is_plain = home.len() > 1
        && home.starts_with('/')
        && home[1..].split('/').all(|part| !matches!(part, "" | "." | ".."));
    let user = CoreUser { uid: uid.parse().ok()?, gid: gid.parse().ok()?, home: home.to_owned() };
    is_plain.then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_core_with_a_home_counts() {
        let core = |home: &str| Some(CoreUser { uid: 1000, gid: 1001, home: home.to_owned() });
        for (what, etc, image, want) in [
            ("no file", None, None, None),
            ("others", Some("root:x:0:0::/root:/bin/sh\nx:core:1:1::/x:\n"), None, None),
            (
                "core",
                Some("a:x:1:1::/:\ncore:x:1000:1001:Core:/var/home/core:/bin/bash\n"),
                None,
                core("/var/home/core"),
            ),
            (
                "of the image",
                Some("root:x:0:0::/root:\n"),
                Some("core:x:1000:1001::/home/core:"),
                core("/home/core"),
            ),
            ("longer names", Some("core2:x:1:1::/h:\n"), None, None),
            ("up", Some("core:x:1000:1001::/home/../etc:\n"), None, None),
            ("relative", Some("core:x:1000:1001::home:\n"), None, None),
            ("the root", Some("core:x:1000:1001::/:\n"), None, None),
            ("no number", Some("core:x::1001::/home/core:\n"), None, None),
            ("too short", Some("core:x:1000\n"), None, None),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let root = HostRoot::open(dir.path()).unwrap();
            for (path, text) in PASSWD.into_iter().zip([etc, image]) {
                if let Some(text) = text {
                    root.write(path, text.as_bytes(), 0o644).unwrap();
                }
            }
            assert_eq!(CoreUser::find(&root).unwrap(), want, "{what}");
        }
    }
}
