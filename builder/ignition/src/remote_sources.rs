//! Whether a config may refer to remote sources.

/// Whether remote sources are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemoteSources {
    /// An image can't be built with them.
    Rejected,
    /// The caller fetches them.
    Allowed,
}
