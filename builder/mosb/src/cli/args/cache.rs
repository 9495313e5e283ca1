//! `cache`: the cached base trees, and buildah's storage.

use clap::Subcommand;

/// One of the commands on the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum Cache {
    /// Lists the cached base trees, and buildah's storage
    ///
    /// Example:
    ///
    ///   mosb cache list -o json
    #[command(verbatim_doc_comment)]
    List,
    /// Removes all base trees, and buildah's storage unless a build uses it; the next build reads its base again
    ///
    /// Example:
    ///
    ///   mosb cache prune
    #[command(verbatim_doc_comment)]
    Prune,
}
