//! What a machine needs of a config beside the image.

use std::fmt;

use mosb_image::Digest;
use mosb_types::canonical_json;
use serde::{Deserialize, Serialize};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_read_back_has_a_digest_of_its_own_and_is_not_printed() {
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
}
