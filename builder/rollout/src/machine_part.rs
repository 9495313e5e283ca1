//! What machines need of a rendered config beside the image.

use mosb_api::RenderedName;
use mosb_api::rollout::{MachinePart, NodeTarget};
use mosb_cluster::resolver::{Resolver, get_rendered_config, invalid_input};
use mosb_plan::plan::machine_part;
use mosb_reconcile::Problem;
use mosb_types::Secret;

/// Reason of a [`Problem`]: the machine part of a target is not that of its config any more.
pub const MACHINE_PART_CHANGED: &str = "machine-part-changed";

/// The machine part of a rendered config.
pub async fn machine_part_in(
    resolver: &Resolver,
    rendered: &RenderedName,
) -> Result<MachinePart, Problem> {
    Ok(machine_part(&get_rendered_config(resolver, rendered.as_str()).await?))
}

/// The file with the machine part of a target; none if it has none. It is computed from the
/// config again, because no object has it, and must have the digest of the target.
pub async fn machine_part_of(
    resolver: &Resolver,
    target: &NodeTarget,
) -> Result<Option<Secret<Vec<u8>>>, Problem> {
    let Some(wanted) = target.machine_part else {
        return Ok(None);
    };
    let Some(rendered) = &target.config else {
        let message = format!("{}: a machine part, and no config that it is of", target.image);
        return Err(invalid_input(MACHINE_PART_CHANGED, message));
    };
    let part = machine_part_in(resolver, rendered).await?;
    if part.digest() == wanted {
        Ok(Some(Secret::new(part.to_json())))
    } else {
        Err(invalid_input(MACHINE_PART_CHANGED, machine_part_changed(rendered)))
    }
}

/// Why the machine part of a target can't be brought to machines.
pub fn machine_part_changed(rendered: &RenderedName) -> String {
    format!(
        "machineconfig {rendered}: its kernel arguments, keys and password are read differently by this version of mosb than when its image was built; build the pool again (mosb rebuild), or roll out another build"
    )
}
