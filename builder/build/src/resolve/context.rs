//! The clients and caches that planning uses.

use mosb_image::{PinnedRef, Platform};
use mosb_registry::cache::TreeCache;
use mosb_registry::{Client, Resolved, Source};

use super::error::Error;

/// The clients and caches that planning uses.
#[derive(Clone, Copy)]
pub struct PlanContext<'a> {
    pub client: &'a Client,
    /// Where base trees are cached; without, each is computed.
    pub trees: Option<Trees<'a>>,
    /// Called before each step with its description for people.
    pub on_step: &'a (dyn Fn(&str) + Sync),
}

/// Where base trees are cached.
#[derive(Debug, Clone, Copy)]
pub enum Trees<'a> {
    /// A folder, which is read and written.
    Disk(&'a TreeCache),
    /// Images with the trees of the base and of the prepared base, if there are some, and the client
    /// that pulls them.
    Images { client: &'a Client, base: Option<&'a PinnedRef>, prepared: Option<&'a PinnedRef> },
}

impl std::fmt::Debug for PlanContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlanContext").field("trees", &self.trees).finish_non_exhaustive()
    }
}

pub(super) async fn resolve(
    context: PlanContext<'_>,
    what: &str,
    source: &Source,
    platform: Option<&Platform>,
) -> Result<Resolved, Error> {
    (context.on_step)(&format!("resolving {what} {source}"));
    Ok(context.client.resolve(source, platform).await?)
}
