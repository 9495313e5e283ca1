//! Why a value can't be judged. The caller adds the name of the set.

use mosb_types::Diagnostic;

use crate::BootImageError;

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
        "field {path} names {publisher}:{offer}, which is no image of this OS; take the set out of \
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
