//! The text of a boot image, as histories, statuses and messages have it.

use std::fmt;
use std::str::FromStr;

use mosb_types::Diagnostic;

use crate::Release;

/// Longer than any name, URL or resource id of a cloud.
const MAX_BYTES: usize = 1024;

/// A boot image: an AMI, the path of a GCP image, `publisher:offer:sku:version` or a resource id of
/// Azure, the name of a vSphere template with its release in parentheses, a URL, an image
/// reference. Never empty, without control characters. Several boot disks with different images
/// are one text with commas.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootImage(String);

/// Why a text is not a boot image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(code = "bad-boot-image", class = InvalidInput)]
pub enum BootImageError {
    #[error("the boot image is empty; set one")]
    Empty,
    #[error("the boot image has {0} bytes; at most {MAX_BYTES} are supported")]
    TooLong(usize),
    #[error("the boot image {0:?} has control characters; remove them")]
    ControlCharacter(String),
}

impl BootImage {
    /// A name that says nothing about its content, with the release that it is known to have.
    ///
    /// # Errors
    /// As of a text.
    pub fn named(name: &str, release: Option<&str>) -> Result<Self, BootImageError> {
        match release {
            Some(release) => format!("{name} ({release})").parse(),
            None => name.parse(),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text without the release of [`BootImage::named`].
    pub fn name(&self) -> &str {
        let split = self.0.strip_suffix(')').and_then(|text| text.rsplit_once(" ("));
        match split {
            Some((name, release)) if release.parse::<Release>().is_ok() => name,
            _ => &self.0,
        }
    }
}

impl FromStr for BootImage {
    type Err = BootImageError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim().is_empty() {
            return Err(BootImageError::Empty);
        }
        if text.len() > MAX_BYTES {
            return Err(BootImageError::TooLong(text.len()));
        }
        if text.chars().any(char::is_control) {
            return Err(BootImageError::ControlCharacter(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for BootImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A value that is not what its API says, or a setting that does not fit it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(class = InvalidInput)]
#[non_exhaustive]
pub enum ImageError {
    #[error("field {path} is missing; set it")]
    #[diagnostic(code = "boot-image-field-missing")]
    Missing { path: String },
    #[error("field {path} is {found}, not {want}; correct it")]
    #[diagnostic(code = "boot-image-field-type")]
    Type { path: String, want: &'static str, found: &'static str },
    #[error("field {path} has {count} entries; at most {limit} are supported")]
    #[diagnostic(code = "boot-image-field-too-long")]
    TooMany { path: String, count: usize, limit: usize },
    #[error("field {path} has no boot disk; set `boot: true` on one")]
    #[diagnostic(code = "no-boot-disk")]
    NoBootDisk { path: String },
    #[error(
        "field {path} names {publisher}:{offer}, which is not an image of this OS; take the set out of \
         the selection, or set an image of the stream"
    )]
    #[diagnostic(code = "unknown-marketplace-image")]
    UnknownOffer { path: String, publisher: String, offer: String },
    #[error("the stream's {what} {text:?} can't be used; publish the stream again")]
    #[diagnostic(code = "bad-stream-value")]
    Stream { what: &'static str, text: String },
    #[error("{image} has other boot disks than the set; restore it by hand")]
    #[diagnostic(code = "boot-disks-differ")]
    BootDisks { image: String },
    #[error("{image} is neither publisher:offer:sku:version nor a resource id; restore it by hand")]
    #[diagnostic(code = "bad-restored-image")]
    RestoredImage { image: String },
    #[error("field {path}: {source}")]
    #[diagnostic(code = "bad-boot-image")]
    Image { path: String, source: BootImageError },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let long = "x".repeat(MAX_BYTES + 1);
        let cases = [
            ("an AMI", "ami-1", Ok(())),
            ("a name with blanks", "my template (9.6.20260210-0)", Ok(())),
            ("as long as possible", &long[1..], Ok(())),
            ("empty", "", Err(BootImageError::Empty)),
            ("blank", "  ", Err(BootImageError::Empty)),
            ("too long", &long, Err(BootImageError::TooLong(MAX_BYTES + 1))),
            ("two lines", "a\nb", Err(BootImageError::ControlCharacter("a\nb".to_owned()))),
        ];
        for (what, text, want) in cases {
            let parsed: Result<BootImage, _> = text.parse();
            assert_eq!(parsed.as_ref().map(|_| ()).map_err(Clone::clone), want, "{what}");
            if let Ok(image) = parsed {
                assert_eq!(image.to_string(), text, "{what}");
            }
        }
    }

    #[test]
    fn a_name_with_and_without_its_release() {
        let named = BootImage::named("x-rhcos", Some("9.6.20260210-0")).unwrap();
        assert_eq!((named.as_str(), named.name()), ("x-rhcos (9.6.20260210-0)", "x-rhcos"));
        assert_eq!(BootImage::named("x (old)", None).unwrap().name(), "x (old)");
        assert_eq!(BootImage::named("", None), Err(BootImageError::Empty));
    }
}
