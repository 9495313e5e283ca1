//! The images that a machine has: the one that it booted, the one that the next reboot applies, and
//! the ones that it may go back to.
//!
//! If the machine's tool does not answer, the files of ostree say which image is booted: the file
//! beside a deployment has its origin. The kernel's argument `ostree=` links to the booted deployment,
//! until another one is written.

use mosb_api::rollout::Deployment;
use mosb_image::{Digest, ImageRef, OstreeImageRef};

use crate::deployment_folder::DeploymentFolder;

/// The most characters of an image's name.
const NAME: usize = 512;
/// The most deployments that are read; a machine has three or four.
pub(crate) const DEPLOYMENTS: usize = 32;

/// The deployments of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Deployments {
    pub booted: Option<Deployment>,
    pub staged: Option<Deployment>,
    /// Whether what is staged was pulled so that the machine's policy had to verify it.
    pub staged_is_verified: bool,
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

/// The link to the booted deployment, on the machine.
pub(crate) fn boot_link(kernel_arguments: &str) -> Option<&str> {
    let link = kernel_arguments.split_whitespace().find_map(|word| word.strip_prefix("ostree="))?;
    let plain = link.starts_with('/') && !link.split('/').any(|part| part == "..");
    plain.then_some(link)
}

/// The deployment that a link leads to, `../../../deploy/OS/deploy/CHECKSUM.SERIAL`.
pub(crate) fn linked(link: &str) -> Option<DeploymentFolder> {
    let mut parts = link.trim_end_matches('/').rsplit('/');
    let (name, middle, os, first) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    DeploymentFolder::new(os, name).filter(|_| (first, middle) == ("deploy", "deploy"))
}

/// The image of an origin file (a key file with the group `[origin]`).
pub(crate) fn parse_origin(text: &str) -> Deployment {
    let value = |key: &str| {
        let mut group = "";
        text.lines().map(str::trim).find_map(|line| {
            if let Some(name) = line.strip_prefix('[') {
                group = name.trim_end_matches(']');
            }
            let (found, value) = line.split_once('=')?;
            (group == "origin" && found.trim() == key).then(|| value.trim())
        })
    };
    let name = value("container-image-reference").or_else(|| value("refspec"));
    deployment(name.unwrap_or_default(), None)
}

/// Whether rpm-ostree changed the deployment, so that bootc refuses to update it: these are the groups by
/// which bootc decides (`origin_has_rpmostree_stuff` in its `utils.rs`).
pub(crate) fn is_changed_by_rpm_ostree(text: &str) -> bool {
    let groups = ["[rpmostree]", "[packages]", "[overrides]", "[modules]"];
    text.lines().any(|line| groups.contains(&line.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_image::Digest;

    #[test]
    fn references_have_no_transport_and_their_own_digest() {
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

    #[test]
    fn the_kernel_argument_leads_to_the_origin() {
        let checksum = "0a".repeat(32);
        let link = format!("../../../deploy/fedora-coreos/deploy/{checksum}.1");
        let arguments =
            format!("root=UUID=1 ostree=/ostree/boot.1/fedora-coreos/{checksum}/0 quiet\n");
        assert_eq!(
            boot_link(&arguments),
            Some(&*format!("/ostree/boot.1/fedora-coreos/{checksum}/0"))
        );
        assert_eq!(
            linked(&link).map(|found| found.origin()),
            Some(format!("/sysroot/ostree/deploy/fedora-coreos/deploy/{checksum}.1.origin"))
        );
        for wrong in ["root=/dev/sda", "ostree=relative", "ostree=/ostree/../../etc"] {
            assert_eq!(boot_link(wrong), None, "{wrong}");
        }
        for wrong in [
            "",
            "/etc/passwd",
            &format!("deploy/../deploy/{checksum}.1"),
            &format!("deploy/os/deploy/{checksum}"),
            &format!("deploy/os/deploy/{checksum}.1x"),
        ] {
            assert_eq!(linked(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_origin_names_an_image_or_a_ref() {
        let digest = Digest::of(b"image");
        let text = format!(
            "[rpmostree]\ncontainer-image-reference=other\n[origin]\ncontainer-image-reference=ostree-unverified-registry:reg.example/os@{digest}\n"
        );
        let found = parse_origin(&text);
        assert_eq!(found.digest, Some(digest));
        assert_eq!(found.image, format!("reg.example/os@{digest}"));
        let found = parse_origin("[origin]\nrefspec=fedora:fedora/x86_64/coreos/stable\n");
        assert_eq!((found.digest, &*found.image), (None, "fedora:fedora/x86_64/coreos/stable"));
        assert_eq!(parse_origin("=\n[").image, "");
        assert!(!is_changed_by_rpm_ostree(&text.replace("[rpmostree]", "")));
        for group in ["[rpmostree]", "[packages]", "[overrides]", "[modules]"] {
            let text = format!("[origin]\ncontainer-image-reference=x\n{group}\nrequested=a\n");
            assert!(is_changed_by_rpm_ostree(&text), "{group}");
        }
    }
}
