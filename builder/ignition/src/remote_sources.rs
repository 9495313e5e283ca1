//! Whether a config may refer to what must be fetched.

/// What to do with a source that must be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemoteSources {
    /// A problem: an image can't be built with it.
    Refused,
    /// No problem: the caller fetches it, or rejects it.
    Allowed,
}
