//! What a command brings the machine to, and the file of `--machine-part`: what the machine needs of
//! its config beside the image. The target has the digest of that file. No message has its content.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use mosb_api::rollout::{MachinePart, NodeTarget};
use mosb_image::Digest;
use mosb_types::Secret;

use crate::error::Error;
use crate::pull_access::PullAccess;

/// What a command brings the machine to.
#[derive(Debug, Clone, Copy)]
pub struct DesiredState<'a> {
    pub target: &'a NodeTarget,
    /// What the target needs beside its image: [`read_machine_part`](crate::read_machine_part). With
    /// none, all of that stays as it is.
    pub part: Option<&'a MachinePart>,
    /// What its image is pulled with.
    pub access: &'a PullAccess,
}

/// The most bytes that are read; a Secret has at most 1 MiB.
const LIMIT: u64 = 1024 * 1024;

/// The machine part of a target; none if it has none.
///
/// # Errors
/// The file is not the one that the target names, or has what no machine takes.
pub fn read_machine_part(
    file: Option<&Path>,
    target: &NodeTarget,
) -> Result<Option<MachinePart>, Error> {
    let bad = |cause: &str| Error::BadMachinePart { cause: cause.to_owned() };
    let (file, wanted) = match (file, target.machine_part) {
        (None, None) => return Ok(None),
        (None, Some(_)) => return Err(bad("the target has a machine part, and none is given")),
        (Some(_), None) => return Err(bad("one is given, and the target has none")),
        (Some(file), Some(wanted)) => (file, wanted),
    };
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|opened| opened.take(LIMIT + 1).read_to_end(&mut bytes))
        .map_err(|error| bad(&format!("{}: not readable: {error}", file.display())))?;
    let bytes = Secret::new(bytes);
    if Digest::of(bytes.expose()) != wanted {
        return Err(bad("its digest is not the one of the target"));
    }
    let part = MachinePart::parse(bytes.expose()).map_err(|cause| bad(&cause))?;
    check(&part).map_err(bad)?;
    Ok(Some(part))
}

/// What would change other lines of a file, or nothing that can be verified.
fn check(part: &MachinePart) -> Result<(), &'static str> {
    let is_line = |text: &str| !text.contains(['\n', '\r', '\0']);
    let mut arguments = part.kernel_arguments.iter().chain(&part.removed_kernel_arguments);
    let is_argument = |text: &String| is_line(text) && !text.is_empty();
    if !arguments.all(is_argument) {
        return Err("a kernel argument is empty or has a line break");
    }
    if !part.ssh_authorized_keys.iter().all(|key| !key.contains('\0')) {
        return Err("an SSH key has a NUL byte");
    }
    if part.password_hash.as_deref().is_some_and(|hash| !is_password_hash(hash)) {
        return Err("the password hash is empty, or has a colon or a line break");
    }
    Ok(())
}

/// Whether a text may be the password field of a line of the shadow file. An empty one would let
/// everybody in.
fn is_password_hash(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(part: Option<Digest>) -> NodeTarget {
        let image = format!("reg.example/os@{}", Digest::of(b"image"));
        let target = serde_json::json!({ "image": image });
        NodeTarget { machine_part: part, ..serde_json::from_value(target).unwrap() }
    }

    fn read(bytes: &[u8], target: &NodeTarget) -> Result<Option<MachinePart>, Error> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        read_machine_part(Some(file.path()), target)
    }

    #[test]
    fn machine_parts_match_their_digest_and_stay_hidden() {
        let part =
            MachinePart { password_hash: Some("$y$hush".to_owned()), ..MachinePart::default() };
        for part in [&part, &MachinePart::default()] {
            let found = read(&part.to_json(), &target(Some(part.digest()))).unwrap();
            assert_eq!(found.as_ref(), Some(part));
        }
        assert_eq!(read_machine_part(None, &target(None)).unwrap(), None);
        let other = Digest::of(b"other");
        for (what, bytes, digest) in [
            ("another digest", part.to_json(), Some(other)),
            ("no part in the target", part.to_json(), None),
            ("no JSON", b"{$y$hush".to_vec(), Some(Digest::of(b"{$y$hush"))),
        ] {
            let error = read(&bytes, &target(digest)).unwrap_err();
            assert!(matches!(error, Error::BadMachinePart { .. }), "{what}");
            assert!(!error.to_string().contains("hush"), "{what}: {error}");
        }
        assert!(read_machine_part(None, &target(Some(other))).is_err());
        assert!(read_machine_part(Some(Path::new("/none")), &target(Some(other))).is_err());
    }

    #[test]
    fn what_changes_other_lines_is_refused() {
        let of = |argument: &str, key: &str, hash: Option<&str>| MachinePart {
            kernel_arguments: vec![argument.to_owned()],
            removed_kernel_arguments: Vec::new(),
            ssh_authorized_keys: vec![key.to_owned()],
            password_hash: hash.map(str::to_owned),
        };
        for (what, part, is_taken) in [
            ("plain", of("a=\"b c\"", "ssh-ed25519 AAAA me", Some("$y$j9T$x/.")), true),
            ("locked", of("a", "k", Some("!")), true),
            ("no hash", of("a", "k", None), true),
            ("an empty hash", of("a", "k", Some("")), false),
            ("a hash with a field more", of("a", "k", Some("x:0")), false),
            ("a hash with a line more", of("a", "k", Some("x\nroot::0")), false),
            ("a hash with a blank", of("a", "k", Some("x y")), false),
            ("an argument of two lines", of("a\nb", "k", None), false),
            ("an empty argument", of("", "k", None), false),
            ("a key with NUL", of("a", "k\0", None), false),
        ] {
            assert_eq!(check(&part).is_ok(), is_taken, "{what}");
        }
    }
}
