//! A build by name and digest: `NAME@sha256:…`.

use std::fmt;
use std::str::FromStr;

use super::AnnotationError;
use crate::api::{Metadata, is_object_name};
use mosb_image::Digest;

/// The name that stands for the stock image instead of a build.
pub const STOCK: &str = "stock";

/// A build of a pool, or [`STOCK`], with the digest of its image. A rebuild makes a build of the
/// same name with another digest, so the name alone identifies no image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedBuild {
    pub name: String,
    pub digest: Digest,
}

impl PinnedBuild {
    /// The value of an annotation of a MachineOSConfig.
    ///
    /// # Errors
    /// It is not `NAME@sha256:…`.
    pub fn in_annotation(
        config: &Metadata,
        annotation: &'static str,
    ) -> Result<Option<Self>, AnnotationError> {
        let Some(value) = config.annotation(annotation) else {
            return Ok(None);
        };
        value.parse().map(Some).map_err(|cause: &str| {
            AnnotationError::new(
                annotation,
                value,
                cause,
                "set NAME@sha256:…, as `mosb builds` lists it, or remove the annotation",
            )
        })
    }

    pub fn is_stock(&self) -> bool {
        self.name == STOCK
    }
}

impl FromStr for PinnedBuild {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, digest) = text.split_once('@').ok_or("there is no digest")?;
        if !is_object_name(name) {
            return Err("not the name of a MachineOSBuild");
        }
        let digest = digest.parse().map_err(|_| "the digest is not sha256: and 64 hex digits")?;
        Ok(Self { name: name.to_owned(), digest })
    }
}

impl fmt::Display for PinnedBuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_has_a_name_and_a_digest() {
        let digest = Digest::of(b"image");
        let text = format!("worker-0@{digest}");
        let pin: PinnedBuild = text.parse().unwrap();
        assert_eq!((pin.to_string(), pin.is_stock()), (text, false));
        assert!(format!("stock@{digest}").parse::<PinnedBuild>().unwrap().is_stock());
        for wrong in ["worker-0", "@sha256:00", "worker-0@sha256:00", "Worker@sha256:00"] {
            assert!(wrong.parse::<PinnedBuild>().is_err(), "{wrong}");
        }
    }
}
