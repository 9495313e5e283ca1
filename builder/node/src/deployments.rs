//! The images that a machine has: the one that it booted, the one that the next reboot applies, and
//! the ones that it may go back to.

use mosb_image::{Digest, ImageRef, OstreeImageRef};
use mosb_plan::api::rollout::Deployment;

/// The most characters of an image's name.
const NAME: usize = 512;
/// The most deployments that are read; a machine has three or four.
pub(crate) const DEPLOYMENTS: usize = 32;

/// The deployments of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Deployments {
    pub booted: Option<Deployment>,
    pub staged: Option<Deployment>,
    /// Finalized and not booted, in boot order.
    pub others: Vec<Deployment>,
    /// Nothing is staged, and the next reboot boots the first of the others.
    pub rollback_queued: bool,
    /// What the booted deployment has beside its image, as layered packages, for people.
    pub local_changes: Vec<String>,
}

impl Deployments {
    pub fn booted_digest(&self) -> Option<Digest> {
        digest(self.booted.as_ref())
    }

    pub fn staged_digest(&self) -> Option<Digest> {
        digest(self.staged.as_ref())
    }

    /// Whether an image is there that could be booted and is not.
    pub fn has_other(&self, image: Digest) -> bool {
        self.others.iter().any(|one| one.digest == Some(image))
    }
}

fn digest(deployment: Option<&Deployment>) -> Option<Digest> {
    deployment.and_then(|one| one.digest)
}

/// A deployment by what a tool reports: a reference, and the digest of the manifest.
///
/// A digest in the reference is preferred. It is what was asked for and was verified by the pull;
/// for the digest of an index, the tool's own digest may be that of the machine's platform.
pub(crate) fn deployment(image: &str, digest: Option<&str>) -> Deployment {
    let name = OstreeImageRef::parse(image).map_or(image, OstreeImageRef::name);
    let pinned = name.parse::<ImageRef>().ok().and_then(|image| image.digest());
    let digest = pinned.or_else(|| digest.and_then(|text| text.parse().ok()));
    Deployment { image: name.chars().take(NAME).collect(), digest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_has_no_transport_and_its_own_digest_counts() {
        let (one, two) = (Digest::of(b"one"), Digest::of(b"two"));
        let two_text = two.to_string();
        for (what, reference, name, digest_of_tool, want) in [
            (
                "a tag",
                "reg.example/os:1".to_owned(),
                "reg.example/os:1",
                Some(&*two_text),
                Some(two),
            ),
            (
                "a digest",
                format!("ostree-unverified-registry:reg.example/os@{one}"),
                "",
                None,
                Some(one),
            ),
            (
                "both",
                format!("ostree-image-signed:docker://reg.example/os@{one}"),
                "",
                Some(&*two_text),
                Some(one),
            ),
            (
                "a remote of ostree",
                format!("ostree-remote-registry:fedora:reg.example/os@{one}"),
                "",
                None,
                Some(one),
            ),
            (
                "a local storage",
                "ostree-remote-image:fedora:containers-storage:localhost/os:1".to_owned(),
                "localhost/os:1",
                Some(&*two_text),
                Some(two),
            ),
            (
                "no image",
                "fedora/x86_64/coreos/stable".to_owned(),
                "fedora/x86_64/coreos/stable",
                None,
                None,
            ),
            (
                "a bad digest",
                "reg.example/os:1".to_owned(),
                "reg.example/os:1",
                Some("sha256:0"),
                None,
            ),
        ] {
            let found = deployment(&reference, digest_of_tool);
            assert_eq!(found.digest, want, "{what}");
            let pinned = format!("reg.example/os@{one}");
            assert_eq!(found.image, if name.is_empty() { &pinned } else { name }, "{what}");
        }
        assert_eq!(deployment(&"x".repeat(5000), None).image.len(), NAME);
    }
}
