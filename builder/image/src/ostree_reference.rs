//! How ostree's container code spells an image, in the origin of a deployment and in the status of
//! rpm-ostree: how its signature is verified, where it comes from, its name.

/// An image of ostree's container code (ostree-rs-ext, `OstreeImageReference` and `Transport`), by
/// where it comes from. Its name has neither signature policy nor transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OstreeImageRef<'a> {
    Registry(&'a str),
    /// The local storage of containers.
    Storage(&'a str),
    /// A file or a directory; with its transport, as in `oci:DIR`.
    File(&'a str),
}

impl<'a> OstreeImageRef<'a> {
    /// None for other texts, such as a ref of ostree or the plain name of an image.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (policy, image) = text.split_once(':')?;
        let after_remote = || image.split_once(':').map(|(_remote, image)| image);
        match policy {
            "ostree-unverified-registry" => Some(Self::Registry(image)),
            "ostree-remote-registry" => after_remote().map(Self::Registry),
            "ostree-unverified-image" | "ostree-image-signed" => Self::with_transport(image),
            "ostree-remote-image" => after_remote().and_then(Self::with_transport),
            _ => None,
        }
    }

    fn with_transport(text: &'a str) -> Option<Self> {
        let (transport, name) = text.split_once(':')?;
        match transport {
            "registry" => Some(Self::Registry(name)),
            "docker" => name.strip_prefix("//").map(Self::Registry),
            // `[overlay@ROOT+RUN]NAME`
            "containers-storage" => {
                let after_place = name.strip_prefix('[').and_then(|name| name.split_once(']'));
                Some(Self::Storage(after_place.map_or(name, |(_place, name)| name)))
            }
            "oci" | "oci-archive" | "docker-archive" | "docker-daemon" | "dir" => {
                Some(Self::File(text))
            }
            _ => None,
        }
    }

    pub fn name(self) -> &'a str {
        match self {
            Self::Registry(name) | Self::Storage(name) | Self::File(name) => name,
        }
    }
}

/// What to write in place of a form in which rpm-ostree, bootc and skopeo print and take images; none for
/// other texts.
pub(crate) fn remedy_of_other_form(text: &str) -> Option<String> {
    let after = |prefixes: &[&str]| prefixes.iter().find_map(|prefix| text.strip_prefix(prefix));
    let copied = |from: &str| {
        format!(
            "this form of containers' tools is not read; copy it with `skopeo copy {from} oci:DIR`, and write oci:DIR where a directory is taken, else push it to a registry"
        )
    };
    let in_files = ["oci-archive:", "docker-archive:", "docker-daemon:", "containers-storage:"];
    Some(if let Some(of_ostree) = OstreeImageRef::parse(text) {
        match of_ostree {
            OstreeImageRef::Registry(name) => {
                format!("this form of rpm-ostree and bootc is not read; write {name}")
            }
            OstreeImageRef::Storage(name) => copied(&format!("containers-storage:{name}")),
            OstreeImageRef::File(path) => copied(path),
        }
    } else if after(&in_files).is_some() {
        copied(text)
    } else if let Some(name) = after(&["https://", "http://", "docker://", "registry:"]) {
        format!("an image is written without a scheme; write {name}")
    } else if after(&["oci:", "dir:"]).is_some() {
        "a directory is not taken here; push the image to a registry, and write host/repository"
            .to_owned()
    } else {
        return None;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_and_each_transport_is_read() {
        use OstreeImageRef::{File, Registry, Storage};
        for (text, want) in [
            ("ostree-unverified-registry:quay.io/os:1", Some(Registry("quay.io/os:1"))),
            ("ostree-remote-registry:fedora:quay.io/os:1", Some(Registry("quay.io/os:1"))),
            ("ostree-image-signed:registry:quay.io/os:1", Some(Registry("quay.io/os:1"))),
            ("ostree-image-signed:docker://quay.io/os:1", Some(Registry("quay.io/os:1"))),
            ("ostree-unverified-image:registry:quay.io/os", Some(Registry("quay.io/os"))),
            ("ostree-unverified-image:docker://quay.io/os", Some(Registry("quay.io/os"))),
            ("ostree-remote-image:fedora:registry:quay.io/os:1", Some(Registry("quay.io/os:1"))),
            ("ostree-remote-image:fedora:docker://quay.io/os:1", Some(Registry("quay.io/os:1"))),
            (
                "ostree-remote-image:fedora:containers-storage:localhost/os",
                Some(Storage("localhost/os")),
            ),
            (
                "ostree-unverified-image:containers-storage:[overlay@/var/lib/x+/run/x]localhost/os:1",
                Some(Storage("localhost/os:1")),
            ),
            ("ostree-unverified-image:oci:/var/os:1", Some(File("oci:/var/os:1"))),
            ("ostree-image-signed:oci-archive:/os.tar", Some(File("oci-archive:/os.tar"))),
            ("ostree-unverified-image:dir:/os", Some(File("dir:/os"))),
            ("ostree-unverified-image:docker:quay.io/os", None),
            ("ostree-unverified-image:quay.io/os", None),
            ("ostree-remote-image:fedora", None),
            ("ostree-later-image:registry:quay.io/os", None),
            ("quay.io/os:1", None),
            ("fedora:fedora/x86_64/coreos/stable", None),
            ("", None),
        ] {
            assert_eq!(OstreeImageRef::parse(text), want, "{text}");
        }
    }
}
