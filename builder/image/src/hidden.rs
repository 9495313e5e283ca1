//! What `Debug` shows in place of contents of files, which may be secret.

use std::fmt;

/// The number of bytes, and none of them.
pub struct Hidden(pub usize);

impl Hidden {
    /// Of contents that may not be known.
    pub fn of(bytes: Option<&[u8]>) -> Option<Self> {
        bytes.map(|bytes| Self(bytes.len()))
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} bytes]", self.0)
    }
}
