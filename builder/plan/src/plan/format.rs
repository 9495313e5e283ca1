//! The format of images: the part of their bytes that depends on the version of mosb.

use std::fmt;

/// Raised only when the bytes of an output change.
///
/// An upgrade of mosb builds nothing by itself: an image of an older format stays in service until
/// its inputs change, so older formats can still be named and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// mosb 0.1.0.
    V1,
    /// The manifest has annotations for its base; the extensions image is a label.
    V2,
    /// With `build-on: every-config`, copies of what the config has below `/var` with a unit that
    /// brings them to machines and removes what it brought earlier, and the kernel arguments in a
    /// file for bootc. All other images are of format 2.
    V3,
}

impl Format {
    /// The format that this version writes.
    pub const CURRENT: Self = Self::V3;
    /// What earlier versions wrote, newest first.
    pub const OLDER: [Self; 2] = [Self::V2, Self::V1];

    /// All formats, newest first.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::CURRENT].into_iter().chain(Self::OLDER)
    }

    /// The value of the label `mosb.dev/format`.
    pub fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}
