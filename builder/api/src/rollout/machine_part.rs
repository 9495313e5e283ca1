//! What a machine needs of a config beside the image.

use std::fmt;

use serde::{Deserialize, Serialize};

use mosb_image::Digest;
use mosb_types::canonical_json;

/// The most bytes that are read: some thousand keys.
const LIMIT: usize = 512 * 1024;

/// What a machine needs of a config beside the image: kernel arguments, and the SSH keys and the
/// password of the user `core`. `mosb node` brings it to the machine; an image for bootc alone brings
/// the kernel arguments itself. Marks have only its digest
/// ([`NodeTarget::machine_part`](super::NodeTarget::machine_part)).
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachinePart {
    /// Kernel arguments that the machine boots with, in this order. An image with a file in
    /// `/usr/lib/bootc/kargs.d` of mosb brings them itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_arguments: Vec<String>,
    /// Kernel arguments that it does not boot with (`shouldNotExist` of Ignition).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed_kernel_arguments: Vec<String>,
    /// The SSH keys of `core`; none if the config has none for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ssh_authorized_keys: Vec<String>,
    /// The password hash of `core`; none if the config has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_hash: Option<String>,
}

impl MachinePart {
    /// The digest in a target. An empty part has one, too: it takes away what an earlier part set.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_json())
    }

    /// The canonical JSON: one text for one part.
    pub fn to_json(&self) -> Vec<u8> {
        canonical_json(self)
    }

    /// Reads a part. The error quotes nothing of it.
    ///
    /// # Errors
    /// It is too long, or no part.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > LIMIT {
            return Err(format!(
                "a machine part of {} bytes; at most {LIMIT} are read",
                bytes.len()
            ));
        }
        // The text of serde quotes values.
        serde_json::from_slice(bytes).map_err(|error| {
            format!("no machine part: line {}, column {}", error.line(), error.column())
        })
    }
}

/// Without the password hash and the keys.
impl fmt::Debug for MachinePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachinePart")
            .field("kernel_arguments", &self.kernel_arguments)
            .field("removed_kernel_arguments", &self.removed_kernel_arguments)
            .field("ssh_authorized_keys", &self.ssh_authorized_keys.len())
            .field("password_hash", &self.password_hash.as_ref().map(|_| "[secret]"))
            .finish()
    }
}

/// The most paths of a list, and the most bytes of them together: a report has little space.
const MAX_PATHS: usize = 16;
const MAX_BYTES: usize = 480;

/// The `/etc` of a machine beside that of its image, and beside what its first config wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcReport {
    /// Paths of the booted image that the machine hides.
    pub hidden: PathList,
    /// Paths that are still as the config left them, and are not the image's; none if the machine
    /// has no record of its config.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub adoptable: Option<PathList>,
    /// Paths of the config that were changed since.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kept: Option<PathList>,
    /// Whether the next image brings those that can be adopted.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub adopted: bool,
}

/// How many paths there are, and the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathList {
    pub count: usize,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub paths: Vec<String>,
}

impl PathList {
    /// `omitted`: how many there are beside these.
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a str>, omitted: usize) -> Self {
        let mut list = Self { count: omitted, paths: Vec::new() };
        let mut bytes = 0;
        for path in paths {
            list.count += 1;
            // As JSON, a control character takes more.
            bytes += path.escape_default().count() + 3;
            if list.paths.len() + 1 == list.count - omitted
                && list.paths.len() < MAX_PATHS
                && bytes <= MAX_BYTES
            {
                list.paths.push(path.to_owned());
            }
        }
        list
    }
}

impl EtcReport {
    /// Only how many paths there are.
    pub(super) fn remove_paths(&mut self) {
        let lists = [Some(&mut self.hidden), self.adoptable.as_mut(), self.kept.as_mut()];
        lists.into_iter().flatten().for_each(|list| list.paths.clear());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_round_trips_with_digest_and_without_debug() {
        let part = MachinePart {
            kernel_arguments: vec!["nosmt".to_owned()],
            removed_kernel_arguments: vec!["quiet".to_owned()],
            ssh_authorized_keys: vec!["ssh-ed25519 AAAA".to_owned()],
            password_hash: Some("$y$hash".to_owned()),
        };
        assert_eq!(MachinePart::parse(&part.to_json()), Ok(part.clone()));
        let empty = MachinePart::default();
        assert_eq!(MachinePart::parse(&empty.to_json()), Ok(empty));
        let without_password = MachinePart { password_hash: None, ..part.clone() };
        assert_ne!(part.digest(), without_password.digest());
        let text = format!("{part:?}");
        assert!(
            !text.contains("hash\"") && !text.contains("$y$") && !text.contains("AAAA"),
            "{text}"
        );
        for (what, text) in [
            ("another field", br#"{"later":"$y$hash"}"#.to_vec()),
            ("another type", br#"{"passwordHash":{"$y$hash":1}}"#.to_vec()),
            ("too long", vec![b' '; LIMIT + 1]),
        ] {
            let error = MachinePart::parse(&text).unwrap_err();
            assert!(!error.contains("$y$"), "{what}: {error}");
        }
    }

    #[test]
    fn list_has_the_first_paths_and_counts_all() {
        let short: Vec<String> = (0..40).map(|number| format!("/etc/{number:02}")).collect();
        let list = PathList::new(short.iter().map(String::as_str), 2);
        assert_eq!((list.count, list.paths.len()), (42, MAX_PATHS));
        assert_eq!(list.paths[..2], ["/etc/00", "/etc/01"]);
        let long = "/etc/".to_owned() + &"\u{1}".repeat(200);
        let list = PathList::new(["/etc/a", &long, "/etc/b"], 0);
        assert_eq!((list.count, &*list.paths), (3, &["/etc/a".to_owned()][..]));
    }
}
