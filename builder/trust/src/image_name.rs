//! The name of an image in documents about images.

use mosb_image::{Digest, RepoRef};

/// An image, by its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName {
    /// `None` of an image in an OCI layout.
    pub repo: Option<RepoRef>,
    /// Of its manifest.
    pub digest: Digest,
}

impl ImageName {
    /// The package URL (type `oci`):
    /// `pkg:oci/os@sha256:…?repository_url=registry.example.com/acme/os`. An image in an OCI layout has
    /// none, as its place on a disk means nothing elsewhere.
    pub fn purl(&self) -> Option<String> {
        let repo = self.repo.as_ref()?;
        let name = repo.repository().rsplit('/').next().unwrap_or_default();
        // The brackets of an IPv6 address are the only ones of a reference that a URL can't have.
        let url = repo.to_string().replace('[', "%5B").replace(']', "%5D");
        Some(format!("pkg:oci/{name}@{}?repository_url={url}", self.digest))
    }

    /// The repository, or `image` if there is none.
    pub fn name(&self) -> String {
        self.repo.as_ref().map_or_else(|| "image".to_owned(), RepoRef::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_url_names_repository_and_digest() {
        let digest = Digest::of(b"");
        for (image, want) in [
            ("quay.io/acme/os", format!("pkg:oci/os@{digest}?repository_url=quay.io/acme/os")),
            ("[::1]:5000/os", format!("pkg:oci/os@{digest}?repository_url=%5B::1%5D:5000/os")),
        ] {
            let image = format!("{image}@{digest}").parse::<mosb_image::PinnedRef>().unwrap();
            let name = ImageName { repo: Some(image.repo().clone()), digest };
            assert_eq!(name.purl(), Some(want));
        }
        let layout = ImageName { repo: None, digest };
        assert_eq!((layout.purl(), &*layout.name()), (None, "image"));
    }
}
