//! The distribution of an image, as os-release(5) names it.

use crate::tree::BaseTree;

/// A distribution by the names that scanners for vulnerabilities use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// Lower-case, such as `fedora`, `rhel` or `debian`.
    pub id: String,
    /// Such as `9.6`; rolling distributions have none.
    pub version: Option<String>,
}

/// The second one is read if the first one is a link to it.
const FILES: [&str; 2] = ["etc/os-release", "usr/lib/os-release"];
/// The most bytes of a value.
const MAX_VALUE: usize = 64;

impl Distribution {
    /// `None` if the image does not name it.
    pub fn of(tree: &BaseTree) -> Option<Self> {
        let text = FILES.iter().find_map(|path| tree.content(path))?;
        Self::parse(&String::from_utf8_lossy(text))
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            // As in a shell, the last assignment counts.
            let line = text.lines().rev().find_map(|line| {
                line.trim().strip_prefix(name)?.strip_prefix('=').map(str::to_owned)
            })?;
            let value = line.trim_matches(['"', '\'']);
            let is_plain =
                |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
            let is_value = (1..=MAX_VALUE).contains(&value.len()) && value.bytes().all(is_plain);
            is_value.then(|| value.to_owned())
        };
        let id = value("ID")?;
        // The version of RHEL CoreOS is that of OpenShift. Its packages are those of RHEL.
        match value("RHEL_VERSION") {
            Some(version) if id == "rhcos" => {
                Some(Self { id: "rhel".to_owned(), version: Some(version) })
            }
            _ => Some(Self { id, version: value("VERSION_ID") }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::OwnedEntry;

    #[test]
    fn distributions_are_named_as_os_release_does() {
        let long = format!("ID={}", "a".repeat(MAX_VALUE + 1));
        for (text, want) in [
            ("NAME=\"Debian GNU/Linux\"\nID=debian\nVERSION_ID=\"12\"\n", Some("debian 12")),
            ("ID='fedora'\nVERSION_ID=44", Some("fedora 44")),
            ("ID=arch\nBUILD_ID=rolling\n", Some("arch -")),
            ("ID=rhcos\nVERSION_ID=4.18\nRHEL_VERSION=9.4\n", Some("rhel 9.4")),
            ("ID=\"rhcos\"\nVERSION_ID=\"4.18\"\n", Some("rhcos 4.18")),
            ("ID=a\nID=b\nVERSION_ID=$(x)\n", Some("b -")),
            ("ID=\"a b\"\n", None),
            ("ID=\n", None),
            ("VERSION_ID=1\n", None),
            (&long, None),
        ] {
            let found = Distribution::parse(text)
                .map(|found| format!("{} {}", found.id, found.version.as_deref().unwrap_or("-")));
            assert_eq!(found.as_deref(), want, "{text}");
        }
    }

    #[test]
    fn a_linked_os_release_is_read() {
        let tree = BaseTree::from_entries([
            (b"etc/os-release".to_vec(), OwnedEntry::symlink("../usr/lib/os-release")),
            (b"usr/lib/os-release".to_vec(), OwnedEntry::file(b"ID=fedora\n")),
        ]);
        assert_eq!(Distribution::of(&tree).map(|found| found.id).as_deref(), Some("fedora"));
        assert_eq!(Distribution::of(&BaseTree::default()), None);
    }
}
