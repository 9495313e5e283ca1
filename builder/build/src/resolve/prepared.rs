//! The prepared base that a build is made on.

use super::base::given_base_name;
use super::context::PlanContext;
use super::error::Error;
use mosb_plan::plan::{self, Base, Prepared, PreparedBase};
use mosb_registry::{Client, Resolved, Source};

/// A prepared base in its registry or layout, checked.
#[derive(Debug)]
pub struct ResolvedPrepared {
    pub base: PreparedBase,
    pub resolved: Resolved,
}

/// Resolves an image that is this prepared base. Requests only its manifest and config.
///
/// # Errors
/// It can't be found, or is something else.
pub async fn prepared_base(
    context: PlanContext<'_>,
    client: &Client,
    prepared: &Prepared,
    source: &Source,
) -> Result<ResolvedPrepared, Error> {
    (context.on_step)(&format!("resolving prepared base {source}"));
    let platform = &prepared.request.base.config.platform;
    let resolved = client.resolve(source, Some(platform)).await?;
    let image = Base::new(
        given_base_name(&resolved),
        resolved.pinned_text(),
        resolved.index,
        &resolved.manifest_bytes,
        &resolved.config_bytes,
    );
    let base = image.map_err(plan::Error::from)?;
    let base = prepared.check(base).map_err(plan::Error::from)?;
    Ok(ResolvedPrepared { base, resolved })
}
