//! Where a target comes from: the stock image, what was in service, and builds. Pure.
//!
//! Invariant: a target is the stock image, or one that [`mosb_cluster::target`] permits.

use super::lookup::RolloutLookup;
use super::machine_state::MachineState;
use super::snapshot::{Machine, RolloutSnapshot};
use mosb_api::rollout::{NodeTarget, PinnedBuild, STOCK};
use mosb_api::{RenderedName, labels};
use mosb_cluster::target::{Found, Pin, TargetError, verifies};
use mosb_image::{Digest, PinnedRef};
use mosb_reconcile::Problem;

/// Why a source gives no target.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NoTarget {
    /// A fact is missing.
    LookUp(RolloutLookup),
    /// A registry has not answered yet.
    Pending,
    /// A fact could not be looked up.
    Unknown(Problem),
    Invalid(TargetError),
}

fn invalid(reason: &'static str, message: impl Into<String>) -> NoTarget {
    NoTarget::Invalid(TargetError::new(reason, message))
}

/// The stock image of the pool's rendered config, which must have the digest of the pin.
pub(super) fn stock(snapshot: &RolloutSnapshot, pin: Option<Pin<'_>>) -> Result<Found, NoTarget> {
    let digest = pin.map(|pin| pin.build.digest);
    let name = &snapshot.pool.spec.configuration.name;
    let Ok(rendered) = name.parse::<RenderedName>() else {
        return Err(invalid("NoStockImage", format!("{name:?} is not a rendered config")));
    };
    let image = match snapshot.lookup_results.stock_images.get(&rendered) {
        // An idle pool causes no requests.
        None => match digest.and_then(|digest| recorded_stock(snapshot, digest)) {
            Some(image) => image,
            None => {
                let lookup = RolloutLookup::StockImage(rendered);
                let is_pending = snapshot.lookup_results.awaits(&lookup);
                return Err(if is_pending { NoTarget::Pending } else { NoTarget::LookUp(lookup) });
            }
        },
        Some(Err(problem)) => return Err(NoTarget::Unknown(problem.clone())),
        Some(Ok(image)) => image.clone(),
    };
    if let Some(pin) = pin.filter(|pin| pin.build.digest != image.digest()) {
        return Err(invalid(
            "PinChanged",
            format!(
                "{}: the stock image of {rendered} is {image}, not {}; set stock@{}, or remove the annotation",
                pin.annotation,
                pin.build.digest,
                image.digest()
            ),
        ));
    }
    let build = PinnedBuild { name: STOCK.to_owned(), digest: image.digest() };
    let verify = snapshot.config.as_ref().is_some_and(verifies);
    Ok((build, NodeTarget { image, config: None, machine_part: None, live_from: None, verify }))
}

/// The stock image as it was resolved when the pool was pinned to this digest, if all machines run it.
/// What a machine reports, or its kubelet writes, names no image.
fn recorded_stock(snapshot: &RolloutSnapshot, digest: Digest) -> Option<PinnedRef> {
    let runs = |machine: &Machine| {
        let state = MachineState::of(machine);
        state.effective_image() == Some(digest) && !state.has_slot()
    };
    let image = snapshot.config.as_ref()?.metadata.annotation(labels::STOCK_IMAGE)?;
    let image: PinnedRef = image.parse().ok()?;
    (image.digest() == digest && snapshot.machines.iter().all(runs)).then_some(image)
}
