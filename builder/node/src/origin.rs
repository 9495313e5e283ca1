//! The booted image by the files of ostree, for a machine whose tool does not answer: the file beside a
//! deployment has its origin. The kernel's argument `ostree=` links to the booted deployment, until
//! another one is written.

use mosb_plan::api::rollout::Deployment;

use crate::deployment_folder::DeploymentFolder;
use crate::deployments::deployment;

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
pub(crate) fn parse(text: &str) -> Deployment {
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
    fn the_link_of_the_kernel_leads_to_the_origin() {
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
        let found = parse(&text);
        assert_eq!(found.digest, Some(digest));
        assert_eq!(found.image, format!("reg.example/os@{digest}"));
        let found = parse("[origin]\nrefspec=fedora:fedora/x86_64/coreos/stable\n");
        assert_eq!((found.digest, &*found.image), (None, "fedora:fedora/x86_64/coreos/stable"));
        assert_eq!(parse("=\n[").image, "");
        assert!(!is_changed_by_rpm_ostree(&text.replace("[rpmostree]", "")));
        for group in ["[rpmostree]", "[packages]", "[overrides]", "[modules]"] {
            let text = format!("[origin]\ncontainer-image-reference=x\n{group}\nrequested=a\n");
            assert!(is_changed_by_rpm_ostree(&text), "{group}");
        }
    }
}
