//! Which image of an index is meant.

use std::collections::BTreeMap;

use mosb_image::media_type::{DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST};
use mosb_image::{BlobRef, Platform};

use crate::error::Error;
use crate::manifest::{IndexEntry, invalid};

impl IndexEntry {
    /// Whether it can be an image at all: attestations have the platform unknown/unknown (BuildKit)
    /// or name what they attest in an annotation, and artifacts have other media types.
    pub fn is_image(&self) -> bool {
        let unknown = self
            .platform
            .as_ref()
            .is_some_and(|p| p.os == "unknown" || p.architecture == "unknown");
        let attests =
            self.annotations.as_ref().is_some_and(|a| a.contains_key("vnd.docker.reference.type"));
        let known = matches!(
            &*self.media_type,
            "" | OCI_MANIFEST | OCI_INDEX | DOCKER_MANIFEST | DOCKER_LIST
        );
        known && !unknown && !attests
    }

    /// Whether it is an index itself.
    pub fn is_index(&self) -> bool {
        matches!(&*self.media_type, OCI_INDEX | DOCKER_LIST)
    }

    /// How the index names it; without a media type, it is an image of OCI.
    pub fn descriptor(&self) -> BlobRef {
        let media_type = if self.media_type.is_empty() { OCI_MANIFEST } else { &self.media_type };
        BlobRef {
            media_type: media_type.to_owned(),
            digest: self.digest,
            size: self.size,
            annotations: BTreeMap::new(),
        }
    }

    fn shown(&self) -> String {
        self.platform()
            .map_or_else(|| format!("{} without a platform", self.digest), |p| p.to_string())
    }
}

/// The one image of an index: of the platform that was asked for, or the only one.
pub(super) fn select_platform<'a>(
    image: &str,
    entries: &'a [IndexEntry],
    wanted: Option<&Platform>,
) -> Result<&'a IndexEntry, Error> {
    let images: Vec<_> = entries.iter().filter(|e| e.is_image()).collect();
    let shown = |of: &[&IndexEntry]| of.iter().map(|e| e.shown()).collect::<Vec<_>>();
    let Some(wanted) = wanted else {
        return match images[..] {
            [] => Err(invalid(image, "the index holds no image")),
            [only] => Ok(only),
            _ => Err(Error::PlatformAmbiguous { image: image.to_owned(), has: shown(&images) }),
        };
    };
    let fitting: Vec<_> = images
        .iter()
        .copied()
        // An entry without a platform is judged by its config, if it is the only one.
        .filter(|e| match e.platform() {
            Some(platform) => wanted.accepts(&platform),
            None => images.len() == 1,
        })
        .collect();
    match fitting[..] {
        [] => Err(Error::PlatformMissing {
            image: image.to_owned(),
            wanted: wanted.clone(),
            has: shown(&images),
        }),
        [only] => Ok(only),
        // Without a variant asked for, several may fit; an entry of exactly this platform is what
        // was meant.
        _ => match fitting
            .iter()
            .filter(|e| e.platform().as_ref() == Some(wanted))
            .collect::<Vec<_>>()[..]
        {
            [exact] => Ok(exact),
            _ => Err(Error::PlatformAmbiguous { image: image.to_owned(), has: shown(&fitting) }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::RawPlatform;
    use mosb_image::Digest;
    use mosb_types::Diagnostic as _;

    fn entries(list: &[(&str, &str)]) -> Vec<IndexEntry> {
        list.iter()
            .enumerate()
            .map(|(n, (media_type, platform))| IndexEntry {
                media_type: (*media_type).to_owned(),
                digest: Digest::of(&[u8::try_from(n).unwrap()]),
                size: 1,
                platform: (!platform.is_empty()).then(|| {
                    let mut parts = platform.split('/').map(str::to_owned);
                    RawPlatform {
                        os: parts.next().unwrap(),
                        architecture: parts.next().unwrap(),
                        variant: parts.next(),
                    }
                }),
                annotations: None,
            })
            .collect()
    }

    #[test]
    fn the_platform_is_never_guessed() {
        let m = OCI_MANIFEST;
        let amd = (m, "linux/amd64");
        let arm = (m, "linux/arm64/v8");
        let attestation = (m, "unknown/unknown");
        let artifact = ("application/vnd.acme.sbom", "linux/amd64");
        for (what, list, wanted, want) in [
            ("only one", vec![amd], None, Ok(0)),
            ("one and its attestation", vec![attestation, amd, artifact], None, Ok(1)),
            ("several", vec![amd, arm], None, Err("platform-ambiguous")),
            ("asked", vec![amd, arm], Some("linux/arm64"), Ok(1)),
            ("asked with the variant", vec![amd, arm], Some("linux/arm64/v8"), Ok(1)),
            ("another variant", vec![amd, arm], Some("linux/arm64/v9"), Err("platform-missing")),
            ("missing", vec![amd], Some("linux/s390x"), Err("platform-missing")),
            ("no platform, only one", vec![("", "")], Some("linux/amd64"), Ok(0)),
            (
                "no platform, several",
                vec![("", ""), arm],
                Some("linux/amd64"),
                Err("platform-missing"),
            ),
            ("twice", vec![amd, amd], Some("linux/amd64"), Err("platform-ambiguous")),
            (
                "with and without variant",
                vec![(m, "linux/arm/v6"), (m, "linux/arm"), (m, "linux/arm/v7")],
                Some("linux/arm"),
                Ok(1),
            ),
            ("empty", vec![], None, Err("bad-manifest")),
            ("nothing but attestations", vec![attestation], None, Err("bad-manifest")),
        ] {
            let list = entries(&list);
            let wanted: Option<Platform> = wanted.map(|p| p.parse().unwrap());
            let got = select_platform("x", &list, wanted.as_ref());
            let got = got.map(|e| list.iter().position(|o| o.digest == e.digest).unwrap());
            assert_eq!(got.map_err(|e| e.code()), want, "{what}");
        }
    }
}
