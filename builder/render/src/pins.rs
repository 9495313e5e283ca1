//! Digests in place of the tags of a pool's images: those of the last rendering, what was recorded for
//! the pool, or what the registry answers.

use std::collections::{BTreeMap, BTreeSet};

use mosb_api::{RecordedBase, labels};
use mosb_cluster::resolver::{LookupError, LookupPermit, Resolver};
use mosb_merge::{self as render, Request, Unpinned};
use mosb_reconcile::Problem;
use mosb_reconcile::driver::Worker;

/// Pins the images of the last rendering, and the base that was recorded for the pool.
pub(super) fn pin_known(request: &mut Request, recorded: Option<&RecordedBase>) {
    let unpinned = render::unpinned(request);
    request.pins = known_pins(request, &unpinned);
    for one in unpinned {
        if let Some(recorded) = recorded.filter(|recorded| recorded.is_of(&one.image)) {
            request.pin(one, recorded.pinned().digest());
        }
    }
}

/// Those pins of the last rendering that are still needed; none if the annotation was edited and
/// can't be read.
fn known_pins(request: &Request, unpinned: &[Unpinned]) -> BTreeMap<String, String> {
    let pool = request.pool_object.as_ref();
    let known = pool.and_then(|pool| pool.metadata.annotation(labels::PINS));
    let mut known: BTreeMap<String, String> =
        known.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    known.retain(|image, _| unpinned.iter().any(|one| one.image == *image));
    known
}

/// Pins images that have a tag: to the digest of the last rendering, or for a new reference to the
/// digest that the registry returns. A tag that moves therefore changes nothing by itself.
pub(super) async fn pin(resolver: &Resolver, mut request: Request) -> Result<Request, Problem> {
    for unpinned in render::unpinned(&request) {
        let digest = resolver.digest_of(&unpinned.reference).await;
        let digest = digest.map_err(|problem| Problem {
            message: format!("{}: {}", unpinned.place, problem.message),
            ..problem
        })?;
        request.pin(unpinned, digest);
    }
    Ok(request)
}

/// The same as [`pin`], within the limits of a lookup.
pub(super) async fn pin_within_limits(
    resolver: &Resolver,
    request: Request,
    worker: &mut Worker,
) -> Result<Request, LookupError> {
    let images = render::unpinned(&request).into_iter();
    let hosts: BTreeSet<String> =
        images.map(|one| one.reference.repo().host().to_owned()).collect();
    if hosts.is_empty() {
        return Ok(request);
    }
    let _permit = resolver.limits.hosts(LookupPermit::default(), hosts).await?;
    let pool = request.pool.to_string();
    let what = || format!("machineconfigpool {pool}: the images of its MachineConfigs");
    let pinning = Box::pin(async { Ok(pin(resolver, request).await?) });
    worker.release_during(resolver.limits.with_timeout(what, pinning)).await
}
